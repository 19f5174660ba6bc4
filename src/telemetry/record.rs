//! Recording metrics: one typed function for each event.

mod brake;
mod http;
mod leadership;
mod readiness;

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Label};

use super::names::{self, Metric};
use crate::object::GroupResource;

pub use brake::{brake_engaged, brake_engaged_by, brake_held};
pub use http::{HttpRefusal, certificate_failed, certificate_loaded, certificate_restored, http_refused};
pub use leadership::{
    LeaseTransition, election, gate_refused, lease_error, lease_remaining, lease_transition,
};
pub use readiness::ready;

/// The labels of a metric, with values in the order in which it declares them.
fn labels<const N: usize>(metric: &Metric, values: [Value<'_>; N]) -> Vec<Label> {
    debug_assert_eq!(metric.labels.len(), N, "{}", metric.name);
    metric.labels.iter().zip(values).map(|(name, value)| value.label(name)).collect()
}

/// A label's value; most are known at compile time and cost no allocation.
enum Value<'a> {
    Static(&'static str),
    Text(&'a str),
    Shown(&'a dyn std::fmt::Display),
}

impl Value<'_> {
    fn label(self, name: &'static str) -> Label {
        match self {
            Self::Static(value) => Label::from_static_parts(name, value),
            Self::Text(value) => Label::new(name, value.to_owned()),
            Self::Shown(value) => Label::new(name, value.to_string()),
        }
    }
}

fn counter<const N: usize>(metric: &Metric, values: [Value<'_>; N]) -> Counter {
    metrics::counter!(metric.name, labels(metric, values))
}

fn gauge<const N: usize>(metric: &Metric, values: [Value<'_>; N]) -> Gauge {
    metrics::gauge!(metric.name, labels(metric, values))
}

fn histogram<const N: usize>(metric: &Metric, values: [Value<'_>; N]) -> Histogram {
    metrics::histogram!(metric.name, labels(metric, values))
}

/// Gauges are floating-point numbers; below 2^53 a count is exact.
#[allow(clippy::cast_precision_loss)]
fn float(count: usize) -> f64 {
    count as f64
}

/// A queue, by the name that Kubernetes gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Queue {
    /// What the watches have told and the graph has not taken in.
    GraphChanges,
    /// The delete pool's.
    AttemptToDelete,
    /// The orphan pool's.
    AttemptToOrphan,
}

impl Queue {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::GraphChanges, Self::AttemptToDelete, Self::AttemptToOrphan];

    /// The name, as in the label `name` of the workqueue metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GraphChanges => "garbage_collector_graph_changes",
            Self::AttemptToDelete => "garbage_collector_attempt_to_delete",
            Self::AttemptToOrphan => "garbage_collector_attempt_to_orphan",
        }
    }
}

/// The metrics of one queue, looked up once: workers record for each object.
#[derive(Clone)]
pub struct QueueMetrics {
    depth: Gauge,
    adds: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    unfinished_work: Gauge,
    longest_running: Gauge,
    retries: Counter,
    processing: Gauge,
    delayed: Gauge,
    parked: Gauge,
}

/// What is sampled of a queue from time to time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSample {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys that are being worked on.
    pub processing: usize,
    /// Keys whose last try failed and that wait for the next one.
    pub delayed: usize,
    /// Keys that wait for the world to change.
    pub parked: usize,
    /// How long all work under way has taken so far, added up.
    pub unfinished: Duration,
    /// How long the longest work under way has taken so far.
    pub longest_running: Duration,
}

impl QueueMetrics {
    /// The metrics of a queue; they are there, as zeros, from now on.
    #[must_use]
    pub fn new(queue: Queue) -> Self {
        let name = || [Value::Static(queue.name())];
        Self {
            depth: gauge(&names::WORKQUEUE_DEPTH, name()),
            adds: counter(&names::WORKQUEUE_ADDS, name()),
            queue_duration: histogram(&names::WORKQUEUE_QUEUE_DURATION, name()),
            work_duration: histogram(&names::WORKQUEUE_WORK_DURATION, name()),
            unfinished_work: gauge(&names::WORKQUEUE_UNFINISHED_WORK, name()),
            longest_running: gauge(&names::WORKQUEUE_LONGEST_RUNNING, name()),
            retries: counter(&names::WORKQUEUE_RETRIES, name()),
            processing: gauge(&names::QUEUE_PROCESSING, name()),
            delayed: gauge(&names::QUEUE_DELAYED, name()),
            parked: gauge(&names::QUEUE_PARKED, name()),
        }
    }

    /// A key was queued.
    pub fn added(&self) {
        self.adds.increment(1);
    }

    /// So many keys have been queued since the queue was made: for queues that
    /// count themselves.
    pub fn added_in_total(&self, count: u64) {
        self.adds.absolute(count);
    }

    /// A key came to a worker after this time.
    pub fn waited(&self, duration: Duration) {
        self.queue_duration.record(duration);
    }

    /// The work on a key ended after this time.
    pub fn worked(&self, duration: Duration) {
        self.work_duration.record(duration);
    }

    /// The work on a key ended with another attempt to come.
    pub fn retried(&self) {
        self.retries.increment(1);
    }

    /// So many retries have there been since the queue was made.
    pub fn retried_in_total(&self, count: u64) {
        self.retries.absolute(count);
    }

    /// How the queue is now.
    pub fn sample(&self, sample: &QueueSample) {
        let QueueSample { ready, processing, delayed, parked, unfinished, longest_running } = *sample;
        self.depth.set(float(ready));
        self.processing.set(float(processing));
        self.delayed.set(float(delayed));
        self.parked.set(float(parked));
        self.unfinished_work.set(unfinished);
        self.longest_running.set(longest_running);
    }
}

impl std::fmt::Debug for QueueMetrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueMetrics").finish_non_exhaustive()
    }
}

/// A request was answered with this status `code`, or not at all (`"timeout"`,
/// `"error"`). Discovery has no resource: an empty [`GroupResource`].
pub fn request(verb: &'static str, resource: &GroupResource, code: &str, duration: Duration) {
    let labels = [Value::Static(verb), Value::Shown(resource), Value::Text(code)];
    counter(&names::REQUESTS, labels).increment(1);
    histogram(&names::REQUEST_DURATION, [Value::Static(verb)]).record(duration);
}

/// The size of one graph partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphSize {
    /// Observed objects.
    pub nodes: usize,
    /// Owners that no monitor shows.
    pub virtual_nodes: usize,
    /// References.
    pub edges: usize,
    /// Memory, in bytes.
    pub bytes: usize,
    /// Links that have not been applied yet.
    pub outbox: usize,
}

/// How large a partition is now.
pub fn graph(partition: usize, size: &GraphSize) {
    let GraphSize { nodes, virtual_nodes, edges, bytes, outbox } = *size;
    for (metric, count) in [
        (&names::GRAPH_NODES, nodes),
        (&names::GRAPH_VIRTUAL_NODES, virtual_nodes),
        (&names::GRAPH_EDGES, edges),
        (&names::GRAPH_BYTES, bytes),
        (&names::GRAPH_OUTBOX, outbox),
    ] {
        gauge(metric, [Value::Shown(&partition)]).set(float(count));
    }
}

/// The API server's store went back in time.
pub fn store_restored() {
    counter(&names::STORE_RESTORED, []).increment(1);
}

/// A warning was not told because too many waited.
pub fn report_dropped() {
    counter(&names::REPORTS_DROPPED, []).increment(1);
}

/// Where an object came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventSource {
    /// A list.
    Listed,
    /// A watch.
    Watched,
}

/// So many objects of a type came in.
pub fn events(resource: &GroupResource, source: EventSource, count: usize) {
    let source = match source {
        EventSource::Listed => "listed",
        EventSource::Watched => "watched",
    };
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    counter(&names::EVENTS, [Value::Shown(resource), Value::Static(source)]).increment(count);
}

/// A monitor failed unexpectedly and was started again.
pub fn monitor_restarted() {
    counter(&names::MONITOR_RESTARTS, []).increment(1);
}

/// Two different objects have one uid.
pub fn uid_collision() {
    counter(&names::UID_COLLISIONS, []).increment(1);
}

/// Why a reference can never be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidReference {
    /// The owner lives in another namespace.
    NamespaceMismatch,
    /// A cluster-scoped object names a namespaced kind of owner.
    InvalidScope,
}

/// A reference can never be right.
pub fn invalid_reference(reason: InvalidReference) {
    let reason = match reason {
        InvalidReference::NamespaceMismatch => "namespace_mismatch",
        InvalidReference::InvalidScope => "invalid_scope",
    };
    counter(&names::INVALID_REFERENCES, [Value::Static(reason)]).increment(1);
}

/// How far a monitor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MonitorState {
    /// Listing for the first time; nothing has gone wrong so far.
    Syncing,
    /// Its list and everything since is in the graph.
    Synced,
    /// It cannot be listed or watched.
    Failing,
    /// Its type is no longer served; the last events are being taken in.
    Draining,
}

impl MonitorState {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Syncing, Self::Synced, Self::Failing, Self::Draining];

    /// The label's value.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Syncing => "syncing",
            Self::Synced => "synced",
            Self::Failing => "failing",
            Self::Draining => "draining",
        }
    }
}

/// How many monitors are in a state now.
pub fn monitors(state: MonitorState, count: usize) {
    gauge(&names::MONITORS, [Value::Static(state.label())]).set(float(count));
}

/// Whether a type is synced. Call with `true` when it is no longer served, too:
/// a series cannot be taken back, and a type that is gone is nobody's problem.
pub fn resource_synced(group: &str, version: &str, resource: &str, synced: bool) {
    let labels = [Value::Text(group), Value::Text(version), Value::Text(resource)];
    gauge(&names::RESOURCE_UNSYNCED, labels).set(if synced { 0.0 } else { 1.0 });
}

/// A type could not be listed or watched.
pub fn resource_sync_error(group: &str, version: &str, resource: &str) {
    let labels = [Value::Text(group), Value::Text(version), Value::Text(resource)];
    counter(&names::RESOURCE_SYNC_ERRORS, labels).increment(1);
    counter(&names::RESOURCES_SYNC_ERRORS, []).increment(1);
}

/// Discovery failed, as a whole or for some group.
pub fn discovery_error() {
    counter(&names::DISCOVERY_ERRORS, []).increment(1);
    counter(&names::RESOURCES_SYNC_ERRORS, []).increment(1);
}

/// How many asynchronous tasks have not ended.
pub fn tasks(count: usize) {
    gauge(&names::TASKS, []).set(float(count));
}

/// Whether a part of the API cannot be discovered.
pub fn undiscovered(group: &str, version: Option<&str>, failing: bool) {
    let labels = [Value::Text(group), Value::Text(version.unwrap_or_default())];
    gauge(&names::UNDISCOVERED, labels).set(if failing { 1.0 } else { 0.0 });
}

/// It was decided to do this to an object of this type, and this came of it.
pub fn decision(action: &'static str, outcome: &str, resource: &GroupResource) {
    let labels = [Value::Static(action), Value::Text(outcome), Value::Shown(resource)];
    counter(&names::DECISIONS, labels).increment(1);
}

/// A deletion met a conflict and went on like this.
pub fn delete_conflict(next: &'static str) {
    counter(&names::DELETE_CONFLICTS, [Value::Static(next)]).increment(1);
}

/// A worker panicked and was started again.
pub fn worker_restarted(queue: Queue) {
    counter(&names::WORKER_RESTARTS, [Value::Static(queue.name())]).increment(1);
}

/// An owner was looked for among those proved absent.
pub fn absent_owner_lookup(hit: bool) {
    let metric = if hit { &names::ABSENT_OWNER_HITS } else { &names::ABSENT_OWNER_MISSES };
    counter(metric, []).increment(1);
}

/// How many owners proved absent are remembered now.
pub fn absent_owner_entries(count: usize) {
    gauge(&names::ABSENT_OWNER_ENTRIES, []).set(float(count));
}

/// How many owners are remembered now because their dependents were orphaned.
pub fn orphaned_owner_entries(count: usize) {
    gauge(&names::ORPHANED_OWNER_ENTRIES, []).set(float(count));
}

/// Creates the series that alerts look at as zeros: `rate` and `increase` do
/// not see the first event of a series that appears with it.
pub fn zeros() {
    for queue in Queue::ALL {
        let _ = QueueMetrics::new(queue);
    }
    for state in MonitorState::ALL {
        monitors(state, 0);
    }
    for queue in [Queue::AttemptToDelete, Queue::AttemptToOrphan] {
        counter(&names::WORKER_RESTARTS, [Value::Static(queue.name())]).increment(0);
    }
    http::zeros();
    brake::zeros();
    leadership::zeros();
    ready(false);
    for metric in [
        &names::RESOURCES_SYNC_ERRORS,
        &names::DISCOVERY_ERRORS,
        &names::UID_COLLISIONS,
        &names::STORE_RESTORED,
        &names::REPORTS_DROPPED,
        &names::MONITOR_RESTARTS,
        &names::ABSENT_OWNER_HITS,
        &names::ABSENT_OWNER_MISSES,
    ] {
        counter(metric, []).increment(0);
    }
}

/// What is running.
pub(super) fn build_info() {
    gauge(&names::BUILD_INFO, [Value::Static(env!("CARGO_PKG_VERSION"))]).set(1.0);
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Calls every function of this module.
    pub(in crate::telemetry) fn record_everything() {
        zeros();
        for queue in Queue::ALL {
            let metrics = QueueMetrics::new(queue);
            metrics.added();
            metrics.waited(Duration::from_secs(1));
            metrics.worked(Duration::from_secs(1));
            metrics.retried();
            metrics.sample(&QueueSample::default());
        }
        request("get", &GroupResource::parse("pods"), "timeout", Duration::from_secs(1));
        graph(0, &GraphSize::default());
        uid_collision();
        invalid_reference(InvalidReference::InvalidScope);
        resource_synced("apps", "v1", "deployments", false);
        resource_sync_error("apps", "v1", "deployments");
        discovery_error();
        undiscovered("apps", None, true);
        tasks(1);
        decision("keep", "parked", &GroupResource::parse("pods"));
        delete_conflict("backoff");
        worker_restarted(Queue::AttemptToDelete);
        store_restored();
        report_dropped();
        events(&GroupResource::parse("pods"), EventSource::Watched, 1);
        monitor_restarted();
        orphaned_owner_entries(1);
        absent_owner_lookup(true);
        absent_owner_entries(1);
        http_refused("health", HttpRefusal::Busy);
        certificate_failed();
        certificate_loaded();
        brake_engaged(true);
        brake_engaged_by("percent");
        brake_held(1);
        gate_refused("standby");
        lease_transition(LeaseTransition::Acquired);
        election();
        ready(true);
        lease_error();
        lease_remaining(Duration::from_secs(1));
        build_info();
    }
}
