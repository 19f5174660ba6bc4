//! Metrics of the process.

use super::{Value, float, gauge, names};

/// Records whether `/readyz` answers 200.
pub fn ready(ready: bool) {
    gauge(&names::READY, []).set(if ready { 1.0 } else { 0.0 });
}

/// Records the number of asynchronous tasks that have not ended.
pub fn tasks(count: usize) {
    gauge(&names::TASKS, []).set(float(count));
}

/// Records the bytes of the log that wait to be written.
pub fn log_waiting(bytes: usize) {
    gauge(&names::LOG_WAITING, []).set(float(bytes));
}

/// Records the version, the revision and the compiler of the build.
pub(in crate::telemetry) fn build_info() {
    let version = Value::Static(env!("CARGO_PKG_VERSION"));
    let revision =
        Value::Static(option_env!("KUBE_GC_REVISION").filter(|text| !text.is_empty()).unwrap_or("unknown"));
    let rustc = Value::Static(env!("KUBE_GC_RUSTC"));
    gauge(&names::BUILD_INFO, [version, revision, rustc]).set(1.0);
}
