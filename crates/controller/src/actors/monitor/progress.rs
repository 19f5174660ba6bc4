//! How much of the list and watch of one type has arrived, and how much of it the graph has
//! applied, and how often it failed.

use std::time::Duration;

use tokio::time::Instant;

use kube_gc_client::{ApiError, ErrorClass};
use kube_gc_core::object::{GroupResource, ResourceVersion};

/// The progress of a feed.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Everything up to this version has arrived.
    pub(super) received: Option<ResourceVersion>,
    /// The graph contains everything up to this version.
    pub(super) applied: Option<ResourceVersion>,
    /// Whether any list is in the graph.
    pub(super) listed: bool,
    /// The latest list, until the graph has applied it or a later one has failed.
    list: Option<Listed>,
}

/// A complete list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    /// The failure of the watch since the list, unless the watch has recovered. A watch may fail
    /// before a busy graph has applied the list.
    pub(super) failure: Option<String>,
}

impl Progress {
    /// Notes that a whole list has arrived.
    pub(super) fn list_ended(&mut self, resource_version: Option<ResourceVersion>) {
        self.list = Some(Listed::default());
        self.received = resource_version;
    }

    /// Notes a failed list. An earlier one that is still being applied is out of date.
    pub(super) fn list_failed(&mut self) {
        self.list = None;
    }

    /// Notes why the watch broke or could not start, or that it works again.
    pub(super) fn watched(&mut self, failure: Option<String>) {
        if let Some(list) = &mut self.list {
            list.failure = failure;
        }
    }

    /// The graph has applied every change so far. Returns the list, if one was waiting.
    pub(super) fn list_applied(&mut self) -> Option<Listed> {
        let list = self.list.take();
        self.listed |= list.is_some();
        list
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_applied_with_the_failure_of_its_own_watch_unless_a_later_list_has_failed() {
        let mut progress = Progress::default();
        assert_eq!(progress.list_applied(), None);
        for (failures, expected) in [
            (&[Some("forbidden")][..], Some("forbidden")),
            (&[Some("reset"), None], None),
            // The failure of an earlier list.
            (&[], None),
        ] {
            progress.list_ended(None);
            progress.watched(Some("expired".into()));
            progress.list_ended(None);
            failures.iter().for_each(|failure| progress.watched(failure.map(str::to_owned)));
            let failure = expected.map(str::to_owned);
            assert_eq!(progress.list_applied(), Some(Listed { failure }));
            assert_eq!(progress.list_applied(), None, "a list is returned once");
        }
        let mut failed = Progress::default();
        failed.list_ended(None);
        failed.list_failed();
        assert_eq!((failed.list_applied(), failed.listed), (None, false));
    }
}
