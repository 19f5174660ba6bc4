//! The mailbox: a work queue of keys with deduplication, backoff and fairness between
//! namespaces. It is not an actix mailbox.
//!
//! It contains keys and no snapshots: a worker reads the state when it starts. Each key is in
//! it at most once. A key that is added while a worker processes it runs again afterwards. Each
//! key has its own backoff; failing keys share no retry budget that they could exhaust.
//!
//! The mailbox is plain data, without clock, tasks or locks. Its owner passes the time in and
//! arms one timer for [`Mailbox::next_due`].

mod backoff;
mod delays;
mod entry;
mod errors;
mod flows;
mod inspect;
mod list;
mod report;
#[cfg(test)]
mod tests;
mod time;
mod transitions;
mod trigger;

use std::collections::BTreeMap;
use std::hash::Hash;
use std::time::Duration;

pub use backoff::Backoff;
pub use errors::MAX_ERROR_BYTES;
pub use flows::FlowKey;
pub use report::{Added, Completion, FailingKey, Job, Stats};
pub use time::Time;

use delays::Delays;
use entry::{AfterRun, Delay, State, Store};
use errors::Errors;
use flows::Flows;
use list::List;

use crate::mutation::{self, Mutation};
use crate::object::HashSeed;

/// A work queue of keys `K`, whose retries have reasons `R` (a small enum).
///
/// Times that callers pass in should not go back. One that does counts as the latest seen.
pub struct Mailbox<K, R> {
    backoff: Backoff,
    store: Store<K, R>,
    flows: Flows,
    running: List,
    processing: usize,
    delays: Delays,
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
        match &mut self.store[slot].state {
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
        let entry = &mut self.store[slot];
        let waited = self.now.since(entry.since);
        entry.state = State::Running { then: AfterRun::AsCompleted, woken: false };
        entry.since = self.now;
        let failures = entry.failure.as_ref().map_or(0, |failure| failure.attempts);
        let triggered_at = entry.trigger.take();
        Some(Job { key: entry.key.clone(), failures, waited, triggered_at })
    }

    /// Ends the work on a key and returns how long it took. Returns `None` and changes nothing if
    /// the key was not running.
    pub fn finish(&mut self, key: &K, completion: Completion<R>, now: Time) -> Option<Duration> {
        self.advance(now);
        let slot = self.store.find(key)?;
        let State::Running { then, woken } = self.store[slot].state else { return None };
        let took = self.now.since(self.store[slot].since);
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
        for (slot, entry) in (0..).zip(&mut self.store.entries) {
            match (&mut entry.state, &entry.failure) {
                (State::Delayed { due, kind: Delay::Backoff }, Some(failure))
                    if which(&entry.key, failure.reason) =>
                {
                    slots.push((*due, slot));
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
        for entry in &mut self.store.entries {
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
        let entry = &self.store[slot];
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
        let delayed = (0..).zip(&self.store.entries).filter_map(|(slot, entry)| match entry.state {
            State::Delayed { due, .. } => Some((due, slot)),
            State::Ready | State::Running { .. } => None,
        });
        let slots = delayed.collect();
        self.enqueue_delayed(slots);
        for entry in &mut self.store.entries {
            entry.failure = None;
        }
        self.failing = 0;
        self.errors.clear();
    }

    /// Restarts the waiting time of all ready keys, because no worker took keys before.
    pub fn wait_from_now(&mut self, now: Time) {
        self.advance(now);
        for entry in &mut self.store.entries {
            if matches!(entry.state, State::Ready) {
                entry.since = self.now;
            }
        }
    }

    /// Drops a key in any state. A running key leaves when its work ends, unless it is added again
    /// before. Returns whether the key was in the mailbox.
    pub fn forget(&mut self, key: &K) -> bool {
        let Some(slot) = self.store.find(key) else { return false };
        match &mut self.store[slot].state {
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
        while let Some(slot) = self.delays.pop(&mut self.store.entries, self.now) {
            self.uncount(slot);
            self.enqueue(slot);
        }
    }

    /// When the next delay ends: call [`advance`](Self::advance) or [`pop`](Self::pop) then.
    pub fn next_due(&self) -> Option<Time> {
        self.delays.next_due()
    }
}
