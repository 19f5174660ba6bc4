//! The keys of the mailbox and their state, and the lists that they form.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU64;
use std::sync::Arc;

use hashbrown::HashTable;

use super::report::{FailingKey, Time};
use crate::arena::{Arena, Id, is_sparse};
use crate::object::{Key, Keyed, KeyedMap, Namespace};

/// When a delay ends, and a number that keeps those that end at the same time in their order.
pub(super) type DelayPlace = (Time, u64);

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
    links: Links<Self>,
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
    /// Among the delays, in this place.
    Delayed { place: DelayPlace, kind: Delay },
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
                State::Delayed { place: (due, _), .. } => Some(due),
                State::Ready | State::Running { .. } => None,
            },
        })
    }
}

impl<K, R> Linked for Entry<K, R> {
    fn links(&mut self) -> &mut Links<Self> {
        &mut self.links
    }
}

/// All entries, found by key. No order depends on the hasher.
#[derive(Debug)]
pub(super) struct Store<K, R> {
    pub(super) entries: Arena<Entry<K, R>>,
    index: HashTable<Id<Entry<K, R>>>,
    hasher: Keyed,
}

impl<K, R> Store<K, R> {
    pub(super) fn new(hasher: Keyed) -> Self {
        Self { entries: Arena::default(), index: HashTable::new(), hasher }
    }
}

impl<K: Eq + Hash, R> Store<K, R> {
    pub(super) fn find(&self, key: &K) -> Option<Id<Entry<K, R>>> {
        let is = |id: &Id<Entry<K, R>>| {
            #[cfg(test)]
            crate::object::steps::count();
            self.entries[*id].key == *key
        };
        self.index.find(self.hasher.hash_one(key), is).copied()
    }

    /// Adds a key that is not there and puts it on no list.
    pub(super) fn insert(&mut self, key: K, now: Time) -> Id<Entry<K, R>> {
        let hash = self.hasher.hash_one(&key);
        let id = self.entries.insert(Entry {
            key,
            state: State::Ready,
            since: now,
            trigger: Trigger::default(),
            failure: None,
            links: Links::default(),
        });
        let Self { entries, index, hasher } = self;
        index.insert_unique(hash, id, |&id| hasher.hash_one(&entries[id].key));
        id
    }

    /// Removes a key that is on no list.
    pub(super) fn remove(&mut self, id: Id<Entry<K, R>>) {
        let Self { entries, index, hasher } = self;
        let hash = hasher.hash_one(&entries[id].key);
        if let Ok(found) = index.find_entry(hash, |found| *found == id) {
            found.remove();
        }
        entries.remove(id);
        if is_sparse(index.len(), index.capacity()) {
            index.shrink_to(index.len() * 2, |&id| hasher.hash_one(&entries[id].key));
        }
    }
}

/// The neighbours of a node on its list.
#[derive(Debug)]
pub(super) struct Links<T> {
    previous: Option<Id<T>>,
    next: Option<Id<T>>,
}

impl<T> Default for Links<T> {
    fn default() -> Self {
        Self { previous: None, next: None }
    }
}

/// A node that can be on a list.
pub(super) trait Linked: Sized {
    fn links(&mut self) -> &mut Links<Self>;
}

/// The ends of a doubly linked list. The nodes know their neighbours. Each node is on at most one
/// list, and is removed from any position in constant time.
#[derive(Debug)]
pub(super) struct List<T> {
    first: Option<Id<T>>,
    last: Option<Id<T>>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self { first: None, last: None }
    }
}

impl<T: Linked> List<T> {
    pub(super) fn first(&self) -> Option<Id<T>> {
        self.first
    }

    pub(super) fn push_back(&mut self, nodes: &mut Arena<T>, id: Id<T>) {
        *nodes[id].links() = Links { previous: self.last, next: None };
        match self.last.replace(id) {
            Some(last) => nodes[last].links().next = Some(id),
            None => self.first = Some(id),
        }
    }

    /// Removes a node, which must be on this list.
    pub(super) fn remove(&mut self, nodes: &mut Arena<T>, id: Id<T>) {
        let Links { previous, next } = std::mem::take(nodes[id].links());
        match previous {
            Some(previous) => nodes[previous].links().next = next,
            None => self.first = next,
        }
        match next {
            Some(next) => nodes[next].links().previous = previous,
            None => self.last = previous,
        }
    }
}

/// The delayed entries, ordered by the end of their delay.
#[derive(Debug)]
pub(super) struct Delays<T> {
    places: BTreeMap<DelayPlace, Id<T>>,
    /// The number of the last delay.
    last: u64,
}

impl<T> Default for Delays<T> {
    fn default() -> Self {
        Self { places: BTreeMap::new(), last: 0 }
    }
}

impl<T> Delays<T> {
    pub(super) fn insert(&mut self, id: Id<T>, due: Time) -> DelayPlace {
        self.last += 1;
        self.places.insert((due, self.last), id);
        (due, self.last)
    }

    /// Removes an entry before it is due.
    pub(super) fn remove(&mut self, place: DelayPlace) {
        self.places.remove(&place);
    }

    /// Removes an entry that is due by `now`, earliest first.
    pub(super) fn pop(&mut self, now: Time) -> Option<Id<T>> {
        self.places.first_entry().filter(|first| first.key().0 <= now).map(|first| first.remove())
    }

    /// When the first entry is due.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.places.first_key_value().map(|((due, _), _)| *due)
    }
}

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
struct Flow<T> {
    namespace: Option<Namespace>,
    keys: List<T>,
    links: Links<Self>,
}

impl<T> Linked for Flow<T> {
    fn links(&mut self) -> &mut Links<Self> {
        &mut self.links
    }
}

/// All flows that have ready keys. A flow exists from its first key to its last.
#[derive(Debug)]
pub(super) struct Flows<K, R> {
    flows: Arena<Flow<Entry<K, R>>>,
    index: KeyedMap<Option<Namespace>, Id<Flow<Entry<K, R>>>>,
    /// The order in which flows are served.
    turns: List<Flow<Entry<K, R>>>,
    ready: usize,
}

impl<K: FlowKey, R> Flows<K, R> {
    pub(super) fn new(hasher: Keyed) -> Self {
        Self {
            flows: Arena::default(),
            index: KeyedMap::with_hasher(hasher),
            turns: List::default(),
            ready: 0,
        }
    }

    /// Adds an entry to the end of its flow. A new flow is served after all others.
    pub(super) fn push(&mut self, entries: &mut Arena<Entry<K, R>>, id: Id<Entry<K, R>>) {
        let Self { flows, index, turns, ready } = self;
        let namespace = entries[id].key.flow().cloned();
        let flow = *index.entry(namespace).or_insert_with_key(|namespace| {
            let namespace = namespace.clone();
            let flow = flows.insert(Flow { namespace, keys: List::default(), links: Links::default() });
            turns.push_back(flows, flow);
            flow
        });
        flows[flow].keys.push_back(entries, id);
        *ready += 1;
    }

    /// Removes the first entry of the next flow.
    pub(super) fn pop(&mut self, entries: &mut Arena<Entry<K, R>>) -> Option<Id<Entry<K, R>>> {
        let flow = self.turns.first()?;
        self.turns.remove(&mut self.flows, flow);
        self.turns.push_back(&mut self.flows, flow);
        let id = self.flows[flow].keys.first()?;
        self.take(entries, flow, id);
        Some(id)
    }

    /// Removes an entry from any position in its flow.
    pub(super) fn remove(&mut self, entries: &mut Arena<Entry<K, R>>, id: Id<Entry<K, R>>) {
        if let Some(&flow) = self.index.get(&entries[id].key.flow().cloned()) {
            self.take(entries, flow, id);
        }
    }

    fn take(&mut self, entries: &mut Arena<Entry<K, R>>, flow: Id<Flow<Entry<K, R>>>, id: Id<Entry<K, R>>) {
        let keys = &mut self.flows[flow].keys;
        keys.remove(entries, id);
        self.ready -= 1;
        if keys.first().is_none() {
            self.turns.remove(&mut self.flows, flow);
            if let Some(flow) = self.flows.remove(flow) {
                self.index.remove(&flow.namespace);
            }
            if is_sparse(self.index.len(), self.index.capacity()) {
                self.index.shrink_to(self.index.len() * 2);
            }
        }
    }
}

impl<K, R> Flows<K, R> {
    pub(super) const fn ready(&self) -> usize {
        self.ready
    }

    pub(super) const fn len(&self) -> usize {
        self.flows.len()
    }

    /// Since when the oldest ready entry is ready.
    pub(super) fn oldest(&self, entries: &Arena<Entry<K, R>>) -> Option<Time> {
        let firsts = self.flows.iter().filter_map(|(_, flow)| flow.keys.first);
        firsts.map(|id| entries[id].since).min()
    }
}
