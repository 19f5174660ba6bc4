//! The ready keys, fairly queued by namespace.

use std::hash::BuildHasher;

use hashbrown::HashTable;

use crate::object::{Key, Keyed, Namespace};

use super::entry::Entry;
use super::list::{Linked, Links, List, Slot, is_sparse, swap_remove};
use super::time::Time;

/// A key that belongs to a flow, as in API Priority and Fairness. Flows take turns, so that a
/// namespace with 10,000 keys does not delay one with ten.
pub trait FlowKey {
    /// The namespace. All cluster-scoped objects share one flow.
    fn flow(&self) -> Option<&Namespace>;
}

impl FlowKey for Key {
    fn flow(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }
}

/// The ready keys of one namespace, first in, first out.
#[derive(Debug)]
struct Flow {
    namespace: Option<Namespace>,
    keys: List,
    links: Links,
}

impl Linked for Flow {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// All flows that have ready keys. A flow exists from its first key to its last.
#[derive(Debug)]
pub(super) struct Flows {
    queues: Vec<Flow>,
    index: HashTable<Slot>,
    hasher: Keyed,
    /// The order in which flows are served.
    turns: List,
    ready: usize,
}

impl Flows {
    pub(super) fn new(hasher: Keyed) -> Self {
        Self { queues: Vec::new(), index: HashTable::new(), hasher, turns: List::default(), ready: 0 }
    }

    pub(super) const fn ready(&self) -> usize {
        self.ready
    }

    pub(super) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Adds an entry to the end of its flow. A new flow is served after all others.
    pub(super) fn push<K: FlowKey, R>(&mut self, entries: &mut [Entry<K, R>], slot: Slot) {
        let namespace = entries[slot as usize].key.flow();
        let flow = self.find(namespace).unwrap_or_else(|| self.open(namespace.cloned()));
        self.queues[flow as usize].keys.push_back(entries, slot);
        self.ready += 1;
    }

    /// Removes the first entry of the next flow.
    pub(super) fn pop<K: FlowKey, R>(&mut self, entries: &mut [Entry<K, R>]) -> Option<Slot> {
        let flow = self.turns.pop_front(&mut self.queues)?;
        self.turns.push_back(&mut self.queues, flow);
        let slot = self.queues[flow as usize].keys.first()?;
        self.take(entries, flow, slot);
        Some(slot)
    }

    /// Removes an entry from any position in its flow.
    pub(super) fn remove<K: FlowKey, R>(&mut self, entries: &mut [Entry<K, R>], slot: Slot) {
        if let Some(flow) = self.find(entries[slot as usize].key.flow()) {
            self.take(entries, flow, slot);
        }
    }

    /// Updates the links of a ready entry that moved to `slot`.
    pub(super) fn moved<K: FlowKey, R>(&mut self, entries: &mut [Entry<K, R>], slot: Slot) {
        if let Some(flow) = self.find(entries[slot as usize].key.flow()) {
            self.queues[flow as usize].keys.moved(entries, slot);
        }
    }

    /// Since when the oldest ready entry is ready.
    pub(super) fn oldest<K, R>(&self, entries: &[Entry<K, R>]) -> Option<Time> {
        let firsts = self.queues.iter().filter_map(|queue| queue.keys.first());
        firsts.map(|slot| entries[slot as usize].since).min()
    }

    fn take<K, R>(&mut self, entries: &mut [Entry<K, R>], flow: Slot, slot: Slot) {
        let keys = &mut self.queues[flow as usize].keys;
        keys.remove(entries, slot);
        self.ready -= 1;
        if keys.is_empty() {
            self.close(flow);
        }
    }

    fn find(&self, namespace: Option<&Namespace>) -> Option<Slot> {
        let same = |flow: &Slot| {
            #[cfg(test)]
            crate::object::steps::count();
            self.queues[*flow as usize].namespace.as_ref() == namespace
        };
        self.index.find(self.hasher.hash_one(namespace), same).copied()
    }

    fn open(&mut self, namespace: Option<Namespace>) -> Slot {
        let flow = self.queues.len() as Slot;
        let hash = self.hasher.hash_one(namespace.as_ref());
        self.queues.push(Flow { namespace, keys: List::default(), links: Links::default() });
        let (queues, hasher) = (&self.queues, &self.hasher);
        self.index
            .insert_unique(hash, flow, |flow| hasher.hash_one(queues[*flow as usize].namespace.as_ref()));
        self.turns.push_back(&mut self.queues, flow);
        flow
    }

    fn close(&mut self, flow: Slot) {
        self.turns.remove(&mut self.queues, flow);
        let last = (self.queues.len() - 1) as Slot;
        let hash = self.hash(flow);
        if let Ok(entry) = self.index.find_entry(hash, |found| *found == flow) {
            entry.remove();
        }
        let moves = flow != last;
        if moves {
            let hash = self.hash(last);
            if let Some(found) = self.index.find_mut(hash, |found| *found == last) {
                *found = flow;
            }
        }
        swap_remove(&mut self.queues, flow);
        if moves {
            self.turns.moved(&mut self.queues, flow);
        }
        if is_sparse(self.index.len(), self.index.capacity()) {
            let (queues, hasher) = (&self.queues, &self.hasher);
            let hash = |flow: &Slot| hasher.hash_one(queues[*flow as usize].namespace.as_ref());
            self.index.shrink_to(queues.len() * 2, hash);
        }
    }

    fn hash(&self, flow: Slot) -> u64 {
        self.hasher.hash_one(self.queues[flow as usize].namespace.as_ref())
    }
}
