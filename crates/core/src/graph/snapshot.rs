//! What a worker decides on.

use crate::object::{DeletionState, Finalizers, Identity, OwnerReference, ResourceVersion};

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
    Virtual(VirtualSnapshot),
    /// An observed object.
    Object(Box<ObjectSnapshot>),
}

/// An owner that has to be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualSnapshot {
    /// Where to look it up. References may disagree; this is what one of them says.
    pub identity: Identity,
    /// The answer is valid for this generation only.
    pub generation: Generation,
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
    #[must_use]
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

/// A dependent of an owner, for the orphan pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependentView {
    pub identity: Identity,
    /// Its first reference to the owner.
    pub reference: OwnerReference,
    /// Whether other references have the same uid. Then only a JSON merge patch removes the
    /// right entry.
    pub shares_uid: bool,
    /// How many references it has. Of a dependent in another partition, only those to cluster-scoped
    /// owners are counted.
    pub reference_count: usize,
}

/// Where the next page of dependents starts. It stays valid while dependents come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bookmark(pub(super) Mark);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The number of pages that were read. The store remembers where the next one begins.
    Pages(u32),
    /// The greatest node that was read.
    Node(u32),
}

/// A slot number. The next page starts after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u32);
