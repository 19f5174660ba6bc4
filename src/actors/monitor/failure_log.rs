//! What the log says of a type whose list or watch fails: one line when it begins, and one
//! when it is over.

use std::time::Duration;

use tokio::time::Instant;

use crate::api::{ApiError, ErrorClass};
use kube_gc_core::object::GroupResource;

/// The failures of one type in a row.
#[derive(Debug, Default)]
pub(super) struct Trouble(Option<Row>);

#[derive(Debug)]
struct Row {
    since: Instant,
    failures: u64,
    /// Whether the log spoke of it.
    is_said: bool,
}

impl Trouble {
    /// A list or watch has failed. While the API server as a whole cannot be reached, one
    /// line speaks for all types.
    pub(super) fn failed(
        &mut self,
        resource: &GroupResource,
        error: &ApiError,
        retry_in: Duration,
        is_outage: bool,
    ) {
        let row = self.0.get_or_insert_with(|| Row { since: Instant::now(), failures: 0, is_said: false });
        row.failures += 1;
        // Connections break. What counts is whether the next one does, too; and when all of
        // them break together, that the next request finds nobody there is said once.
        let is_broken = row.failures == 1 && error.class == ErrorClass::Transient && error.code.is_none();
        if row.is_said || is_outage || is_broken {
            tracing::debug!(%resource, %error, ?retry_in, failures = row.failures, "list or watch failed");
        } else {
            row.is_said = true;
            tracing::warn!(
                %resource,
                %error,
                ?retry_in,
                "list or watch failed; further failures in a row are counted and not logged"
            );
        }
    }

    /// It works again.
    pub(super) fn over(&mut self, resource: &GroupResource) {
        if let Some(Row { since, failures, is_said: true }) = self.0.take() {
            let seconds = since.elapsed().as_secs_f64();
            tracing::info!(%resource, failures, seconds, "list and watch work again");
        }
    }
}
