//! The ready keys, fair between namespaces.

use std::hash::BuildHasher;

use hashbrown::HashTable;

use crate::object::{Key, Keyed, Namespace};

use super::Time;
use super::entry::Entry;
use super::list::{Linked, Links, List, Slot, is_sparse, swap_remove};

/// Says which lane a key queues in. Lanes take turns, so a namespace with 10,000
/// keys does not hold up one with ten.
pub trait Lane {
    /// The namespace; all cluster-scoped objects share one lane.
    fn lane(&self) -> Option<&Namespace>;
}

impl Lane for Key {
    fn lane(&self) -> Option<&Namespace> {
        self.namespace.as_ref()
    }
}

/// The keys of one namespace, first come, first served.
#[derive(Debug)]
struct Queue {
    namespace: Option<Namespace>,
    keys: List,
    links: Links,
}

impl Linked for Queue {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// All lanes with something ready. A lane comes with its first key and goes with
/// its last.
#[derive(Debug)]
pub(super) struct Lanes {
    queues: Vec<Queue>,
    index: HashTable<Slot>,
    hasher: Keyed,
    /// The order of the turns.
    turns: List,
    ready: usize,
}

impl Lanes {
    pub(super) fn new(hasher: Keyed) -> Self {
        Self { queues: Vec::new(), index: HashTable::new(), hasher, turns: List::default(), ready: 0 }
    }

    /// How many keys are ready.
    pub(super) const fn ready(&self) -> usize {
        self.ready
    }

    /// How many lanes have something ready.
    pub(super) fn len(&self) -> usize {
        self.queues.len()
    }

    /// Queues an entry at the end of its lane. A lane that was empty gets its
    /// turn after all others.
    pub(super) fn push<K: Lane, R>(&mut self, entries: &mut [Entry<K, R>], slot: Slot) {
        let namespace = entries[slot as usize].key.lane();
        let lane = self.find(namespace).unwrap_or_else(|| self.open(namespace.cloned()));
        self.queues[lane as usize].keys.push_back(entries, slot);
        self.ready += 1;
    }

    /// Takes the first entry of the lane whose turn it is.
    pub(super) fn pop<K: Lane, R>(&mut self, entries: &mut [Entry<K, R>]) -> Option<Slot> {
        let lane = self.turns.pop_front(&mut self.queues)?;
        self.turns.push_back(&mut self.queues, lane);
        let slot = self.queues[lane as usize].keys.first()?;
        self.take(entries, lane, slot);
        Some(slot)
    }

    /// Takes an entry out of its lane, wherever it is.
    pub(super) fn remove<K: Lane, R>(&mut self, entries: &mut [Entry<K, R>], slot: Slot) {
        if let Some(lane) = self.find(entries[slot as usize].key.lane()) {
            self.take(entries, lane, slot);
        }
    }

    /// A ready entry is now at `slot`.
    pub(super) fn moved<K: Lane, R>(&mut self, entries: &mut [Entry<K, R>], slot: Slot) {
        if let Some(lane) = self.find(entries[slot as usize].key.lane()) {
            self.queues[lane as usize].keys.moved(entries, slot);
        }
    }

    /// Since when the entry that waits longest has been ready.
    pub(super) fn oldest<K, R>(&self, entries: &[Entry<K, R>]) -> Option<Time> {
        let firsts = self.queues.iter().filter_map(|queue| queue.keys.first());
        firsts.map(|slot| entries[slot as usize].since).min()
    }

    fn take<K, R>(&mut self, entries: &mut [Entry<K, R>], lane: Slot, slot: Slot) {
        let keys = &mut self.queues[lane as usize].keys;
        keys.remove(entries, slot);
        self.ready -= 1;
        if keys.is_empty() {
            self.close(lane);
        }
    }

    fn find(&self, namespace: Option<&Namespace>) -> Option<Slot> {
        let same = |lane: &Slot| {
            #[cfg(test)]
            crate::object::steps::count();
            self.queues[*lane as usize].namespace.as_ref() == namespace
        };
        self.index.find(self.hasher.hash_one(namespace), same).copied()
    }

    fn open(&mut self, namespace: Option<Namespace>) -> Slot {
        let lane = self.queues.len() as Slot;
        let hash = self.hasher.hash_one(namespace.as_ref());
        self.queues.push(Queue { namespace, keys: List::default(), links: Links::default() });
        let (queues, hasher) = (&self.queues, &self.hasher);
        self.index
            .insert_unique(hash, lane, |lane| hasher.hash_one(queues[*lane as usize].namespace.as_ref()));
        self.turns.push_back(&mut self.queues, lane);
        lane
    }

    fn close(&mut self, lane: Slot) {
        self.turns.remove(&mut self.queues, lane);
        let last = (self.queues.len() - 1) as Slot;
        let hash = self.hash(lane);
        if let Ok(entry) = self.index.find_entry(hash, |found| *found == lane) {
            entry.remove();
        }
        let moves = lane != last;
        if moves {
            let hash = self.hash(last);
            if let Some(found) = self.index.find_mut(hash, |found| *found == last) {
                *found = lane;
            }
        }
        swap_remove(&mut self.queues, lane);
        if moves {
            self.turns.moved(&mut self.queues, lane);
        }
        if is_sparse(self.index.len(), self.index.capacity()) {
            let (queues, hasher) = (&self.queues, &self.hasher);
            let hash = |lane: &Slot| hasher.hash_one(queues[*lane as usize].namespace.as_ref());
            self.index.shrink_to(queues.len() * 2, hash);
        }
    }

    fn hash(&self, lane: Slot) -> u64 {
        self.hasher.hash_one(self.queues[lane as usize].namespace.as_ref())
    }
}
