//! The steps that move an entry between its states. Each keeps the lists and the counts right.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use super::entry::{Delay, Failure, State};
use super::list::Slot;
use super::{FlowKey, Mailbox, Time};

impl<K: Clone + Eq + Hash + FlowKey, R: Copy + Ord> Mailbox<K, R> {
    /// Adds an entry that is on no list to its flow.
    pub(super) fn enqueue(&mut self, slot: Slot) {
        self.adds_total += 1;
        self.enqueue_counted(slot);
    }

    /// The same for an entry that was counted when it was added.
    pub(super) fn enqueue_counted(&mut self, slot: Slot) {
        let entry = &mut self.store[slot];
        entry.state = State::Ready;
        entry.since = self.now;
        self.flows.push(&mut self.store.entries, slot);
    }

    /// Queues delayed entries in the order of their due times.
    pub(super) fn enqueue_delayed(&mut self, mut slots: Vec<(Time, Slot)>) -> usize {
        slots.sort_unstable();
        for (_, slot) in &slots {
            self.undelay(*slot);
            self.enqueue(*slot);
        }
        slots.len()
    }

    /// Delays an entry that is on no list.
    pub(super) fn delay(&mut self, slot: Slot, delay: Duration, kind: Delay) {
        let due = self.now + delay.max(Duration::from_millis(1));
        let entry = &mut self.store[slot];
        entry.state = State::Delayed { due, kind };
        entry.since = self.now;
        if let Some(failure) = &entry.failure {
            *self.delayed.entry(failure.reason).or_default() += 1;
        }
        self.delays.insert(&mut self.store.entries, slot, due);
    }

    /// Ends the delay of an entry before it is due.
    pub(super) fn undelay(&mut self, slot: Slot) {
        let State::Delayed { due, .. } = self.store[slot].state else { return };
        self.delays.remove(&mut self.store.entries, slot, due);
        self.uncount(slot);
    }

    /// Updates the counts for an entry that is no longer delayed.
    pub(super) fn uncount(&mut self, slot: Slot) {
        let Some(reason) = self.store[slot].failure.as_ref().map(|failure| failure.reason) else { return };
        if let Some(count) = self.delayed.get_mut(&reason) {
            *count -= 1;
            if *count == 0 {
                self.delayed.remove(&reason);
            }
        }
    }

    /// Records a failure. Returns how many failures so far lengthen the backoff.
    pub(super) fn fail(&mut self, slot: Slot, reason: R, error: Arc<str>, backoffs: u32) -> u32 {
        self.retries_total += 1;
        let since = self.now;
        let error = self.errors.keep(error);
        if let Some(before) = &self.store[slot].failure {
            self.errors.release(&before.error);
        }
        let failure = self.store[slot].failure.get_or_insert_with(|| {
            self.failing += 1;
            Box::new(Failure { attempts: 0, backoffs: 0, since, reason, error: Arc::clone(&error) })
        });
        failure.attempts = failure.attempts.saturating_add(1);
        failure.backoffs = failure.backoffs.saturating_add(backoffs);
        failure.reason = reason;
        failure.error = error;
        failure.backoffs
    }

    /// Records that an entry was not tried.
    pub(super) fn defer(&mut self, slot: Slot, reason: R, error: Arc<str>) {
        let since = self.now;
        let failure = self.store[slot].failure.get_or_insert_with(|| {
            self.failing += 1;
            Box::new(Failure { attempts: 0, backoffs: 0, since, reason, error: Arc::clone(&error) })
        });
        failure.reason = reason;
        // Its own error is more useful than the reason for the deferral.
        if failure.attempts == 0 {
            failure.error = error;
        }
    }

    /// Forgets an entry's failures.
    pub(super) fn clear_failure(&mut self, slot: Slot) {
        if let Some(failure) = self.store[slot].failure.take() {
            self.errors.release(&failure.error);
            self.failing -= 1;
        }
    }

    /// Removes an entry that is on no list.
    pub(super) fn remove(&mut self, slot: Slot) {
        self.clear_failure(slot);
        if self.store.remove(slot) {
            let entries = &mut self.store.entries;
            match entries[slot as usize].state {
                State::Ready => self.flows.moved(entries, slot),
                State::Running { .. } => self.running.moved(entries, slot),
                State::Delayed { due, .. } => self.delays.moved(entries, slot, due),
            }
        }
    }
}
