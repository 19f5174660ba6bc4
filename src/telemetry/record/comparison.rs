//! Recording what becomes of a dry run's decisions.

use super::{Value, counter, float, gauge, names};

/// What would have been done was settled.
pub fn comparison(action: &'static str, result: &'static str) {
    counter(&names::COMPARISONS, [Value::Static(action), Value::Static(result)]).increment(1);
}

/// How much waits to be settled.
pub fn comparisons_pending(count: usize) {
    gauge(&names::COMPARISONS_PENDING, []).set(float(count));
}

/// The series of a dry run, as zeros; others have none.
pub fn comparison_zeros<const N: usize, const M: usize>(
    actions: [&'static str; N],
    results: [&'static str; M],
) {
    for action in actions {
        for result in results {
            counter(&names::COMPARISONS, [Value::Static(action), Value::Static(result)]).increment(0);
        }
    }
    comparisons_pending(0);
}
