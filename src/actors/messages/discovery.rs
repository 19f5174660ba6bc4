//! Messages to discovery.

use actix::Message;

use kube_gc_core::graph::Epoch;
use kube_gc_core::object::GroupResource;

/// A CustomResourceDefinition or an APIService changed: discover the served types now.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Message)]
#[rtype(result = "()")]
pub struct ServedTypesChanged {
    /// What discovery will show once the API server serves the change.
    pub expected: ExpectedDiscovery,
}

/// The types that the listed CRDs define. Discovery runs if it does not know one of them.
#[derive(Clone, Debug, Message)]
#[rtype(result = "()")]
pub struct TypesListed(pub Vec<GroupResource>);

/// What discovery will show once a change is served.
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

/// A monitor has synced, or has lost its sync because a list failed. The registry says which.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct SyncChanged(pub GroupResource);

/// A monitor has ended after being drained.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct MonitorDrained(pub GroupResource, pub Epoch);

/// The store was restored: start no monitor until [`Resume`]. Running monitors continue.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Suspend;

/// End all monitors. Answered when their watches are closed.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct StopMonitors;

/// The graph is empty: start the monitors again.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Resume {
    /// How often the graph was rebuilt; `SyncProgress` repeats it.
    pub rebuild: u64,
}

/// Discover the served types now: the API server can be reached again.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct Rediscover;

/// Watches broke, and every proof of absence is forgotten.
#[derive(Debug, Message)]
#[rtype(result = "()")]
pub struct AbsencesForgotten;
