//! Messages to a partition of the graph: changes, and the questions of workers.

use std::collections::BTreeSet;
use std::sync::Arc;

use actix::{Message, MessageResponse};

use crate::actors::graph_queue::Arrival;
use kube_gc_core::graph::{
    Bookmark, DependentView, Epoch, ExpectedChange, Generation, Intake, ObservedObject, OwnerState,
    PeerMessage, Snapshot, Verification,
};
use kube_gc_core::object::{Catalog, Disturbance, GroupResource, Identity, Key, ResourceType, Uid};

/// Monitors start, or types are removed. Answered when the graph has applied it.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct TakeIn(pub Vec<Intake>);

/// Changes from a monitor. Answered when the graph has applied them, which throttles a fast watch.
/// If a list ends in them, answered when other partitions have applied its links, too.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct TakeInChanges {
    /// The monitored type.
    pub resource: Arc<ResourceType>,
    /// The monitor's epoch.
    pub epoch: Epoch,
    /// The changes, in order.
    pub arrivals: Vec<Arrival>,
}

/// Links from another partition. Answered when this partition has applied them.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct FromPeer(pub Vec<PeerMessage>);

/// Answered when the other partitions have applied every link that this one queued before.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Fence;

/// Replaces the resource catalog.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct UseCatalog(pub Arc<Catalog>);

/// Asks for the state of a key, as a worker needs it.
#[derive(Debug, Message)]
#[rtype(result = "Snapshot")]
pub struct AskSnapshot(pub Key);

/// The same, but `None` for an object with very many owner references.
#[derive(Debug, Message)]
#[rtype(result = "Option<Snapshot>")]
pub struct LookAtSmall(pub Key);

/// Asks what is known about an identity as an owner.
#[derive(Debug, Message)]
#[rtype(result = "OwnerState")]
pub struct AskOwner(pub Identity);

/// Asks whether a dependent in this partition blocks the owner with this uid through a part of the
/// API that could not be read.
#[derive(Debug, Message)]
#[rtype(result = "bool")]
pub struct AskUnread(pub Uid);

/// The result of looking up an owner.
#[derive(Debug, Message)]
#[rtype(result = "Verification")]
pub struct Verified {
    /// The identity that was looked up.
    pub identity: Identity,
    /// The generation of the node when the look-up began.
    pub generation: Generation,
    /// The latest disturbance when the look-up was sent, if known.
    pub under: Option<u64>,
    /// The answer.
    pub finding: Finding,
}

/// What a look-up proves about an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// Proved absent.
    Absent,
    /// Its type is not served, which proves nothing. Another identity is tried next.
    NotServed,
}

/// Asks for one page of an owner's dependents.
#[derive(Debug, Message)]
#[rtype(result = "Page")]
pub struct PageOfDependents {
    /// The owner.
    pub owner: Key,
    /// The end of the page before.
    pub after: Option<Bookmark>,
    /// The size of the page.
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

/// Asks for the observed object with this uid.
#[derive(Debug, Message)]
#[rtype(result = "Option<Identity>")]
pub struct Locate(pub Uid);

/// Asks for the identity of a key.
#[derive(Debug, Message)]
#[rtype(result = "Option<Identity>")]
pub struct Identify(pub Key);

/// Asks for the state of objects. Answered in their order. Queues nothing.
#[derive(Debug, Message)]
#[rtype(result = "Vec<Option<ObservedObject>>")]
pub struct Show(pub Vec<Key>);

/// Asks which of these keys may wait for owners of some types. Answered in their order.
#[derive(Debug, Message)]
#[rtype(result = "Vec<bool>")]
pub struct AskConcerned {
    /// Objects, and owners that must be looked up.
    pub keys: Vec<Key>,
    /// The types.
    pub by: Arc<BTreeSet<GroupResource>>,
}

/// A write succeeded: an event of the object must follow.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Expect {
    /// The object.
    pub key: Key,
    /// What the event will show.
    pub change: ExpectedChange,
    /// The latest disturbance when it was written, if known.
    pub under: Option<u64>,
}

/// Watches broke, or a list has shown the version of the store since. Answered when earlier proofs
/// of absence are forgotten.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Disturbed(pub Disturbance);

/// Queues every key that may need work, as if none had been queued before.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Rederive;

/// Forget the whole graph: the store went back in time.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Reset;
