//! Owner references: the lists that they form between nodes, and their contents.

use std::sync::Arc;

use crate::object::{Identity, Namespace, OwnerReference, ResourceType, Scope};

use super::node::{Edge, EdgeId, NodeId, ReferenceType, ReferenceTypeId};
use super::store::Store;

/// In tests, counts the references that a search visits.
fn counted(edges: impl Iterator<Item = EdgeId>) -> impl Iterator<Item = EdgeId> {
    edges.inspect(|_| {
        #[cfg(test)]
        crate::object::steps::count();
    })
}

impl Store {
    /// A node's own references, in order.
    pub(super) fn owners(&self, id: NodeId) -> impl Iterator<Item = EdgeId> {
        counted(std::iter::successors(self.nodes[id].first_owner, |&edge| self.edges[edge].next_owner))
    }

    /// The references to a node.
    pub(super) fn dependents(&self, id: NodeId) -> impl Iterator<Item = EdgeId> {
        let first = self.nodes[id].first_dependent;
        counted(std::iter::successors(first, |&edge| self.edges[edge].next_dependent))
    }

    /// Finds or creates the shared `apiVersion` and kind of a reference. The caller owns one use.
    pub(super) fn acquire_reference_type(
        &mut self,
        reference: &OwnerReference,
        resolve: impl FnOnce() -> Option<Arc<ResourceType>>,
    ) -> ReferenceTypeId {
        let OwnerReference { api_version, kind, .. } = reference;
        let key = ReferenceType { api_version: Arc::clone(api_version), kind: Arc::clone(kind) };
        self.reference_types.acquire(&key, resolve)
    }

    /// Creates the edge of a reference and adds it to the owner's dependents. The caller adds it
    /// to the dependent's references ([`set_owners`](Self::set_owners)). Takes over the caller's
    /// use of the reference type.
    pub(super) fn insert_edge(
        &mut self,
        dependent: NodeId,
        owner: NodeId,
        reference_type: ReferenceTypeId,
        reference: &OwnerReference,
    ) -> EdgeId {
        let edge = self.edges.insert(Edge {
            dependent,
            owner,
            reference_type,
            next_owner: None,
            next_dependent: None,
            previous_dependent: None,
            blocking: reference.block_owner_deletion,
            controller: reference.controller,
            own_name: false,
        });
        self.link_dependent(edge, owner);
        self.set_name(edge, owner, &reference.name);
        edge
    }

    /// Moves an edge to another node of its owner's uid.
    pub(super) fn set_edge_owner(&mut self, edge: EdgeId, owner: NodeId) {
        let name: Box<str> = self.reference_name(edge).into();
        self.unlink_dependent(edge);
        self.own_names.remove(&edge);
        self.edges[edge].owner = owner;
        self.link_dependent(edge, owner);
        self.set_name(edge, owner, &name);
    }

    /// Frees an edge that is no longer in its dependent's list of references.
    pub(super) fn remove_edge(&mut self, edge: EdgeId) {
        self.unlink_dependent(edge);
        self.own_names.remove(&edge);
        if let Some(edge) = self.edges.remove(edge) {
            self.reference_types.release(edge.reference_type);
        }
    }

    /// Sets the references of a node, in this order.
    pub(super) fn set_owners(&mut self, dependent: NodeId, edges: impl DoubleEndedIterator<Item = EdgeId>) {
        let mut next = None;
        for edge in edges.rev() {
            self.edges[edge].next_owner = next;
            next = Some(edge);
        }
        self.nodes[dependent].first_owner = next;
    }

    fn link_dependent(&mut self, edge: EdgeId, owner: NodeId) {
        self.unresolved_edges += usize::from(self.nodes[owner].is_unresolved());
        let next = self.nodes[owner].first_dependent.replace(edge);
        self.edges[edge].next_dependent = next;
        self.edges[edge].previous_dependent = None;
        if let Some(next) = next {
            self.edges[next].previous_dependent = Some(edge);
        }
    }

    fn unlink_dependent(&mut self, edge: EdgeId) {
        let Edge { owner, next_dependent: next, previous_dependent: previous, .. } = self.edges[edge];
        self.unresolved_edges -= usize::from(self.nodes[owner].is_unresolved());
        match previous {
            Some(previous) => self.edges[previous].next_dependent = next,
            None => self.nodes[owner].first_dependent = next,
        }
        if let Some(next) = next {
            self.edges[next].previous_dependent = previous;
        }
    }

    pub(super) fn set_name(&mut self, edge: EdgeId, owner: NodeId, name: &str) {
        let own = self.name(owner) != name;
        self.edges[edge].own_name = own;
        if own {
            self.own_names.insert(edge, name.into());
        }
    }

    /// The owner's name, as the reference gives it.
    pub(super) fn reference_name(&self, edge: EdgeId) -> &str {
        let Edge { own_name, owner, .. } = self.edges[edge];
        let own = if own_name { self.own_names.get(&edge).map(|name| &**name) } else { None };
        own.unwrap_or_else(|| self.name(owner))
    }

    /// The reference that an edge stands for, as in the object's metadata.
    pub(super) fn reference(&self, edge: EdgeId) -> OwnerReference {
        let Edge { owner, reference_type, blocking, controller, .. } = self.edges[edge];
        let ReferenceType { api_version, kind, .. } = &self.reference_types.get(reference_type).key;
        OwnerReference {
            api_version: api_version.clone(),
            kind: kind.clone(),
            name: self.reference_name(edge).into(),
            uid: self.nodes[owner].uid.clone(),
            controller,
            block_owner_deletion: blocking,
        }
    }

    /// Whether an edge stands for exactly this reference.
    pub(super) fn is_reference(&self, edge: EdgeId, reference: &OwnerReference) -> bool {
        let Edge { owner, reference_type, blocking, controller, .. } = self.edges[edge];
        let ReferenceType { api_version, kind, .. } = &self.reference_types.get(reference_type).key;
        self.nodes[owner].uid == reference.uid
            && blocking == reference.block_owner_deletion
            && controller == reference.controller
            && *kind == reference.kind
            && *api_version == reference.api_version
            && *self.reference_name(edge) == *reference.name
    }

    /// The namespace of the owner that a reference names: the dependent's, unless the owner's
    /// kind is cluster-scoped.
    pub(super) fn owner_namespace(&self, edge: EdgeId) -> Option<&Namespace> {
        let Edge { dependent, owner, .. } = self.edges[edge];
        match self.resource_of(owner) {
            Some(resource) if resource.scope == Scope::Cluster => None,
            _ => self.namespace(dependent),
        }
    }

    /// The identity that a resolved reference names.
    pub(super) fn owner_identity(&self, edge: EdgeId) -> Identity {
        let owner = self.edges[edge].owner;
        Identity {
            resource: Arc::clone(self.resource(owner)),
            namespace: self.owner_namespace(edge).cloned(),
            name: self.reference_name(edge).into(),
            uid: self.nodes[owner].uid.clone(),
        }
    }

    /// Whether the owner node is what the reference names: it has the same name, and is
    /// cluster-scoped or in the dependent's namespace.
    pub(super) fn matches(&self, edge: EdgeId) -> bool {
        let Edge { own_name, owner, .. } = self.edges[edge];
        !own_name && self.same_namespace(edge, owner)
    }

    /// Whether the owner is cluster-scoped or in the dependent's namespace.
    pub(super) fn same_namespace(&self, edge: EdgeId, owner: NodeId) -> bool {
        self.resource_of(owner).is_some_and(|resource| resource.scope == Scope::Cluster)
            || self.nodes[owner].namespace == self.nodes[self.edges[edge].dependent].namespace
    }
}
