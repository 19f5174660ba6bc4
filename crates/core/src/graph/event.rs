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
    /// Changes, in the order in which the API server sent them.
    Changes {
        /// The type.
        resource: Arc<ResourceType>,
        /// The monitor's epoch.
        epoch: Epoch,
        /// The changes.
        changes: Vec<Change>,
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

/// One step of a list or a watch.
#[derive(Clone, Debug)]
pub enum Change {
    /// A list begins: what it does not show by its end may be gone.
    ListBegan {
        /// The version for which it stands, if that is known already: then it is not
        /// older than anything that was seen of the type.
        resource_version: Option<ResourceVersion>,
    },
    /// An object as a list or an ADDED or MODIFIED event showed it.
    Seen(ObjectFacts),
    /// A DELETED event, with the object's last state.
    Deleted(ObjectFacts),
    /// The list is complete and stands for this version. A node that it did not
    /// show is gone if the node's own version is not greater (an object created
    /// after the list's version is not in it, and is alive).
    ListEnded {
        /// The list's resource version.
        resource_version: Option<ResourceVersion>,
    },
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
