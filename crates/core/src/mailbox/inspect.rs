//! What metrics, readiness and debug pages read of a mailbox. Nothing here changes it.

use std::fmt;
use std::hash::Hash;

use super::entry::{Entry, State};
use super::{FailingKey, FlowKey, Mailbox, Stats, Time};

impl<K: Clone + Eq + Hash + FlowKey, R: Copy + Ord> Mailbox<K, R> {
    /// The number of keys, in any state.
    pub fn len(&self) -> usize {
        self.store.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.store.entries.is_empty()
    }

    /// The number of keys that wait for a worker.
    pub const fn ready(&self) -> usize {
        self.flows.ready()
    }

    /// The number of running keys.
    pub const fn processing(&self) -> usize {
        self.processing
    }

    /// Numbers for metrics and readiness. The cost is linear in the number of flows.
    pub fn stats(&self) -> Stats<R> {
        let entries = &self.store.entries;
        Stats {
            ready: self.flows.ready(),
            processing: self.processing,
            delayed: self.delayed.clone(),
            failing: self.failing,
            error_bytes: self.errors.bytes(),
            flows: self.flows.len(),
            adds_total: self.adds_total,
            retries_total: self.retries_total,
            oldest_ready_since: self.flows.oldest(entries),
            longest_running_since: self.running.first().map(|slot| self.store[slot].since),
        }
    }

    /// Every running key, and since when it runs.
    pub fn running(&self) -> impl Iterator<Item = (&K, Time)> {
        let running = |entry: &&Entry<K, R>| matches!(entry.state, State::Running { .. });
        self.store.entries.iter().filter(running).map(|entry| (&entry.key, entry.since))
    }

    /// Every key that has failed since it was last done.
    pub fn failing(&self) -> impl Iterator<Item = FailingKey<'_, K, R>> {
        self.store.entries.iter().filter_map(Entry::failing)
    }

    /// A key's failures since it was last done, if any.
    pub fn failure_of(&self, key: &K) -> Option<FailingKey<'_, K, R>> {
        self.store[self.store.find(key)?].failing()
    }

    /// Every key that has not failed since it was last done, and since when it is in its state.
    pub fn unfailed(&self) -> impl Iterator<Item = (&K, Time)> {
        let unfailed = self.store.entries.iter().filter(|entry| entry.failure.is_none());
        unfailed.map(|entry| (&entry.key, entry.since))
    }
}

impl<K, R> fmt::Debug for Mailbox<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox")
            .field("keys", &self.store.entries.len())
            .field("ready", &self.flows.ready())
            .field("processing", &self.processing)
            .finish_non_exhaustive()
    }
}
