//! Prefetching: loads what a batch of events needs into the processor's cache.
//!
//! With a million objects nothing is in the cache. From an event to the name of its object's
//! owner is a chain of half a dozen dependent loads. The chains of different events are
//! independent, so walking them in step overlaps their cache misses.

use std::hint::black_box;

use smallvec::SmallVec;

use super::node::NodeId;
use super::partition::AT_ONCE;
use super::{Partition, WatchEvent};

type Batch<T> = SmallVec<[T; AT_ONCE]>;

impl Partition {
    /// Loads what these events will most likely need. This changes nothing, and nothing depends
    /// on it. [`intake`](Self::intake) prefetches for the events of one batch; a caller that has
    /// several batches of one event each can prefetch for all of them.
    pub fn prefetch<'a>(&self, events: impl Iterator<Item = &'a WatchEvent>) {
        let store = &self.store;
        let nodes: Batch<NodeId> = events
            .filter_map(|event| match event {
                WatchEvent::Apply(facts) | WatchEvent::Delete(facts) => store.first_with(&facts.uid),
                WatchEvent::Init { .. } | WatchEvent::InitDone { .. } => None,
            })
            .collect();
        // The misses of a single event have nothing to overlap with.
        if nodes.len() < 2 {
            return;
        }
        let edges: Batch<_> = nodes.iter().filter_map(|&id| store.nodes[id].first_owner).collect();
        let owners: Batch<_> = edges.iter().map(|&edge| store.edges[edge].owner).collect();
        let owned = owners.iter().filter(|&&owner| store.nodes[owner].is_observed()).count();
        let letters = |ids: &[NodeId]| {
            let first = ids.iter().filter_map(|&id| store.name(id).as_bytes().first());
            first.fold(0, |sum: u8, letter| sum ^ letter)
        };
        black_box((owned, letters(&nodes), letters(&owners)));
    }
}
