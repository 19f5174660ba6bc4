//! An arena of numbered slots, for the nodes and edges of the graph and the keys of a queue.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// How many slots are allocated and freed at a time. This is less than a monitor's batch, whose
/// objects are in consecutive slots, often have one namespace, and are often deleted together.
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

    /// The chunk of the slot.
    const fn chunk(self) -> usize {
        self.index() / CHUNK
    }

    /// The offset in its chunk.
    const fn offset(self) -> usize {
        self.index() % CHUNK
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

#[derive(Debug)]
enum Entry<T> {
    Used(T),
    /// The next free slot, if any.
    Free(Option<Id<T>>),
}

/// Reusable slots in chunks. The same calls always return the same numbers, which the
/// deterministic simulation relies on.
///
/// Values never move, so growth takes as long for a million slots as for a thousand. A chunk is
/// freed with the last of its slots.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    /// A freed chunk is an empty vector.
    chunks: Vec<Vec<Entry<T>>>,
    /// The state of each chunk.
    states: Vec<ChunkState<T>>,
    /// The chunk that new values go to.
    current: usize,
    /// The other chunks that have free slots.
    with_free_slots: BTreeSet<usize>,
    used: usize,
}

#[derive(Debug)]
struct ChunkState<T> {
    used: usize,
    /// The head of the list of free slots.
    free: Option<Id<T>>,
}

impl<T> Default for ChunkState<T> {
    fn default() -> Self {
        Self { used: 0, free: None }
    }
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self { chunks: Vec::new(), states: Vec::new(), current: 0, with_free_slots: BTreeSet::new(), used: 0 }
    }
}

impl<T> Arena<T> {
    /// The size of a slot.
    pub(crate) const SLOT: usize = size_of::<Entry<T>>();

    pub(crate) const fn len(&self) -> usize {
        self.used
    }

    /// The memory in use, free slots included.
    pub(crate) fn bytes(&self) -> usize {
        let slots: usize = self.chunks.iter().map(|chunk| chunk.capacity() * Self::SLOT).sum();
        let chunks = self.chunks.capacity() * size_of::<Vec<Entry<T>>>();
        slots + chunks + self.states.capacity() * size_of::<ChunkState<T>>()
    }

    pub(crate) fn insert(&mut self, value: T) -> Id<T> {
        if self.states.get(self.current).is_none_or(|state| state.used == CHUNK) {
            self.select_next_chunk();
        }
        self.used += 1;
        let (chunk, state) = (&mut self.chunks[self.current], &mut self.states[self.current]);
        state.used += 1;
        if let Some(id) = state.free
            && let Entry::Free(next) = chunk[id.offset()]
        {
            state.free = next;
            chunk[id.offset()] = Entry::Used(value);
            return id;
        }
        let id = Id::from_index(self.current * CHUNK + chunk.len());
        // The first chunk grows as needed, because many arenas have a few slots only.
        if chunk.is_empty() && self.current > 0 {
            chunk.reserve_exact(CHUNK);
        }
        chunk.push(Entry::Used(value));
        id
    }

    /// Selects the first chunk that has a free slot, so that the last chunks drain.
    fn select_next_chunk(&mut self) {
        self.current = self.with_free_slots.pop_first().unwrap_or(self.chunks.len());
        if self.current == self.chunks.len() {
            self.chunks.push(Vec::new());
            self.states.push(ChunkState::default());
        }
    }

    /// Frees a slot and returns its value.
    pub(crate) fn remove(&mut self, id: Id<T>) -> Option<T> {
        let index = id.chunk();
        let slot = self.chunks.get_mut(index)?.get_mut(id.offset())?;
        let state = &mut self.states[index];
        match std::mem::replace(slot, Entry::Free(state.free)) {
            Entry::Used(value) => {
                state.free = Some(id);
                state.used -= 1;
                self.used -= 1;
                if index != self.current {
                    self.with_free_slots.insert(index);
                    if state.used == 0 {
                        *state = ChunkState::default();
                        self.chunks[index] = Vec::new();
                    }
                }
                Some(value)
            }
            free @ Entry::Free(_) => {
                *slot = free;
                None
            }
        }
    }

    /// All values, by ascending number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Id<T>, &T)> {
        self.chunks.iter().enumerate().flat_map(|(index, chunk)| used(index * CHUNK, chunk))
    }

    /// All values, by ascending number, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (Id<T>, &mut T)> {
        self.chunks.iter_mut().enumerate().flat_map(|(index, chunk)| {
            chunk.iter_mut().enumerate().filter_map(move |(offset, entry)| match entry {
                Entry::Used(value) => Some((Id::from_index(index * CHUNK + offset), value)),
                Entry::Free(_) => None,
            })
        })
    }

    /// The values in the given number of slots after this one, by ascending number.
    pub(crate) fn iter_from(&self, after: u32, slots: usize) -> impl Iterator<Item = (Id<T>, &T)> {
        let (start, end) = (after as usize, (after as usize).saturating_add(slots));
        let chunks = self.chunks.iter().enumerate().skip(start / CHUNK);
        chunks
            .map_while(move |(index, chunk)| {
                let first = index * CHUNK;
                let offset = |number: usize| number.saturating_sub(first).min(chunk.len());
                (first < end).then(|| used(first.max(start), &chunk[offset(start)..offset(end)]))
            })
            .flatten()
    }

    /// Whether there are slots after this number.
    pub(crate) fn reaches_beyond(&self, number: u32) -> bool {
        let last = self.chunks.iter().enumerate().rfind(|(_, chunk)| !chunk.is_empty());
        last.is_some_and(|(index, chunk)| index * CHUNK + chunk.len() > number as usize)
    }

    /// The value in a slot that may have been freed in the meantime.
    pub(crate) fn get(&self, id: Id<T>) -> Option<&T> {
        match self.chunks.get(id.chunk())?.get(id.offset())? {
            Entry::Used(value) => Some(value),
            Entry::Free(_) => None,
        }
    }

    /// The numbers in use, ascending, as a copy for callers that change the arena while they
    /// iterate.
    pub(crate) fn ids(&self) -> Vec<Id<T>> {
        self.iter().map(|(id, _)| id).collect()
    }

    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn check(&self) {
        assert_eq!(self.chunks.len(), self.states.len());
        for (index, (chunk, state)) in self.chunks.iter().zip(&self.states).enumerate() {
            let mut free = 0;
            let mut next = state.free;
            while let Some(id) = next {
                free += 1;
                assert!(free <= chunk.len(), "the free list runs in a circle");
                assert_eq!(id.chunk(), index, "a free list leads to another chunk");
                next = match &chunk[id.offset()] {
                    Entry::Free(next) => *next,
                    Entry::Used(_) => panic!("a used slot is on the free list"),
                };
            }
            assert_eq!(state.used + free, chunk.len());
            assert_eq!(used(0, chunk).count(), state.used);
            let is_current = index == self.current;
            assert_eq!(
                self.with_free_slots.contains(&index),
                state.used < CHUNK && !is_current,
                "free slots are lost"
            );
            assert!(state.used > 0 || is_current || chunk.capacity() == 0, "an empty chunk was kept");
        }
        assert_eq!(self.states.iter().map(|state| state.used).sum::<usize>(), self.used);
    }
}

/// The values in consecutive slots.
fn used<T>(first: usize, entries: &[Entry<T>]) -> impl Iterator<Item = (Id<T>, &T)> {
    entries.iter().enumerate().filter_map(move |(index, entry)| match entry {
        Entry::Used(value) => Some((Id::from_index(first + index), value)),
        Entry::Free(_) => None,
    })
}

/// Whether a collection should shrink to twice its length. Small ones keep their capacity, so
/// that elements which come and go do not allocate each time.
pub(crate) const fn is_sparse(length: usize, capacity: usize) -> bool {
    capacity > 64 && length < capacity / 4
}

impl<T> Index<Id<T>> for Arena<T> {
    type Output = T;

    fn index(&self, id: Id<T>) -> &T {
        match &self.chunks[id.chunk()][id.offset()] {
            Entry::Used(value) => value,
            Entry::Free(_) => panic!("slot {id:?} is free: the graph is inconsistent"),
        }
    }
}

impl<T> IndexMut<Id<T>> for Arena<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        match &mut self.chunks[id.chunk()][id.offset()] {
            Entry::Used(value) => value,
            Entry::Free(_) => panic!("slot {id:?} is free: the graph is inconsistent"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

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

    /// An arena with these many slots, filled one after another.
    fn filled(count: usize) -> (Arena<usize>, Vec<Id<usize>>) {
        let mut arena = Arena::default();
        let ids = (0..count).map(|number| arena.insert(number)).collect();
        arena.check();
        (arena, ids)
    }

    #[test]
    fn emptied_chunks_are_freed() {
        let (mut arena, ids) = filled(10 * CHUNK);
        let slots = |arena: &Arena<usize>| arena.chunks.iter().map(Vec::capacity).sum::<usize>();
        assert_eq!(slots(&arena), 10 * CHUNK, "no slot is there for nothing");
        let full = arena.bytes();
        // Half of them in a row: whole chunks; then every other one: none.
        for &id in &ids[..5 * CHUNK] {
            arena.remove(id);
        }
        arena.check();
        assert_eq!(slots(&arena), 5 * CHUNK);
        assert_eq!(arena.bytes(), full - 5 * CHUNK * Arena::<usize>::SLOT);
        for id in ids[5 * CHUNK..].iter().step_by(2) {
            arena.remove(*id);
        }
        arena.check();
        assert_eq!(slots(&arena), 5 * CHUNK);
        assert_eq!(arena.get(ids[0]), None, "its chunk is gone");
        assert_eq!(arena.remove(ids[0]), None);
        assert_eq!(arena[ids[9 * CHUNK + 1]], 9 * CHUNK + 1);
        // New values fill the free slots, beginning with the first chunk.
        let new: Vec<Id<usize>> = (0..CHUNK).map(|_| arena.insert(0)).collect();
        assert!(new.iter().filter(|id| id.chunk() == 0).count() >= CHUNK / 2, "{new:?}");
        arena.check();
    }

    #[test]
    fn pages_agree_with_all_values_after_any_removals() {
        let (mut arena, ids) = filled(4 * CHUNK + 10);
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
        for id in arena.ids() {
            arena.remove(id);
        }
        assert_eq!((arena.len(), arena.ids()), (0, Vec::new()));
        arena.check();
    }

    #[test]
    fn a_shrunk_collection_is_not_shrunk_again_at_once() {
        assert!(is_sparse(24, 100) && !is_sparse(24, 48) && !is_sparse(0, 64));
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
                        model.remove(&id);
                    }
                }
            }
            arena.check();
            prop_assert_eq!(arena.iter().map(|(id, &value)| (id, value)).collect::<Vec<_>>(), model.into_iter().collect::<Vec<_>>());
        }
    }
}
