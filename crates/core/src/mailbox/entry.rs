//! The entries of the mailbox: keys and their state.

use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU64;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::object::Keyed;

use super::list::{Linked, Links, Slot, is_sparse, swap_remove};
use super::report::FailingKey;
use super::time::Time;

#[derive(Debug)]
pub(super) struct Entry<K, R> {
    pub(super) key: K,
    pub(super) state: State,
    /// Since when it has been in this state.
    pub(super) since: Time,
    /// When its trigger occurred, if that is measured.
    pub(super) trigger: Trigger,
    /// Its failures since it was last done.
    pub(super) failure: Option<Box<Failure<R>>>,
    links: Links,
}

/// The time of a trigger, or none, in the size of a time. Zero becomes one microsecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trigger(Option<NonZeroU64>);

impl Trigger {
    pub(super) fn at(time: Time) -> Self {
        Self(NonZeroU64::new(time.as_micros().max(1)))
    }

    pub(super) fn take(&mut self) -> Option<Time> {
        self.0.take().map(|micros| Time::from_micros(micros.get()))
    }

    /// Of two triggers, the first counts.
    pub(super) fn add(&mut self, other: Self) {
        self.0 = [self.0, other.0].into_iter().flatten().min();
    }
}

/// The state of a key. Each state has its own lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// In its flow.
    Ready,
    /// A worker processes it.
    Running {
        then: AfterRun,
        /// It was woken in the meantime. The worker may have been too early to see why, so a
        /// retry is not delayed.
        woken: bool,
    },
    /// Among the delays.
    Delayed { due: Time, kind: Delay },
}

/// Why a key is delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delay {
    /// By backoff. A wake-up or an addition ends it.
    Backoff,
    /// By the API server's `Retry-After`. Nothing ends it early.
    RetryAfter,
}

/// What happens to a running key when its work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterRun {
    /// What its completion says.
    AsCompleted,
    /// It was added in the meantime and runs again.
    RunAgain,
    /// It was dropped in the meantime and leaves.
    Leave,
}

/// The consecutive failures of a key.
#[derive(Debug)]
pub(super) struct Failure<R> {
    pub(super) attempts: u32,
    /// How many of the attempts lengthen the backoff.
    pub(super) backoffs: u32,
    pub(super) since: Time,
    pub(super) reason: R,
    pub(super) error: Arc<str>,
}

impl<K, R: Copy> Entry<K, R> {
    /// Its failures, if it has any.
    pub(super) fn failing(&self) -> Option<FailingKey<'_, K, R>> {
        let failure = self.failure.as_deref()?;
        Some(FailingKey {
            key: &self.key,
            attempts: failure.attempts,
            since: failure.since,
            reason: failure.reason,
            error: &failure.error,
            next_retry: match self.state {
                State::Delayed { due, .. } => Some(due),
                State::Ready | State::Running { .. } => None,
            },
        })
    }
}

impl<K, R> Linked for Entry<K, R> {
    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// All entries, found by key. No order depends on the hasher.
#[derive(Debug)]
pub(super) struct Store<K, R> {
    pub(super) entries: Vec<Entry<K, R>>,
    index: HashTable<Slot>,
    hasher: Keyed,
}

impl<K, R> Store<K, R> {
    pub(super) const fn new(hasher: Keyed) -> Self {
        Self { entries: Vec::new(), index: HashTable::new(), hasher }
    }
}

impl<K: Eq + Hash, R> Store<K, R> {
    pub(super) fn find(&self, key: &K) -> Option<Slot> {
        let is = |slot: &Slot| {
            #[cfg(test)]
            crate::object::steps::count();
            self[*slot].key == *key
        };
        self.index.find(self.hasher.hash_one(key), is).copied()
    }

    /// Adds a key that is not there and puts it on no list.
    pub(super) fn insert(&mut self, key: K, now: Time) -> Slot {
        let slot = self.entries.len() as Slot;
        let hash = self.hasher.hash_one(&key);
        self.entries.push(Entry {
            key,
            state: State::Ready,
            since: now,
            trigger: Trigger::default(),
            failure: None,
            links: Links::default(),
        });
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.index.insert_unique(hash, slot, |slot| hasher.hash_one(&entries[*slot as usize].key));
        slot
    }

    /// Removes a key that is on no list. Returns whether another entry moved to `slot`; then the
    /// caller has to update that entry's list.
    pub(super) fn remove(&mut self, slot: Slot) -> bool {
        let last = (self.entries.len() - 1) as Slot;
        let hash = self.hasher.hash_one(&self[slot].key);
        if let Ok(entry) = self.index.find_entry(hash, |found| *found == slot) {
            entry.remove();
        }
        let moves = slot != last;
        if moves {
            let hash = self.hasher.hash_one(&self[last].key);
            if let Some(found) = self.index.find_mut(hash, |found| *found == last) {
                *found = slot;
            }
        }
        swap_remove(&mut self.entries, slot);
        if is_sparse(self.index.len(), self.index.capacity()) {
            let (entries, hasher) = (&self.entries, &self.hasher);
            self.index.shrink_to(entries.len() * 2, |slot| hasher.hash_one(&entries[*slot as usize].key));
        }
        moves
    }
}

impl<K, R> std::ops::Index<Slot> for Store<K, R> {
    type Output = Entry<K, R>;

    fn index(&self, slot: Slot) -> &Self::Output {
        &self.entries[slot as usize]
    }
}

impl<K, R> std::ops::IndexMut<Slot> for Store<K, R> {
    fn index_mut(&mut self, slot: Slot) -> &mut Self::Output {
        &mut self.entries[slot as usize]
    }
}
