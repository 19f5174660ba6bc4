//! An arena of numbered slots, for the nodes and edges of the graph.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// How many slots are freed at a time. This is less than a monitor's batch, whose objects are in
/// consecutive slots, often have one namespace, and are often deleted together.
const CHUNK: usize = 128;

/// The number of a slot. It takes four bytes, also as an `Option`, where a pointer takes eight.
/// It is typed, so that a node's number cannot be used as an edge's.
pub(crate) struct Id<T> {
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
    pub(crate) const fn number(self) -> u32 {
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

/// Reusable slots in chunks. The same calls always return the same numbers, which the
/// deterministic simulation relies on.
///
/// Values never move, so growth takes as long for a million slots as for a thousand. A chunk is
/// freed with the last of its values, so that memory follows the number of objects.
#[derive(Clone, Debug)]
pub(crate) struct Arena<T> {
    chunks: Vec<Vec<Option<T>>>,
    /// The chunks that have room.
    open: BTreeSet<usize>,
    used: usize,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), open: BTreeSet::new(), used: 0 }
    }
}

impl<T> Arena<T> {
    pub(crate) const fn len(&self) -> usize {
        self.used
    }

    /// The memory in use, free slots included.
    pub(crate) fn bytes(&self) -> usize {
        let slots: usize = self.chunks.iter().map(Vec::capacity).sum();
        slots * size_of::<Option<T>>() + self.chunks.capacity() * size_of::<Vec<Option<T>>>()
    }

    /// Fills the first chunk that has room, so that the last chunks drain.
    pub(crate) fn insert(&mut self, value: T) -> Id<T> {
        let index = self.open.first().copied().unwrap_or(self.chunks.len());
        if index == self.chunks.len() {
            self.chunks.push(Vec::new());
            self.open.insert(index);
        }
        let slots = &mut self.chunks[index];
        let gap = || slots.iter().position(Option::is_none).unwrap_or(CHUNK);
        let offset = if slots.len() < CHUNK { slots.len() } else { gap() };
        if offset == slots.len() {
            slots.push(Some(value));
        } else {
            slots[offset] = Some(value);
        }
        if slots.len() == CHUNK && slots.iter().all(Option::is_some) {
            self.open.remove(&index);
        }
        self.used += 1;
        Id::from_index(index * CHUNK + offset)
    }

    /// Frees a slot and returns its value.
    pub(crate) fn remove(&mut self, id: Id<T>) -> Option<T> {
        let index = id.index() / CHUNK;
        let slots = self.chunks.get_mut(index)?;
        let value = slots.get_mut(id.index() % CHUNK)?.take()?;
        if slots.iter().all(Option::is_none) {
            *slots = Vec::new();
        }
        self.open.insert(index);
        self.used -= 1;
        Some(value)
    }

    /// All values, by ascending number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        self.iter_from(0, usize::MAX)
    }

    /// The values in the given number of slots after this one, by ascending number.
    pub(crate) fn iter_from(&self, after: u32, slots: usize) -> impl Iterator<Item = (Id<T>, &T)> {
        let (start, end) = (after as usize, (after as usize).saturating_add(slots));
        let chunks = self.chunks.iter().enumerate().skip(start / CHUNK);
        let chunks = chunks.map_while(move |(index, slots)| {
            let first = index * CHUNK;
            let offset = move |number: usize| number.saturating_sub(first).min(slots.len());
            let used = slots[offset(start)..offset(end)].iter().enumerate().filter_map(move |(at, slot)| {
                Some((Id::from_index(first + offset(start) + at), slot.as_ref()?))
            });
            (first < end).then_some(used)
        });
        chunks.flatten()
    }

    /// Whether there are slots after this number.
    pub(crate) fn reaches_beyond(&self, number: u32) -> bool {
        let last = self.chunks.iter().enumerate().rfind(|(_, slots)| !slots.is_empty());
        last.is_some_and(|(index, slots)| index * CHUNK + slots.len() > number as usize)
    }

    /// The value in a slot that may have been freed in the meantime.
    pub(crate) fn get(&self, id: Id<T>) -> Option<&T> {
        self.chunks.get(id.index() / CHUNK)?.get(id.index() % CHUNK)?.as_ref()
    }

    /// The numbers in use, ascending, as a copy for callers that change the arena while they
    /// iterate.
    pub(crate) fn ids(&self) -> Vec<Id<T>> {
        self.iter().map(|(id, _)| id).collect()
    }

    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn check(&self) {
        for (index, slots) in self.chunks.iter().enumerate() {
            let used = slots.iter().flatten().count();
            assert_eq!(self.open.contains(&index), used < CHUNK);
            assert!(slots.is_empty() || used > 0, "an empty chunk was kept");
        }
        assert_eq!(self.iter().count(), self.used);
    }
}

/// Whether a collection should shrink to twice its length. Small ones keep their capacity, so
/// that elements which come and go do not allocate each time.
pub(crate) const fn is_sparse(length: usize, capacity: usize) -> bool {
    capacity > 64 && length < capacity / 4
}

impl<T> Index<Id<T>> for Arena<T> {
    type Output = T;

    fn index(&self, id: Id<T>) -> &T {
        match &self.chunks[id.index() / CHUNK][id.index() % CHUNK] {
            Some(value) => value,
            None => panic!("slot {id:?} is free: the graph is inconsistent"),
        }
    }
}

impl<T> IndexMut<Id<T>> for Arena<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        match &mut self.chunks[id.index() / CHUNK][id.index() % CHUNK] {
            Some(value) => value,
            None => panic!("slot {id:?} is free: the graph is inconsistent"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pages_agree_with_all_values_after_any_removals() {
        let mut arena = Arena::default();
        let ids: Vec<_> = (0..4 * CHUNK + 10).map(|number| arena.insert(number)).collect();
        for (index, &id) in ids.iter().enumerate() {
            if (CHUNK..2 * CHUNK).contains(&index) || index % 3 == 0 {
                arena.remove(id);
            }
        }
        arena.check();
        for step in [1, 700, CHUNK, 5000] {
            let (mut paged, mut after) = (Vec::new(), 0);
            loop {
                paged.extend(arena.iter_from(after, step).map(|(id, _)| id));
                after += u32::try_from(step).unwrap();
                if !arena.reaches_beyond(after) {
                    break;
                }
            }
            assert_eq!(paged, arena.ids(), "{step} at a time");
        }
    }

    proptest! {
        #[test]
        fn the_arena_agrees_with_a_map(steps in prop::collection::vec((any::<bool>(), 0..200_usize), 0..400)) {
            let mut arena = Arena::default();
            let mut model: BTreeMap<Id<usize>, usize> = BTreeMap::new();
            for (inserts, count) in steps {
                for turn in 0..count {
                    if inserts {
                        let id = arena.insert(turn);
                        prop_assert!(model.insert(id, turn).is_none(), "a slot was given twice");
                    } else if let Some((&id, &value)) = model.iter().nth(turn * 7 % model.len().max(1)) {
                        prop_assert_eq!(arena.remove(id), Some(value));
                        prop_assert_eq!(arena.remove(id), None, "freeing twice frees once");
                        model.remove(&id);
                    }
                }
            }
            arena.check();
            prop_assert_eq!(arena.iter().map(|(id, &value)| (id, value)).collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }
}
