//! The data of a partition: nodes here, edges in `edges`. The store keeps the structure
//! consistent and knows no rule of garbage collection.

mod lookup;

use std::sync::Arc;

use smallvec::SmallVec;

use crate::object::{
    DeletionState, Finalizers, HashSeed, Identity, Key, Keyed, Namespace, ResourceType, ResourceVersion, Uid,
    UidHasher,
};

use crate::graph::DeletesProve;
use crate::graph::arena::{Arena, grow_by_an_eighth, is_sparse};
use crate::graph::followers::Followers;
use crate::graph::index::Index;
use crate::graph::intern::{Interned, Interner, NamespaceId, ReferenceType};
use crate::graph::keyed::{KeyedMap, KeyedSet, Purpose};
use crate::graph::names::{Name, Names};
use crate::graph::node::{Edge, EdgeId, Node, NodeId, NodeType, Presence, Role, Target, Version};
use crate::graph::resource_versions::Versions;
use crate::graph::state::Scan;
use crate::graph::types::Types;

use lookup::index_hash;

/// A few nodes; rarely more than one.
pub(super) type Few = SmallVec<[NodeId; 2]>;

/// The data of a partition.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) nodes: Arena<Node>,
    names: Names,
    versions: Versions,
    pub(super) edges: Arena<Edge>,
    /// Finds nodes by [`index_hash`].
    index: Index<Node>,
    uid_hasher: UidHasher,
    /// The hasher of maps and sets of nodes.
    pub(super) node_hasher: Keyed,
    /// Names of references that differ from their owner node's. Rare.
    pub(super) own_names: KeyedMap<EdgeId, Box<str>>,
    /// Owners whose dependents a worker reads page by page.
    pub(super) scans: KeyedMap<NodeId, Scan>,
    pub(super) namespaces: Interner<Namespace>,
    pub(super) reference_types: Interner<ReferenceType>,
    pub(super) types: Types,
    virtual_nodes: usize,
    /// The nodes that were proved absent. Few, and found without a search.
    absent: KeyedSet<NodeId>,
    /// Virtual nodes that were proved absent or seen to be deleted before watches broke.
    pub(super) formerly_absent: KeyedSet<NodeId>,
    /// The number of edges to owners whose kind does not resolve.
    pub(super) unresolved_edges: usize,
    /// The last generation that was given out. It is shared by all nodes, so that a node which
    /// was freed and created again never gets a generation that some verdict still carries.
    clock: u32,
    /// Who follows answers about these nodes.
    pub(super) followers: Followers,
}

/// The memory of a partition in bytes, by purpose: everything allocated, spare capacity
/// included, except what exists once per type, namespace or kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// Objects: uid, version, state, namespace.
    pub nodes: usize,
    /// Their names.
    pub names: usize,
    pub edges: usize,
    /// Finds objects by their uid.
    pub index: usize,
    /// The objects of each type.
    pub lists: usize,
    /// What only some references and objects need.
    pub rest: usize,
}

impl MemoryUsage {
    /// All of it.
    #[must_use]
    pub const fn total(&self) -> usize {
        let Self { nodes, names, edges, index, lists, rest } = *self;
        nodes + names + edges + index + lists + rest
    }
}

impl Store {
    pub(super) fn new(seed: HashSeed) -> Self {
        Self {
            nodes: Arena::default(),
            names: Names::default(),
            versions: Versions::new(Purpose::Nodes.hasher(seed)),
            edges: Arena::default(),
            index: Index::default(),
            uid_hasher: seed.uids(),
            node_hasher: Purpose::Nodes.hasher(seed),
            own_names: KeyedMap::with_hasher(Purpose::Edges.hasher(seed)),
            scans: KeyedMap::with_hasher(Purpose::Nodes.hasher(seed)),
            namespaces: Interner::new(Purpose::Namespaces.hasher(seed)),
            reference_types: Interner::new(Purpose::ReferenceTypes.hasher(seed)),
            types: Types::new(Purpose::Types.hasher(seed)),
            virtual_nodes: 0,
            absent: KeyedSet::with_hasher(Purpose::Nodes.hasher(seed)),
            formerly_absent: KeyedSet::with_hasher(Purpose::Nodes.hasher(seed)),
            unresolved_edges: 0,
            clock: 0,
            followers: Followers::new(seed),
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
            name: Name::default(),
            version: Version::default(),
            namespace: namespace.map(|namespace| self.acquire_namespace(namespace)),
            node_type: match target {
                Target::Served(id) => NodeType::Served { id, position: 0 },
                Target::Unresolved(id) => NodeType::Unresolved(id),
            },
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
        let id = self.nodes.insert(node);
        self.add_name(id, name);
        if let NodeType::Served { id: type_id, position } = &mut self.nodes[id].node_type {
            let list = &mut self.types.entries[*type_id].nodes;
            // There are no more nodes than slots, and slot numbers have 32 bits.
            *position = list.len() as u32;
            grow_by_an_eighth(list);
            list.push(id);
            self.types.entries[*type_id].observed += usize::from(presence == Presence::Observed);
        }
        let Self { nodes, index, uid_hasher, .. } = self;
        index.insert(index_hash(uid_hasher, &nodes[id]), id, |&id| index_hash(uid_hasher, &nodes[id]));
        id
    }

    /// Frees a node that no edge touches any more.
    pub(super) fn free(&mut self, id: NodeId) {
        let Self { nodes, index, uid_hasher, .. } = self;
        index.remove(index_hash(uid_hasher, &nodes[id]), id, |&id| index_hash(uid_hasher, &nodes[id]));
        self.scans.remove(&id);
        self.set_version(id, None);
        let Some(node) = self.nodes.remove(id) else { return };
        if node.presence == Presence::Absent {
            self.absent.remove(&id);
        }
        if !self.formerly_absent.is_empty() {
            self.formerly_absent.remove(&id);
        }
        self.remove_name(id, node.name);
        self.virtual_nodes -= usize::from(node.presence == Presence::Virtual);
        if let Some(namespace) = node.namespace {
            self.namespaces.release(namespace);
        }
        if let NodeType::Served { id: type_id, position } = node.node_type {
            let list = &mut self.types.entries[type_id].nodes;
            list.swap_remove(position as usize);
            if is_sparse(list.len(), list.capacity()) {
                // Four bytes a node: a copy is cheap.
                list.shrink_to(list.len() * 2);
            }
            if let Some(&moved) = list.get(position as usize) {
                self.nodes[moved].node_type = NodeType::Served { id: type_id, position };
            }
            self.types.entries[type_id].observed -= usize::from(node.presence == Presence::Observed);
            self.types.release(type_id);
        }
    }

    /// Changes the presence of a node, which begins a new generation.
    pub(super) fn set_presence(&mut self, id: NodeId, presence: Presence) {
        let was = self.nodes[id].presence;
        if (was == Presence::Observed) == (presence == Presence::Observed) {
            self.nodes[id].presence = presence;
        } else {
            self.reindex(id, |node| node.presence = presence);
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
        if let NodeType::Served { id: type_id, .. } = self.nodes[id].node_type {
            let observed = &mut self.types.entries[type_id].observed;
            *observed += usize::from(presence == Presence::Observed);
            *observed -= usize::from(was == Presence::Observed);
        }
        self.bump(id);
    }

    /// Begins a new generation of a node. Verdicts on the old one no longer hold.
    pub(super) fn bump(&mut self, id: NodeId) {
        self.nodes[id].generation = self.tick();
        self.changed(id);
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
            let old: Box<str> = self.name(id).into();
            let was = std::mem::take(&mut self.nodes[id].name);
            self.remove_name(id, was);
            self.add_name(id, name);
            let mut next = self.nodes[id].first_dependent;
            while let Some(edge) = next {
                let written = self.own_names.remove(&edge).unwrap_or_else(|| old.clone());
                self.set_name(edge, id, &written);
                next = self.edges[edge].next_dependent;
            }
        }
    }

    /// Stores the name of a node that has none.
    fn add_name(&mut self, id: NodeId, name: &str) {
        let Self { nodes, names, .. } = self;
        let name = names.insert(id.chunk(), name, nodes.chunk_mut(id).map(|node| &mut node.name));
        nodes[id].name = name;
    }

    /// Frees a name that no node uses any more.
    fn remove_name(&mut self, id: NodeId, name: Name) {
        let Self { nodes, names, .. } = self;
        names.remove(id.chunk(), name, nodes.chunk_mut(id).map(|node| &mut node.name));
    }

    pub(super) fn name(&self, id: NodeId) -> &str {
        self.names.get(id.chunk(), self.nodes[id].name)
    }

    /// The resource version of a node.
    pub(super) fn version(&self, id: NodeId) -> Option<ResourceVersion> {
        self.versions.get(id, self.nodes[id].version)
    }

    pub(super) fn set_version(&mut self, id: NodeId, version: Option<&ResourceVersion>) {
        self.versions.set(id, &mut self.nodes[id].version, version);
    }

    fn acquire_namespace(&mut self, namespace: &Namespace) -> NamespaceId {
        let hash = namespace.hash_key(self.namespaces.hasher());
        self.namespaces.acquire(hash, |other| other == namespace, || namespace.clone())
    }

    pub(super) fn namespace(&self, id: NodeId) -> Option<&Namespace> {
        self.nodes[id].namespace.map(|namespace| self.namespaces.get(namespace))
    }

    /// The type of a node that has one; unresolved stubs have none.
    pub(super) fn resource_of(&self, id: NodeId) -> Option<&Arc<ResourceType>> {
        match self.nodes[id].node_type {
            NodeType::Served { id, .. } => Some(&self.types.entries[id].resource),
            NodeType::Unresolved(_) => None,
        }
    }

    /// The type of a node that is known to have one.
    pub(super) fn resource(&self, id: NodeId) -> &Arc<ResourceType> {
        #[expect(clippy::expect_used, reason = "only stubs of unresolved references have no type")]
        self.resource_of(id).expect("a node with a type")
    }

    pub(super) fn is_synced(&self, id: NodeId) -> bool {
        match self.nodes[id].node_type {
            NodeType::Served { id, .. } => self.types.entries[id].is_synced(),
            NodeType::Unresolved(_) => false,
        }
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

    /// The memory in use, without small amounts that exist once per type or namespace.
    pub(super) fn memory_usage(&self) -> MemoryUsage {
        let lists = self.types.entries.iter().map(|(_, entry)| entry.nodes.capacity() * size_of::<NodeId>());
        MemoryUsage {
            nodes: self.nodes.bytes(),
            names: self.names.bytes(),
            edges: self.edges.bytes(),
            index: self.index.bytes(),
            lists: lists.sum(),
            rest: self.absent.allocation_size() + self.own_names.allocation_size() + self.versions.bytes(),
        }
    }

    pub(super) const fn unresolved_edges(&self) -> usize {
        self.unresolved_edges
    }

    pub(super) const fn virtual_nodes(&self) -> usize {
        self.virtual_nodes
    }

    /// The nodes that were proved absent, in no particular order.
    pub(super) fn absent(&self) -> impl Iterator<Item = NodeId> {
        self.absent.iter().copied()
    }

    /// Whether a monitor of a node's type runs.
    pub(super) fn is_monitored(&self, id: NodeId) -> bool {
        let NodeType::Served { id: type_id, .. } = self.nodes[id].node_type else { return false };
        self.types.entries[type_id].monitor.is_some()
    }

    /// Whether resource versions of a node's type are ordered. Those of an aggregated API may be
    /// arbitrary.
    pub(super) fn versions_order(&self, id: NodeId) -> bool {
        let NodeType::Served { id: type_id, .. } = self.nodes[id].node_type else { return false };
        let monitor = self.types.entries[type_id].monitor.as_ref();
        monitor.is_none_or(|monitor| monitor.deletes_prove == DeletesProve::Absence && !monitor.is_foreign)
    }
}

#[cfg(any(test, feature = "test-util"))]
#[path = "../testing/consistency.rs"]
mod consistency;
