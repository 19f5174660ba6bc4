//! The input of a partition.

use std::sync::Arc;

use crate::object::{
    DeletionState, Key, Namespace, ObjectFacts, OwnerReference, ResourceType, ResourceVersion,
};

/// One run of a monitor. Epochs grow over the life of the process and over all types, which
/// tells the batches of a stopped monitor from those of its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Whether a DELETED event, or an object missing from a list, proves that the object is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletesProve {
    /// The API server serves the type itself: they are proof.
    Absence,
    /// An aggregated API server serves the type and may show anything: an owner that seems gone
    /// is looked up before anything follows from it.
    Nothing,
}

/// What monitors and discovery tell a partition.
#[derive(Clone, Debug)]
pub enum Intake {
    /// A monitor begins. From now on, batches of other epochs for this type are discarded.
    /// Batches of a type that has no monitor always are.
    MonitorStarted { resource: Arc<ResourceType>, epoch: Epoch, deletes_prove: DeletesProve },
    /// Watch events, in the order in which the API server sent them.
    Events { resource: Arc<ResourceType>, epoch: Epoch, events: Vec<WatchEvent> },
    /// Discovery no longer shows the type, and its monitor has been drained. That proves
    /// nothing: the nodes stay, but no longer prove that their objects exist.
    TypeUnserved {
        resource: Arc<ResourceType>,
        /// The epoch of the monitor that ended; ignored if another one runs.
        epoch: Epoch,
    },
    /// The type is proved to be gone and its monitor has been drained. Its nodes are removed,
    /// which does not count as a deletion; references to them become unresolved.
    TypeRemoved {
        resource: Arc<ResourceType>,
        /// The epoch of the monitor that ended; ignored if another one runs.
        epoch: Epoch,
        /// The latest [`Disturbance`](crate::object::Disturbance) when that was proved. `None` if
        /// nothing proves it.
        proved_under: Option<u64>,
    },
}

/// One event of a list followed by a watch, in the words of kube's `watcher::Event`.
///
/// A list is an `Init`, its objects as `Apply`, and an `InitDone`. kube calls the objects
/// between the two `InitApply`. One variant is enough here because the partition knows
/// whether a list of the type is in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// A list begins. Objects that it does not contain may be gone.
    Init {
        /// The list's version, or the least that it can be, if it is known before the list is
        /// complete. Then the list is at least as recent as every object of the type that was seen
        /// before.
        resource_version: Option<ResourceVersion>,
    },
    /// An object of a list, or an ADDED or MODIFIED event.
    Apply(ObjectFacts),
    /// A DELETED event, with the object's last state.
    Delete(ObjectFacts),
    /// The list is complete. A node that was not in it is gone, unless the node's version is
    /// greater than the list's: such an object was created after the list was taken.
    InitDone { resource_version: Option<ResourceVersion> },
}

impl WatchEvent {
    /// The object of an `Apply` or a `Delete`.
    #[must_use]
    pub const fn facts(&self) -> Option<&ObjectFacts> {
        match self {
            Self::Apply(facts) | Self::Delete(facts) => Some(facts),
            Self::Init { .. } | Self::InitDone { .. } => None,
        }
    }
}

/// What one partition tells another. It is sent again whenever a fact in it changes, and is
/// idempotent.
#[derive(Clone, Debug)]
pub enum PeerMessage {
    /// A dependent of the sender refers to an owner of the receiver.
    Link(Link),
    /// The dependent no longer refers to the owner, or is gone.
    Unlink {
        dependent: Key,
        /// Its `namespace` is `None`.
        owner: Key,
    },
}

/// What the partition of a cluster-scoped owner has to know about a dependent in another
/// partition.
#[derive(Clone, Debug)]
pub struct Link {
    /// The owner, with the type that the sender's catalog resolved.
    pub owner: Key,
    pub resource: Arc<ResourceType>,
    pub namespace: Namespace,
    pub name: Box<str>,
    pub uid: crate::object::Uid,
    pub deletion: DeletionState,
    /// Whether another of the dependent's references has the same uid, to this owner or to one
    /// of another kind.
    pub shares_uid: bool,
    /// Every reference of the dependent to this owner. There are several if duplicates differ in
    /// a field.
    pub references: Vec<OwnerReference>,
}
