//! Reading ahead: what a batch of changes needs, before the first of them is dealt with.
//!
//! With a million objects nothing is in a processor's cache, and from an event to the name of
//! its object's owner is a chain of half a dozen reads, each of which has to wait for the one
//! before. The chains of several events know nothing of each other: walked side by side, step by
//! step, they wait together.

use std::hint::black_box;

use smallvec::SmallVec;

use super::node::NodeId;
use super::{Partition, WatchEvent};

/// So many changes are read for at a time: all that they need stays in the nearest cache until
/// they have been dealt with, some ten lines of 64 bytes each.
pub(super) const AT_ONCE: usize = 32;

type Batch<T> = SmallVec<[T; AT_ONCE]>;

impl Partition {
    /// Reads what dealing with these changes will read, most likely. It changes nothing, and
    /// nothing depends on it. [`intake`](Self::intake) does it for changes that come together;
    /// for those that come one by one, whoever has several can.
    pub fn prefetch<'a>(&self, events: impl Iterator<Item = &'a WatchEvent>) {
        let store = &self.store;
        let nodes: Batch<NodeId> = events
            .filter_map(|event| match event {
                WatchEvent::Apply(facts) | WatchEvent::Delete(facts) => store.first_with(&facts.uid),
                WatchEvent::Init { .. } | WatchEvent::InitDone { .. } => None,
            })
            .collect();
        // Alone, it would be waited for as long.
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
