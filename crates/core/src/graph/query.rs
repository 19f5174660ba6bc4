//! What workers decide on, and what they and read-only observers ask.

use std::collections::BTreeSet;

use super::node::{EdgeId, NodeId, Presence};
use super::{Effects, Partition};
use crate::mutation::{self, Mutation};
use crate::object::{
    DeletionState, Finalizers, GroupResource, Identity, Key, KeyedSet, ObjectFacts, OwnerReference,
    ResourceVersion, Uid,
};

/// Counts the changes to a node itself (presence, identity, references, finalizers, deletion),
/// not to its dependents. A verdict on one generation does not hold for the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub u32);

/// The state of a key's node at the moment when a worker asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// There is no node, and nothing to decide.
    Gone,
    /// The event of our own last write has not arrived, so the node is outdated. It is queued
    /// again when the event arrives.
    AwaitsEvent,
    /// Some dependent names it and no monitor shows it: it has to be verified.
    Virtual {
        /// Where to look it up. References may disagree; this is what one of them says.
        identity: Identity,
        /// The answer is valid for this generation only.
        generation: Generation,
    },
    /// An observed object.
    Object(Box<ObjectSnapshot>),
}

/// An observed object, with everything that a decision about it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSnapshot {
    pub identity: Identity,
    /// The version that was last seen. Every write that follows is conditional on it.
    pub resource_version: Option<ResourceVersion>,
    pub generation: Generation,
    /// How far its own deletion has come.
    pub deletion: DeletionState,
    pub finalizers: Finalizers,
    /// Its references in order, each with what this partition knows about the owner.
    pub references: Vec<ReferenceSnapshot>,
    /// Whether another object names it as owner, through any of its views.
    pub has_dependents: bool,
    /// Whether one of these dependents is deleting dependents itself: a possible cycle.
    pub has_dependent_deleting_dependents: bool,
    /// Meaningful while `deletion` is [`DeletionState::DeletingDependents`].
    pub foreground: ForegroundProgress,
}

/// The progress of a foreground deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForegroundProgress {
    /// No dependent blocks it: the finalizer may be removed.
    Unblocked,
    /// No dependent is known to block it. But discovery could not read part of the API, and a
    /// reference through that part is not resolved to this node yet. All partitions have to be
    /// asked
    /// ([`Partition::is_blocked_through_unread`](super::Partition::is_blocked_through_unread)).
    PerhapsBlocked,
    /// This many dependents block it. Those that are not deleting dependents themselves have
    /// been queued.
    Blocked(usize),
    /// Every blocking dependent is itself deleting dependents, and the node is in a cycle of
    /// blocking references between such nodes. Nothing will happen until one of them stops
    /// blocking.
    Deadlocked,
}

/// A reference and what is known about its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceSnapshot {
    pub reference: OwnerReference,
    pub owner: OwnerView,
}

/// What a partition knows about the owner that a reference names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerView {
    /// The kind or its version is not served.
    Unresolved,
    /// The dependent is cluster-scoped and the owner's kind is namespaced.
    InvalidScope,
    /// The owner is cluster-scoped and lives in another partition: ask there
    /// ([`Partition::owner_state`](super::Partition::owner_state)).
    Remote(Identity),
    /// The owner would be in this partition.
    Local {
        /// The identity that the reference names: its uid, kind and name, and the dependent's
        /// namespace unless the kind is cluster-scoped.
        identity: Identity,
        state: OwnerState,
    },
}

impl OwnerView {
    /// The identity that the reference names, if its kind resolves.
    pub const fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Remote(identity) | Self::Local { identity, .. } => Some(identity),
            Self::Unresolved | Self::InvalidScope => None,
        }
    }
}

/// What the graph knows about an identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// A synced monitor shows exactly this identity: it exists. If the view is stale, the
    /// owner's DELETED event follows and queues its dependents.
    Observed {
        /// The version that was last seen.
        resource_version: Option<ResourceVersion>,
        /// `DeletingDependents` is confirmed by a live read before anything follows from it.
        deletion: DeletionState,
    },
    /// Exactly this identity was proved absent.
    Absent,
    /// Nothing is known: there is no node, or it is unverified, or its monitor is not synced, or
    /// it has another name or namespace.
    Unknown,
}

impl OwnerState {
    /// The version that was last seen.
    pub fn version(&self) -> Option<&ResourceVersion> {
        match self {
            Self::Observed { resource_version, .. } => resource_version.as_ref(),
            Self::Absent | Self::Unknown => None,
        }
    }
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
            Presence::Observed => {
                let (object, active) = self.read_object(id);
                active.into_iter().for_each(|dependent| self.queue(dependent, out));
                Snapshot::Object(Box::new(object))
            }
            Presence::Virtual => Snapshot::Virtual {
                identity: self.store.identity(id),
                generation: Generation(self.store.nodes[id].generation),
            },
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

    /// The first owner references of an object, and what is known of each owner.
    pub(super) fn references(&self, id: NodeId, most: usize) -> Vec<ReferenceSnapshot> {
        let snapshot =
            |edge| ReferenceSnapshot { reference: self.store.reference(edge), owner: self.owner_view(edge) };
        self.store.owners(id).take(most).map(snapshot).collect()
    }

    /// An observed object, and the dependents that block it and are not deleting dependents.
    pub(super) fn read_object(&mut self, id: NodeId) -> (ObjectSnapshot, Vec<NodeId>) {
        let (foreground, active) = match self.store.nodes[id].deletion {
            DeletionState::DeletingDependents => self.foreground(id),
            _ => (ForegroundProgress::Unblocked, Vec::new()),
        };
        let node = &self.store.nodes[id];
        let references = self.references(id, usize::MAX);
        let snapshot = ObjectSnapshot {
            identity: self.store.identity(id),
            resource_version: self.store.version(id).cloned(),
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
        } else if active.is_empty() && self.is_in_cycle(id) {
            ForegroundProgress::Deadlocked
        } else {
            ForegroundProgress::Blocked(blocking.len())
        };
        (progress, active)
    }

    /// Whether a dependent in this partition blocks the owner with this uid through an
    /// `apiVersion` whose kinds discovery could not read so far. Such a reference is not
    /// attached to the owner's node until it resolves, and blocks the owner all the same.
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
            Presence::Observed if self.store.is_synced(id) => OwnerState::Observed {
                resource_version: self.store.version(id).cloned(),
                deletion: node.deletion,
            },
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
        let mut shared = KeyedSet::with_hasher(self.store.hasher);
        let mut seen = KeyedSet::with_hasher(self.store.hasher);
        if self.store.owners(dependent).nth(1).is_some() {
            let owners = self.store.owners(dependent).map(|edge| self.store.edges[edge].owner);
            let uids = owners.map(|owner| &self.store.nodes[owner].uid);
            shared.extend(uids.filter(|&uid| !seen.insert(uid)));
        }
        shared
    }

    /// Whether a key may have been parked for one of these types: it is of that type, or one of its
    /// owners is. A key without a node always counts, since its evaluation costs nothing.
    pub fn is_concerned(&self, key: &Key, by: &BTreeSet<GroupResource>) -> bool {
        let is = |id: NodeId| self.store.resource_of(id).is_some_and(|own| by.contains(&own.group_resource));
        let Some(id) = self.store.find_key(key) else { return true };
        is(id) || self.store.owners(id).any(|edge| is(self.store.edges[edge].owner))
    }

    /// The identity of a key's node: the observed one or, for an owner that has to be verified,
    /// the one that a reference names.
    pub fn identify(&self, key: &Key) -> Option<Identity> {
        self.store.find_key(key).map(|id| self.store.identity(id))
    }

    /// An observed object with this uid in this partition, under its primary name.
    pub fn observed(&self, uid: &Uid) -> Option<Identity> {
        self.store.observed_with(uid).first().map(|&id| self.store.identity(id))
    }

    /// The owners with this uid that only references name. Those that were proved absent come first.
    pub fn only_named(&self, uid: &Uid) -> Vec<Identity> {
        let with = |presence| {
            let is = move |id: &NodeId| self.store.nodes[*id].presence == presence;
            self.store.with_uid(uid).filter(is).map(|id| self.store.identity(id))
        };
        with(Presence::Absent).chain(with(Presence::Virtual)).collect()
    }

    /// The first observed objects with this uid in this partition, under all their names.
    pub fn all_observed(&self, uid: &Uid, most: usize) -> impl Iterator<Item = Identity> {
        self.store.observed_with(uid).into_iter().take(most).map(|id| self.store.identity(id))
    }

    /// An object as it was last seen; `None` if no monitor shows one under this key. Unlike
    /// [`snapshot_and_queue`](Self::snapshot_and_queue), asking queues nothing.
    pub fn observed_object(&self, key: &Key) -> Option<ObjectFacts> {
        let id = self.store.find_key(key)?;
        let node = &self.store.nodes[id];
        let (grace, ends) = self.may_be_stuck.get(&id).copied().unwrap_or_default();
        node.is_observed().then(|| ObjectFacts {
            uid: node.uid.clone(),
            namespace: self.store.namespace(id).cloned(),
            name: node.name.clone(),
            resource_version: self.store.version(id).cloned(),
            owners: self.store.owners(id).map(|edge| self.store.reference(edge)).collect(),
            being_deleted: node.deletion.is_being_deleted(),
            finalizers: node.finalizers,
            held_by_others: node.held_by_others,
            grace,
            ends,
        })
    }
}
