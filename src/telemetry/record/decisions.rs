//! Metrics of decisions and their outcomes.

use super::{Value, counter, float, gauge, histogram, names};
use kube_gc_core::object::GroupResource;

/// What follows a conflict of a deletion.
pub(in crate::telemetry) const AFTER_CONFLICT: [&str; 6] =
    ["absent", "backoff", "being_deleted", "delete_with_new_version", "delete_with_uid_alone", "reevaluate"];

/// Counts a decision about an object of this type.
pub fn decision(action: &'static str, outcome: &str, resource: &GroupResource) {
    let labels = [Value::Static(action), Value::Text(outcome), Value::Display(resource)];
    counter(&names::DECISIONS, labels).increment(1);
}

/// Records the memory of the decision log.
pub fn decision_log_bytes(bytes: usize) {
    gauge(&names::DECISION_LOG_BYTES, []).set(float(bytes));
}

/// Counts a decision that is not logged because it equals the previous one.
pub fn decision_repeated() {
    counter(&names::DECISIONS_REPEATED, []).increment(1);
}

/// Counts a decision that a summary in the log counts.
pub fn decision_in_summary() {
    counter(&names::DECISIONS_IN_SUMMARIES, []).increment(1);
}

/// Counts a conflict of a deletion by what follows.
pub fn delete_conflict(next: &'static str) {
    counter(&names::DELETE_CONFLICTS, [Value::Static(next)]).increment(1);
}

/// Counts a write that the API server denied.
pub fn denied_write(action: &'static str, resource: &GroupResource) {
    counter(&names::DENIED_WRITES, [Value::Static(action), Value::Display(resource)]).increment(1);
}

/// What follows a conflict of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchConflict {
    /// The object is read and patched again.
    Retry,
    /// The object is re-evaluated.
    Requeue,
}

impl PatchConflict {
    pub(in crate::telemetry) const ALL: [Self; 2] = [Self::Retry, Self::Requeue];

    pub(in crate::telemetry) const fn label(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Requeue => "requeue",
        }
    }
}

/// The lists that are patched.
pub(in crate::telemetry) const LISTS: [&str; 2] = ["ownerReferences", "finalizers"];

/// Counts a conflict of a patch of this list in an object's metadata.
pub fn patch_conflict(list: &'static str, next: PatchConflict) {
    counter(&names::PATCH_CONFLICTS, [Value::Static(list), Value::Static(next.label())]).increment(1);
}

/// Counts a lookup in the cache of absent owners.
pub fn absent_owner_lookup(hit: bool) {
    let metric = if hit { &names::ABSENT_OWNER_HITS } else { &names::ABSENT_OWNER_MISSES };
    counter(metric, []).increment(1);
}

/// Records the size of the cache of absent owners.
pub fn absent_owner_entries(count: usize) {
    gauge(&names::ABSENT_OWNER_ENTRIES, []).set(float(count));
}

/// Records the size of the cache of owners whose dependents were orphaned.
pub fn orphaned_owner_entries(count: usize) {
    gauge(&names::ORPHANED_OWNER_ENTRIES, []).set(float(count));
}

/// Counts a warning event that was dropped because too many were queued.
pub fn report_dropped() {
    counter(&names::REPORTS_DROPPED, []).increment(1);
}

/// Creates the series of this module with the value zero.
pub(super) fn zeros() {
    for next in AFTER_CONFLICT {
        counter(&names::DELETE_CONFLICTS, [Value::Static(next)]).increment(0);
    }
    for list in LISTS {
        for next in PatchConflict::ALL {
            let labels = [Value::Static(list), Value::Static(next.label())];
            counter(&names::PATCH_CONFLICTS, labels).increment(0);
        }
    }
    let _ = histogram(&names::DELETION_LAG, []);
    decision_log_bytes(0);
    for metric in [
        &names::ABSENT_OWNER_HITS,
        &names::ABSENT_OWNER_MISSES,
        &names::REPORTS_DROPPED,
        &names::DECISIONS_REPEATED,
        &names::DECISIONS_IN_SUMMARIES,
    ] {
        counter(metric, []).increment(0);
    }
}
