//! The mailbox: a work queue of keys with deduplication, backoff and fairness between
//! namespaces. It is not an actix mailbox.
//!
//! It contains keys and no snapshots: a worker reads the state when it starts. Each key is in
//! it at most once. A key that is added while a worker processes it runs again afterwards. Each
//! key has its own backoff; failing keys share no retry budget that they could exhaust.
//!
//! The mailbox is plain data, without clock, tasks or locks. Its owner passes the time in and
//! arms one timer for [`Mailbox::next_due`].

mod entry;
mod errors;
mod report;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

pub use entry::FlowKey;
pub use errors::MAX_ERROR_BYTES;
pub use report::{Added, Backoff, Completion, FailingKey, Job, Stats, Time};

use entry::{AfterRun, Delay, DelayPlace, Delays, Entry, Failure, Flows, List, State, Store, Trigger};
use errors::Errors;

use crate::arena::Id;
use crate::mutation::{self, Mutation};
use crate::object::HashSeed;

/// A key's entry.
type Slot<K, R> = Id<Entry<K, R>>;

/// A work queue of keys `K`, whose retries have reasons `R` (a small enum).
///
/// Times that callers pass in should not go back. One that does counts as the latest seen.
pub struct Mailbox<K, R> {
    backoff: Backoff,
    store: Store<K, R>,
    flows: Flows<K, R>,
    running: List<Entry<K, R>>,
    processing: usize,
    delays: Delays<Entry<K, R>>,
    now: Time,
    delayed: BTreeMap<R, usize>,
    failing: usize,
    errors: Errors,
    adds_total: u64,
    retries_total: u64,
}

impl<K: Clone + Eq + Hash + FlowKey, R: Copy + Ord> Mailbox<K, R> {
    /// Keys and namespaces come from the cluster, so the hash tables need a secret seed.
    pub fn new(backoff: Backoff, seed: HashSeed) -> Self {
        Self {
            backoff,
            store: Store::new(seed.keyed(0)),
            flows: Flows::new(seed.keyed(1)),
            running: List::default(),
            processing: 0,
            delays: Delays::default(),
            now: Time::ZERO,
            delayed: BTreeMap::new(),
            failing: 0,
            errors: Errors::default(),
            adds_total: 0,
            retries_total: 0,
        }
    }

    /// Queues a key. [`Added`] says what happens if it is in the mailbox already.
    pub fn add(&mut self, key: K, now: Time) -> Added {
        self.advance(now);
        let Some(slot) = self.store.find(&key) else {
            let slot = self.store.insert(key, self.now);
            self.enqueue(slot);
            return Added::Queued;
        };
        match &mut self.store.entries[slot].state {
            State::Ready => Added::AlreadyQueued,
            State::Running { .. } if mutation::is(Mutation::DropSecondRun) => Added::RunsAgain,
            State::Running { then, .. } => {
                if *then != AfterRun::RunAgain {
                    *then = AfterRun::RunAgain;
                    self.adds_total += 1;
                }
                Added::RunsAgain
            }
            State::Delayed { kind: Delay::RetryAfter, .. } => Added::RetryAfterPending,
            State::Delayed { kind: Delay::Backoff, .. } => {
                self.undelay(slot);
                self.enqueue(slot);
                Added::BackoffCutShort
            }
        }
    }

    /// Returns the next key. Flows take turns, and the keys of a flow are served in the order in
    /// which they became ready.
    pub fn pop(&mut self, now: Time) -> Option<Job<K>> {
        self.advance(now);
        let slot = self.flows.pop(&mut self.store.entries)?;
        self.running.push_back(&mut self.store.entries, slot);
        self.processing += 1;
        let entry = &mut self.store.entries[slot];
        let waited = self.now.since(entry.since);
        entry.state = State::Running { then: AfterRun::AsCompleted, woken: false };
        entry.since = self.now;
        let failures = entry.failure.as_ref().map_or(0, |failure| failure.attempts);
        let triggered_at = entry.trigger.take();
        Some(Job { key: entry.key.clone(), failures, waited, triggered_at })
    }

    /// Records when the trigger of a key occurred. Of several triggers the first counts. The next
    /// [`Job`] of the key carries it. It serves to measure latency only.
    pub fn note_trigger(&mut self, key: &K, at: Time) {
        if let Some(slot) = self.store.find(key) {
            self.store.entries[slot].trigger.add(Trigger::at(at));
        }
    }

    /// Ends the work on a key and returns how long it took. Returns `None` and changes nothing if
    /// the key was not running.
    pub fn finish(&mut self, key: &K, completion: Completion<R>, now: Time) -> Option<Duration> {
        self.advance(now);
        let slot = self.store.find(key)?;
        let State::Running { then, woken } = self.store.entries[slot].state else { return None };
        let took = self.now.since(self.store.entries[slot].since);
        self.running.remove(&mut self.store.entries, slot);
        self.processing -= 1;
        if then == AfterRun::Leave {
            self.remove(slot);
            return Some(took);
        }
        let again = then == AfterRun::RunAgain;
        match completion {
            Completion::Done => {
                self.clear_failure(slot);
                if again { self.enqueue_counted(slot) } else { self.remove(slot) }
            }
            Completion::Again if again => self.enqueue_counted(slot),
            Completion::Again => self.enqueue(slot),
            Completion::Retry { reason, error } => {
                let backoffs = self.fail(slot, reason, error, 1);
                if again {
                    self.enqueue_counted(slot);
                } else if woken {
                    self.enqueue(slot);
                } else {
                    self.delay(slot, self.backoff.delay(backoffs), Delay::Backoff);
                }
            }
            Completion::Park { at_most, reason, error } => {
                self.fail(slot, reason, error, 0);
                if again {
                    self.enqueue_counted(slot);
                } else if woken {
                    self.enqueue(slot);
                } else {
                    self.delay(slot, at_most.min(self.backoff.max), Delay::Backoff);
                }
            }
            Completion::Defer { after, reason, error } => {
                self.defer(slot, reason, error);
                if again {
                    self.enqueue_counted(slot);
                } else if woken {
                    self.enqueue(slot);
                } else {
                    self.delay(slot, after.min(self.backoff.max), Delay::Backoff);
                }
            }
            Completion::RetryAfter { after, reason, error } => {
                self.fail(slot, reason, error, 0);
                self.delay(slot, after.min(self.backoff.max), Delay::RetryAfter);
            }
        }
        Some(took)
    }

    /// Queues every key that is delayed by backoff and for which `which(key, reason)` holds,
    /// earliest due first, and returns how many. A running key is not delayed if it fails: its
    /// worker may have read the state just before the change that this call is about.
    pub fn wake(&mut self, which: impl Fn(&K, R) -> bool, now: Time) -> usize {
        self.advance(now);
        let mut slots = Vec::new();
        for (slot, entry) in self.store.entries.iter_mut() {
            match (&mut entry.state, &entry.failure) {
                (State::Delayed { place, kind: Delay::Backoff }, Some(failure))
                    if which(&entry.key, failure.reason) =>
                {
                    slots.push((*place, slot));
                }
                (State::Running { woken, .. }, _) => *woken = true,
                _ => {}
            }
        }
        self.enqueue_delayed(slots)
    }

    /// The keys that [`wake`](Self::wake) would queue, for a caller that has to ask elsewhere
    /// which of them to wake. Running keys count as woken.
    pub fn parked(&mut self, which: impl Fn(&K, R) -> bool, now: Time) -> Vec<K> {
        self.advance(now);
        let mut keys = Vec::new();
        for (_, entry) in self.store.entries.iter_mut() {
            match (&mut entry.state, &entry.failure) {
                (State::Delayed { kind: Delay::Backoff, .. }, Some(failure))
                    if which(&entry.key, failure.reason) =>
                {
                    keys.push(entry.key.clone());
                }
                (State::Running { woken, .. }, _) => *woken = true,
                _ => {}
            }
        }
        keys
    }

    /// Queues a key if it is delayed by backoff and `which(reason)` holds.
    pub fn wake_one(&mut self, key: &K, which: impl Fn(R) -> bool, now: Time) -> bool {
        self.advance(now);
        let Some(slot) = self.store.find(key) else { return false };
        let entry = &self.store.entries[slot];
        let is_parked = matches!(entry.state, State::Delayed { kind: Delay::Backoff, .. })
            && entry.failure.as_ref().is_some_and(|failure| which(failure.reason));
        if is_parked {
            self.undelay(slot);
            self.enqueue(slot);
        }
        is_parked
    }

    /// Queues every delayed key and forgets all failures: the write gate has opened, and earlier
    /// failures say nothing about the present.
    pub fn clear_backoff(&mut self, now: Time) {
        self.advance(now);
        let delayed = self.store.entries.iter().filter_map(|(slot, entry)| match entry.state {
            State::Delayed { place, .. } => Some((place, slot)),
            State::Ready | State::Running { .. } => None,
        });
        let slots = delayed.collect();
        self.enqueue_delayed(slots);
        for (_, entry) in self.store.entries.iter_mut() {
            entry.failure = None;
        }
        self.failing = 0;
        self.errors.clear();
    }

    /// Restarts the waiting time of all ready keys, because no worker took keys before.
    pub fn wait_from_now(&mut self, now: Time) {
        self.advance(now);
        for (_, entry) in self.store.entries.iter_mut() {
            if matches!(entry.state, State::Ready) {
                entry.since = self.now;
            }
        }
    }

    /// Drops a key in any state. A running key leaves when its work ends, unless it is added again
    /// before. Returns whether the key was in the mailbox.
    pub fn forget(&mut self, key: &K) -> bool {
        let Some(slot) = self.store.find(key) else { return false };
        match &mut self.store.entries[slot].state {
            State::Running { then, .. } => {
                *then = AfterRun::Leave;
                self.clear_failure(slot);
                return true;
            }
            State::Ready => self.flows.remove(&mut self.store.entries, slot),
            State::Delayed { .. } => self.undelay(slot),
        }
        self.remove(slot);
        true
    }

    /// Queues every key whose delay is over. All methods that take the time do this first.
    pub fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some(slot) = self.delays.pop(self.now) {
            self.uncount(slot);
            self.enqueue(slot);
        }
    }

    /// When the next delay ends: call [`advance`](Self::advance) or [`pop`](Self::pop) then.
    pub fn next_due(&self) -> Option<Time> {
        self.delays.next_due()
    }
}

/// The steps that move an entry between its states. Each keeps the lists and the counts right.
impl<K: Clone + Eq + Hash + FlowKey, R: Copy + Ord> Mailbox<K, R> {
    /// Adds an entry that is on no list to its flow.
    fn enqueue(&mut self, slot: Slot<K, R>) {
        self.adds_total += 1;
        self.enqueue_counted(slot);
    }

    /// The same for an entry that was counted when it was added.
    fn enqueue_counted(&mut self, slot: Slot<K, R>) {
        let entry = &mut self.store.entries[slot];
        entry.state = State::Ready;
        entry.since = self.now;
        self.flows.push(&mut self.store.entries, slot);
    }

    /// Queues delayed entries in the order of their due times.
    fn enqueue_delayed(&mut self, mut slots: Vec<(DelayPlace, Slot<K, R>)>) -> usize {
        slots.sort_unstable();
        for (_, slot) in &slots {
            self.undelay(*slot);
            self.enqueue(*slot);
        }
        slots.len()
    }

    /// Delays an entry that is on no list.
    fn delay(&mut self, slot: Slot<K, R>, delay: Duration, kind: Delay) {
        let due = self.now + delay.max(Duration::from_millis(1));
        let place = self.delays.insert(slot, due);
        let entry = &mut self.store.entries[slot];
        entry.state = State::Delayed { place, kind };
        entry.since = self.now;
        if let Some(failure) = &entry.failure {
            *self.delayed.entry(failure.reason).or_default() += 1;
        }
    }

    /// Ends the delay of an entry before it is due.
    fn undelay(&mut self, slot: Slot<K, R>) {
        let State::Delayed { place, .. } = self.store.entries[slot].state else { return };
        self.delays.remove(place);
        self.uncount(slot);
    }

    /// Updates the counts for an entry that is no longer delayed.
    fn uncount(&mut self, slot: Slot<K, R>) {
        let Some(reason) = self.store.entries[slot].failure.as_ref().map(|failure| failure.reason) else {
            return;
        };
        if let Some(count) = self.delayed.get_mut(&reason) {
            *count -= 1;
            if *count == 0 {
                self.delayed.remove(&reason);
            }
        }
    }

    /// Records a failure. Returns how many failures so far lengthen the backoff.
    fn fail(&mut self, slot: Slot<K, R>, reason: R, error: Arc<str>, backoffs: u32) -> u32 {
        self.retries_total += 1;
        let since = self.now;
        let error = self.errors.keep(error);
        if let Some(before) = &self.store.entries[slot].failure {
            self.errors.release(&before.error);
        }
        let failure = self.store.entries[slot].failure.get_or_insert_with(|| {
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
    fn defer(&mut self, slot: Slot<K, R>, reason: R, error: Arc<str>) {
        let since = self.now;
        let failure = self.store.entries[slot].failure.get_or_insert_with(|| {
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
    fn clear_failure(&mut self, slot: Slot<K, R>) {
        if let Some(failure) = self.store.entries[slot].failure.take() {
            self.errors.release(&failure.error);
            self.failing -= 1;
        }
    }

    /// Removes an entry that is on no list.
    fn remove(&mut self, slot: Slot<K, R>) {
        self.clear_failure(slot);
        self.store.remove(slot);
    }
}

/// What metrics, readiness and debug pages read. Nothing here changes the mailbox.
impl<K: Clone + Eq + Hash + FlowKey, R: Copy + Ord> Mailbox<K, R> {
    fn entries(&self) -> impl Iterator<Item = &Entry<K, R>> {
        self.store.entries.iter().map(|(_, entry)| entry)
    }

    /// The number of keys, in any state.
    pub fn len(&self) -> usize {
        self.store.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.store.entries.len() == 0
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
            longest_running_since: self.running.first().map(|slot| self.store.entries[slot].since),
        }
    }

    /// As in [`Stats`].
    pub const fn adds_total(&self) -> u64 {
        self.adds_total
    }

    /// As in [`Stats`].
    pub const fn retries_total(&self) -> u64 {
        self.retries_total
    }

    /// Every running key, and since when it runs.
    pub fn running(&self) -> impl Iterator<Item = (&K, Time)> {
        let running = |entry: &&Entry<K, R>| matches!(entry.state, State::Running { .. });
        self.entries().filter(running).map(|entry| (&entry.key, entry.since))
    }

    /// Every key that has failed since it was last done.
    pub fn failing(&self) -> impl Iterator<Item = FailingKey<'_, K, R>> {
        self.entries().filter_map(Entry::failing)
    }

    /// A key's failures since it was last done, if any.
    pub fn failure_of(&self, key: &K) -> Option<FailingKey<'_, K, R>> {
        self.store.entries[self.store.find(key)?].failing()
    }

    /// Every key that has not failed since it was last done, and since when it is in its state.
    pub fn unfailed(&self) -> impl Iterator<Item = (&K, Time)> {
        let unfailed = self.entries().filter(|entry| entry.failure.is_none());
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
