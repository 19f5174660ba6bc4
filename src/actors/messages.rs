//! The messages that actors send each other, in one place.

use std::ops::Range;
use std::sync::Arc;

use actix::{Message, MessageResponse};
use tokio::time::Instant;

use crate::actors::graph_queue::Arrival;
use kube_gc_core::graph::dump::{DumpId, DumpNode, EdgePage, Neighborhood, NodePage};
use kube_gc_core::graph::{
    Bookmark, Cursor, DependentView, Epoch, ExpectedChange, Generation, Intake, ObservedObject, OwnerState,
    PartitionId, PeerMessage, Snapshot, Stats, StuckFilter, StuckObjects, Verification,
};
use kube_gc_core::object::{Catalog, Disturbance, GroupResource, Identity, Key, ResourceType, Uid};

// To a graph partition.

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

/// Sizes and pending messages.
#[derive(Debug, Message)]
#[rtype(result = "PartitionStatus")]
pub struct AskStatus;

/// The answer to [`AskStatus`].
#[derive(Clone, Copy, Debug, MessageResponse)]
pub struct PartitionStatus {
    /// Sizes.
    pub stats: Stats,
    /// Messages to other partitions that are not applied yet.
    pub outbox: usize,
}

/// How many objects of this type are there?
#[derive(Debug, Message)]
#[rtype(result = "usize")]
pub struct AskPopulation(pub GroupResource);

/// A page of the nodes that have an edge, of so many places at most.
#[derive(Debug, Message)]
#[rtype(result = "NodePage")]
pub struct AskNodes {
    /// Where the page before ended.
    pub after: Option<Cursor>,
    /// How many places to look at.
    pub places: usize,
}

/// A page of the edges, of so many places at most.
#[derive(Debug, Message)]
#[rtype(result = "EdgePage")]
pub struct AskEdges {
    /// Where the page before ended.
    pub after: Option<Cursor>,
    /// How many places to look at.
    pub places: usize,
}

/// Which of these nodes do you show better than I?
#[derive(Debug, Message)]
#[rtype(result = "Vec<bool>")]
pub struct AskBetter {
    /// I.
    pub asker: PartitionId,
    /// What I show.
    pub shown: Arc<Vec<(DumpId, DumpNode)>>,
}

/// The nodes that have one of these uids.
#[derive(Debug, Message)]
#[rtype(result = "Vec<(DumpId, DumpNode)>")]
pub struct AskNodesOf(pub Vec<Uid>);

/// These nodes and their edges.
#[derive(Debug, Message)]
#[rtype(result = "Neighborhood")]
pub struct AskAround(pub Arc<Vec<DumpId>>);

/// What cannot be finished and is in no queue?
#[derive(Debug, Message)]
#[rtype(result = "StuckObjects")]
pub struct AskWaiting(pub StuckFilter);

/// Which objects are these keys?
#[derive(Debug, Message)]
#[rtype(result = "Vec<Option<Identity>>")]
pub struct IdentifyAll(pub Vec<Key>);

// To a pool.

/// Keys to work on.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Enqueue {
    /// The keys.
    pub keys: Vec<Key>,
    /// Which of them are dependents of an owner whose deletion came when; in order.
    pub bereaved: Vec<(Range<usize>, Instant)>,
}

impl From<Vec<Key>> for Enqueue {
    fn from(keys: Vec<Key>) -> Self {
        Self { keys, bereaved: Vec::new() }
    }
}

impl Enqueue {
    /// The same in messages of at most so many keys.
    pub fn parts(mut self, size: usize) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            if self.keys.is_empty() {
                return None;
            }
            let rest = self.keys.split_off(self.keys.len().min(size));
            let keys = std::mem::replace(&mut self.keys, rest);
            let count = keys.len();
            let inside = |range: &Range<usize>| range.start.min(count)..range.end.min(count);
            let beyond = |range: &Range<usize>| range.start.max(count) - count..range.end.max(count) - count;
            let part = |cut: &dyn Fn(&Range<usize>) -> Range<usize>| {
                let cut = self.bereaved.iter().map(|(range, at)| (cut(range), *at));
                cut.filter(|(range, _)| !range.is_empty()).collect()
            };
            let (here, later) = (part(&inside), part(&beyond));
            self.bereaved = later;
            Some(Self { keys, bereaved: here })
        })
    }

    /// Every key, with the moment in which the deletion of its owner came.
    pub fn causes(self) -> impl Iterator<Item = (Key, Option<Instant>)> {
        let mut bereaved = self.bereaved.into_iter().peekable();
        self.keys.into_iter().enumerate().map(move |(index, key)| {
            while bereaved.next_if(|(range, _)| range.end <= index).is_some() {}
            let cause = bereaved.peek().filter(|(range, _)| range.contains(&index));
            (key, cause.map(|(_, at)| *at))
        })
    }
}

/// Start handing out work: all backoff is forgotten.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Open;

/// Stop handing out work; keys are still queued. Answered when no item is being
/// worked on any more.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Close;

/// Discovery changed: queue what waits for a kind to resolve.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct WakeUnresolved;

/// The API server can be reached again: queue what its outage has delayed.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct WakeRecovered;

/// Which keys wait for a kind to resolve or for an owner's type to be read?
#[derive(Debug, Message)]
#[rtype(result = "Vec<Key>")]
pub struct AskParked;

/// Queue those of these keys that wait still.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Wake(pub Vec<Key>);

/// The brake is released: queue what it has held.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct WakeHeld;

// To discovery.

/// A CustomResourceDefinition or an APIService changed: look at once.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Message)]
#[rtype(result = "()")]
pub struct ServedTypesChanged {
    /// What discovery has to show before the change has arrived there.
    pub expected: ExpectedDiscovery,
}

/// These types are defined by the CRDs that were listed: discovery should look if
/// it does not know one of them.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct TypesListed(pub Vec<GroupResource>);

/// What discovery will show once a change has arrived.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExpectedDiscovery {
    /// The resource is served.
    Served(GroupResource),
    /// The resource is not served.
    NotServed(GroupResource),
    /// Something about this group is different.
    Changed {
        /// The API group.
        group: Box<str>,
    },
}

/// A monitor's list went back in time: the store was restored from a backup.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StoreRestored {
    /// Where it was noticed, and what was seen: for the log.
    pub detail: String,
}

/// A monitor has everything of a list in the graph, or has failed to list anew.
/// The registry says which.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct SyncChanged(pub GroupResource);

/// A monitor has ended after being drained.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct MonitorDrained(pub GroupResource, pub Epoch);

// To a monitor.

/// The type is no longer served: end with the watch, in 30 s at the latest.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Drain;

/// End at once. Answered when its watch is closed.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Stop;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::actors::tests::key;

    #[test]
    fn each_key_keeps_the_moment_of_its_cause_wherever_messages_are_cut() {
        let origin = Instant::now();
        let at = |seconds| origin + Duration::from_secs(seconds);
        let keys: Vec<_> = (0..10).map(|number| key("a", &number.to_string())).collect();
        let bereaved = vec![(1..3, at(1)), (3..4, at(2)), (6..9, at(3))];
        let expected = [None, Some(1), Some(1), Some(2), None, None, Some(3), Some(3), Some(3), None];
        for size in 1..12 {
            let all = Enqueue { keys: keys.clone(), bereaved: bereaved.clone() };
            let parts: Vec<_> = all.parts(size).collect();
            assert!(parts.iter().all(|part| part.keys.len() <= size));
            let found: Vec<_> = parts.into_iter().flat_map(Enqueue::causes).collect();
            let wanted: Vec<_> = keys.iter().cloned().zip(expected.map(|seconds| seconds.map(at))).collect();
            assert_eq!(found, wanted, "in messages of {size}");
        }
    }
}
