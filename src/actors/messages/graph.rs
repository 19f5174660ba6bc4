//! Messages to a partition of the graph: changes, and the questions of workers.

use std::sync::Arc;

use actix::{Message, MessageResponse};

use crate::actors::graph_queue::Arrival;
use kube_gc_core::graph::{
    Bookmark, DependentView, Epoch, ExpectedChange, Generation, Intake, ObservedObject, OwnerState,
    PeerMessage, Snapshot, Verification,
};
use kube_gc_core::object::{Catalog, Disturbance, GroupResource, Identity, Key, ResourceType, Uid};

/// Monitors begin, types go. Answered when it is in the graph.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct TakeIn(pub Vec<Intake>);

/// Changes from a monitor. Answered when they are in the graph, which is what
/// holds a fast watch back; if a list ends in them, when the links that were
/// made from it have been applied too.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct TakeInChanges {
    /// The type that is monitored.
    pub resource: Arc<ResourceType>,
    /// The monitor's epoch.
    pub epoch: Epoch,
    /// The changes, in order.
    pub arrivals: Vec<Arrival>,
}

/// Links from another partition. Answered when they are applied.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct FromPeer(pub Vec<PeerMessage>);

/// Answered when everything that this partition had to tell others before it has
/// been applied there.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Fence;

/// A new resource catalog.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct UseCatalog(pub Arc<Catalog>);

/// What is there to decide about this key?
#[derive(Debug, Message)]
#[rtype(result = "Snapshot")]
pub struct Look(pub Key);

/// The same, unless it is an object that names very many owners.
#[derive(Debug, Message)]
#[rtype(result = "Option<Snapshot>")]
pub struct LookAtSmall(pub Key);

/// What is known about this identity as an owner?
#[derive(Debug, Message)]
#[rtype(result = "OwnerState")]
pub struct AskOwner(pub Identity);

/// Does a dependent here block the owner with this uid through a part of the API
/// that could not be read?
#[derive(Debug, Message)]
#[rtype(result = "bool")]
pub struct AskUnread(pub Uid);

/// What the verification of an owner's identity found.
#[derive(Debug, Message)]
#[rtype(result = "Verification")]
pub struct Verified {
    /// The identity that was looked up.
    pub identity: Identity,
    /// The generation of the node that the look-up began with.
    pub generation: Generation,
    /// The latest disturbance when the look-up was sent, if that is known.
    pub under: Option<u64>,
    /// The answer.
    pub finding: Finding,
}

/// What a look-up says about an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Proved absent.
    Absent,
    /// Its type is not served, so nothing can be said: try another identity.
    NotServed,
}

/// One page of an owner's dependents.
#[derive(Debug, Message)]
#[rtype(result = "Page")]
pub struct PageOfDependents {
    /// The owner.
    pub owner: Key,
    /// Where the page before ended.
    pub after: Option<Bookmark>,
    /// How many at most.
    pub limit: usize,
}

/// The answer to [`PageOfDependents`].
#[derive(Debug, MessageResponse)]
pub struct Page {
    /// The dependents.
    pub dependents: Vec<DependentView>,
    /// Where the next page starts; `None` after the last one.
    pub next: Option<Bookmark>,
}

/// Is an object with this uid observed here?
#[derive(Debug, Message)]
#[rtype(result = "Option<Identity>")]
pub struct Locate(pub Uid);

/// Which object is this key?
#[derive(Debug, Message)]
#[rtype(result = "Option<Identity>")]
pub struct Identify(pub Key);

/// How are these objects now? Answered in their order; asking queues nothing.
#[derive(Debug, Message)]
#[rtype(result = "Vec<Option<ObservedObject>>")]
pub struct Show(pub Vec<Key>);

/// May deciding on these objects have waited for owners of this type? Answered in their order.
#[derive(Debug, Message)]
#[rtype(result = "Vec<bool>")]
pub struct AskConcerned {
    /// The objects, and owners that are to be verified.
    pub keys: Vec<Key>,
    /// The type.
    pub by: GroupResource,
}

/// A write of ours succeeded: an event of the object is to be expected.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Expect {
    /// The object.
    pub key: Key,
    /// What the event will show.
    pub change: ExpectedChange,
    /// The latest disturbance when it was written, if that is known.
    pub under: Option<u64>,
}

/// Watches broke, or more is known of the store since. Answered when absences that
/// were proved before are forgotten.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Disturbed(pub Disturbance);

/// Queue everything that may need work, as if nothing had been queued so far.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Rederive;

/// Forget the whole graph: the store went back in time.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Reset;
