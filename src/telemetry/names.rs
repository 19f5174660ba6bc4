//! Every metric: its name, kind, labels and meaning.

use metrics::Unit;

/// How a metric moves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Only up.
    Counter,
    /// Up and down.
    Gauge,
    /// Counted in buckets with these upper bounds.
    Histogram(&'static [f64]),
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric {
    /// The name, as scraped.
    pub name: &'static str,
    /// How it moves.
    pub kind: Kind,
    /// What is counted.
    pub unit: Unit,
    /// The names of its labels; [`record`](super::record) gives the values in this order.
    pub labels: &'static [&'static str],
    /// What it means, for people.
    pub help: &'static str,
}

/// From what the graph needs for a change to the longest backoff: queues are usually
/// empty in microseconds, but a mass deletion waits for minutes. Every bound that
/// Kubernetes' own components have is among them.
const QUEUE_SECONDS: &[f64] = &[
    1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0,
    100.0, 300.0, 1000.0,
];

/// Fine around a millisecond, which is what is usual, and up to where a mass deletion
/// or an API server that is away puts it.
const LAG_SECONDS: &[f64] = &[
    0.0001, 0.00025, 0.0005, 0.00075, 0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.025, 0.05, 0.1,
    0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1000.0,
];

/// From 1 ms to the usual request timeout.
const REQUEST_SECONDS: &[f64] =
    &[0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];

macro_rules! metrics {
    ($($(#[doc = $doc:literal])+ $constant:ident = $name:literal, $kind:expr, $unit:ident, [$($label:literal),*];)+) => {
        $(
            $(#[doc = $doc])+
            pub const $constant: Metric = Metric {
                name: $name,
                kind: $kind,
                unit: Unit::$unit,
                labels: &[$($label),*],
                help: concat!($($doc),+).trim_ascii_start(),
            };
        )+

        /// Every metric but those of the process, which
        /// [`metrics_process`] names by Prometheus' convention.
        pub const ALL: &[Metric] = &[$($constant),+];
    };
}

// The documentation of a constant is the metric's help text.
metrics! {
    // Kubernetes' own family, so that existing alerts and dashboards work.

    /// Keys that wait for a worker.
    WORKQUEUE_DEPTH = "workqueue_depth", Kind::Gauge, Count, ["name"];
    /// How often a key was queued; additions of a key that is queued already are not counted.
    WORKQUEUE_ADDS = "workqueue_adds_total", Kind::Counter, Count, ["name"];
    /// How long a key waited for a worker.
    WORKQUEUE_QUEUE_DURATION = "workqueue_queue_duration_seconds", Kind::Histogram(QUEUE_SECONDS), Seconds, ["name"];
    /// How long the work on a key took.
    WORKQUEUE_WORK_DURATION = "workqueue_work_duration_seconds", Kind::Histogram(QUEUE_SECONDS), Seconds, ["name"];
    /// The time that all work under way has taken so far, added up.
    WORKQUEUE_UNFINISHED_WORK = "workqueue_unfinished_work_seconds", Kind::Gauge, Seconds, ["name"];
    /// The time that the longest work under way has taken so far.
    WORKQUEUE_LONGEST_RUNNING = "workqueue_longest_running_processor_seconds", Kind::Gauge, Seconds, ["name"];
    /// How often the work on a key ended with another attempt to come.
    WORKQUEUE_RETRIES = "workqueue_retries_total", Kind::Counter, Count, ["name"];
    /// How often a resource type could not be listed or watched, or discovery failed; by type in kube_gc_resource_sync_errors_total.
    RESOURCES_SYNC_ERRORS = "garbagecollector_controller_resources_sync_error_total", Kind::Counter, Count, [];

    // The queues, as Kubernetes does not show them.

    /// Keys that are being worked on.
    QUEUE_PROCESSING = "kube_gc_queue_processing", Kind::Gauge, Count, ["name"];
    /// Keys whose last try failed and that wait for the next one; /debug/queues names them.
    QUEUE_DELAYED = "kube_gc_queue_delayed", Kind::Gauge, Count, ["name"];
    /// Keys that wait for the world to change: a kind to be served, an owner to be shown by its monitor.
    QUEUE_PARKED = "kube_gc_queue_parked", Kind::Gauge, Count, ["name"];
    /// Memory of the last errors of keys that failed, 8 MiB for each queue at most.
    QUEUE_ERROR_BYTES = "kube_gc_queue_error_bytes", Kind::Gauge, Bytes, ["name"];

    // The graph.

    /// Objects that were observed and are in the graph.
    GRAPH_NODES = "kube_gc_graph_nodes", Kind::Gauge, Count, ["partition"];
    /// Owners that some object names and that no monitor shows.
    GRAPH_VIRTUAL_NODES = "kube_gc_graph_virtual_nodes", Kind::Gauge, Count, ["partition"];
    /// References from dependents to owners.
    GRAPH_EDGES = "kube_gc_graph_edges", Kind::Gauge, Count, ["partition"];
    /// Memory of nodes and edges, names and indices included.
    GRAPH_BYTES = "kube_gc_graph_bytes", Kind::Gauge, Bytes, ["partition"];
    /// References whose apiVersion and kind lead to no type that is served; their dependents are kept.
    UNRESOLVED_REFERENCES = "kube_gc_unresolved_references", Kind::Gauge, Count, ["partition"];
    /// Links to owners in other partitions that have not been applied there yet.
    GRAPH_OUTBOX = "kube_gc_graph_outbox", Kind::Gauge, Count, ["partition"];
    /// How often the API server's store went back in time and everything was read anew.
    STORE_RESTORED = "kube_gc_store_restored_total", Kind::Counter, Count, [];
    /// Different objects that two resource types show with the same uid.
    UID_COLLISIONS = "kube_gc_uid_collisions_total", Kind::Counter, Count, [];
    /// References that cannot be right: namespace_mismatch names an owner in another namespace, invalid_scope a namespaced owner of a cluster-scoped object.
    INVALID_REFERENCES = "kube_gc_invalid_references_total", Kind::Counter, Count, ["reason"];

    /// Warnings that were not told because too many waited.
    REPORTS_DROPPED = "kube_gc_reports_dropped_total", Kind::Counter, Count, [];

    // Resource types.

    /// What came in: objects from lists (listed), and events of watches.
    EVENTS = "kube_gc_events_total", Kind::Counter, Count, ["resource", "kind"];
    /// How long a change took from its arrival, by watch or list, until it was in the graph.
    EVENT_LAG = "kube_gc_event_lag_seconds", Kind::Histogram(LAG_SECONDS), Seconds, [];
    /// Monitors that failed unexpectedly and were started again.
    MONITOR_RESTARTS = "kube_gc_monitor_restarts_total", Kind::Counter, Count, [];

    /// Resource types by the state of their monitor.
    MONITORS = "kube_gc_monitors", Kind::Gauge, Count, ["state"];
    /// 1 while a resource type is not synced, 0 when it is or is no longer served; /debug/monitors has the error.
    RESOURCE_UNSYNCED = "kube_gc_resource_unsynced", Kind::Gauge, Count, ["group", "version", "resource"];
    /// How often a resource type could not be listed or watched.
    RESOURCE_SYNC_ERRORS = "kube_gc_resource_sync_errors_total", Kind::Counter, Count, ["group", "version", "resource"];
    /// How often discovery failed, as a whole or for some group.
    DISCOVERY_ERRORS = "kube_gc_discovery_errors_total", Kind::Counter, Count, [];
    /// 1 while a part of the API cannot be discovered, 0 when it can again or is no longer served; group * is the list of groups, an empty version all of a group's.
    UNDISCOVERED = "kube_gc_undiscovered", Kind::Gauge, Count, ["group", "version"];

    // Requests and decisions.

    /// Requests to the API server by the status code of the answer, or error without one.
    REQUESTS = "kube_gc_requests_total", Kind::Counter, Count, ["verb", "resource", "code"];
    /// How long requests took, from sending to the end of the answer; of watches, to its beginning.
    REQUEST_DURATION = "kube_gc_request_duration_seconds", Kind::Histogram(REQUEST_SECONDS), Seconds, ["verb"];
    /// How many requests about single objects may be under way at a time: 20 at first, more with every answer while all of them are, and half as many when the API server says 429 for having too much to do.
    API_CONCURRENCY_LIMIT = "kube_gc_api_concurrency_limit", Kind::Gauge, Count, [];
    /// How often a 429 had the effect that fewer requests are sent at a time, or none for a moment where one at a time was refused; an aggregated API and the writing of events have limits of their own.
    API_CONCURRENCY_CUTS = "kube_gc_api_concurrency_cuts_total", Kind::Counter, Count, ["server"];
    /// 1 while the API server can be reached, 0 during an outage, in which requests are held and one at a time probes.
    API_SERVER_REACHABLE = "kube_gc_api_server_reachable", Kind::Gauge, Count, [];
    /// Seconds in which the API server could not be reached, in all; added at least every 30 s.
    API_SERVER_OUTAGE = "kube_gc_api_server_outage_seconds_total", Kind::Counter, Seconds, [];
    /// Requests that were not sent, which counts as no attempt: the API server was "unreachable", or requests of that type, namespace and verb were "hanging".
    REQUESTS_DEFERRED = "kube_gc_requests_deferred_total", Kind::Counter, Count, ["reason"];
    /// Types, each in one namespace and with one verb, whose requests hang or are left alone because one has hung and failed; at most 4096.
    HANGING_COMPARTMENTS = "kube_gc_hanging_compartments", Kind::Gauge, Count, [];
    /// Decisions about objects, by what was to be done and what came of it.
    DECISIONS = "kube_gc_decisions_total", Kind::Counter, Count, ["action", "outcome", "resource"];
    /// Memory of the decisions that /debug/decisions shows, 4 MiB at most.
    DECISION_LOG_BYTES = "kube_gc_decision_log_bytes", Kind::Gauge, Bytes, [];
    /// Decisions that were not logged as a line of their own because the last one about the object said the same; the next line says how many.
    DECISIONS_REPEATED = "kube_gc_decisions_repeated_total", Kind::Counter, Count, [];
    /// How long it took from the arrival of the event that an owner is gone, or deletes its dependents in the foreground, until a dependent's DELETE was handed to the transport.
    DELETION_LAG = "kube_gc_deletion_lag_seconds", Kind::Histogram(LAG_SECONDS), Seconds, [];
    /// Writes that the API server denied, be it for lack of rights or by an admission webhook.
    DENIED_WRITES = "kube_gc_denied_writes_total", Kind::Counter, Count, ["action", "resource"];
    /// Deletions that met a conflict, by how they went on.
    DELETE_CONFLICTS = "kube_gc_delete_conflicts_total", Kind::Counter, Count, ["next"];
    /// Patches of a list that met a conflict: the object was read again and patched as it is now (read_again), or the decision is made anew after a backoff (given_up).
    PATCH_CONFLICTS = "kube_gc_patch_conflicts_total", Kind::Counter, Count, ["list", "next"];
    /// Workers that panicked over an object and were started again.
    WORKER_RESTARTS = "kube_gc_worker_restarts_total", Kind::Counter, Count, ["name"];
    /// Look-ups of owners that were answered from memory: proved absent before.
    ABSENT_OWNER_HITS = "kube_gc_absent_owner_cache_hits_total", Kind::Counter, Count, [];
    /// Look-ups of owners that the memory of absent ones could not answer.
    ABSENT_OWNER_MISSES = "kube_gc_absent_owner_cache_misses_total", Kind::Counter, Count, [];
    /// Owners proved absent that are remembered.
    ABSENT_OWNER_ENTRIES = "kube_gc_absent_owner_cache_entries", Kind::Gauge, Count, [];
    /// Owners that are remembered because their dependents were orphaned.
    ORPHANED_OWNER_ENTRIES = "kube_gc_orphaned_owner_cache_entries", Kind::Gauge, Count, [];

    // What cannot be finished.

    /// Objects that cannot be finished now, by reason; /debug/stuck names them. 0 on a standby.
    STUCK_OBJECTS = "kube_gc_stuck_objects", Kind::Gauge, Count, ["reason"];
    /// For how long the first of these has been stuck; 0 when there is none.
    STUCK_OLDEST_AGE = "kube_gc_stuck_oldest_age_seconds", Kind::Gauge, Seconds, ["reason"];

    // A dry run beside another collector.

    /// What a dry run would have done, by what came of it: somebody else did it (agreed), nobody did within the grace although it would be done again (disagreed), it would not be done any more (overtaken), too many waited to be compared (dropped).
    COMPARISONS = "kube_gc_comparisons_total", Kind::Counter, Count, ["action", "result"];
    /// What a dry run would have done and nobody else has done so far.
    COMPARISONS_PENDING = "kube_gc_comparisons_pending", Kind::Gauge, Count, [];

    // The brake.

    /// 1 while the brake is engaged and nothing is deleted until a person resumes, 0 otherwise; /readyz?verbose says why.
    BRAKE_ENGAGED = "kube_gc_brake_engaged", Kind::Gauge, Count, [];
    /// How often the brake has engaged, by the limit that was reached.
    BRAKE_ENGAGEMENTS = "kube_gc_brake_engagements_total", Kind::Counter, Count, ["limit"];
    /// Objects that are not deleted because the brake is engaged.
    BRAKE_HELD_OBJECTS = "kube_gc_brake_held_objects", Kind::Gauge, Count, [];

    // Leadership.

    /// 1 while this replica holds the lease, 0 while it is a standby; not there where no leader is elected.
    LEADER = "kube_gc_leader", Kind::Gauge, Count, [];
    /// How often this replica took the lease (acquired), lost it (lost) or gave it back (released).
    LEADER_TRANSITIONS = "kube_gc_leader_transitions_total", Kind::Counter, Count, ["transition"];
    /// How long this replica may still write before it must have renewed its lease; 0 on a standby.
    LEASE_REMAINING = "kube_gc_lease_remaining_seconds", Kind::Gauge, Seconds, [];
    /// How long ago the lease was renewed: by this replica as the leader, counted from before the request; by the leader as far as this replica has seen, on a standby. 0 before any renewal was seen.
    LEASE_AGE = "kube_gc_lease_age_seconds", Kind::Gauge, Seconds, [];
    /// Requests for the lease that failed, conflicts with other replicas not included.
    LEASE_ERRORS = "kube_gc_lease_errors_total", Kind::Counter, Count, [];
    /// Writes that were not sent: as a standby, because the lease had expired, while the graph was being rebuilt (rebuilding), in a dry_run.
    GATE_REFUSALS = "kube_gc_gate_refusals_total", Kind::Counter, Count, ["reason"];

    // The two listeners.

    /// Connections and requests that a listener refused: no TLS was agreed upon (handshake), no request came in time (silent), a head too long, a method other than GET and HEAD, a body, too many at a time (busy), no token that the API server knows (unauthenticated), a user that may not (forbidden), an API server that cannot be asked (unavailable), an answer that took too long (timeout).
    HTTP_REFUSALS = "kube_gc_http_refusals_total", Kind::Counter, Count, ["listener", "reason"];
    /// Connections that a listener has open; never more than 256.
    HTTP_CONNECTIONS = "kube_gc_http_connections", Kind::Gauge, Count, ["listener"];
    /// Connections that a listener closed because it had 256 and another one came: the oldest of the address that had the most.
    HTTP_CONNECTIONS_EVICTED = "kube_gc_http_connections_evicted_total", Kind::Counter, Count, ["listener"];
    /// How often the files of the certificate changed and were loaded, or failed to be.
    TLS_RELOADS = "kube_gc_tls_reloads_total", Kind::Counter, Count, ["result"];
    /// 1 while the files of the certificate cannot be used and the last one that could is shown, 0 otherwise.
    TLS_STALE = "kube_gc_tls_certificate_stale", Kind::Gauge, Count, [];

    // The process.

    /// Processor time of this process's threads by what they are for: one carries the actors and all requests about single objects (requests), one all watches; what one thread carries cannot use more than one core. Only on Linux.
    THREAD_CPU = "kube_gc_thread_cpu_seconds_total", Kind::Counter, Seconds, ["thread"];
    /// Asynchronous tasks that have not ended.
    TASKS = "kube_gc_tasks", Kind::Gauge, Count, [];
    /// Bytes of the log that wait to be read from standard error; at 262144 whoever logs waits, too.
    LOG_WAITING = "kube_gc_log_waiting_bytes", Kind::Gauge, Bytes, [];
    /// 1 while /readyz says yes, 0 while it does not.
    READY = "kube_gc_ready", Kind::Gauge, Count, [];
    /// Always 1; its labels say what is running. The revision is unknown unless the build was told KUBE_GC_REVISION.
    BUILD_INFO = "kube_gc_build_info", Kind::Gauge, Count, ["version", "revision", "rustc"];
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_follow_the_conventions_of_prometheus() {
        let unique: BTreeSet<_> = ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(unique.len(), ALL.len());
        for Metric { name, kind, unit, labels, help } in ALL {
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
            assert_eq!(
                name.trim_end_matches("_total").ends_with("_seconds"),
                *unit == Unit::Seconds,
                "{name}"
            );
            assert!(help.ends_with('.') || help.ends_with("_total."), "{name}: {help}");
            assert!(!help.starts_with(' '), "{name}: {help}");
            // Labelling by object would grow without bound.
            for label in *labels {
                assert!(!["uid", "namespace", "object"].contains(label), "{name}");
            }
            if let Kind::Histogram(buckets) = kind {
                assert!(buckets.is_sorted());
            }
        }
    }
}
