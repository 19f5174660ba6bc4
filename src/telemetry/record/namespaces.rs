//! Metrics of the namespaces that kube-gc finishes.

use super::{Value, counter, float, gauge, names};

/// How a turn of a namespace may end.
pub(in crate::telemetry) const NAMESPACE_OUTCOMES: [&str; 7] =
    ["dry_run", "empty", "failed", "finalized", "gone", "held", "progress"];

/// Records how many namespaces are terminating.
pub fn namespaces_terminating(count: usize) {
    gauge(&names::NAMESPACES_TERMINATING, []).set(float(count));
}

/// Counts a turn with this outcome.
pub fn namespace_turn(outcome: &'static str) {
    counter(&names::NAMESPACE_TURNS, [Value::Static(outcome)]).increment(1);
}

/// Records whether kube-gc has stopped finishing namespaces.
pub fn namespaces_stopped(stopped: bool) {
    gauge(&names::NAMESPACES_STOPPED, []).set(if stopped { 1.0 } else { 0.0 });
}

/// Creates the series of this module with the value zero.
pub(super) fn zeros() {
    namespaces_terminating(0);
    namespaces_stopped(false);
    for outcome in NAMESPACE_OUTCOMES {
        counter(&names::NAMESPACE_TURNS, [Value::Static(outcome)]).increment(0);
    }
}
