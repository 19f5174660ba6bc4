//! Typed functions that record metrics.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use metrics::{Counter, Gauge, Histogram, Label, SharedString};
use tokio::time::Instant;

use super::labels::{
    ACTIONS, ApiSide, EventKind, InvalidReference, MonitorState, OUTCOMES, Queue, StuckReason,
};
use super::names::{self, ALL, Kind, Metric};
use kube_gc_core::graph::Stats;
use kube_gc_core::object::GroupResource;

pub use super::labels::{HttpRefusal, LeaseTransition, PatchConflict};

thread_local! {
    static COLLECTOR: RefCell<Option<Label>> = const { RefCell::new(None) };
}

/// Gives what this thread records from now on the label `collector`: an application may have several
/// collectors, whose gauges would overwrite each other.
pub fn of_collector(name: Option<Arc<str>>) {
    COLLECTOR.set(name.map(|name| Label::new("collector", name)));
}

/// The labels of a metric, with values in the order in which it declares them.
fn labels<const N: usize>(metric: &Metric, values: [SharedString; N]) -> Vec<Label> {
    debug_assert_eq!(metric.labels.len(), N, "{}", metric.name);
    let own = metric.labels.iter().zip(values).map(|(name, value)| Label::new(*name, value));
    own.chain(COLLECTOR.with_borrow(Clone::clone)).collect()
}

pub(super) fn counter<const N: usize>(metric: &Metric, values: [SharedString; N]) -> Counter {
    metrics::counter!(metric.name, labels(metric, values))
}

pub(super) fn gauge<const N: usize>(metric: &Metric, values: [SharedString; N]) -> Gauge {
    metrics::gauge!(metric.name, labels(metric, values))
}

pub(super) fn histogram<const N: usize>(metric: &Metric, values: [SharedString; N]) -> Histogram {
    metrics::histogram!(metric.name, labels(metric, values))
}

/// Converts a count for a gauge. Counts below 2^53 are exact.
#[allow(clippy::cast_precision_loss)]
pub(super) fn float(count: usize) -> f64 {
    count as f64
}

fn flag(is_set: bool) -> f64 {
    if is_set { 1.0 } else { 0.0 }
}

// The series that exist from the start.

/// The metrics of a dry run.
const DRY_RUN: [Metric; 2] = [names::COMPARISONS, names::COMPARISONS_PENDING];
/// The metrics of node collection that alerts use.
const NODE: [Metric; 4] = [
    names::NODE_FILESYSTEM_BYTES,
    names::NODE_WANTED_BYTES,
    names::IMAGE_GARBAGE_COLLECTED,
    names::NODE_LAST_SUCCESS,
];
/// Further metrics without zeros. A single collector must not be mistaken for one without a leader.
const LATER: [Metric; 4] = [names::LEADER, names::REQUEST_DURATION, names::NODE_PASS, names::THREAD_CPU];

/// Creates each series whose labels have a fixed set of values, with the value zero: `rate` and
/// `increase` miss the first event of a series that starts with it.
pub fn zeros() {
    zero_all();
    api_server_reachable(true);
}

/// Sets the gauges of a collector that has ended to zero, as far as their labels have fixed values: the last
/// samples would stay. Counters stay as they are.
pub fn zero_all() {
    let later = [&DRY_RUN[..], &NODE, &LATER].concat();
    ALL.iter().filter(|metric| !later.contains(metric)).for_each(zero);
}

/// Creates the series of a dry run with the value zero. Without a dry run, they do not exist.
pub fn comparison_zeros() {
    DRY_RUN.iter().for_each(zero);
}

fn zero(metric: &Metric) {
    let mut series = vec![Vec::from_iter(COLLECTOR.with_borrow(Clone::clone))];
    for &name in metric.labels {
        let Some(values) = metric.values(name) else { return };
        let with = |labels: &Vec<Label>, value| [&labels[..], &[Label::new(name, value)]].concat();
        series = series.iter().flat_map(|labels| values.iter().map(|value| with(labels, *value))).collect();
    }
    for labels in series {
        match metric.kind {
            Kind::Counter => metrics::counter!(metric.name, labels).increment(0),
            Kind::Gauge => metrics::gauge!(metric.name, labels).set(0.0),
            Kind::Histogram(_) => drop(metrics::histogram!(metric.name, labels)),
        }
    }
}

/// Functions that record one metric each: they count one, or set a gauge, with these labels.
macro_rules! recorded {
    (@ count $metric:ident $labels:expr) => {
        counter(&names::$metric, $labels).increment(1)
    };
    (@ set $metric:ident $labels:expr, $value:expr) => {
        gauge(&names::$metric, $labels).set($value)
    };
    ($($(#[doc = $doc:literal])+ $kind:ident $name:ident($($argument:ident: $type:ty),*) = $metric:ident [$($label:expr),*] $(, $value:expr)?;)+) => {
        $(
            $(#[doc = $doc])+
            pub fn $name($($argument: $type),*) {
                const LABELS: &[&str] = &[$(stringify!($label)),*];
                const { assert!(LABELS.len() == names::$metric.labels.len()) };
                recorded!(@ $kind $metric [$($label.into()),*] $(, $value)?);
            }
        )+
    };
}

recorded! {
    // Requests.

    /// Records the concurrency limit of requests about single objects.
    set api_concurrency(limit: usize) = API_CONCURRENCY_LIMIT[], float(limit);
    /// Counts a 429 that lowered a concurrency limit or caused a pause.
    count api_concurrency_cut(side: ApiSide) = API_CONCURRENCY_CUTS[side.name()];
    /// Records whether the API server is reachable.
    set api_server_reachable(is_reachable: bool) = API_SERVER_REACHABLE[], flag(is_reachable);
    /// Records whether the API server refuses the credentials.
    set credentials_refused(is_refused: bool) = CREDENTIALS_REFUSED[], flag(is_refused);
    /// Counts a request that was deferred.
    count request_deferred(reason: &'static str) = REQUESTS_DEFERRED[reason];
    /// Records the number of compartments in which requests hang.
    set hanging_compartments(count: usize) = HANGING_COMPARTMENTS[], float(count);

    // Resource types.

    /// Counts a monitor that failed unexpectedly and was restarted.
    count monitor_restarted() = MONITOR_RESTARTS[];
    /// Records the number of monitors in a state.
    set monitors(state: MonitorState, count: usize) = MONITORS[state.name()], float(count);
    /// Records whether a type is synced. To be called with `true` when it is no longer served,
    /// because a series cannot be removed at once and would keep an alert firing.
    set resource_synced(group: &str, version: &str, resource: &str, synced: bool) =
        RESOURCE_UNSYNCED[group.to_string(), version.to_string(), resource.to_string()], flag(!synced);
    /// Records whether a part of the API cannot be discovered.
    set undiscovered(group: &str, version: Option<&str>, failing: bool) =
        UNDISCOVERED[group.to_string(), version.unwrap_or_default().to_string()], flag(failing);

    // The graph.

    /// Counts a restore of the API server's store.
    count store_restored() = STORE_RESTORED[];
    /// Counts two different objects with one uid.
    count uid_collision() = UID_COLLISIONS[];
    /// Counts an invalid owner reference.
    count invalid_reference(reason: InvalidReference) = INVALID_REFERENCES[reason.name()];

    // Decisions and their outcomes.

    /// Records the memory of the decision log.
    set decision_log_bytes(bytes: usize) = DECISION_LOG_BYTES[], float(bytes);
    /// Counts a decision that is not logged because it equals the previous one.
    count decision_repeated() = DECISIONS_REPEATED[];
    /// Counts a decision that a summary in the log counts.
    count decision_in_summary() = DECISIONS_IN_SUMMARIES[];
    /// Counts a conflict of a deletion by what follows.
    count delete_conflict(next: &'static str) = DELETE_CONFLICTS[next];
    /// Counts a write that the API server denied.
    count denied_write(action: &'static str, resource: &GroupResource) = DENIED_WRITES[action, resource.to_string()];
    /// Counts a conflict of a patch of this list in an object's metadata.
    count patch_conflict(list: &'static str, next: PatchConflict) = PATCH_CONFLICTS[list, next.name()];
    /// Counts a worker that panicked and was restarted.
    count worker_restarted(queue: Queue) = WORKER_RESTARTS[queue.name()];
    /// Records the size of the cache of absent owners.
    set absent_owner_entries(count: usize) = ABSENT_OWNER_ENTRIES[], float(count);
    /// Records the size of the cache of owners whose dependents were orphaned.
    set orphaned_owner_entries(count: usize) = ORPHANED_OWNER_ENTRIES[], float(count);
    /// Counts a warning event that was dropped because too many were queued.
    count report_dropped() = REPORTS_DROPPED[];
    /// Counts a comparison of a dry run with another collector by its result.
    count comparison(action: &'static str, result: &'static str) = COMPARISONS[action, result];
    /// Records how many comparisons are pending.
    set comparisons_pending(count: usize) = COMPARISONS_PENDING[], float(count);

    // The brake.

    /// Counts that the brake engaged because of this limit.
    count brake_engaged_by(limit: &'static str) = BRAKE_ENGAGEMENTS[limit];
    /// Records how many objects the brake holds.
    set brake_held(count: usize) = BRAKE_HELD_OBJECTS[], float(count);

    // Leader election and the write gate.

    /// Counts a write that the gate refused.
    count gate_refused(reason: &'static str) = GATE_REFUSALS[reason];
    /// Records that this replica takes part in leader election and is a standby.
    set election() = LEADER[], 0.0;
    /// Counts a failed request for the Lease.
    count lease_error() = LEASE_ERRORS[];
    /// Records for how long the Lease still permits writes.
    set lease_remaining(time: Duration) = LEASE_REMAINING[], time;
    /// Records the time since the last renewal of the Lease that this replica knows of.
    set lease_age(time: Duration) = LEASE_AGE[], time;

    // Namespaces that kube-gc finishes.

    /// Records how many namespaces are terminating.
    set namespaces_terminating(count: usize) = NAMESPACES_TERMINATING[], float(count);
    /// Counts a turn with this outcome.
    count namespace_turn(outcome: &'static str) = NAMESPACE_TURNS[outcome];
    /// Records whether kube-gc has stopped finishing namespaces.
    set namespaces_stopped(stopped: bool) = NAMESPACES_STOPPED[], flag(stopped);

    // The two listeners and their certificate.

    /// Counts a connection or request that a listener rejected.
    count http_refused(listener: &'static str, refusal: HttpRefusal) = HTTP_REFUSALS[listener, refusal.name()];
    /// Records the number of open connections of a listener.
    set http_connections(listener: &'static str, open: usize) = HTTP_CONNECTIONS[listener], float(open);
    /// Counts a connection that a listener closed to make room for a new one.
    count http_connection_evicted(listener: &'static str) = HTTP_CONNECTIONS_EVICTED[listener];
    /// Records that unusable certificate files were reverted to those in use.
    set certificate_restored() = TLS_STALE[], 0.0;

    // Node collection.

    /// Counts the removal of an item.
    count node_removal(what: &'static str, rule: &'static str, outcome: &'static str) = NODE_REMOVALS[what, rule, outcome];
    /// Counts a removed image.
    count node_image_collected(reason: &'static str) = IMAGE_GARBAGE_COLLECTED[reason];
    /// Records bytes of the file system of the images by what they are for.
    set node_filesystem(state: &'static str, bytes: u64) = NODE_FILESYSTEM_BYTES[state], bytes as f64;
    /// Records the bytes that a pass still has to free.
    set node_wanted(bytes: u64) = NODE_WANTED_BYTES[], bytes as f64;

    // The process.

    /// Records whether `/readyz` answers 200.
    set ready(ready: bool) = READY[], flag(ready);
    /// Records the number of asynchronous tasks that have not ended.
    set tasks(count: usize) = TASKS[], float(count);
    /// Records the bytes of the log that wait to be written.
    set log_waiting(bytes: usize) = LOG_WAITING[], float(bytes);
}

// Those that record more than one, or count otherwise.

/// Counts a request with the status `code` of its response, or `"timeout"` or `"error"`
/// without one. Discovery uses an empty [`GroupResource`].
pub fn request(verb: &'static str, resource: &GroupResource, code: &str, duration: Duration) {
    counter(&names::REQUESTS, [verb.into(), resource.to_string().into(), code.to_owned().into()])
        .increment(1);
    histogram(&names::REQUEST_DURATION, [verb.into()]).record(duration);
}

/// Counts a decision about an object of this type. Its series has been there from the start.
pub fn decision(action: &'static str, outcome: &str, resource: &GroupResource) {
    debug_assert!(ACTIONS.contains(&action) && OUTCOMES.contains(&outcome), "{action} {outcome}");
    let labels = [action.into(), outcome.to_owned().into(), resource.to_string().into()];
    counter(&names::DECISIONS, labels).increment(1);
}

/// Adds to the total time of outages of the API server.
pub fn api_server_outage(more: Duration) {
    let seconds = more.as_secs() + u64::from(more.subsec_nanos() >= 500_000_000);
    counter(&names::API_SERVER_OUTAGE, []).increment(seconds);
}

/// Counts a list or watch that failed.
pub fn resource_sync_error(group: &str, version: &str, resource: &str) {
    let labels = [group, version, resource].map(|label| label.to_owned().into());
    counter(&names::RESOURCE_SYNC_ERRORS, labels).increment(1);
    counter(&names::RESOURCES_SYNC_ERRORS, []).increment(1);
}

/// Counts a failure of discovery, as a whole or for one group.
pub fn discovery_error() {
    counter(&names::DISCOVERY_ERRORS, []).increment(1);
    counter(&names::RESOURCES_SYNC_ERRORS, []).increment(1);
}

/// Records the size of a partition, and how many of its links partition 0 has not applied yet.
pub fn graph(partition: usize, size: &Stats, unapplied_links: usize) {
    let Stats { nodes, virtual_nodes, edges, unresolved, bytes, unseen_writes: _ } = *size;
    for (metric, count) in [
        (&names::GRAPH_NODES, nodes),
        (&names::GRAPH_VIRTUAL_NODES, virtual_nodes),
        (&names::GRAPH_EDGES, edges),
        (&names::GRAPH_BYTES, bytes),
        (&names::UNRESOLVED_REFERENCES, unresolved),
        (&names::GRAPH_OUTBOX, unapplied_links),
    ] {
        gauge(metric, [partition.to_string().into()]).set(float(count));
    }
}

/// Counts a lookup in the cache of absent owners.
pub fn absent_owner_lookup(hit: bool) {
    let metric = if hit { &names::ABSENT_OWNER_HITS } else { &names::ABSENT_OWNER_MISSES };
    counter(metric, []).increment(1);
}

/// Records how many objects are stuck for this reason, and the age of the oldest.
pub fn stuck(reason: StuckReason, count: usize, oldest: Duration) {
    gauge(&names::STUCK_OBJECTS, [reason.name().into()]).set(float(count));
    gauge(&names::STUCK_OLDEST_AGE, [reason.name().into()]).set(oldest);
}

/// Records whether the brake is engaged for everything, and for how many namespaces.
pub fn brake_engaged(engaged: bool, namespaces: usize) {
    gauge(&names::BRAKE_ENGAGED, []).set(flag(engaged));
    gauge(&names::BRAKED_NAMESPACES, []).set(float(namespaces));
}

/// Records a change of leadership.
pub fn lease_transition(transition: LeaseTransition) {
    counter(&names::LEADER_TRANSITIONS, [transition.name().into()]).increment(1);
    gauge(&names::LEADER, []).set(flag(transition == LeaseTransition::Acquired));
}

/// Records that the changed certificate files were loaded, or cannot be used.
pub fn certificate_reloaded(is_usable: bool) {
    let result = if is_usable { "loaded" } else { "failed" };
    counter(&names::TLS_RELOADS, [result.into()]).increment(1);
    gauge(&names::TLS_STALE, []).set(flag(!is_usable));
}

/// Records the version, the revision and the compiler of the build.
pub(super) fn build_info() {
    let version = env!("CARGO_PKG_VERSION");
    let revision = option_env!("KUBE_GC_REVISION").filter(|text| !text.is_empty()).unwrap_or("unknown");
    let labels = [version.into(), revision.into(), env!("KUBE_GC_RUSTC").into()];
    gauge(&names::BUILD_INFO, labels).set(1.0);
}

/// Creates the series that alerts use, with the value zero.
pub fn node_zeros() {
    NODE.iter().for_each(zero);
}

/// Counts a call to the container runtime.
pub fn runtime_operation(operation: &'static str, failed: bool, duration: Duration) {
    counter(&names::RUNTIME_OPERATIONS, [operation.into()]).increment(1);
    histogram(&names::RUNTIME_OPERATIONS_DURATION, [operation.into()]).record(duration);
    counter(&names::RUNTIME_OPERATIONS_ERRORS, [operation.into()]).increment(u64::from(failed));
}

/// Records a pass that has ended.
pub fn node_pass(scope: &'static str, duration: Duration, succeeded: bool) {
    histogram(&names::NODE_PASS, [scope.into()]).record(duration);
    if succeeded {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        gauge(&names::NODE_LAST_SUCCESS, [scope.into()]).set(now.as_secs_f64());
    }
}

/// The metrics of one queue: Kubernetes' workqueue family, and further ones.
#[derive(Clone, Debug)]
pub struct QueueMetrics {
    queue: Queue,
    adds: Counter,
    queue_duration: Histogram,
    work_duration: Histogram,
    retries: Counter,
}

/// A periodic sample of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSample {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys that workers are processing.
    pub processing: usize,
    /// Keys whose last attempt failed and that wait for the next one.
    pub delayed: usize,
    /// Keys that wait for a change elsewhere: a type, an owner, the brake.
    pub parked: usize,
    /// Memory for the errors of failing keys.
    pub error_bytes: usize,
    /// Sum of the time that all work in progress has taken so far.
    pub unfinished: Duration,
    /// Time that the longest work in progress has taken so far.
    pub longest_running: Duration,
}

impl QueueMetrics {
    /// Looks up the metrics of a queue.
    pub fn new(queue: Queue) -> Self {
        let name = || [queue.name().into()];
        Self {
            queue,
            adds: counter(&names::WORKQUEUE_ADDS, name()),
            queue_duration: histogram(&names::WORKQUEUE_QUEUE_DURATION, name()),
            work_duration: histogram(&names::WORKQUEUE_WORK_DURATION, name()),
            retries: counter(&names::WORKQUEUE_RETRIES, name()),
        }
    }

    /// So many keys were queued.
    pub fn added(&self, count: usize) {
        self.adds.increment(u64::try_from(count).unwrap_or(u64::MAX));
    }

    /// Sets the number of keys added since the queue was created, for queues that count
    /// themselves.
    pub fn added_in_total(&self, count: u64) {
        self.adds.absolute(count);
    }

    /// Records that this many keys each waited this long for a worker.
    pub fn waited(&self, duration: Duration, count: usize) {
        self.queue_duration.record_many(duration, count);
    }

    /// Records that the work on this many keys took this long each.
    pub fn worked(&self, duration: Duration, count: usize) {
        self.work_duration.record_many(duration, count);
    }

    /// Sets the number of retries since the queue was created.
    pub fn retried_in_total(&self, count: u64) {
        self.retries.absolute(count);
    }

    /// Records a sample.
    pub fn sample(&self, sample: &QueueSample) {
        let QueueSample { ready, processing, delayed, parked, error_bytes, unfinished, longest_running } =
            *sample;
        let of = |metric| gauge(metric, [self.queue.name().into()]);
        of(&names::WORKQUEUE_DEPTH).set(float(ready));
        of(&names::QUEUE_PROCESSING).set(float(processing));
        of(&names::QUEUE_DELAYED).set(float(delayed));
        of(&names::QUEUE_PARKED).set(float(parked));
        of(&names::QUEUE_ERROR_BYTES).set(float(error_bytes));
        of(&names::WORKQUEUE_UNFINISHED_WORK).set(unfinished);
        of(&names::WORKQUEUE_LONGEST_RUNNING).set(longest_running);
    }
}

/// The counters of incoming events of one type, in the order of [`EventKind::ALL`].
#[derive(Clone, Debug)]
pub struct EventMetrics([Counter; EventKind::ALL.len()]);

impl EventMetrics {
    /// Looks up the counters of a type, and creates their series with the value zero.
    pub fn new(resource: &GroupResource) -> Self {
        let resource = resource.to_string();
        Self(
            EventKind::ALL.map(|kind| counter(&names::EVENTS, [resource.clone().into(), kind.name().into()])),
        )
    }

    /// Counts incoming events.
    pub fn came(&self, kind: EventKind, count: usize) {
        self.0[kind as usize].increment(u64::try_from(count).unwrap_or(u64::MAX));
    }
}

/// The time from the arrival of a change until the graph contains it.
#[derive(Clone, Debug)]
pub struct EventLag(Histogram);

impl Default for EventLag {
    /// Looks up the metric, and creates its series.
    fn default() -> Self {
        Self(histogram(&names::EVENT_LAG, []))
    }
}

impl EventLag {
    /// Records that this many changes took this long.
    pub fn took(&self, duration: Duration, count: usize) {
        self.0.record_many(duration, count);
    }
}

tokio::task_local! {
    static CURRENT: DeletionLag;
}

/// Measures the time from the event that an owner is gone to the DELETE of its dependent. Like a
/// tracing span, it belongs to the task that processes the dependent. Clones share one measurement.
#[derive(Clone, Debug)]
pub struct DeletionLag(Arc<Measurement>);

#[derive(Debug)]
struct Measurement {
    since: Instant,
    ended: AtomicBool,
}

impl DeletionLag {
    /// Starts the measurement at the arrival of the event.
    pub fn since(event: Instant) -> Self {
        Self(Arc::new(Measurement { since: event, ended: AtomicBool::new(false) }))
    }

    /// When the event arrived; `None` if a DELETE has been sent since.
    pub fn open_since(&self) -> Option<Instant> {
        (!self.0.ended.load(Ordering::Relaxed)).then_some(self.0.since)
    }

    /// Records that a DELETE was sent at this moment. Only the first one counts.
    pub fn deletion_sent_at(&self, moment: Instant) {
        if !self.0.ended.swap(true, Ordering::Relaxed) {
            histogram(&names::DELETION_LAG, []).record(moment.saturating_duration_since(self.0.since));
        }
    }

    /// Runs a future that processes a dependent, with this measurement as the current one.
    pub async fn scope<F: Future>(lag: Option<Self>, work: F) -> F::Output {
        match lag {
            Some(lag) => CURRENT.scope(lag, work).await,
            None => work.await,
        }
    }

    /// The measurement of the current task.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }
}
