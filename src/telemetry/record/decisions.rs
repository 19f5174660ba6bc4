//! Recording what is decided, what for, and what comes of it.

use super::{Value, counter, float, gauge, names};
use crate::object::GroupResource;

/// It was decided to do this to an object of this type, and this came of it.
pub fn decision(action: &'static str, outcome: &str, resource: &GroupResource) {
    let labels = [Value::Static(action), Value::Text(outcome), Value::Shown(resource)];
    counter(&names::DECISIONS, labels).increment(1);
}

/// A deletion met a conflict and went on like this.
pub fn delete_conflict(next: &'static str) {
    counter(&names::DELETE_CONFLICTS, [Value::Static(next)]).increment(1);
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
    for metric in [&names::ABSENT_OWNER_HITS, &names::ABSENT_OWNER_MISSES, &names::REPORTS_DROPPED] {
        counter(metric, []).increment(0);
    }
}
