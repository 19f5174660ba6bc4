//! Attaches dependents to owners and detaches them (rules 3.3 to 3.6 and 3.9 to 3.12).
//!
//! An object that names many owners is a large one. The API server accepts about 10,000 owner
//! references on one object. Each owner that no monitor shows is normally a key of its own in the
//! delete pool, so one object could queue 10,000 keys. The worker of a large object verifies the
//! owners itself, at a limited rate, and the object is queued once.

use std::collections::BTreeMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::node::{Edge, EdgeId, NodeId, Presence, ReferenceTypeId, Target, TypeId};
use super::{Effects, Partition, Report, Sharding};
use crate::object::{DeletionState, Identity, OwnerReference, Scope, Uid};

/// Which of a dependent's references an update replaces.
#[derive(Clone, Copy, Debug)]
pub(super) enum Extent<'a> {
    /// All.
    All,
    /// Those to one owner, whose type the sender of a link resolved.
    Link { uid: &'a Uid, owner: TypeId },
}

/// Most objects have one owner and few have more than two, so this rarely allocates.
type Few<T> = SmallVec<[T; 2]>;

impl Partition {
    /// Sets the references of a dependent and applies the rules for those that were added or removed.
    /// One that differs in a flag is another one. Returns whether anything differed.
    ///
    /// References are compared as a multiset, so that duplicates do not look new each time
    /// (kubernetes#108373). The caller calls
    /// [`subtract_from_owners`](Self::subtract_from_owners) before and
    /// [`add_to_owners`](Self::add_to_owners) afterwards.
    pub(super) fn set_references(
        &mut self,
        dependent: NodeId,
        references: &[OwnerReference],
        extent: Extent<'_>,
        out: &mut Effects,
    ) -> bool {
        let linked = match extent {
            Extent::All => None,
            Extent::Link { uid, owner } => Some(self.store.find(uid, Target::Served(owner))),
        };
        let (old, others): (Few<EdgeId>, Few<EdgeId>) = self
            .store
            .owners(dependent)
            .partition(|&edge| linked.is_none_or(|owner| owner == Some(self.store.edges[edge].owner)));
        if old.len() == references.len()
            && old.iter().zip(references).all(|(&edge, reference)| self.store.is_reference(edge, reference))
        {
            return false;
        }
        let was_large = self.is_large(dependent);
        let mut edges: BTreeMap<OwnerReference, Few<EdgeId>> = BTreeMap::new();
        for edge in old {
            edges.entry(self.store.reference(edge)).or_default().push(edge);
        }
        let take = |reference: &OwnerReference| edges.get_mut(reference).and_then(Few::pop);
        let mut placed: Few<Option<EdgeId>> = references.iter().map(take).collect();
        // Each new edge, and whether its owner node was created for it.
        let mut attached: Few<(EdgeId, bool)> = Few::new();
        for (place, reference) in placed.iter_mut().zip(references).filter(|(place, _)| place.is_none()) {
            let added = self.add_edge(dependent, reference, extent);
            *place = Some(added.0);
            attached.push(added);
        }
        self.store.set_owners(dependent, others.into_iter().chain(placed.into_iter().flatten()));
        for edge in edges.into_values().flatten() {
            let owner = self.store.edges[edge].owner;
            self.store.remove_edge(edge);
            self.collect_owner(owner, dependent);
        }
        let is_large = self.is_large(dependent);
        for (edge, new_owner) in attached {
            self.edge_added(edge, new_owner, is_large, out);
        }
        if was_large && !is_large {
            self.no_longer_large(dependent, out);
        }
        true
    }

    /// Frees an owner node that lost a dependent, if it is an unused stub. Never frees the
    /// dependent itself, which the caller still uses.
    pub(super) fn collect_owner(&mut self, owner: NodeId, dependent: NodeId) {
        if owner != dependent {
            self.collect(owner);
        }
    }

    /// Creates an edge. Also returns whether its owner node is new.
    fn add_edge(
        &mut self,
        dependent: NodeId,
        reference: &OwnerReference,
        extent: Extent<'_>,
    ) -> (EdgeId, bool) {
        let catalog = Arc::clone(&self.catalog);
        let resolve = || catalog.resolve(&reference.api_version, &reference.kind).map(Arc::clone);
        let reference_type = self.store.acquire_reference_type(reference, resolve);
        let target = match extent {
            Extent::Link { owner, .. } => Target::Served(owner),
            Extent::All => self.resolve(reference_type),
        };
        let (owner, new_owner) = self.owner_node(dependent, &reference.uid, &reference.name, target);
        (self.store.insert_edge(dependent, owner, reference_type, reference), new_owner)
    }

    /// What a reference's type resolves to. If this creates a type, the caller has to give it a
    /// node.
    pub(super) fn resolve(&mut self, reference_type: ReferenceTypeId) -> Target {
        match self.store.reference_types.get(reference_type).known.clone() {
            Some(resource) => Target::Served(self.store.types.find_or_insert(&resource)),
            None => Target::Unresolved(reference_type),
        }
    }

    /// Finds or creates the owner node of a reference. Also returns whether it is new.
    pub(super) fn owner_node(
        &mut self,
        dependent: NodeId,
        uid: &Uid,
        name: &str,
        target: Target,
    ) -> (NodeId, bool) {
        if let Some(owner) = self.store.find(uid, target) {
            return (owner, false);
        }
        let scope = match target {
            Target::Served(id) => Some(self.store.types.entries[id].resource.scope),
            Target::Unresolved(_) => None,
        };
        let namespace = self.store.namespace(dependent).cloned();
        let presence = match (scope, &namespace) {
            (None, _) => Presence::Unresolved,
            (Some(Scope::Namespaced), None) => Presence::InvalidScope,
            (Some(Scope::Cluster), _) if self.id != Sharding::CLUSTER => Presence::Remote,
            (Some(_), _) => Presence::Virtual,
        };
        let namespace =
            namespace.filter(|_| presence == Presence::Virtual && scope == Some(Scope::Namespaced));
        (self.store.create(uid, target, namespace.as_ref(), name, presence), true)
    }

    /// Whether a cluster-scoped dependent refers to a namespaced kind.
    pub(super) fn is_invalid_scope(&self, edge: EdgeId) -> bool {
        let Edge { dependent, owner, .. } = self.store.edges[edge];
        self.store.nodes[dependent].namespace.is_none()
            && self.store.resource_of(owner).is_some_and(|resource| resource.scope == Scope::Namespaced)
    }

    /// Applies the rules for a new edge. `is_large` says whether the dependent is
    /// [large](Self::is_large).
    pub(super) fn edge_added(&mut self, edge: EdgeId, new_owner: bool, is_large: bool, out: &mut Effects) {
        let Edge { dependent, owner, .. } = self.store.edges[edge];
        if self.is_invalid_scope(edge) {
            let reference = self.store.reference(edge);
            out.reports.push(Report::InvalidScope { dependent: self.store.identity(dependent), reference });
            // The object stays, but a worker can look for the owner's uid in other namespaces and
            // warn about a mismatch.
            self.queue(dependent, out);
            self.may_be_stuck.entry(dependent).or_default();
            return;
        }
        match self.store.nodes[owner].presence {
            // Partition 0 applies the rules when the link arrives.
            Presence::Remote => {}
            // A worker parks it as unresolved; the next catalog queues it again.
            Presence::Unresolved => self.queue(dependent, out),
            // A worker verifies the owner, unless a large dependent verifies its own owners.
            Presence::Virtual if new_owner => self.queue(if is_large { dependent } else { owner }, out),
            Presence::Virtual => {
                if !self.store.matches(edge) || !self.is_served(owner) {
                    self.queue(dependent, out);
                }
                self.dependent_joined(edge, is_large, out);
            }
            Presence::Absent | Presence::InvalidScope | Presence::Linked => self.queue(dependent, out),
            Presence::Observed => {
                if !self.store.matches(edge) {
                    self.queue_mismatched(edge, out);
                }
                if self.any_view_is(owner, DeletionState::DeletingDependents) {
                    self.queue(dependent, out);
                }
                if self.any_view_is(owner, DeletionState::Orphaning) {
                    self.queue_orphaning(owner, out);
                }
            }
        }
    }

    /// Queues a dependent whose reference does not match its observed owner.
    pub(super) fn queue_mismatched(&self, edge: EdgeId, out: &mut Effects) {
        let Edge { dependent, owner, .. } = self.store.edges[edge];
        self.queue(dependent, out);
        if !self.store.same_namespace(edge, owner) {
            let dependent = self.store.identity(dependent);
            let reference = self.store.reference(edge);
            out.reports.push(Report::NamespaceMismatch { dependent, reference });
        }
    }

    /// Queues the dependents whose references do not match an owner that was just observed, or
    /// that changed its namespace or name.
    pub(super) fn queue_mismatched_dependents(&self, owner: NodeId, out: &mut Effects) {
        for edge in self.store.dependents(owner).filter(|&edge| !self.store.matches(edge)) {
            if !self.is_invalid_scope(edge) {
                self.queue_mismatched(edge, out);
            }
        }
    }

    /// Whether a reference is solid without a look-up: a synced monitor shows exactly the owner
    /// that it names, and the owner is not deleting dependents.
    pub(super) fn is_known_solid(&self, edge: EdgeId) -> bool {
        let owner = self.store.edges[edge].owner;
        let node = &self.store.nodes[owner];
        node.is_observed()
            && !node.is_deleting_dependents()
            && self.store.matches(edge)
            && self.store.is_synced(owner)
    }

    /// Whether a reference names this identity.
    pub(super) fn refers_to(&self, edge: EdgeId, identity: &Identity) -> bool {
        self.store.reference_name(edge) == &*identity.name
            && self.store.owner_namespace(edge) == identity.namespace.as_ref()
            && !self.is_invalid_scope(edge)
    }
}

/// An object with more owner references than this is a large one. Others cost at most this many
/// look-ups whenever they are written, and most objects have one or two owners.
pub const LARGE: usize = 8;

/// How many dependents of an owner are checked to find out who verifies it.
const LOOKED_AT: usize = 16;

impl Partition {
    /// Whether an object names more than [`LARGE`] owners. Visits no more than that.
    pub(super) fn is_large(&self, id: NodeId) -> bool {
        self.store.owners(id).nth(LARGE).is_some()
    }

    /// An owner that has to be verified got another dependent. If all others are large, the
    /// owner is not queued itself, and they may be deleted before they verify it.
    pub(super) fn dependent_joined(&self, edge: EdgeId, is_large: bool, out: &mut Effects) {
        let Edge { dependent, owner, .. } = self.store.edges[edge];
        if is_large {
            self.queue(dependent, out);
            return;
        }
        let mut others = self.store.dependents(owner).filter(|&other| other != edge).take(LOOKED_AT);
        if !others.any(|other| !self.is_large(self.store.edges[other].dependent)) {
            self.queue(owner, out);
        }
    }

    /// Whether an owner has few dependents and all are large, so that they verify it.
    pub(super) fn is_verified_by_large(&self, owner: NodeId) -> bool {
        let mut dependents = self.store.dependents(owner).map(|edge| self.store.edges[edge].dependent);
        let mut few = dependents.by_ref().take(LOOKED_AT).peekable();
        few.peek().is_some() && few.all(|dependent| self.is_large(dependent)) && dependents.next().is_none()
    }

    /// An object is no longer large: its owners are queued for verification.
    pub(super) fn no_longer_large(&self, dependent: NodeId, out: &mut Effects) {
        for edge in self.store.owners(dependent) {
            let owner = self.store.edges[edge].owner;
            if self.store.nodes[owner].presence == Presence::Virtual {
                self.queue(owner, out);
            }
        }
    }
}
