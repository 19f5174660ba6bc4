//! The numbers of slots.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;

/// How many slots are allocated and freed at a time. This is less than a monitor's batch, whose
/// objects are in consecutive slots, often have one namespace, and are often deleted together.
pub(super) const CHUNK: usize = 128;

/// The number of a slot. It takes four bytes, also as an `Option`, where a pointer takes eight.
/// It is typed, so that a node's number cannot be used as an edge's.
pub(in crate::graph) struct Id<T> {
    raw: NonZeroU32,
    marker: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    pub(in crate::graph) fn from_index(index: usize) -> Self {
        #[expect(clippy::expect_used, reason = "four billion objects do not fit into memory either")]
        let raw = u32::try_from(index + 1).ok().and_then(NonZeroU32::new).expect("fewer than 2^32 slots");
        Self { raw, marker: PhantomData }
    }

    const fn index(self) -> usize {
        self.raw.get() as usize - 1
    }

    /// The chunk of the slot.
    pub(in crate::graph) const fn chunk(self) -> usize {
        self.index() / CHUNK
    }

    /// The offset in its chunk.
    pub(super) const fn offset(self) -> usize {
        self.index() % CHUNK
    }

    /// The number, for cursors.
    pub(in crate::graph) const fn number(self) -> u32 {
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
