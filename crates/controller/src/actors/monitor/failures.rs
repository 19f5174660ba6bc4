//! Log lines about the failures of the list and watch of one type.

use std::time::Duration;

use tokio::time::Instant;

use kube_gc_client::{ApiError, ErrorClass};
use kube_gc_core::object::GroupResource;

/// The consecutive failures of one type. The log has a line when they begin, and one when they end.
#[derive(Debug, Default)]
pub(super) struct FailureLog(Option<Streak>);

#[derive(Debug)]
struct Streak {
    since: Instant,
    failures: u64,
    /// Whether a warning was logged.
    is_logged: bool,
}

impl FailureLog {
    /// Logs a failed list or watch. During an outage of the whole API server, one line stands for
    /// all types.
    pub(super) fn failed(
        &mut self,
        resource: &GroupResource,
        error: &ApiError,
        retry_in: Duration,
        is_outage: bool,
    ) {
        let streak =
            self.0.get_or_insert_with(|| Streak { since: Instant::now(), failures: 0, is_logged: false });
        streak.failures += 1;
        // A single broken connection is normal; the next failure counts. If all connections break
        // together, the outage is logged once.
        let is_broken = streak.failures == 1 && error.class == ErrorClass::Transient && error.code.is_none();
        if streak.is_logged || is_outage || is_broken {
            tracing::debug!(%resource, %error, next_retry_seconds = retry_in.as_secs_f64(), failures = streak.failures, "list or watch failed");
        } else {
            streak.is_logged = true;
            tracing::warn!(
                %resource,
                %error,
                next_retry_seconds = retry_in.as_secs_f64(),
                "list or watch failed; further failures in a row are counted and not logged"
            );
        }
    }

    /// Logs that the type works again.
    pub(super) fn over(&mut self, resource: &GroupResource) {
        if let Some(Streak { since, failures, is_logged: true }) = self.0.take() {
            let seconds = since.elapsed().as_secs_f64();
            tracing::info!(%resource, failures, seconds, "list and watch work again");
        }
    }
}
