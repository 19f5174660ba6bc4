//! The messages between discovery, the monitors and Lifecycle. Each of them knows the others by these
//! alone; the messages of a partition and of a pool stand beside their actor.

use kube_gc_core::graph::Epoch;
use kube_gc_core::object::GroupResource;

messages!(DiscoveryMessage => (), StopMonitors => (), SyncProgress => ());

/// What monitors and Lifecycle tell discovery.
#[derive(Debug)]
pub enum DiscoveryMessage {
    /// A CustomResourceDefinition or an APIService changed: discover the served types now.
    ServedTypesChanged(ExpectedDiscovery),
    /// A listed CRD defines this type. Discovery runs if it does not know the type: no event shows a
    /// CRD that was created while the watch was closed.
    TypeListed(GroupResource),
    /// A monitor has synced, or has lost its sync because a list failed. The registry says which.
    SyncChanged(GroupResource),
    /// A monitor has ended after being drained.
    MonitorDrained(GroupResource, Epoch),
    /// The graph is empty: start the monitors again.
    Resume {
        /// How often the graph was rebuilt; `SyncProgress` repeats it.
        rebuild: u64,
    },
    /// Discover the served types now: the API server can be reached again.
    Rediscover,
    /// Watches broke, and every proof of absence is forgotten.
    AbsencesForgotten,
}

/// End all monitors, and start none until [`Resume`](DiscoveryMessage::Resume). Answered when their
/// watches are closed.
#[derive(Debug)]
pub struct StopMonitors;

/// What discovery will show once a change is served.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExpectedDiscovery {
    Served(GroupResource),
    NotServed(GroupResource),
    /// Something about this group is different.
    Changed {
        group: Box<str>,
    },
}

/// Monitors started, synced or lost their sync.
#[derive(Debug)]
pub struct SyncProgress {
    /// Which rebuild of the graph they belong to; see [`DiscoveryMessage::Resume`].
    pub rebuild: u64,
    /// Whether every type that is served is synced.
    pub all_synced: bool,
}
