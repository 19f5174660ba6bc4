//! Recording the process itself.

use super::{Value, float, gauge, names};

/// How many asynchronous tasks have not ended.
pub fn tasks(count: usize) {
    gauge(&names::TASKS, []).set(float(count));
}

/// What is running.
pub(in crate::telemetry) fn build_info() {
    gauge(&names::BUILD_INFO, [Value::Static(env!("CARGO_PKG_VERSION"))]).set(1.0);
}
