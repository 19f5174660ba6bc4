//! The status of a collector, for applications.

use crate::http;

/// What a collector watches, and how much work is waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Status {
    /// Whether API discovery has succeeded and the workers have started.
    pub ready: bool,
    /// The watched resource types.
    pub resources: Vec<ResourceStatus>,
    /// The work queues.
    pub queues: Vec<QueueStatus>,
}

/// A watched resource type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ResourceStatus {
    /// Resource and group, such as `configmaps` or `deployments.apps`.
    pub resource: String,
    /// The API version that is watched.
    pub version: String,
    /// Whether the list and all events since then are in the graph.
    pub synced: bool,
    /// The last error since the type was synced, in the server's words.
    pub last_error: Option<String>,
}

/// The number of objects in a work queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStatus {
    /// The name, as in the label `name` of the workqueue metrics.
    pub name: String,
    /// Wait for a worker.
    pub ready: usize,
    /// Are being processed.
    pub processing: usize,
    /// Have failed and wait for their next attempt.
    pub delayed: usize,
    /// Wait for something outside of the collector, for example for the CRD of an owner.
    pub parked: usize,
}

impl From<http::MonitorStatus> for ResourceStatus {
    fn from(monitor: http::MonitorStatus) -> Self {
        let resource = monitor.group_resource().to_string();
        let http::MonitorStatus { version, synced, last_error, .. } = monitor;
        Self { resource, version, synced, last_error }
    }
}

impl From<http::QueueStatus> for QueueStatus {
    fn from(queue: http::QueueStatus) -> Self {
        let http::QueueStatus { name, counts, .. } = queue;
        let http::QueueCounts { ready, processing, delayed, parked } = counts;
        Self { name, ready, processing, delayed, parked }
    }
}
