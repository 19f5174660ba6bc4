//! What many nodes and edges share, stored once and freed with its last user.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{HashMap, HashSet, HashTable};

use crate::object::{GroupResource, HashSeed, Keyed, Namespace, ResourceType};

use super::arena::{Arena, Id};
use super::node::NodeId;
use super::{DeletesProve, Epoch};

/// A map with a hasher that nobody outside can compute. No decision depends on its order.
pub(super) type KeyedMap<K, V> = HashMap<K, V, Keyed>;
/// A set with such a hasher.
pub(super) type KeyedSet<K> = HashSet<K, Keyed>;

/// What a table of the graph is for: each has a hash of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Places = 1,
    Namespaces,
    ReferenceTypes,
    Types,
    Nodes,
    Edges,
}

impl Purpose {
    pub(super) fn hasher(self, seed: HashSeed) -> Keyed {
        seed.keyed(self as u64)
    }
}

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

/// Values stored once each, counted, and freed with their last use.
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
    /// Counts one more use of the value with this hash that `is` recognises,
    /// made by `make` if it is new.
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

    /// Counts one use less.
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

    /// The value with this hash that `is` recognises, if somebody uses it.
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

    /// For the parts of a value that do not identify it.
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
pub(super) type TypeId = Id<TypeEntry>;

/// What a partition knows of the monitor that watches a type.
#[derive(Debug)]
pub(super) struct MonitorState {
    pub(super) epoch: Epoch,
    pub(super) deletes_prove: DeletesProve,
    /// A list has ended in this epoch: the nodes of the type are what there is.
    pub(super) synced: bool,
    /// What is shown now.
    pub(super) listing: Listing,
    /// Another server showed the nodes that are there: until the first list has
    /// ended, their versions are no measure for its own.
    pub(super) is_foreign: bool,
}

/// Whether a list is being shown, and which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// None: what is shown are events.
    None,
    /// One that may turn out to be older than what was seen.
    OfUnknownVersion,
    /// One that is not older than anything that was seen of the type.
    UpToDate,
}

/// A resource type that has nodes, a monitor, or both.
#[derive(Debug)]
pub(super) struct TypeEntry {
    pub(super) resource: Arc<ResourceType>,
    pub(super) monitor: Option<MonitorState>,
    /// The nodes of the type; each knows its place.
    pub(super) nodes: Vec<NodeId>,
    /// How many of them are observed.
    pub(super) observed: usize,
    /// Who gave the nodes' versions: the worth of deletes of the latest monitor.
    pub(super) versions_of: Option<DeletesProve>,
    /// A list of the type has ended before.
    pub(super) was_listed: bool,
    /// Discovery does not show it any more, and it is not known to be gone.
    pub(super) unserved: bool,
}

impl TypeEntry {
    pub(super) fn is_synced(&self) -> bool {
        self.monitor.as_ref().is_some_and(|monitor| monitor.synced)
    }

    /// Whether what is shown now is a list, and no watch.
    pub(super) fn is_listing(&self) -> bool {
        self.listing() != Listing::None
    }

    /// Which list is shown now, if any.
    pub(super) fn listing(&self) -> Listing {
        self.monitor.as_ref().map_or(Listing::None, |monitor| monitor.listing)
    }
}

/// All types in use.
#[derive(Debug)]
pub(super) struct Types {
    pub(super) entries: Arena<TypeEntry>,
    index: KeyedMap<GroupResource, TypeId>,
}

impl Types {
    pub(super) fn new(hasher: Keyed) -> Self {
        Self { entries: Arena::default(), index: KeyedMap::with_hasher(hasher) }
    }

    pub(super) fn find(&self, group_resource: &GroupResource) -> Option<TypeId> {
        self.index.get(group_resource).copied()
    }

    pub(super) fn find_or_insert(&mut self, resource: &Arc<ResourceType>) -> TypeId {
        if let Some(id) = self.find(&resource.group_resource) {
            return id;
        }
        let entry = TypeEntry {
            resource: Arc::clone(resource),
            monitor: None,
            nodes: Vec::new(),
            observed: 0,
            versions_of: None,
            was_listed: false,
            unserved: false,
        };
        let id = self.entries.insert(entry);
        self.index.insert(resource.group_resource.clone(), id);
        id
    }

    /// Frees a type that has neither nodes nor a monitor: 200 CRDs that come and
    /// go leave nothing behind.
    pub(super) fn release(&mut self, id: TypeId) {
        let entry = &self.entries[id];
        if entry.nodes.is_empty() && entry.monitor.is_none() {
            self.index.remove(&entry.resource.group_resource);
            self.entries.remove(id);
        }
    }

    #[cfg(any(test, feature = "test-util"))]
    pub(super) fn check(&self) {
        self.entries.check();
        assert_eq!(self.entries.len(), self.index.len());
        for (_, entry) in self.entries.iter() {
            assert!(entry.monitor.is_some() || !entry.nodes.is_empty(), "an unused type was kept");
        }
    }
}
