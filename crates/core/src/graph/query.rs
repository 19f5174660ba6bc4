//! Queries of workers and of read-only observers.

use std::collections::BTreeSet;

use crate::mutation::{self, Mutation};
use crate::object::{DeletionState, Finalizers, GroupResource, Identity, Key, OwnerReference, Uid};

use super::keyed::KeyedSet;
use super::node::{EdgeId, NodeId, Presence};
use super::{
    Effects, ForegroundProgress, Generation, ObjectSnapshot, OwnerState, OwnerView, Partition,
    ReferenceSnapshot, Snapshot, VirtualSnapshot,
};

/// An observed object, without what is known about its owners.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedObject {
    pub deletion: DeletionState,
    pub finalizers: Finalizers,
    pub references: Vec<OwnerReference>,
}

impl Partition {
    /// The state of a key's node, for a worker that evaluates it now.
    ///
    /// This also queues work:
    ///
    /// - for a node that is deleting dependents, the blocking dependents that are not;
    /// - for an alias, the primary;
    /// - for a node whose last write has not been seen, the node, when the event arrives.
    ///
    /// [`observed_object`](Self::observed_object) queues nothing.
    pub fn snapshot_and_queue(&mut self, key: &Key, out: &mut Effects) -> Snapshot {
        let Some(id) = self.store.find_key(key) else { return Snapshot::Gone };
        let presence = self.store.nodes[id].presence;
        match presence {
            Presence::Observed if self.is_alias(id) => {
                // It was queued before the primary appeared.
                self.queue(id, out);
                Snapshot::Gone
            }
            Presence::Observed if self.awaits_event(id) => Snapshot::AwaitsEvent,
            Presence::Observed => Snapshot::Object(Box::new(self.object_snapshot(id, out))),
            Presence::Virtual => Snapshot::Virtual(VirtualSnapshot {
                identity: self.store.identity(id),
                generation: Generation(self.store.nodes[id].generation),
            }),
            Presence::Absent
            | Presence::Remote
            | Presence::Unresolved
            | Presence::InvalidScope
            | Presence::Linked => Snapshot::Gone,
        }
    }

    /// The same, or `None` without any effect if the object names more owners than
    /// [`LARGE`](super::LARGE).
    pub fn snapshot_and_queue_small(&mut self, key: &Key, out: &mut Effects) -> Option<Snapshot> {
        let is_large = |id: NodeId| self.store.nodes[id].presence == Presence::Observed && self.is_large(id);
        if self.store.find_key(key).is_some_and(is_large) {
            None
        } else {
            Some(self.snapshot_and_queue(key, out))
        }
    }

    fn object_snapshot(&mut self, id: NodeId, out: &mut Effects) -> ObjectSnapshot {
        let (snapshot, active) = self.read_object(id);
        for dependent in active {
            self.queue(dependent, out);
        }
        snapshot
    }

    /// The owner references of an object, and what is known of each owner.
    pub(super) fn references(&self, id: NodeId) -> Vec<ReferenceSnapshot> {
        let owners = self.store.owners(id);
        owners
            .map(|edge| ReferenceSnapshot {
                reference: self.store.reference(edge),
                owner: self.owner_view(edge),
            })
            .collect()
    }

    /// An observed object, and the dependents that block it and are not deleting dependents.
    pub(super) fn read_object(&mut self, id: NodeId) -> (ObjectSnapshot, Vec<NodeId>) {
        let (foreground, active) = match self.store.nodes[id].deletion {
            DeletionState::DeletingDependents => self.foreground(id),
            _ => (ForegroundProgress::Unblocked, Vec::new()),
        };
        let node = &self.store.nodes[id];
        let references = self.references(id);
        let snapshot = ObjectSnapshot {
            identity: self.store.identity(id),
            resource_version: self.store.version(id),
            generation: Generation(node.generation),
            deletion: node.deletion,
            finalizers: node.finalizers,
            has_dependents: self.counted_dependents(id).next().is_some(),
            // Not computed if there are no references: it is not needed then, and may require a
            // search of many edges.
            has_dependent_deleting_dependents: !references.is_empty()
                && self.counted_dependents(id).any(|edge| self.dependent_deletes_dependents(edge)),
            references,
            foreground,
        };
        (snapshot, active)
    }

    pub(super) fn dependent_deletes_dependents(&self, edge: EdgeId) -> bool {
        self.store.nodes[self.store.edges[edge].dependent].is_deleting_dependents()
    }

    /// The progress of a foreground deletion, and the dependents that block it and are not
    /// deleting dependents.
    fn foreground(&mut self, id: NodeId) -> (ForegroundProgress, Vec<NodeId>) {
        let (mut blocking, mut active) = (BTreeSet::new(), Vec::new());
        for edge in self.counted_dependents(id).filter(|&edge| self.store.edges[edge].blocking) {
            let dependent = self.store.edges[edge].dependent;
            if blocking.insert(dependent) && !self.store.nodes[dependent].is_deleting_dependents() {
                active.push(dependent);
            }
        }
        let progress = if blocking.is_empty() && self.catalog.has_unread() {
            ForegroundProgress::PerhapsBlocked
        } else if blocking.is_empty() {
            ForegroundProgress::Unblocked
        } else if active.is_empty() && self.is_in_cycle(id) && !mutation::is(Mutation::WaitInRings) {
            ForegroundProgress::Deadlocked
        } else {
            ForegroundProgress::Blocked(blocking.len())
        };
        (progress, active)
    }

    /// Whether a dependent in this partition blocks the owner with this uid through an
    /// `apiVersion` whose kinds discovery could not read so far. Such a reference is not
    /// attached to the owner's node until it resolves, and blocks the owner all the same.
    #[must_use]
    pub fn is_blocked_through_unread(&self, owner: &Uid) -> bool {
        if !self.catalog.has_unread() {
            return false;
        }
        let mut stubs = self.store.unresolved_with(owner, |api_version| self.catalog.is_unread(api_version));
        stubs.any(|id| self.store.dependents(id).any(|edge| self.store.edges[edge].blocking))
    }

    pub(super) fn owner_view(&self, edge: EdgeId) -> OwnerView {
        let owner = self.store.edges[edge].owner;
        match self.store.nodes[owner].presence {
            Presence::Unresolved => OwnerView::Unresolved,
            _ if self.is_invalid_scope(edge) => OwnerView::InvalidScope,
            Presence::Remote => OwnerView::Remote(self.store.owner_identity(edge)),
            _ => {
                let identity = self.store.owner_identity(edge);
                let state = self.state_of(owner, &identity);
                OwnerView::Local { identity, state }
            }
        }
    }

    /// What this partition knows about an identity.
    #[must_use]
    pub fn owner_state(&self, identity: &Identity) -> OwnerState {
        match self.store.find_key(&identity.key()) {
            Some(id) => self.state_of(id, identity),
            None => OwnerState::Unknown,
        }
    }

    fn state_of(&self, id: NodeId, identity: &Identity) -> OwnerState {
        let node = &self.store.nodes[id];
        let same_namespace = self.store.namespace(id) == identity.namespace.as_ref();
        if self.store.name(id) != &*identity.name
            || !(same_namespace || mutation::is(Mutation::IgnoreNamespace))
        {
            return OwnerState::Unknown;
        }
        match node.presence {
            Presence::Observed if self.store.is_synced(id) => {
                OwnerState::Observed { resource_version: self.store.version(id), deletion: node.deletion }
            }
            Presence::Absent => OwnerState::Absent,
            _ => OwnerState::Unknown,
        }
    }

    /// Whether another of the dependent's references has the same uid.
    pub(super) fn shares_uid(&self, edge: EdgeId) -> bool {
        let dependent = self.store.edges[edge].dependent;
        let uid = |edge: EdgeId| &self.store.nodes[self.store.edges[edge].owner].uid;
        self.store.nodes[dependent].shares_uid
            || self.store.owners(dependent).any(|other| other != edge && uid(other) == uid(edge))
    }

    /// The uids that occur in several of a dependent's references.
    pub(super) fn shared_uids(&self, dependent: NodeId) -> KeyedSet<&Uid> {
        let mut shared = KeyedSet::with_hasher(self.store.node_hasher);
        let mut seen = KeyedSet::with_hasher(self.store.node_hasher);
        if self.store.owners(dependent).nth(1).is_some() {
            let owners = self.store.owners(dependent).map(|edge| self.store.edges[edge].owner);
            let uids = owners.map(|owner| &self.store.nodes[owner].uid);
            shared.extend(uids.filter(|&uid| !seen.insert(uid)));
        }
        shared
    }

    /// Whether a key may have been parked for one of these types: it is of that type, or one of its
    /// owners is. A key without a node always counts, since its evaluation costs nothing.
    #[must_use]
    pub fn is_concerned(&self, key: &Key, by: &BTreeSet<GroupResource>) -> bool {
        let is = |id: NodeId| self.store.resource_of(id).is_some_and(|own| by.contains(&own.group_resource));
        let Some(id) = self.store.find_key(key) else { return true };
        is(id) || self.store.owners(id).any(|edge| is(self.store.edges[edge].owner))
    }

    /// The identity of a key's node: the observed one or, for an owner that has to be verified,
    /// the one that a reference names.
    #[must_use]
    pub fn identify(&self, key: &Key) -> Option<Identity> {
        self.store.find_key(key).map(|id| self.store.identity(id))
    }

    /// An observed object with this uid in this partition, under its primary name.
    #[must_use]
    pub fn observed(&self, uid: &Uid) -> Option<Identity> {
        self.store.observed_with(uid).first().map(|&id| self.store.identity(id))
    }

    /// The first observed objects with this uid in this partition, under all their names.
    pub fn all_observed(&self, uid: &Uid, most: usize) -> impl Iterator<Item = Identity> {
        self.store.observed_with(uid).into_iter().take(most).map(|id| self.store.identity(id))
    }

    /// The number of observed objects with this uid in this partition.
    #[must_use]
    pub fn count_observed(&self, uid: &Uid) -> usize {
        self.store.observed_with(uid).len()
    }

    /// An object as it was last seen; `None` if no monitor shows one under this key. Unlike
    /// [`snapshot_and_queue`](Self::snapshot_and_queue), asking queues nothing.
    #[must_use]
    pub fn observed_object(&self, key: &Key) -> Option<ObservedObject> {
        let id = self.store.find_key(key)?;
        let node = &self.store.nodes[id];
        (node.presence == Presence::Observed).then(|| ObservedObject {
            deletion: node.deletion,
            finalizers: node.finalizers,
            references: self.store.owners(id).map(|edge| self.store.reference(edge)).collect(),
        })
    }
}
