//! Recording what becomes of a dry run's decisions.

use super::{Value, counter, gauge, names};

/// What may be decided.
pub(in crate::telemetry) const COMPARED_ACTIONS: [&str; 5] =
    ["delete", "orphan", "remove_finalizer", "remove_references", "stop_blocking"];
/// What may become of it.
pub(in crate::telemetry) const COMPARISON_RESULTS: [&str; 4] =
    ["agreed", "disagreed", "dropped", "overtaken"];

/// What would have been done was settled.
pub fn comparison(action: &'static str, result: &'static str) {
    counter(&names::COMPARISONS, [Value::Static(action), Value::Static(result)]).increment(1);
}

/// How much waits to be settled.
pub fn comparisons_pending(count: usize) {
    gauge(&names::COMPARISONS_PENDING, []).set(super::float(count));
}

/// The series of a dry run, as zeros; others have none.
pub fn comparison_zeros() {
    for action in COMPARED_ACTIONS {
        for result in COMPARISON_RESULTS {
            counter(&names::COMPARISONS, [Value::Static(action), Value::Static(result)]).increment(0);
        }
    }
    comparisons_pending(0);
}
