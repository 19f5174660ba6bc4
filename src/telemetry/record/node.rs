//! Metrics of node collection. What the kubelet measures, too, has the kubelet's names.

use std::time::{Duration, SystemTime};

use super::{Value, counter, gauge, histogram, names};

/// What is removed.
pub(in crate::telemetry) const NODE_ITEMS: [&str; 5] =
    ["container", "image", "log_directory", "log_symlink", "sandbox"];
/// What comes of it.
pub(in crate::telemetry) const NODE_OUTCOMES: [&str; 3] = ["failed", "refused", "removed"];
/// Why images go.
pub(in crate::telemetry) const IMAGE_REASONS: [&str; 2] = ["age", "space"];
/// What fills the file system of the images.
pub(in crate::telemetry) const FILESYSTEM_STATES: [&str; 6] =
    ["dead_containers", "free", "in_use", "kept", "other", "unused"];
/// Parts of a pass.
pub(in crate::telemetry) const PASS_SCOPES: [&str; 2] = ["containers", "images"];

/// Counts the removal of an item.
pub fn node_removal(what: &'static str, rule: &'static str, outcome: &'static str) {
    let labels = [Value::Static(what), Value::Static(rule), Value::Static(outcome)];
    counter(&names::NODE_REMOVALS, labels).increment(1);
}

/// Counts a removed image.
pub fn node_image_collected(reason: &'static str) {
    counter(&names::IMAGE_GARBAGE_COLLECTED, [Value::Static(reason)]).increment(1);
}

/// Counts a call to the container runtime.
pub fn runtime_operation(operation: &'static str, failed: bool, duration: Duration) {
    counter(&names::RUNTIME_OPERATIONS, [Value::Static(operation)]).increment(1);
    histogram(&names::RUNTIME_OPERATIONS_DURATION, [Value::Static(operation)]).record(duration);
    counter(&names::RUNTIME_OPERATIONS_ERRORS, [Value::Static(operation)]).increment(u64::from(failed));
}

/// Records bytes of the file system of the images by what they are for.
#[allow(clippy::cast_precision_loss, reason = "a gauge is a float")]
pub fn node_filesystem(state: &'static str, bytes: u64) {
    gauge(&names::NODE_FILESYSTEM_BYTES, [Value::Static(state)]).set(bytes as f64);
}

/// Records the bytes that a pass still has to free.
#[allow(clippy::cast_precision_loss, reason = "a gauge is a float")]
pub fn node_wanted(bytes: u64) {
    gauge(&names::NODE_WANTED_BYTES, []).set(bytes as f64);
}

/// Records a pass that has ended.
pub fn node_pass(scope: &'static str, duration: Duration, succeeded: bool) {
    histogram(&names::NODE_PASS, [Value::Static(scope)]).record(duration);
    if succeeded {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        gauge(&names::NODE_LAST_SUCCESS, [Value::Static(scope)]).set(now.as_secs_f64());
    }
}

/// Creates the series that alerts use, with the value zero. Only node collection calls it.
pub fn node_zeros() {
    for state in FILESYSTEM_STATES {
        node_filesystem(state, 0);
    }
    node_wanted(0);
    for reason in IMAGE_REASONS {
        counter(&names::IMAGE_GARBAGE_COLLECTED, [Value::Static(reason)]).increment(0);
    }
    for scope in PASS_SCOPES {
        gauge(&names::NODE_LAST_SUCCESS, [Value::Static(scope)]).set(0.0);
    }
}
