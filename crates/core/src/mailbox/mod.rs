//! The mailbox: a work queue of keys with deduplication, backoff and fairness between
//! namespaces. It is not an actix mailbox.
//!
//! It contains keys and no snapshots: a worker reads the state when it starts. Each key is in
//! it at most once. A key that is added while a worker processes it runs again afterwards. Each
//! key has its own backoff; failing keys share no retry budget that they could exhaust.
//!
//! The mailbox is plain data, without clock, tasks or locks. Its owner passes the time in and
//! arms one timer for [`Mailbox::next_due`].

mod errors;
mod report;
#[cfg(any(test, feature = "test-util"))]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

pub use errors::MAX_ERROR_BYTES;
pub use report::{Backoff, Completion, FailingKey, Job, Stats, Time, Wait};

use errors::Errors;
use indexmap::IndexMap;

use crate::arena::is_sparse;
use crate::object::{HashSeed, Key, Keyed, KeyedMap, Namespace};

/// A work queue of keys, whose retries have reasons `R` (a small enum).
///
/// The keys of a namespace are a flow, as in API Priority and Fairness, and all cluster-scoped ones are
/// another. Flows take turns, so that a namespace with 10,000 keys does not delay one with ten.
///
/// Times that callers pass in should not go back. One that does counts as the latest seen.
#[derive(Clone, Debug)]
pub struct Mailbox<R> {
    backoff: Backoff,
    /// No decision depends on the hasher: keys that change together are sorted by their delays.
    entries: IndexMap<Key, Entry<R>, Keyed>,
    /// The ready keys of each namespace that has some, first in, first out.
    flows: KeyedMap<Option<Namespace>, VecDeque<Key>>,
    /// The order in which flows are served.
    turns: VecDeque<Option<Namespace>>,
    delays: BTreeMap<DelayPlace, Key>,
    /// The number of the last delay.
    last_delay: u64,
    now: Time,
    errors: Errors,
    adds_total: u64,
    /// How often keys were queued, by a hash of their namespaces: how many namespaces there are is up
    /// to the cluster.
    queued: [u64; NAMESPACE_HASHES],
    retries_total: u64,
}

/// See [`Mailbox::queued_of`].
const NAMESPACE_HASHES: usize = 64;

/// When a delay ends, and a number that keeps those that end at the same time in their order.
type DelayPlace = (Time, u64);

#[derive(Clone, Debug)]
struct Entry<R> {
    state: State,
    /// Since when it has been in this state.
    since: Time,
    /// When its trigger occurred, if that is measured.
    trigger: Option<Time>,
    /// Its failures since it was last done. Most keys have none.
    failure: Option<Box<Failure<R>>>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// In its flow.
    Ready,
    /// A worker processes it.
    Running {
        /// It was added in the meantime and runs again.
        again: bool,
        /// It was woken in the meantime. The worker may have been too early to see why, so a
        /// retry is not delayed.
        woken: bool,
    },
    Delayed(DelayPlace, Delay),
}

/// Why a key is delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Delay {
    /// By backoff. A wake-up or an addition ends it.
    Backoff,
    /// By the API server's `Retry-After`. Nothing ends it early.
    RetryAfter,
}

/// The consecutive failures of a key.
#[derive(Clone, Debug)]
struct Failure<R> {
    attempts: u32,
    /// How many of the attempts lengthen the backoff.
    backoffs: u32,
    since: Time,
    reason: R,
    error: Arc<str>,
}

impl<R: Copy + Ord> Mailbox<R> {
    /// Keys and namespaces come from the cluster, so the hash tables need a secret seed.
    pub fn new(backoff: Backoff, seed: HashSeed) -> Self {
        Self {
            backoff,
            entries: IndexMap::with_hasher(seed.keyed(0)),
            flows: KeyedMap::with_hasher(seed.keyed(1)),
            turns: VecDeque::new(),
            delays: BTreeMap::new(),
            last_delay: 0,
            now: Time::ZERO,
            errors: Errors::default(),
            adds_total: 0,
            queued: [0; NAMESPACE_HASHES],
            retries_total: 0,
        }
    }

    /// Queues a key, unless it is ready already or the API server asked for a delay
    /// ([`Wait::RetryAfter`]) that is not over. A running key runs again afterwards.
    pub fn add(&mut self, key: Key, now: Time) {
        self.advance(now);
        let Some(entry) = self.entries.get_mut(&key) else {
            let entry = Entry { state: State::Ready, since: self.now, trigger: None, failure: None };
            self.entries.insert(key.clone(), entry);
            return self.enqueue(key);
        };
        match &mut entry.state {
            State::Ready | State::Delayed(_, Delay::RetryAfter) => {}
            State::Running { again, .. } => {
                self.adds_total += u64::from(!*again);
                *again = true;
            }
            State::Delayed(_, Delay::Backoff) => self.end_delay(key),
        }
    }

    /// Returns the next key. Flows take turns, and the keys of a flow are served in the order in
    /// which they became ready.
    pub fn pop(&mut self, now: Time) -> Option<Job> {
        self.advance(now);
        let namespace = self.turns.pop_front()?;
        let flow = self.flows.get_mut(&namespace)?;
        let key = flow.pop_front()?;
        if flow.is_empty() {
            self.flows.remove(&namespace);
            if is_sparse(self.flows.len(), self.flows.capacity()) {
                self.flows.shrink_to(self.flows.len() * 2);
            }
        } else {
            self.turns.push_back(namespace);
        }
        let entry = self.entries.get_mut(&key)?;
        let waited = self.now.saturating_sub(entry.since);
        entry.state = State::Running { again: false, woken: false };
        entry.since = self.now;
        Some(Job { waited, triggered_at: entry.trigger.take(), key })
    }

    /// Records when the trigger of a key occurred. Of several triggers the first counts. The next
    /// [`Job`] of the key carries it. It serves to measure latency only.
    pub fn note_trigger(&mut self, key: &Key, at: Time) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.trigger = Some(entry.trigger.map_or(at, |earlier| earlier.min(at)));
        }
    }

    /// Ends the work on a key and returns how long it took. Returns `None` and changes nothing if
    /// the key was not running.
    pub fn finish(&mut self, key: &Key, completion: Completion<R>, now: Time) -> Option<Duration> {
        self.advance(now);
        let entry = self.entries.get(key)?;
        let State::Running { again, woken } = entry.state else { return None };
        let took = self.now.saturating_sub(entry.since);
        let delay = match completion {
            Completion::Done => {
                self.clear_failure(key);
                if !again {
                    self.remove(key);
                    return Some(took);
                }
                None
            }
            Completion::Again => None,
            Completion::Later { reason, error, wait: Wait::Untried(after) } => {
                self.defer(key, reason, error);
                Some((after, Delay::Backoff))
            }
            Completion::Later { reason, error, wait } => {
                let backoffs = self.fail(key, reason, error, u32::from(wait == Wait::Backoff));
                Some(match wait {
                    Wait::Backoff => (self.backoff.delay(backoffs), Delay::Backoff),
                    Wait::Woken(after) | Wait::Untried(after) => (after, Delay::Backoff),
                    Wait::RetryAfter(after) => (after, Delay::RetryAfter),
                })
            }
        };
        match delay {
            Some((after, delay)) if delay == Delay::RetryAfter || !(again || woken) => {
                self.delay(key, after.min(self.backoff.max), delay);
            }
            _ => {
                // A key that was added while it ran was counted then.
                self.adds_total -= u64::from(again);
                self.enqueue(key.clone());
            }
        }
        Some(took)
    }

    /// Queues every key that is delayed by backoff and for which `which(key, reason)` holds,
    /// earliest due first, and returns how many. A running key is not delayed if it fails: its
    /// worker may have read the state just before the change that this call is about.
    pub fn wake(&mut self, which: impl Fn(&Key, R) -> bool, now: Time) -> usize {
        let keys = self.parked(which, now);
        let count = keys.len();
        keys.into_iter().for_each(|key| self.end_delay(key));
        count
    }

    /// The keys that [`wake`](Self::wake) would queue, for a caller that has to ask elsewhere
    /// which of them to wake. Running keys count as woken.
    pub fn parked(&mut self, which: impl Fn(&Key, R) -> bool, now: Time) -> Vec<Key> {
        self.advance(now);
        let mut parked = Vec::new();
        for (key, entry) in &mut self.entries {
            match (&mut entry.state, &entry.failure) {
                (State::Delayed(place, Delay::Backoff), Some(failure)) if which(key, failure.reason) => {
                    parked.push((*place, key.clone()));
                }
                (State::Running { woken, .. }, _) => *woken = true,
                _ => {}
            }
        }
        parked.sort_unstable_by_key(|&(place, _)| place);
        parked.into_iter().map(|(_, key)| key).collect()
    }

    /// Queues every delayed key and forgets all failures: the write gate has opened, and earlier
    /// failures say nothing about the present. The waiting time of ready keys begins now, because
    /// no worker took keys before.
    pub fn clear_backoff(&mut self, now: Time) {
        self.advance(now);
        for (_, key) in std::mem::take(&mut self.delays) {
            self.enqueue(key);
        }
        for entry in self.entries.values_mut() {
            entry.failure = None;
            if matches!(entry.state, State::Ready) {
                entry.since = self.now;
            }
        }
        self.errors = Errors::default();
    }

    /// Queues every key whose delay is over. All methods that take the time do this first.
    pub fn advance(&mut self, now: Time) {
        self.now = self.now.max(now);
        while let Some(first) = self.delays.first_entry().filter(|first| first.key().0 <= self.now) {
            let key = first.remove();
            self.enqueue(key);
        }
    }

    /// When the next delay ends: call [`advance`](Self::advance) or [`pop`](Self::pop) then.
    pub fn next_due(&self) -> Option<Time> {
        self.delays.first_key_value().map(|((due, _), _)| *due)
    }
}

/// The steps that move a key between its states.
impl<R: Copy + Ord> Mailbox<R> {
    /// Adds a key, which is nowhere else, to the end of its flow. A new flow is served after all
    /// others.
    fn enqueue(&mut self, key: Key) {
        let Some(entry) = self.entries.get_mut(&key) else { return };
        entry.state = State::Ready;
        entry.since = self.now;
        self.adds_total += 1;
        let namespace = key.namespace.clone();
        self.queued[self.namespace_hash(namespace.as_ref())] += 1;
        let flow = self.flows.entry(namespace.clone()).or_default();
        if flow.is_empty() {
            self.turns.push_back(namespace);
        }
        flow.push_back(key);
    }

    fn namespace_hash(&self, namespace: Option<&Namespace>) -> usize {
        let hash = self.flows.hasher().hash_one(namespace) % NAMESPACE_HASHES as u64;
        usize::try_from(hash).unwrap_or_default()
    }

    /// Delays a running key.
    fn delay(&mut self, key: &Key, delay: Duration, kind: Delay) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        self.last_delay += 1;
        let place = (due(self.now, delay), self.last_delay);
        entry.state = State::Delayed(place, kind);
        entry.since = self.now;
        self.delays.insert(place, key.clone());
    }

    /// Queues a delayed key before its delay is over.
    fn end_delay(&mut self, key: Key) {
        if let Some(Entry { state: State::Delayed(place, _), .. }) = self.entries.get(&key) {
            self.delays.remove(place);
            self.enqueue(key);
        }
    }

    /// Records a failure. Returns how many failures so far lengthen the backoff.
    fn fail(&mut self, key: &Key, reason: R, error: Arc<str>, backoffs: u32) -> u32 {
        self.retries_total += 1;
        let failure = self.failure(key, reason, Some(error));
        failure.map_or(0, |failure| {
            failure.attempts = failure.attempts.saturating_add(1);
            failure.backoffs = failure.backoffs.saturating_add(backoffs);
            failure.backoffs
        })
    }

    /// Records that a key was not tried. Its own error is more useful than the reason for that.
    fn defer(&mut self, key: &Key, reason: R, error: Arc<str>) {
        let has_own = self.failure_of(key).is_some_and(|failure| failure.attempts > 0);
        self.failure(key, reason, (!has_own).then_some(error));
    }

    /// The failures of a key, with this reason and, if it is given, with this error.
    fn failure(&mut self, key: &Key, reason: R, error: Option<Arc<str>>) -> Option<&mut Failure<R>> {
        let entry = self.entries.get_mut(key)?;
        let error = error.map(|error| self.errors.keep(error));
        let since = self.now;
        let failure = entry.failure.get_or_insert_with(|| {
            Box::new(Failure { attempts: 0, backoffs: 0, since, reason, error: Arc::default() })
        });
        failure.reason = reason;
        if let Some(error) = error {
            self.errors.release(&std::mem::replace(&mut failure.error, error));
        }
        Some(failure)
    }

    fn clear_failure(&mut self, key: &Key) {
        if let Some(failure) = self.entries.get_mut(key).and_then(|entry| entry.failure.take()) {
            self.errors.release(&failure.error);
        }
    }

    /// Removes a key that is in no flow and not delayed.
    fn remove(&mut self, key: &Key) {
        self.entries.swap_remove(key);
        if is_sparse(self.entries.len(), self.entries.capacity()) {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }
}

/// What metrics, readiness and debug pages read. Nothing here changes the mailbox.
impl<R: Copy + Ord> Mailbox<R> {
    /// The number of keys, in any state.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// How often a key was queued, without additions that were merged.
    pub const fn adds_total(&self) -> u64 {
        self.adds_total
    }

    /// How often keys of a namespace, or without one, were queued, perhaps together with those of others:
    /// two equal readings mean that none was queued in between.
    pub fn queued_of(&self, namespace: Option<&Namespace>) -> u64 {
        self.queued[self.namespace_hash(namespace)]
    }

    /// How often work ended with a retry.
    pub const fn retries_total(&self) -> u64 {
        self.retries_total
    }

    /// Numbers for metrics and readiness, of all keys that count. The cost is linear in the number of keys.
    pub fn stats(&self, is_counted: impl Fn(&Key) -> bool) -> Stats<R> {
        let mut stats = Stats {
            ready: 0,
            running: Vec::new(),
            delayed: BTreeMap::new(),
            error_bytes: self.errors.bytes(),
            oldest_ready_since: None,
        };
        for (_, Entry { state, since, failure, .. }) in self.entries.iter().filter(|(key, _)| is_counted(key))
        {
            match (state, failure) {
                (State::Ready, _) => {
                    stats.ready += 1;
                    let oldest = stats.oldest_ready_since.unwrap_or(*since);
                    stats.oldest_ready_since = Some(oldest.min(*since));
                }
                (State::Running { .. }, _) => stats.running.push(*since),
                (State::Delayed(..), Some(failure)) => *stats.delayed.entry(failure.reason).or_default() += 1,
                (State::Delayed(..), None) => {}
            }
        }
        stats
    }

    /// Every key that has failed since it was last done.
    pub fn failing(&self) -> impl Iterator<Item = FailingKey<'_, R>> {
        self.entries.iter().filter_map(|(key, entry)| entry.failing(key))
    }

    /// A key's failures since it was last done, if any.
    pub fn failure_of(&self, key: &Key) -> Option<FailingKey<'_, R>> {
        let (key, entry) = self.entries.get_key_value(key)?;
        entry.failing(key)
    }

    /// Every key that has not failed since it was last done, and since when it is in its state.
    pub fn unfailed(&self) -> impl Iterator<Item = (&Key, Time)> {
        let unfailed = self.entries.iter().filter(|(_, entry)| entry.failure.is_none());
        unfailed.map(|(key, entry)| (key, entry.since))
    }
}

impl<R: Copy> Entry<R> {
    fn failing<'a>(&'a self, key: &'a Key) -> Option<FailingKey<'a, R>> {
        let Failure { attempts, since, reason, ref error, .. } = **self.failure.as_ref()?;
        let next_retry = match self.state {
            State::Delayed((due, _), _) => Some(due),
            State::Ready | State::Running { .. } => None,
        };
        Some(FailingKey { key, attempts, since, reason, error, next_retry })
    }
}

/// When a delay ends: rounded up to a millisecond, the resolution of timers, so that nothing is due
/// too early.
fn due(now: Time, delay: Duration) -> Time {
    let end = now.saturating_add(delay.max(Duration::from_millis(1)));
    Duration::from_millis(u64::try_from(end.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX))
}
