//! Metrics of the comparison of a dry run with another collector.

use super::{Value, counter, gauge, names};

/// The actions that are compared.
pub(in crate::telemetry) const COMPARED_ACTIONS: [&str; 5] =
    ["delete", "orphan", "remove_finalizer", "remove_references", "stop_blocking"];
/// The results of a comparison.
pub(in crate::telemetry) const COMPARISON_RESULTS: [&str; 4] =
    ["agreed", "disagreed", "dropped", "overtaken"];

/// Counts a comparison by its result.
pub fn comparison(action: &'static str, result: &'static str) {
    counter(&names::COMPARISONS, [Value::Static(action), Value::Static(result)]).increment(1);
}

/// Records how many comparisons are pending.
pub fn comparisons_pending(count: usize) {
    gauge(&names::COMPARISONS_PENDING, []).set(super::float(count));
}

/// Creates the series of a dry run with the value zero. Without a dry run, they do not exist.
pub fn comparison_zeros() {
    for action in COMPARED_ACTIONS {
        for result in COMPARISON_RESULTS {
            counter(&names::COMPARISONS, [Value::Static(action), Value::Static(result)]).increment(0);
        }
    }
    comparisons_pending(0);
}
