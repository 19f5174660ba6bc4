//! The values of labels, where there are only so many.

use super::names::{self, Metric};
use super::record::{EventKind, InvalidReference, LeaseTransition, MonitorState, PatchConflict, Queue};

/// What may be done to an object.
const ACTIONS: &[&str] =
    &["delete", "keep", "orphan", "remove_finalizer", "remove_references", "stop_blocking"];

/// What may come of it.
const OUTCOMES: &[&str] = &[
    "already_being_deleted",
    "already_gone",
    "conflict",
    "decided_afresh",
    "deleted",
    "deletion_pending",
    "denied",
    "dry_run",
    "failed",
    "not_being_deleted",
    "parked",
    "patched",
    "removed",
    "throttled",
    "unneeded",
];

/// How a deletion goes on after a conflict.
pub(super) const AFTER_CONFLICT: &[&str] = &[
    "absent",
    "backoff",
    "being_deleted",
    "decide_afresh",
    "delete_with_new_version",
    "delete_with_uid_alone",
];

/// What is asked of the API server.
const VERBS: &[&str] = &["create", "delete", "discover", "get", "list", "patch", "watch"];

/// Every value that a label of a metric may have; `None` where they come from the
/// cluster: a type, a group, a status code.
#[must_use]
pub fn values(metric: &Metric, label: &str) -> Option<Vec<&'static str>> {
    let is = |other: &Metric| metric.name == other.name;
    let pools = [Queue::AttemptToDelete, Queue::AttemptToOrphan].map(Queue::name);
    match label {
        "name" if is(&names::WORKER_RESTARTS) => Some(pools.to_vec()),
        "name" => Some(Queue::ALL.map(Queue::name).to_vec()),
        "kind" => Some(EventKind::ALL.map(EventKind::label).to_vec()),
        "state" => Some(MonitorState::ALL.map(MonitorState::label).to_vec()),
        "transition" => Some(LeaseTransition::ALL.map(LeaseTransition::label).to_vec()),
        "verb" => Some(VERBS.to_vec()),
        "action" if is(&names::DECISIONS) || is(&names::DENIED_WRITES) => Some(ACTIONS.to_vec()),
        "action" if is(&names::COMPARISONS) => Some(super::record::COMPARED_ACTIONS.to_vec()),
        "result" if is(&names::COMPARISONS) => Some(super::record::COMPARISON_RESULTS.to_vec()),
        "outcome" => Some(OUTCOMES.to_vec()),
        "list" => Some(super::record::LISTS.to_vec()),
        "next" if is(&names::PATCH_CONFLICTS) => Some(PatchConflict::ALL.map(PatchConflict::label).to_vec()),
        "next" if is(&names::DELETE_CONFLICTS) => Some(AFTER_CONFLICT.to_vec()),
        "reason" if is(&names::GATE_REFUSALS) => Some(super::record::GATE_REASONS.to_vec()),
        "reason" if is(&names::INVALID_REFERENCES) => {
            Some(InvalidReference::ALL.map(InvalidReference::label).to_vec())
        }
        _ => None,
    }
}
