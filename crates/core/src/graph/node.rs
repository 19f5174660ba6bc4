//! Nodes and edges, and what many of them share: their types, namespaces and kinds. Nodes and edges
//! are small because a large cluster has a million of each.

use std::hash::Hash;
use std::sync::Arc;

use super::{DeletesProve, Epoch};
use crate::arena::{Arena, Id};
use crate::object::{
    DeletionState, Finalizers, GroupResource, Keyed, KeyedMap, Namespace, ResourceType, ResourceVersion, Uid,
};

pub(super) type NodeId = Id<Node>;
pub(super) type EdgeId = Id<Edge>;

/// Why a node is in the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// A monitor shows it.
    Observed,
    /// Some dependent names it and no monitor shows it: it has to be verified.
    Virtual,
    /// Proved absent, and still named by a dependent. The node remembers the absence for
    /// exactly as long as it matters.
    Absent,
    /// In a namespaced partition: a stub of a cluster-scoped owner, whose node lives in
    /// partition 0.
    Remote,
    /// An owner whose `apiVersion` and kind do not resolve.
    Unresolved,
    /// In partition 0: an owner of a namespaced kind, named by a cluster-scoped dependent.
    InvalidScope,
    /// In partition 0: a dependent that lives in another partition and is known by its links.
    Linked,
}

/// The role of a node among the nodes with its uid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// No other resource shows this object.
    Single,
    /// Several resources show this object; work is done on this node.
    Primary,
    /// Another view of an object whose primary is elsewhere.
    Alias,
}

/// The type of a node. Together with a uid, the key of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// A type that is or was served.
    Served(TypeId),
    /// The `apiVersion` and kind of a reference, which did not resolve.
    Unresolved(ReferenceTypeId),
}

/// An object, or a stub of one that a reference names.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) uid: Uid,
    pub(super) name: Box<str>,
    pub(super) version: Option<ResourceVersion>,
    pub(super) namespace: Option<NamespaceId>,
    pub(super) target: Target,
    /// Its position in the list of its type, if that is or was served.
    pub(super) position: u32,
    /// The first of its own references, in their written order.
    pub(super) first_owner: Option<EdgeId>,
    /// The first edge in the list of its dependents.
    pub(super) first_dependent: Option<EdgeId>,
    pub(super) generation: u32,
    pub(super) presence: Presence,
    pub(super) deletion: DeletionState,
    pub(super) finalizers: Finalizers,
    pub(super) role: Role,
    /// It has finalizers of others. This is no part of the state that is compared, because no
    /// decision depends on it.
    pub(super) held_by_others: bool,
    /// Seen since the current list began.
    pub(super) listed: bool,
    /// For a linked node: another reference of the dependent has the same uid as the linked one.
    pub(super) shares_uid: bool,
}

impl Node {
    /// Whether its kind does not resolve to a type.
    pub(super) const fn is_unresolved(&self) -> bool {
        matches!(self.target, Target::Unresolved(_))
    }

    pub(super) fn is_observed(&self) -> bool {
        self.presence == Presence::Observed
    }

    pub(super) fn is_deleting_dependents(&self) -> bool {
        self.deletion == DeletionState::DeletingDependents
    }

    /// Whether it was deleted, and only others have something left to do for it.
    pub(super) fn is_terminating(&self) -> bool {
        self.is_observed() && self.deletion == DeletionState::Terminating
    }
}

/// One owner reference. Its uid is that of the owner node. So is its name, unless the store
/// keeps another one in `own_names`.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub(super) dependent: NodeId,
    pub(super) owner: NodeId,
    pub(super) reference_type: ReferenceTypeId,
    /// The dependent's next reference.
    pub(super) next_owner: Option<EdgeId>,
    /// The owner's next dependent.
    pub(super) next_dependent: Option<EdgeId>,
    /// The owner's previous dependent.
    pub(super) previous_dependent: Option<EdgeId>,
    pub(super) blocking: bool,
    pub(super) controller: bool,
    /// The reference has another name than the owner node.
    pub(super) own_name: bool,
}

pub(super) type TypeId = Id<TypeEntry>;

/// What a partition knows about the monitor of a type.
#[derive(Clone, Debug)]
pub(super) struct MonitorState {
    pub(super) epoch: Epoch,
    pub(super) deletes_prove: DeletesProve,
    /// A list was completed in this epoch: the nodes of the type are all its objects.
    pub(super) synced: bool,
    pub(super) listing: Listing,
    /// Another server showed the existing nodes. Until the first list is complete, their
    /// versions cannot be compared with this server's.
    pub(super) is_foreign: bool,
}

/// Whether a list is in progress, and how recent it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Listing {
    /// No list: events are from the watch.
    None,
    /// A list that may be older than what was seen.
    OfUnknownVersion,
    /// A list that is at least as recent as everything that was seen of the type.
    UpToDate,
}

/// A resource type that has nodes, a monitor, or both.
#[derive(Clone, Debug)]
pub(super) struct TypeEntry {
    pub(super) resource: Arc<ResourceType>,
    pub(super) monitor: Option<MonitorState>,
    /// The nodes of the type. Each knows its position in this list.
    pub(super) nodes: Vec<NodeId>,
    /// The number of observed nodes.
    pub(super) observed: usize,
    /// Which kind of server gave the nodes their versions, by the latest monitor.
    pub(super) versions_of: Option<DeletesProve>,
    /// A list of the type was completed before.
    pub(super) was_listed: bool,
    /// Discovery no longer shows the type, and it is not proved to be gone.
    pub(super) unserved: bool,
}

impl TypeEntry {
    pub(super) fn is_synced(&self) -> bool {
        self.monitor.as_ref().is_some_and(|monitor| monitor.synced)
    }

    /// Whether a list is in progress.
    pub(super) fn is_listing(&self) -> bool {
        self.listing() != Listing::None
    }

    pub(super) fn listing(&self) -> Listing {
        self.monitor.as_ref().map_or(Listing::None, |monitor| monitor.listing)
    }
}

/// All types in use.
#[derive(Clone, Debug)]
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

    /// Frees a type that has neither nodes nor a monitor, so that CRDs which come and go leave
    /// nothing behind.
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

/// A value that many nodes or edges share, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Shared<K, V> {
    pub(super) key: K,
    pub(super) known: V,
    uses: u32,
}

/// Reference-counted values, each stored once and freed with its last use.
#[derive(Clone, Debug)]
pub(super) struct Interner<K, V> {
    entries: Arena<Shared<K, V>>,
    index: KeyedMap<K, Id<Shared<K, V>>>,
}

impl<K: Clone + Eq + Hash, V> Interner<K, V> {
    pub(super) fn new(hasher: Keyed) -> Self {
        Self { entries: Arena::default(), index: KeyedMap::with_hasher(hasher) }
    }

    /// Counts one more use of a value, which is added if it is new.
    pub(super) fn acquire(&mut self, key: &K, known: impl FnOnce() -> V) -> Id<Shared<K, V>> {
        if let Some(id) = self.find(key) {
            self.entries[id].uses += 1;
            return id;
        }
        let id = self.entries.insert(Shared { key: key.clone(), known: known(), uses: 1 });
        self.index.insert(key.clone(), id);
        id
    }

    /// Drops one use.
    pub(super) fn release(&mut self, id: Id<Shared<K, V>>) {
        let shared = &mut self.entries[id];
        shared.uses -= 1;
        if shared.uses == 0 {
            self.index.remove(&shared.key);
            self.entries.remove(id);
        }
    }

    pub(super) fn find(&self, key: &K) -> Option<Id<Shared<K, V>>> {
        self.index.get(key).copied()
    }

    pub(super) fn get(&self, id: Id<Shared<K, V>>) -> &Shared<K, V> {
        &self.entries[id]
    }

    /// Changes what is known of a value.
    pub(super) fn known_mut(&mut self, id: Id<Shared<K, V>>) -> &mut V {
        &mut self.entries[id].known
    }

    pub(super) fn ids(&self) -> Vec<Id<Shared<K, V>>> {
        self.entries.ids()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Id<Shared<K, V>>, &Shared<K, V>)> {
        self.entries.iter()
    }

    #[cfg(any(test, feature = "test-util"))]
    pub(super) fn check(&self, uses: impl Fn(Id<Shared<K, V>>) -> usize) {
        self.entries.check();
        assert_eq!(self.entries.len(), self.index.len());
        for (id, shared) in self.entries.iter() {
            assert_eq!(shared.uses as usize, uses(id), "miscounted uses");
            assert!(shared.uses > 0, "an unused value was kept");
        }
    }
}

pub(super) type NamespaceId = Id<Shared<Namespace, ()>>;

/// The `apiVersion` and kind of references, as written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReferenceType {
    pub(super) api_version: Arc<str>,
    pub(super) kind: Arc<str>,
}

/// The type to which a reference type resolves, while the catalog resolves it (and a little longer,
/// see `catalog.rs`).
pub(super) type Resolved = Option<Arc<ResourceType>>;

pub(super) type ReferenceTypeId = Id<Shared<ReferenceType, Resolved>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_objects_fit() {
        assert_eq!((size_of::<Option<Node>>(), size_of::<Option<Edge>>()), (96, 28));
    }
}
