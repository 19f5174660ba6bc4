//! Numbered slots for nodes and edges.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// The number of a slot. Four bytes, also as an `Option`, where a pointer takes
/// eight; typed, so that a node's number is never taken for an edge's.
pub(super) struct Id<T> {
    raw: NonZeroU32,
    marker: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    fn from_index(index: usize) -> Self {
        #[expect(clippy::expect_used, reason = "four billion objects do not fit into memory either")]
        let raw = u32::try_from(index + 1).ok().and_then(NonZeroU32::new).expect("fewer than 2^32 slots");
        Self { raw, marker: PhantomData }
    }

    const fn index(self) -> usize {
        self.raw.get() as usize - 1
    }

    /// The number, for cursors.
    pub(super) const fn number(self) -> u32 {
        self.raw.get()
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.raw.cmp(&other.raw)
    }
}

impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw.hash(state);
    }
}

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.raw)
    }
}

#[derive(Debug)]
enum Entry<T> {
    Used(T),
    /// The next free slot, if any.
    Free(Option<Id<T>>),
}

/// A vector whose slots are reused, last freed first: the same calls always give
/// the same numbers, which the deterministic simulation relies on.
#[derive(Debug)]
pub(super) struct Arena<T> {
    entries: Vec<Entry<T>>,
    free: Option<Id<T>>,
    used: usize,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), free: None, used: 0 }
    }
}

impl<T> Arena<T> {
    /// The size of a slot.
    pub(super) const SLOT: usize = size_of::<Entry<T>>();

    pub(super) const fn len(&self) -> usize {
        self.used
    }

    /// What the slots take up, used or not.
    pub(super) const fn bytes(&self) -> usize {
        self.entries.capacity() * Self::SLOT
    }

    pub(super) fn insert(&mut self, value: T) -> Id<T> {
        self.used += 1;
        if let Some(id) = self.free {
            let slot = &mut self.entries[id.index()];
            if let Entry::Free(next) = *slot {
                self.free = next;
                *slot = Entry::Used(value);
                return id;
            }
        }
        let id = Id::from_index(self.entries.len());
        grow_by_an_eighth(&mut self.entries);
        self.entries.push(Entry::Used(value));
        id
    }

    /// Frees a slot and returns what was in it.
    pub(super) fn remove(&mut self, id: Id<T>) -> Option<T> {
        let slot = self.entries.get_mut(id.index())?;
        match std::mem::replace(slot, Entry::Free(self.free)) {
            Entry::Used(value) => {
                self.free = Some(id);
                self.used -= 1;
                Some(value)
            }
            free @ Entry::Free(_) => {
                *slot = free;
                None
            }
        }
    }

    /// Everything, by ascending number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        self.entries.iter().enumerate().filter_map(|(index, entry)| match entry {
            Entry::Used(value) => Some((Id::from_index(index), value)),
            Entry::Free(_) => None,
        })
    }

    /// What is in so many slots after this number, by ascending number.
    pub(super) fn iter_from(&self, after: u32, slots: usize) -> impl Iterator<Item = (Id<T>, &T)> {
        let (start, end) = (after as usize, (after as usize).saturating_add(slots));
        let entries = self.entries.get(start..end.min(self.entries.len())).unwrap_or_default();
        entries.iter().enumerate().filter_map(move |(index, entry)| match entry {
            Entry::Used(value) => Some((Id::from_index(start + index), value)),
            Entry::Free(_) => None,
        })
    }

    /// Whether there are slots after this number.
    pub(super) const fn reaches_beyond(&self, number: u32) -> bool {
        self.entries.len() > number as usize
    }

    /// What is in a slot that may have been freed meanwhile.
    pub(super) fn get(&self, id: Id<T>) -> Option<&T> {
        match self.entries.get(id.index())? {
            Entry::Used(value) => Some(value),
            Entry::Free(_) => None,
        }
    }

    /// The numbers in use, ascending. Copied out: for callers that change things on the way.
    pub(super) fn ids(&self) -> Vec<Id<T>> {
        self.iter().map(|(id, _)| id).collect()
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut free = 0;
        let mut next = self.free;
        while let Some(id) = next {
            free += 1;
            assert!(free <= self.entries.len(), "the free list runs in a circle");
            next = match &self.entries[id.index()] {
                Entry::Free(next) => *next,
                Entry::Used(_) => panic!("a used slot is on the free list"),
            };
        }
        assert_eq!(self.used + free, self.entries.len());
        assert_eq!(self.iter().count(), self.used);
    }
}

/// Makes room for one more. A vector that doubles its room leaves up to half of it
/// empty, which with a million nodes is as much as everything else in the graph.
pub(super) fn grow_by_an_eighth<T>(entries: &mut Vec<T>) {
    if entries.len() == entries.capacity() {
        entries.reserve_exact((entries.len() / 8).max(16));
    }
}

impl<T> Index<Id<T>> for Arena<T> {
    type Output = T;

    fn index(&self, id: Id<T>) -> &T {
        match &self.entries[id.index()] {
            Entry::Used(value) => value,
            Entry::Free(_) => panic!("slot {id:?} is free: the graph is inconsistent"),
        }
    }
}

impl<T> IndexMut<Id<T>> for Arena<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        match &mut self.entries[id.index()] {
            Entry::Used(value) => value,
            Entry::Free(_) => panic!("slot {id:?} is free: the graph is inconsistent"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_room_stands_empty() {
        let mut arena = Arena::default();
        for number in 0..100_000_u32 {
            arena.insert(number);
        }
        assert!(arena.bytes() <= 100_000 * Arena::<u32>::SLOT * 9 / 8, "{} bytes", arena.bytes());
    }

    #[test]
    fn freed_slots_are_reused_and_numbers_stay() {
        let mut arena = Arena::default();
        let a = arena.insert("a");
        let b = arena.insert("b");
        assert_eq!(arena.remove(a), Some("a"));
        assert_eq!(arena.remove(a), None, "freeing twice frees once");
        assert_eq!(arena[b], "b");
        assert_eq!(arena.insert("c"), a);
        assert_eq!(arena.ids(), vec![a, b]);
        assert_eq!(arena.len(), 2);
        arena.check();
    }
}
