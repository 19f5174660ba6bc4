//! Every metric: its name, kind, labels and meaning.

use metrics::Unit;

use super::labels::*;

/// The type of a metric, and how its value changes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only rises.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts values in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// The name that Prometheus scrapes.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its unit.
    pub unit: Unit,
    /// The names of its labels; [`record`](super::record) gives the values in this order.
    pub labels: &'static [&'static str],
    /// All values of each label, none if they come from the cluster, such as a resource type.
    values: &'static [Words],
    /// The help text.
    pub help: &'static str,
}

/// The words that are the values of a label.
type Words = &'static [&'static str];

/// The values come from the cluster.
const CLUSTER: Words = &[];

impl Metric {
    /// All values that a label may have; `None` if they come from the cluster.
    pub fn values(&self, label: &str) -> Option<Words> {
        let place = self.labels.iter().position(|name| *name == label)?;
        Some(self.values[place]).filter(|values| !values.is_empty())
    }
}

/// From the time that the graph needs for one change up to the longest backoff. Queues
/// usually empty within microseconds, but a mass deletion waits for minutes. The bounds
/// include all that Kubernetes' own components use.
const QUEUE_SECONDS: &[f64] = &[
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0,
    100.0, 300.0, 1000.0,
];

/// Fine around the usual millisecond, and up to the lag that a mass deletion or an
/// unreachable API server causes.
const LAG_SECONDS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1,
    0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1000.0,
];

/// From 1 ms to the usual request timeout.
const REQUEST_SECONDS: &[f64] =
    &[0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

/// From an idle pass to one that removes a thousand containers.
const PASS_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1000.0];

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $constant:ident = $name:literal, $kind:expr, $unit:ident, [$($label:literal $(= $values:expr)?),*];)+) => {
        $(
            $(#[doc = $doc])+
            pub const $constant: Metric = Metric {
                name: $name,
                kind: $kind,
                unit: Unit::$unit,
                labels: &[$($label),*],
                values: &[$([$($values,)? CLUSTER][0]),*],
                help: concat!($($doc),+).trim_ascii_start(),
            };
        )+

        /// Every metric except those of the process, which [`metrics_process`] declares.
        pub const ALL: &[Metric] = &[$($constant),+];
    };
}

// The doc comment of a constant is the help text of its metric.
metrics! {
    // Kubernetes' own family, so that existing alerts and dashboards work.

    /// Keys that wait for a worker.
    WORKQUEUE_DEPTH = "workqueue_depth", Kind::Gauge, Count, ["name" = Queue::NAMES];
    /// Keys added to the queue. Adding a key that is queued already does not count.
    WORKQUEUE_ADDS = "workqueue_adds_total", Kind::Counter, Count, ["name" = Queue::NAMES];
    /// How long a key waited for a worker.
    WORKQUEUE_QUEUE_DURATION = "workqueue_queue_duration_seconds", Kind::Histogram(QUEUE_SECONDS), Seconds, ["name" = Queue::NAMES];
    /// How long the work on a key took.
    WORKQUEUE_WORK_DURATION = "workqueue_work_duration_seconds", Kind::Histogram(QUEUE_SECONDS), Seconds, ["name" = Queue::NAMES];
    /// Sum of the time that all work in progress has taken so far.
    WORKQUEUE_UNFINISHED_WORK = "workqueue_unfinished_work_seconds", Kind::Gauge, Seconds, ["name" = Queue::NAMES];
    /// Time that the longest work in progress has taken so far.
    WORKQUEUE_LONGEST_RUNNING = "workqueue_longest_running_processor_seconds", Kind::Gauge, Seconds, ["name" = Queue::NAMES];
    /// How often work on a key ended without success, so that it is retried.
    WORKQUEUE_RETRIES = "workqueue_retries_total", Kind::Counter, Count, ["name" = Queue::NAMES];
    /// How often a list or watch of a resource type, or discovery, failed; kube_gc_resource_sync_errors_total has the number by type.
    RESOURCES_SYNC_ERRORS = "garbagecollector_controller_resources_sync_error_total", Kind::Counter, Count, [];

    // What Kubernetes does not measure about its queues.

    /// Keys that workers are processing.
    QUEUE_PROCESSING = "kube_gc_queue_processing", Kind::Gauge, Count, ["name" = Queue::NAMES];
    /// Keys whose last attempt failed and that wait for the next one; /debug/queues names them.
    QUEUE_DELAYED = "kube_gc_queue_delayed", Kind::Gauge, Count, ["name" = Queue::NAMES];
    /// Keys that wait for a change in the cluster: for a kind to be served, or for a monitor to show an owner.
    QUEUE_PARKED = "kube_gc_queue_parked", Kind::Gauge, Count, ["name" = Queue::NAMES];
    /// Memory for the last errors of keys that failed, at most 8 MiB for each queue.
    QUEUE_ERROR_BYTES = "kube_gc_queue_error_bytes", Kind::Gauge, Bytes, ["name" = Queue::NAMES];

    // The graph.

    /// Observed objects in the graph.
    GRAPH_NODES = "kube_gc_graph_nodes", Kind::Gauge, Count, ["partition"];
    /// Owners that an owner reference names and no monitor shows.
    GRAPH_VIRTUAL_NODES = "kube_gc_graph_virtual_nodes", Kind::Gauge, Count, ["partition"];
    /// Owner references in the graph, from dependents to owners.
    GRAPH_EDGES = "kube_gc_graph_edges", Kind::Gauge, Count, ["partition"];
    /// Memory for nodes and edges, including names and indexes.
    GRAPH_BYTES = "kube_gc_graph_bytes", Kind::Gauge, Bytes, ["partition"];
    /// Owner references whose apiVersion and kind are not served; their dependents are kept.
    UNRESOLVED_REFERENCES = "kube_gc_unresolved_references", Kind::Gauge, Count, ["partition"];
    /// Links to cluster-scoped owners that partition 0 has not applied yet.
    GRAPH_OUTBOX = "kube_gc_graph_outbox", Kind::Gauge, Count, ["partition"];
    /// How often a restore of the API server's store was detected and everything was listed again.
    STORE_RESTORED = "kube_gc_store_restored_total", Kind::Counter, Count, [];
    /// Different objects that two resource types show with the same uid.
    UID_COLLISIONS = "kube_gc_uid_collisions_total", Kind::Counter, Count, [];
    /// Invalid owner references: namespace_mismatch names an owner in another namespace; invalid_scope is a cluster-scoped object's reference to a namespaced owner.
    INVALID_REFERENCES = "kube_gc_invalid_references_total", Kind::Counter, Count, ["reason" = InvalidReference::NAMES];

    /// Warning events that were dropped because too many were queued.
    REPORTS_DROPPED = "kube_gc_reports_dropped_total", Kind::Counter, Count, [];

    // Resource types.

    /// Incoming objects: from lists (listed), and from watch events.
    EVENTS = "kube_gc_events_total", Kind::Counter, Count, ["resource", "kind" = EventKind::NAMES];
    /// Time from the arrival of a change, by watch or list, until the graph contains it.
    EVENT_LAG = "kube_gc_event_lag_seconds", Kind::Histogram(LAG_SECONDS), Seconds, [];
    /// Monitors that failed unexpectedly and were restarted.
    MONITOR_RESTARTS = "kube_gc_monitor_restarts_total", Kind::Counter, Count, [];

    /// Resource types by the state of their monitor.
    MONITORS = "kube_gc_monitors", Kind::Gauge, Count, ["state" = MonitorState::NAMES];
    /// 1 while a resource type is not synced or cannot be watched, 0 when it is or is no longer served; /debug/monitors shows the error.
    RESOURCE_UNSYNCED = "kube_gc_resource_unsynced", Kind::Gauge, Count, ["group", "version", "resource"];
    /// How often a list or watch of a resource type failed.
    RESOURCE_SYNC_ERRORS = "kube_gc_resource_sync_errors_total", Kind::Counter, Count, ["group", "version", "resource"];
    /// How often discovery failed, as a whole or for one group.
    DISCOVERY_ERRORS = "kube_gc_discovery_errors_total", Kind::Counter, Count, [];
    /// 1 while a part of the API cannot be discovered, 0 when it can again or is no longer served; the group * stands for the list of groups, an empty version for all versions of a group.
    UNDISCOVERED = "kube_gc_undiscovered", Kind::Gauge, Count, ["group", "version"];

    // Requests and decisions.

    /// Requests to the API server by status code, or `error` if there was no answer.
    REQUESTS = "kube_gc_requests_total", Kind::Counter, Count, ["verb" = VERBS, "resource", "code"];
    /// Duration of requests, from sending to the end of the answer; for watches, to its beginning.
    REQUEST_DURATION = "kube_gc_request_duration_seconds", Kind::Histogram(REQUEST_SECONDS), Seconds, ["verb" = VERBS];
    /// Requests about single objects that may be in flight: 20 at first, raised while all of it is used, halved when the API server answers 429.
    API_CONCURRENCY_LIMIT = "kube_gc_api_concurrency_limit", Kind::Gauge, Count, [];
    /// How often a 429 lowered the concurrency limit or, at a limit of one, caused a pause; aggregated APIs and events have limits of their own.
    API_CONCURRENCY_CUTS = "kube_gc_api_concurrency_cuts_total", Kind::Counter, Count, ["server" = ApiSide::NAMES];
    /// 1 while the API server is reachable; 0 during an outage, when kube-gc holds its requests and sends one at a time to probe.
    API_SERVER_REACHABLE = "kube_gc_api_server_reachable", Kind::Gauge, Count, [];
    /// 1 while the API server refuses the credentials, or an exec plugin fails to provide them.
    CREDENTIALS_REFUSED = "kube_gc_credentials_refused", Kind::Gauge, Count, [];
    /// Total time in which the API server was unreachable; updated at least every 30 s.
    API_SERVER_OUTAGE = "kube_gc_api_server_outage_seconds_total", Kind::Counter, Seconds, [];
    /// Requests that were not sent and do not count as attempts: the API server is unreachable (unreachable), or requests of the same type, namespace and verb hang (hanging).
    REQUESTS_DEFERRED = "kube_gc_requests_deferred_total", Kind::Counter, Count, ["reason" = &["unreachable", "hanging"]];
    /// Combinations of type, namespace and verb whose requests hang, or that are paused because a request hung and failed; at most 4096.
    HANGING_COMPARTMENTS = "kube_gc_hanging_compartments", Kind::Gauge, Count, [];
    /// Decisions about objects by action and outcome.
    DECISIONS = "kube_gc_decisions_total", Kind::Counter, Count, ["action" = ACTIONS, "outcome" = OUTCOMES, "resource"];
    /// Memory for the decisions on /debug/decisions, at most 4 MiB.
    DECISION_LOG_BYTES = "kube_gc_decision_log_bytes", Kind::Gauge, Bytes, [];
    /// Decisions that were not logged because the last line about the same object said the same or was less than 10 s ago; the next line about the object has their number.
    DECISIONS_REPEATED = "kube_gc_decisions_repeated_total", Kind::Counter, Count, [];
    /// Decisions that the log counts in a summary instead of showing each; see log.decisions.
    DECISIONS_IN_SUMMARIES = "kube_gc_decisions_in_summaries_total", Kind::Counter, Count, [];
    /// Time from the arrival of the event that an owner is gone, or is deleted in the foreground, until the DELETE of a dependent is passed to the connection.
    DELETION_LAG = "kube_gc_deletion_lag_seconds", Kind::Histogram(LAG_SECONDS), Seconds, [];
    /// Writes that the API server denied, by RBAC or by an admission webhook.
    DENIED_WRITES = "kube_gc_denied_writes_total", Kind::Counter, Count, ["action" = ACTIONS, "resource"];
    /// Deletions that met a conflict, by what followed.
    DELETE_CONFLICTS = "kube_gc_delete_conflicts_total", Kind::Counter, Count, ["next" = CONFLICTS];
    /// Patches of a list that met a conflict: the object was read and patched again (retry), or is re-evaluated after a backoff (requeue).
    PATCH_CONFLICTS = "kube_gc_patch_conflicts_total", Kind::Counter, Count, ["list" = &["ownerReferences", "finalizers"], "next" = PatchConflict::NAMES];
    /// Workers that panicked while processing an object and were restarted.
    WORKER_RESTARTS = "kube_gc_worker_restarts_total", Kind::Counter, Count, ["name" = POOLS];
    /// Lookups of owners that the cache of absent owners answered.
    ABSENT_OWNER_HITS = "kube_gc_absent_owner_cache_hits_total", Kind::Counter, Count, [];
    /// Lookups of owners that the cache of absent owners could not answer.
    ABSENT_OWNER_MISSES = "kube_gc_absent_owner_cache_misses_total", Kind::Counter, Count, [];
    /// Owners in the cache of absent owners, with a digest of 16 bytes for each.
    ABSENT_OWNER_ENTRIES = "kube_gc_absent_owner_cache_entries", Kind::Gauge, Count, [];
    /// Owners that are cached because their dependents were orphaned, with a digest of 16 bytes for each.
    ORPHANED_OWNER_ENTRIES = "kube_gc_orphaned_owner_cache_entries", Kind::Gauge, Count, [];

    // Stuck objects.

    /// Objects that were deleted more than a minute ago and are still there, or that kube-gc cannot finish, by
    /// reason; /debug/stuck lists them. 0 on a standby.
    STUCK_OBJECTS = "kube_gc_stuck_objects", Kind::Gauge, Count, ["reason" = StuckReason::NAMES];
    /// Age of the oldest stuck object, by reason; 0 if there is none.
    STUCK_OLDEST_AGE = "kube_gc_stuck_oldest_age_seconds", Kind::Gauge, Seconds, ["reason" = StuckReason::NAMES];

    // A dry run beside another collector.

    /// Writes that a dry run would have sent, by result: another collector did the same (agreed); nobody did within the grace period, and the decision is still the same (disagreed); the decision has changed (overtaken); too many were waiting (dropped).
    COMPARISONS = "kube_gc_comparisons_total", Kind::Counter, Count, ["action" = COMPARED, "result" = &["agreed", "disagreed", "dropped", "overtaken"]];
    /// Writes that a dry run would have sent and that nobody has done so far.
    COMPARISONS_PENDING = "kube_gc_comparisons_pending", Kind::Gauge, Count, [];

    // The brake.

    /// 1 while the brake is engaged and deletion is paused until a person resumes it, 0 otherwise; /readyz?verbose says why.
    BRAKE_ENGAGED = "kube_gc_brake_engaged", Kind::Gauge, Count, [];
    /// Namespaces in which alone deletion is paused until a person resumes it; at most 1024. /readyz?verbose names them.
    BRAKED_NAMESPACES = "kube_gc_braked_namespaces", Kind::Gauge, Count, [];
    /// How often the brake has engaged, by limit.
    BRAKE_ENGAGEMENTS = "kube_gc_brake_engagements_total", Kind::Counter, Count, ["limit" = LIMITS];
    /// Objects that are not deleted because the brake is engaged.
    BRAKE_HELD_OBJECTS = "kube_gc_brake_held_objects", Kind::Gauge, Count, [];

    // Leadership.

    /// 1 while this replica holds the Lease, 0 while it is a standby; absent without leader election.
    LEADER = "kube_gc_leader", Kind::Gauge, Count, [];
    /// How often this replica took (acquired), lost (lost) or gave back (released) the Lease.
    LEADER_TRANSITIONS = "kube_gc_leader_transitions_total", Kind::Counter, Count, ["transition" = LeaseTransition::NAMES];
    /// Time for which this replica may still write without another renewal; 0 on a standby.
    LEASE_REMAINING = "kube_gc_lease_remaining_seconds", Kind::Gauge, Seconds, [];
    /// Time since the last renewal of the Lease: on the leader, counted from before its request; on a standby, since it saw the renewal. 0 before any renewal was seen.
    LEASE_AGE = "kube_gc_lease_age_seconds", Kind::Gauge, Seconds, [];
    /// Requests for the Lease that failed, except conflicts with other replicas.
    LEASE_ERRORS = "kube_gc_lease_errors_total", Kind::Counter, Count, [];
    /// Writes that were not sent: on a standby, after the Lease expired (expired), during a rebuild of the graph (rebuilding), in a dry run (dry_run).
    GATE_REFUSALS = "kube_gc_gate_refusals_total", Kind::Counter, Count, ["reason" = &["standby", "expired", "rebuilding", "dry_run"]];

    // Namespaces that kube-gc finishes.

    /// Namespaces that are being deleted, with `finish_namespaces`.
    NAMESPACES_TERMINATING = "kube_gc_namespaces_terminating", Kind::Gauge, Count, [];
    /// Turns of terminating namespaces, with `finish_namespaces`: the namespace was finalized (finalized) or is no longer there (gone), less is left (progress), nothing is left and it waits for late writes (empty), it waits for finalizers, grace periods or a type that cannot be listed (held), a request failed (failed), a dry run would have deleted or finalized (dry_run).
    NAMESPACE_TURNS = "kube_gc_namespace_turns_total", Kind::Counter, Count, ["outcome" = TURNS];
    /// 1 after kube-gc has stopped finishing namespaces because another controller does it, 0 otherwise.
    NAMESPACES_STOPPED = "kube_gc_namespaces_stopped", Kind::Gauge, Count, [];

    // Node collection, by the kubelet's names where it has them.

    /// Unused images that `kube-gc node` removed, for their age or for space.
    IMAGE_GARBAGE_COLLECTED = "kubelet_image_garbage_collected_total", Kind::Counter, Count, ["reason" = &["age", "space"]];
    /// Calls to the container runtime.
    RUNTIME_OPERATIONS = "kubelet_runtime_operations_total", Kind::Counter, Count, ["operation_type"];
    /// Calls to the container runtime that failed.
    RUNTIME_OPERATIONS_ERRORS = "kubelet_runtime_operations_errors_total", Kind::Counter, Count, ["operation_type"];
    /// Duration of calls to the container runtime.
    RUNTIME_OPERATIONS_DURATION = "kubelet_runtime_operations_duration_seconds", Kind::Histogram(REQUEST_SECONDS), Seconds, ["operation_type"];
    /// Removals on a node by rule; refused means that something had changed since the plan.
    NODE_REMOVALS = "kube_gc_node_removals_total", Kind::Counter, Count, ["what" = ITEMS, "rule", "outcome" = &["failed", "refused", "removed"]];
    /// What the file system of the images is filled with, by the last look; sizes of images count shared layers several times.
    NODE_FILESYSTEM_BYTES = "kube_gc_node_filesystem_bytes", Kind::Gauge, Bytes, ["state" = SPACE];
    /// Bytes that the last pass of images was to free and could not.
    NODE_WANTED_BYTES = "kube_gc_node_wanted_bytes", Kind::Gauge, Bytes, [];
    /// Duration of passes, from the look to the last removal.
    NODE_PASS = "kube_gc_node_pass_seconds", Kind::Histogram(PASS_SECONDS), Seconds, ["scope" = SCOPES];
    /// When the last pass without a failure ended, in seconds since 1970; 0 before the first one.
    NODE_LAST_SUCCESS = "kube_gc_node_last_success_timestamp_seconds", Kind::Gauge, Seconds, ["scope" = SCOPES];

    // The two listeners.

    /// Connections and requests that a listener rejected: TLS handshake failed (handshake), no request in time (silent), head too large (head), another host (host), method other than GET and HEAD (method), a body (body), too many at a time (busy), no token or an unknown one (unauthenticated), user not allowed (forbidden), API server not available for a review (unavailable), answer took too long (timeout).
    HTTP_REFUSALS = "kube_gc_http_refusals_total", Kind::Counter, Count, ["listener" = LISTENERS, "reason" = HttpRefusal::NAMES];
    /// Open connections of a listener; at most 256.
    HTTP_CONNECTIONS = "kube_gc_http_connections", Kind::Gauge, Count, ["listener" = LISTENERS];
    /// Connections that a listener closed to make room for a new one: the oldest one of the source with the most connections.
    HTTP_CONNECTIONS_EVICTED = "kube_gc_http_connections_evicted_total", Kind::Counter, Count, ["listener" = LISTENERS];
    /// Reloads of the certificate files after a change, by result.
    TLS_RELOADS = "kube_gc_tls_reloads_total", Kind::Counter, Count, ["result" = &["loaded", "failed"]];
    /// 1 while the certificate files are unusable and the last valid certificate is served, 0 otherwise.
    TLS_STALE = "kube_gc_tls_certificate_stale", Kind::Gauge, Count, [];

    // The process.

    /// CPU time of this process's threads by purpose: `requests` runs the actors and all requests about single objects, `watches` all watches; one thread cannot use more than one core. Linux only.
    THREAD_CPU = "kube_gc_thread_cpu_seconds_total", Kind::Counter, Seconds, ["thread" = &THREADS];
    /// Asynchronous tasks that have not ended.
    TASKS = "kube_gc_tasks", Kind::Gauge, Count, [];
    /// Bytes of the log that wait for a reader of standard error; above 262144, logging blocks.
    LOG_WAITING = "kube_gc_log_waiting_bytes", Kind::Gauge, Bytes, [];
    /// 1 while /readyz answers 200, 0 otherwise.
    READY = "kube_gc_ready", Kind::Gauge, Count, [];
    /// Always 1; its labels identify the build. The revision is `unknown` unless KUBE_GC_REVISION was set at build time.
    BUILD_INFO = "kube_gc_build_info", Kind::Gauge, Count, ["version", "revision", "rustc"];
}

#[cfg(test)]
mod tests;
