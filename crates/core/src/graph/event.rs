//! What comes into a partition.

use std::sync::Arc;

use crate::object::{
    DeletionState, Key, Namespace, ObjectFacts, OwnerReference, ResourceType, ResourceVersion,
};

/// One run of a monitor. Grows over the life of the process and over all types,
/// so a batch of a monitor that has been stopped is told from its successor's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Whether a delete seen by a watch, or an object missing from a list, proves
/// that the object is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletesProve {
    /// Served by the API server itself: a delete event or list diff is proof.
    Absence,
    /// Served by an aggregated API, which may show what it likes: each owner
    /// that seems gone is looked up before anything follows from it.
    Nothing,
}

/// What a partition is told by monitors and by discovery.
#[derive(Clone, Debug)]
pub enum Intake {
    /// A monitor begins. Batches of other epochs for this type are discarded
    /// from now on; so are batches of a type that has no monitor.
    MonitorStarted {
        /// The type that it watches.
        resource: Arc<ResourceType>,
        /// Its epoch.
        epoch: Epoch,
        /// What its deletes are worth.
        deletes_prove: DeletesProve,
    },
    /// Watch events, in the order in which the API server sent them.
    Events {
        /// The watched type.
        resource: Arc<ResourceType>,
        /// The monitor's epoch.
        epoch: Epoch,
        events: Vec<WatchEvent>,
    },
    /// Discovery does not show the type any more, and its monitor has been drained.
    /// That proves nothing: its nodes stay, and nobody is known to be there.
    TypeUnserved {
        /// The type.
        resource: Arc<ResourceType>,
        /// The epoch of the monitor that ended; ignored if another one runs.
        epoch: Epoch,
    },
    /// The type is proved to be gone and its monitor has been drained. Its nodes
    /// leave without being taken for deleted; references to it become unresolved.
    TypeRemoved {
        /// The type.
        resource: Arc<ResourceType>,
        /// The epoch of the monitor that ended; ignored if another one runs.
        epoch: Epoch,
        /// The latest disturbance when that was proved; `None`: nothing proves it.
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
        /// The list's version, if it is known before the list is complete. Then the list is at
        /// least as recent as every object of the type that was seen before.
        resource_version: Option<ResourceVersion>,
    },
    /// An object of a list, or an ADDED or MODIFIED event.
    Apply(ObjectFacts),
    /// A DELETED event, with the object's last state.
    Delete(ObjectFacts),
    /// The list is complete. A node that was not in it is gone, unless the node's version is
    /// greater than the list's: such an object was created after the list was taken.
    InitDone {
        /// The list's version.
        resource_version: Option<ResourceVersion>,
    },
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

/// What one partition tells another. Sent again whenever a fact in it changes;
/// applying one twice changes nothing.
#[derive(Clone, Debug)]
pub enum PeerMessage {
    /// "This dependent of mine refers to that owner of yours."
    Link(Link),
    /// "It no longer does", or "it is gone".
    Unlink {
        /// The dependent.
        dependent: Key,
        /// The owner; its `namespace` is `None`.
        owner: Key,
    },
}

/// All that the partition of a cluster-scoped owner must know of a dependent
/// that lives in another partition.
#[derive(Clone, Debug)]
pub struct Link {
    /// The owner's type, through the catalog that resolved the reference.
    pub owner: Key,
    /// The dependent's type.
    pub resource: Arc<ResourceType>,
    /// The dependent's namespace.
    pub namespace: Namespace,
    /// The dependent's name.
    pub name: Box<str>,
    /// The dependent's uid.
    pub uid: crate::object::Uid,
    /// How far the dependent's own deletion has come.
    pub deletion: DeletionState,
    /// Whether another of the dependent's references has the same uid, be it to
    /// this owner or to another kind.
    pub shares_uid: bool,
    /// Every reference of the dependent to this owner, as written. More than one
    /// when duplicates differ in a field.
    pub references: Vec<OwnerReference>,
}
