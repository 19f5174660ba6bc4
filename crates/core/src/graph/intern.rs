//! Interned values: stored once for many nodes and edges, and freed with the last use.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::object::{Keyed, Namespace, ResourceType};

use super::arena::{Arena, Id};

/// A value that an [`Interner`] can find again.
pub(super) trait Interned {
    /// The hash of the part that identifies it.
    fn hash_key(&self, hasher: Keyed) -> u64;
}

/// A shared value and the number of its users.
#[derive(Debug)]
pub(super) struct Shared<T> {
    value: T,
    uses: u32,
}

/// Reference-counted values, each stored once.
#[derive(Debug)]
pub(super) struct Interner<T> {
    entries: Arena<Shared<T>>,
    index: HashTable<Id<Shared<T>>>,
    hasher: Keyed,
}

impl<T> Interner<T> {
    pub(super) fn new(hasher: Keyed) -> Self {
        Self { entries: Arena::default(), index: HashTable::new(), hasher }
    }

    pub(super) const fn hasher(&self) -> Keyed {
        self.hasher
    }
}

impl<T: Interned> Interner<T> {
    /// Counts one more use of the value with this hash that satisfies `is`, created by `make` if
    /// there is none.
    pub(super) fn acquire(
        &mut self,
        hash: u64,
        is: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> Id<Shared<T>> {
        if let Some(id) = self.find(hash, is) {
            self.entries[id].uses += 1;
            return id;
        }
        let Self { entries, index, hasher } = self;
        let id = entries.insert(Shared { value: make(), uses: 1 });
        index.insert_unique(hash, id, |&id| entries[id].value.hash_key(*hasher));
        id
    }

    /// Drops one use.
    pub(super) fn release(&mut self, id: Id<Shared<T>>) {
        let shared = &mut self.entries[id];
        shared.uses -= 1;
        if shared.uses == 0 {
            let hash = shared.value.hash_key(self.hasher);
            if let Ok(entry) = self.index.find_entry(hash, |&other| other == id) {
                entry.remove();
            }
            self.entries.remove(id);
        }
    }

    /// The value with this hash that satisfies `is`.
    pub(super) fn find(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<Id<Shared<T>>> {
        let is = |&id: &Id<Shared<T>>| {
            #[cfg(test)]
            crate::object::steps::count();
            is(&self.entries[id].value)
        };
        self.index.find(hash, is).copied()
    }

    pub(super) fn get(&self, id: Id<Shared<T>>) -> &T {
        &self.entries[id].value
    }

    /// The caller may change only what does not identify the value.
    pub(super) fn get_mut(&mut self, id: Id<Shared<T>>) -> &mut T {
        &mut self.entries[id].value
    }

    pub(super) fn ids(&self) -> Vec<Id<Shared<T>>> {
        self.entries.ids()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Id<Shared<T>>, &T)> {
        self.entries.iter().map(|(id, shared)| (id, &shared.value))
    }

    #[cfg(any(test, feature = "test-util"))]
    pub(super) fn check(&self, uses: impl Fn(Id<Shared<T>>) -> usize) {
        self.entries.check();
        assert_eq!(self.entries.len(), self.index.len());
        for (id, shared) in self.entries.iter() {
            assert_eq!(shared.uses as usize, uses(id), "miscounted uses");
            assert!(shared.uses > 0, "an unused value was kept");
        }
    }
}

impl Interned for Namespace {
    fn hash_key(&self, hasher: Keyed) -> u64 {
        hasher.hash_one(self.as_str())
    }
}

/// The `apiVersion` and `kind` of references, as written, and what they resolve to.
#[derive(Debug)]
pub(super) struct ReferenceType {
    pub(super) api_version: Arc<str>,
    pub(super) kind: Arc<str>,
    /// The type, while the catalog resolves it (and a little longer, see `catalog.rs`).
    pub(super) resolved: Option<Arc<ResourceType>>,
}

impl ReferenceType {
    pub(super) fn hash_parts(hasher: Keyed, api_version: &str, kind: &str) -> u64 {
        hasher.hash_one((api_version, kind))
    }
}

impl Interned for ReferenceType {
    fn hash_key(&self, hasher: Keyed) -> u64 {
        Self::hash_parts(hasher, &self.api_version, &self.kind)
    }
}

pub(super) type NamespaceId = Id<Shared<Namespace>>;
pub(super) type ReferenceTypeId = Id<Shared<ReferenceType>>;
