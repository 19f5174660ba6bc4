//! What a worker is given to decide on.

use crate::object::{DeletionState, Finalizers, Identity, OwnerReference, ResourceVersion};

/// Counts the changes of one node itself (presence, identity, references,
/// finalizers, deletion), not of its dependents. A verdict reached on one
/// generation does not hold for the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Generation(pub u32);

/// The state of a key's node at the moment when a worker looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Snapshot {
    /// No node: nothing to decide.
    Gone,
    /// A write of ours to it has not come back as an event. What is known of it is
    /// outdated; it is queued again when the event comes.
    AwaitsEvent,
    /// Some dependent names it and no monitor shows it: to be verified.
    Virtual(VirtualSnapshot),
    /// An observed object.
    Object(Box<ObjectSnapshot>),
}

/// An owner that is to be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualSnapshot {
    /// Where to look: a guess from one of the references.
    pub identity: Identity,
    /// What the answer will be bound to.
    pub generation: Generation,
}

/// An observed object with all that a decision about it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSnapshot {
    /// The object.
    pub identity: Identity,
    /// The version that was last seen; bound into every write that follows.
    pub resource_version: Option<ResourceVersion>,
    /// The node's generation.
    pub generation: Generation,
    /// How far its own deletion has come.
    pub deletion: DeletionState,
    /// Its own garbage collector finalizers.
    pub finalizers: Finalizers,
    /// Its references, in order, each with what this partition knows of the owner.
    pub references: Vec<ReferenceSnapshot>,
    /// Whether anything names it as owner (over all its aliases; itself not counted).
    pub has_dependents: bool,
    /// Whether one of these dependents is deleting dependents: a possible cycle.
    pub has_dependent_deleting_dependents: bool,
    /// How far its foreground deletion is; meaningful while `deletion` is
    /// [`DeletionState::DeletingDependents`].
    pub foreground: ForegroundProgress,
}

/// How far a foreground deletion is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForegroundProgress {
    /// No dependent blocks it: the finalizer may go.
    Unblocked,
    /// No dependent is known to block it. But what part of the API serves could not
    /// be read, and one that names it through that part hangs on no node yet:
    /// all partitions have to be asked
    /// ([`Partition::is_blocked_through_unread`](super::Partition::is_blocked_through_unread)).
    PerhapsBlocked,
    /// This many dependents block it; those that were not yet deleting
    /// dependents themselves have been queued.
    Blocked(usize),
    /// Every blocking dependent is itself deleting dependents, and the node
    /// reaches itself over blocking edges between such nodes: nothing will ever
    /// move unless one of them stops blocking.
    Deadlocked,
}

/// One reference and what is known about its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReferenceSnapshot {
    /// The reference, as written.
    pub reference: OwnerReference,
    /// The owner.
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
    /// The reference names this identity, and the node of that uid and resource
    /// in this partition says so much about it.
    Local {
        /// The identity that the reference means: its own name, and the
        /// dependent's namespace unless the kind is cluster-scoped.
        identity: Identity,
        /// What is known.
        state: OwnerState,
    },
}

impl OwnerView {
    /// The identity that the reference means, where its kind resolves.
    #[must_use]
    pub const fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Remote(identity) | Self::Local { identity, .. } => Some(identity),
            Self::Unresolved | Self::InvalidScope => None,
        }
    }
}

/// What the graph knows about one identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnerState {
    /// A synced monitor shows exactly this identity: it exists. Should the view
    /// be stale, the owner's delete event follows and queues its dependents.
    Observed {
        /// The version that was last seen.
        resource_version: Option<ResourceVersion>,
        /// How far its deletion has come. `DeletingDependents` makes its
        /// dependents wait; it is confirmed live before anything follows.
        deletion: DeletionState,
    },
    /// Exactly this identity was proved absent.
    Absent,
    /// Nothing that counts: no node, an unverified one, a monitor that is not
    /// synced, or a node with another name or namespace.
    Unknown,
}

/// Names one dependent of an owner for the orphan pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependentView {
    /// The dependent.
    pub identity: Identity,
    /// Its reference to the owner; the first, if there are several.
    pub reference: OwnerReference,
    /// Whether other references share this one's uid (then only a JSON merge
    /// patch removes the right entry).
    pub shares_uid: bool,
}

/// Where a page of dependents ended; the next one starts after it. Stays valid
/// while dependents come and go in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bookmark(pub(super) Mark);

/// What a [`Bookmark`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// So many pages of a scan were shown; the owner's node knows where the next one begins.
    Pages(u32),
    /// The greatest node that was shown.
    Node(u32),
}

/// Where a page of places ended; the next one starts after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor(pub u32);
