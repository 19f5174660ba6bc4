//! The data of a partition: nodes here, references in `edges`. The store keeps the structure
//! consistent and knows no rule of garbage collection.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::HashTable;
use smallvec::SmallVec;

use super::DeletesProve;
use super::node::{
    Edge, EdgeId, Interner, MonitorState, NamespaceId, Node, NodeId, Presence, ReferenceType, Resolved, Role,
    Target, TypeEntry, Types,
};
use crate::arena::{Arena, is_sparse};
use crate::object::{
    DeletionState, Finalizers, Identity, Key, Keyed, KeyedMap, KeyedSet, Namespace, ResourceType,
    ResourceVersion, Uid,
};

/// A few nodes; rarely more than one.
pub(super) type Few = SmallVec<[NodeId; 2]>;

/// The data of a partition.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) nodes: Arena<Node>,
    pub(super) edges: Arena<Edge>,
    /// Finds nodes by [`index_hash`].
    index: HashTable<NodeId>,
    /// The hasher of all tables of the partition.
    pub(super) hasher: Keyed,
    /// The length of all names.
    name_bytes: usize,
    /// Names of references that differ from their owner node's. Rare.
    pub(super) own_names: KeyedMap<EdgeId, Box<str>>,
    pub(super) namespaces: Interner<Namespace, ()>,
    pub(super) reference_types: Interner<ReferenceType, Resolved>,
    pub(super) types: Types,
    pub(super) virtual_nodes: usize,
    /// The nodes that were proved absent. Few, and found without a search.
    pub(super) absent: KeyedSet<NodeId>,
    /// Virtual nodes that were proved absent or seen to be deleted before watches broke.
    pub(super) formerly_absent: KeyedSet<NodeId>,
    /// What was above nodes that are gone and have dependents; `None` if not all of it is known.
    pub(super) above: KeyedMap<NodeId, Option<Vec<Uid>>>,
    /// The number of edges to owners whose kind does not resolve.
    pub(super) unresolved_edges: usize,
    /// The last generation that was given out. It is shared by all nodes, so that a node which
    /// was freed and created again never gets a generation that some verdict still carries.
    clock: u32,
}

impl Store {
    pub(super) fn new(hasher: Keyed) -> Self {
        Self {
            nodes: Arena::default(),
            edges: Arena::default(),
            index: HashTable::new(),
            hasher,
            name_bytes: 0,
            own_names: KeyedMap::with_hasher(hasher),
            namespaces: Interner::new(hasher),
            reference_types: Interner::new(hasher),
            types: Types::new(hasher),
            virtual_nodes: 0,
            absent: KeyedSet::with_hasher(hasher),
            formerly_absent: KeyedSet::with_hasher(hasher),
            above: KeyedMap::with_hasher(hasher),
            unresolved_edges: 0,
            clock: 0,
        }
    }

    pub(super) fn create(
        &mut self,
        uid: &Uid,
        target: Target,
        namespace: Option<&Namespace>,
        name: &str,
        presence: Presence,
    ) -> NodeId {
        let node = Node {
            uid: uid.clone(),
            name: name.into(),
            version: None,
            namespace: namespace.map(|namespace| self.acquire_namespace(namespace)),
            target,
            position: 0,
            first_owner: None,
            first_dependent: None,
            generation: self.tick(),
            presence,
            deletion: DeletionState::Live,
            finalizers: Finalizers::default(),
            role: Role::Single,
            held_by_others: false,
            listed: false,
            shares_uid: false,
        };
        self.virtual_nodes += usize::from(presence == Presence::Virtual);
        self.name_bytes += name.len();
        let id = self.nodes.insert(node);
        if let Target::Served(type_id) = target {
            let TypeEntry { nodes: list, observed, .. } = &mut self.types.entries[type_id];
            // There are no more nodes than slots, and slot numbers have 32 bits.
            self.nodes[id].position = list.len() as u32;
            list.push(id);
            *observed += usize::from(presence == Presence::Observed);
        }
        self.add_to_index(id);
        id
    }

    /// Frees a node that no edge touches any more.
    pub(super) fn free(&mut self, id: NodeId) {
        self.remove_from_index(id);
        self.above.remove(&id);
        let Some(node) = self.nodes.remove(id) else { return };
        if node.presence == Presence::Absent {
            self.absent.remove(&id);
        }
        if !self.formerly_absent.is_empty() {
            self.formerly_absent.remove(&id);
        }
        self.name_bytes -= node.name.len();
        self.virtual_nodes -= usize::from(node.presence == Presence::Virtual);
        if let Some(namespace) = node.namespace {
            self.namespaces.release(namespace);
        }
        if let Target::Served(type_id) = node.target {
            let TypeEntry { nodes: list, observed, .. } = &mut self.types.entries[type_id];
            list.swap_remove(node.position as usize);
            if is_sparse(list.len(), list.capacity()) {
                // Four bytes a node: a copy is cheap.
                list.shrink_to(list.len() * 2);
            }
            if let Some(&moved) = list.get(node.position as usize) {
                self.nodes[moved].position = node.position;
            }
            *observed -= usize::from(node.presence == Presence::Observed);
            self.types.release(type_id);
        }
    }

    /// Changes the presence of a node, which begins a new generation.
    pub(super) fn set_presence(&mut self, id: NodeId, presence: Presence) {
        let was = self.nodes[id].presence;
        if (was == Presence::Observed) == (presence == Presence::Observed) {
            self.nodes[id].presence = presence;
        } else {
            self.remove_from_index(id);
            self.nodes[id].presence = presence;
            self.add_to_index(id);
        }
        self.virtual_nodes += usize::from(presence == Presence::Virtual);
        self.virtual_nodes -= usize::from(was == Presence::Virtual);
        if !self.formerly_absent.is_empty() {
            self.formerly_absent.remove(&id);
        }
        if presence == Presence::Absent {
            self.absent.insert(id);
        } else if was == Presence::Absent {
            self.absent.remove(&id);
        }
        if let Target::Served(type_id) = self.nodes[id].target {
            let observed = &mut self.types.entries[type_id].observed;
            *observed += usize::from(presence == Presence::Observed);
            *observed -= usize::from(was == Presence::Observed);
        }
        self.bump(id);
    }

    /// Begins a new generation of a node. Verdicts on the old one no longer hold.
    pub(super) fn bump(&mut self, id: NodeId) {
        self.nodes[id].generation = self.tick();
    }

    fn tick(&mut self) -> u32 {
        self.clock = self.clock.wrapping_add(1);
        self.clock
    }

    /// Changes the namespace and name of a node. References to it keep their own name.
    pub(super) fn relocate(&mut self, id: NodeId, namespace: Option<&Namespace>, name: &str) {
        if self.namespace(id) != namespace {
            let new = namespace.map(|namespace| self.acquire_namespace(namespace));
            if let Some(old) = std::mem::replace(&mut self.nodes[id].namespace, new) {
                self.namespaces.release(old);
            }
        }
        if self.name(id) != name {
            let old = std::mem::replace(&mut self.nodes[id].name, name.into());
            self.name_bytes += name.len();
            self.name_bytes -= old.len();
            let mut next = self.nodes[id].first_dependent;
            while let Some(edge) = next {
                let written = self.own_names.remove(&edge).unwrap_or_else(|| old.clone());
                self.set_name(edge, id, &written);
                next = self.edges[edge].next_dependent;
            }
        }
    }

    fn acquire_namespace(&mut self, namespace: &Namespace) -> NamespaceId {
        self.namespaces.acquire(namespace, || ())
    }

    pub(super) fn name(&self, id: NodeId) -> &str {
        &self.nodes[id].name
    }

    pub(super) fn version(&self, id: NodeId) -> Option<&ResourceVersion> {
        self.nodes[id].version.as_ref()
    }

    pub(super) fn namespace(&self, id: NodeId) -> Option<&Namespace> {
        self.nodes[id].namespace.map(|namespace| &self.namespaces.get(namespace).key)
    }

    /// The type of a node that has one; unresolved stubs have none.
    pub(super) fn type_of(&self, id: NodeId) -> Option<&TypeEntry> {
        match self.nodes[id].target {
            Target::Served(id) => Some(&self.types.entries[id]),
            Target::Unresolved(_) => None,
        }
    }

    pub(super) fn resource_of(&self, id: NodeId) -> Option<&Arc<ResourceType>> {
        self.type_of(id).map(|entry| &entry.resource)
    }

    /// The type of a node that is known to have one.
    pub(super) fn resource(&self, id: NodeId) -> &Arc<ResourceType> {
        #[expect(clippy::expect_used, reason = "only stubs of unresolved references have no type")]
        self.resource_of(id).expect("a node with a type")
    }

    pub(super) fn is_synced(&self, id: NodeId) -> bool {
        self.type_of(id).is_some_and(TypeEntry::is_synced)
    }

    pub(super) fn key(&self, id: NodeId) -> Key {
        Key {
            uid: self.nodes[id].uid.clone(),
            resource: Arc::clone(self.resource(id)),
            namespace: self.namespace(id).cloned(),
        }
    }

    pub(super) fn identity(&self, id: NodeId) -> Identity {
        Identity {
            resource: Arc::clone(self.resource(id)),
            namespace: self.namespace(id).cloned(),
            name: self.name(id).into(),
            uid: self.nodes[id].uid.clone(),
        }
    }

    /// The approximate memory in use, without small amounts that exist once per type or namespace.
    pub(super) fn bytes(&self) -> usize {
        let lists = self.types.entries.iter().map(|(_, entry)| entry.nodes.capacity() * size_of::<NodeId>());
        self.nodes.bytes()
            + self.name_bytes
            + self.edges.bytes()
            + self.index.allocation_size()
            + lists.sum::<usize>()
            + self.absent.allocation_size()
            + self.own_names.allocation_size()
    }

    /// Whether a monitor of a node's type runs.
    pub(super) fn is_monitored(&self, id: NodeId) -> bool {
        self.type_of(id).is_some_and(|entry| entry.monitor.is_some())
    }

    /// Whether resource versions of a node's type are ordered. Those of an aggregated API may be
    /// arbitrary.
    pub(super) fn versions_order(&self, id: NodeId) -> bool {
        let is_ordered =
            |monitor: &MonitorState| monitor.deletes_prove == DeletesProve::Absence && !monitor.is_foreign;
        self.type_of(id).is_some_and(|entry| entry.monitor.as_ref().is_none_or(is_ordered))
    }
}

/// The hash of a node in the index. An observed node is hashed by its uid alone, so that one
/// search finds all objects with a uid; API servers make uids, so these are few. A stub is hashed
/// by uid and type: references can name one uid with any number of kinds, and a search for one
/// must not pass over all of them.
fn index_hash(hasher: Keyed, node: &Node) -> u64 {
    if node.is_observed() { hasher.hash_one(&node.uid) } else { stub_hash(hasher, &node.uid, node.target) }
}

fn stub_hash(hasher: Keyed, uid: &Uid, target: Target) -> u64 {
    let role = match target {
        Target::Served(id) => 2 * u64::from(id.number()),
        Target::Unresolved(id) => 2 * u64::from(id.number()) + 1,
    };
    hasher.hash_one((uid, role))
}

/// In tests, counts the nodes that a search compares.
fn counted(_: &NodeId) {
    #[cfg(test)]
    crate::object::steps::count();
}

/// Nodes are found by uid, or by uid and type.
impl Store {
    pub(super) fn find(&self, uid: &Uid, target: Target) -> Option<NodeId> {
        let is = |&id: &NodeId| self.nodes[id].uid == *uid && self.nodes[id].target == target;
        self.find_at(self.hasher.hash_one(uid), is).or_else(|| self.find_stub(uid, target))
    }

    /// The stub with this uid and type.
    fn find_stub(&self, uid: &Uid, target: Target) -> Option<NodeId> {
        let is = |&id: &NodeId| self.nodes[id].uid == *uid && self.nodes[id].target == target;
        self.find_at(stub_hash(self.hasher, uid, target), is)
    }

    /// The node of a key.
    pub(super) fn find_key(&self, key: &Key) -> Option<NodeId> {
        let target = self.types.find(&key.resource.group_resource)?;
        self.find(&key.uid, Target::Served(target))
    }

    /// All nodes with a uid, stubs included. The cost grows with the number of types and kinds:
    /// for debug pages only.
    pub(super) fn with_uid(&self, uid: &Uid) -> impl Iterator<Item = NodeId> {
        let types = self.types.entries.iter().map(|(id, _)| Target::Served(id));
        let unresolved = self.reference_types.iter().map(|(id, _)| Target::Unresolved(id));
        let stubs = types.chain(unresolved).filter_map(|target| self.find_stub(uid, target));
        self.observed_with(uid).into_iter().chain(stubs)
    }

    /// The observed nodes with a uid, ordered by group and resource.
    pub(super) fn observed_with(&self, uid: &Uid) -> Few {
        let is = |id: &NodeId| self.nodes[*id].uid == *uid && self.nodes[*id].is_observed();
        let hash = self.hasher.hash_one(uid);
        let mut found: Few = self.index.iter_hash(hash).copied().inspect(counted).filter(is).collect();
        found.sort_by(|&a, &b| self.resource(a).group_resource.cmp(&self.resource(b).group_resource));
        found
    }

    /// The stub with this uid, `apiVersion` and kind, which do not resolve.
    pub(super) fn find_unresolved(&self, uid: &Uid, api_version: &str, kind: &str) -> Option<NodeId> {
        let kind = ReferenceType { api_version: api_version.into(), kind: kind.into() };
        self.find_stub(uid, Target::Unresolved(self.reference_types.find(&kind)?))
    }

    /// The unresolved stubs with this uid whose `apiVersion` satisfies a condition. The cost
    /// grows with the number of unresolved kinds.
    pub(super) fn unresolved_with(
        &self,
        uid: &Uid,
        api_version: impl Fn(&str) -> bool,
    ) -> impl Iterator<Item = NodeId> {
        let kinds = self.reference_types.iter().filter(move |(_, kind)| api_version(&kind.key.api_version));
        kinds.filter_map(|(id, _)| self.find_stub(uid, Target::Unresolved(id)))
    }

    fn find_at(&self, hash: u64, is: impl Fn(&NodeId) -> bool) -> Option<NodeId> {
        let is = |id: &NodeId| {
            counted(id);
            is(id)
        };
        self.index.find(hash, is).copied()
    }

    fn add_to_index(&mut self, id: NodeId) {
        let Self { nodes, index, hasher, .. } = self;
        let hash_of = |&id: &NodeId| index_hash(*hasher, &nodes[id]);
        index.insert_unique(hash_of(&id), id, hash_of);
    }

    fn remove_from_index(&mut self, id: NodeId) {
        let Self { nodes, index, hasher, .. } = self;
        let hash_of = |&id: &NodeId| index_hash(*hasher, &nodes[id]);
        let is = |other: &NodeId| {
            counted(other);
            *other == id
        };
        if let Ok(entry) = index.find_entry(hash_of(&id), is) {
            entry.remove();
        }
        if is_sparse(index.len(), index.capacity()) {
            index.shrink_to(index.len() * 2, hash_of);
        }
    }
}

#[cfg(any(test, feature = "test-util"))]
#[path = "testing/consistency.rs"]
mod consistency;
