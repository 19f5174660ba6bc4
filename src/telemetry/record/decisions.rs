//! Recording what is decided, what for, and what comes of it.

use super::{Value, counter, float, gauge, histogram, names};
use crate::telemetry::labels::AFTER_CONFLICT;
use kube_gc_core::object::GroupResource;

/// It was decided to do this to an object of this type, and this came of it.
pub fn decision(action: &'static str, outcome: &str, resource: &GroupResource) {
    let labels = [Value::Static(action), Value::Text(outcome), Value::Shown(resource)];
    counter(&names::DECISIONS, labels).increment(1);
}

/// So many bytes take up the last decisions, which are kept for people.
pub fn decision_log_bytes(bytes: usize) {
    gauge(&names::DECISION_LOG_BYTES, []).set(float(bytes));
}

/// A decision was the same as the one before, and is not logged again.
pub fn decision_repeated() {
    counter(&names::DECISIONS_REPEATED, []).increment(1);
}

/// A deletion met a conflict and went on like this.
pub fn delete_conflict(next: &'static str) {
    counter(&names::DELETE_CONFLICTS, [Value::Static(next)]).increment(1);
}

/// The API server did not let us do this to an object of this type.
pub fn denied_write(action: &'static str, resource: &GroupResource) {
    counter(&names::DENIED_WRITES, [Value::Static(action), Value::Shown(resource)]).increment(1);
}

/// What becomes of a patch that met a conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchConflict {
    /// The object is read again, and patched as it is now.
    ReadAgain,
    /// Whoever wanted it decides anew.
    GivenUp,
}

impl PatchConflict {
    pub(in crate::telemetry) const ALL: [Self; 2] = [Self::ReadAgain, Self::GivenUp];

    pub(in crate::telemetry) const fn label(self) -> &'static str {
        match self {
            Self::ReadAgain => "read_again",
            Self::GivenUp => "given_up",
        }
    }
}

/// The lists that are patched.
pub(in crate::telemetry) const LISTS: [&str; 2] = ["ownerReferences", "finalizers"];

/// A patch of this list in an object's metadata met a conflict.
pub fn patch_conflict(list: &'static str, next: PatchConflict) {
    counter(&names::PATCH_CONFLICTS, [Value::Static(list), Value::Static(next.label())]).increment(1);
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

/// A warning was not told because too many waited.
pub fn report_dropped() {
    counter(&names::REPORTS_DROPPED, []).increment(1);
}

/// The series of this part, as zeros.
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
    ] {
        counter(metric, []).increment(0);
    }
}
