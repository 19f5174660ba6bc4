//! Typed functions that record metrics.

mod brake;
mod comparison;
mod decisions;
mod deletion_lag;
mod graph;
mod http;
mod leadership;
mod namespaces;
#[cfg_attr(not(feature = "node"), allow(dead_code, reason = "for `kube-gc node`"))]
mod node;
mod process;
mod queues;
mod requests;
mod resources;
mod stuck;
mod zeros;

use metrics::{Counter, Gauge, Histogram, Label};

use super::names::{self, Metric};

pub(super) use brake::LIMITS;
pub use brake::{brake_engaged, brake_engaged_by, brake_held};
pub(super) use comparison::{COMPARED_ACTIONS, COMPARISON_RESULTS};
pub use comparison::{comparison, comparison_zeros, comparisons_pending};
pub(super) use decisions::{AFTER_CONFLICT, LISTS};
pub use decisions::{
    PatchConflict, absent_owner_entries, absent_owner_lookup, decision, decision_in_summary,
    decision_log_bytes, decision_repeated, delete_conflict, denied_write, orphaned_owner_entries,
    patch_conflict, report_dropped,
};
pub use deletion_lag::DeletionLag;
pub use graph::{
    EventLag, GraphSize, InvalidReference, graph, invalid_reference, store_restored, uid_collision,
};
pub use http::{
    HttpRefusal, certificate_failed, certificate_loaded, certificate_restored, http_connection_evicted,
    http_connections, http_refused,
};
pub(super) use http::{LISTENERS, RELOADS};
pub(super) use leadership::GATE_REASONS;
pub use leadership::{
    LeaseTransition, election, gate_refused, lease_age, lease_error, lease_remaining, lease_transition,
};
pub(super) use namespaces::NAMESPACE_OUTCOMES;
pub use namespaces::{namespace_turn, namespaces_stopped, namespaces_terminating};
pub(super) use node::{FILESYSTEM_STATES, IMAGE_REASONS, NODE_ITEMS, NODE_OUTCOMES, PASS_SCOPES};
#[cfg(any(test, feature = "node"))]
pub use node::{
    node_filesystem, node_image_collected, node_pass, node_removal, node_wanted, node_zeros,
    runtime_operation,
};
pub(super) use process::build_info;
pub use process::{log_waiting, ready, tasks};
pub use queues::{Queue, QueueMetrics, QueueSample, worker_restarted};
pub(super) use requests::DEFERRED_FOR;
pub use requests::{
    ApiSide, api_concurrency, api_concurrency_cut, api_server_outage, api_server_reachable,
    credentials_refused, hanging_compartments, request, request_deferred,
};
pub use resources::{
    EventKind, EventMetrics, MonitorState, discovery_error, monitor_restarted, monitors, resource_sync_error,
    resource_synced, undiscovered,
};
pub use stuck::{StuckReason, stuck};
pub use zeros::zeros;

/// The labels of a metric, with values in the order in which it declares them.
fn labels<const N: usize>(metric: &Metric, values: [Value<'_>; N]) -> Vec<Label> {
    debug_assert_eq!(metric.labels.len(), N, "{}", metric.name);
    metric.labels.iter().zip(values).map(|(name, value)| value.label(name)).collect()
}

/// The value of a label. Most are static and need no allocation.
enum Value<'a> {
    Static(&'static str),
    Text(&'a str),
    Display(&'a dyn std::fmt::Display),
}

impl Value<'_> {
    fn label(self, name: &'static str) -> Label {
        match self {
            Self::Static(value) => Label::from_static_parts(name, value),
            Self::Text(value) => Label::new(name, value.to_owned()),
            Self::Display(value) => Label::new(name, value.to_string()),
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

/// Converts a count for a gauge. Counts below 2^53 are exact.
#[allow(clippy::cast_precision_loss)]
fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;
    use kube_gc_core::object::GroupResource;

    /// Calls every function of this module.
    pub(in crate::telemetry) fn record_everything() {
        zeros();
        for queue in Queue::ALL {
            let metrics = QueueMetrics::new(queue);
            metrics.added(1);
            metrics.added_in_total(1);
            metrics.retried_in_total(1);
            metrics.waited(Duration::from_secs(1));
            metrics.waited_each(Duration::from_secs(1), 10);
            metrics.worked(Duration::from_secs(1));
            metrics.worked_each(Duration::from_secs(1), 10);
            metrics.sample(&QueueSample::default());
        }
        request("get", &GroupResource::parse("pods"), "timeout", Duration::from_secs(1));
        api_concurrency(1);
        api_concurrency_cut(ApiSide::Kubernetes);
        api_server_reachable(true);
        credentials_refused(false);
        api_server_outage(Duration::from_secs(1));
        request_deferred("hanging");
        hanging_compartments(1);
        graph(0, &GraphSize::default());
        uid_collision();
        invalid_reference(InvalidReference::InvalidScope);
        resource_synced("apps", "v1", "deployments", false);
        resource_sync_error("apps", "v1", "deployments");
        discovery_error();
        undiscovered("apps", None, true);
        tasks(1);
        log_waiting(1);
        decision("keep", "parked", &GroupResource::parse("pods"));
        decision_log_bytes(1);
        decision_repeated();
        decision_in_summary();
        delete_conflict("backoff");
        worker_restarted(Queue::AttemptToDelete);
        store_restored();
        report_dropped();
        let events = EventMetrics::new(&GroupResource::parse("pods"));
        EventKind::ALL.into_iter().for_each(|kind| events.came(kind, 1));
        EventLag::default().took(Duration::from_millis(1), 1);
        DeletionLag::since(tokio::time::Instant::now()).deletion_sent();
        denied_write("delete", &GroupResource::parse("pods"));
        patch_conflict("finalizers", PatchConflict::Retry);
        lease_age(Duration::from_secs(1));
        monitor_restarted();
        orphaned_owner_entries(1);
        absent_owner_lookup(true);
        absent_owner_entries(1);
        http_refused("health", HttpRefusal::Busy);
        http_connections("health", 1);
        http_connection_evicted("health");
        certificate_failed();
        certificate_loaded();
        brake_engaged(true, 1);
        brake_engaged_by("percent");
        brake_held(1);
        gate_refused("standby");
        stuck(StuckReason::Denied, 1, Duration::from_secs(1));
        lease_transition(LeaseTransition::Acquired);
        election();
        ready(true);
        lease_error();
        comparison("delete", "agreed");
        comparisons_pending(1);
        node_zeros();
        node_removal("image", "I4", "removed");
        node_image_collected("space");
        runtime_operation("list_images", true, Duration::from_secs(1));
        node_filesystem("free", 1);
        node_wanted(1);
        node_pass("images", Duration::from_secs(1), true);
        lease_remaining(Duration::from_secs(1));
        build_info();
    }
}
