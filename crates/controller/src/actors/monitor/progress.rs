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
    list: List,
}

/// The latest list.
#[derive(Debug, Default)]
enum List {
    /// There is no list yet, the graph has applied it, or a later one failed.
    #[default]
    Settled,
    /// The list is complete, and the graph has not applied it yet.
    Ended {
        /// The failure of the watch that followed. A watch may fail before a busy graph has applied
        /// the list.
        failure: Option<String>,
    },
}

/// A list that the graph has applied.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listed {
    /// A failure of the watch since the list, unless the watch has recovered.
    pub(super) failure: Option<String>,
}

impl Progress {
    /// Notes that a whole list has arrived.
    pub(super) fn list_ended(&mut self, resource_version: Option<ResourceVersion>) {
        self.list = List::Ended { failure: None };
        self.received = resource_version;
    }

    /// Notes a failed list. An earlier one that is still being applied is out of date.
    pub(super) fn list_failed(&mut self) {
        self.list = List::Settled;
    }

    /// Notes that the watch broke or could not start.
    pub(super) fn watch_failed(&mut self, error: String) {
        if let List::Ended { failure } = &mut self.list {
            *failure = Some(error);
        }
    }

    /// Notes that the watch works again.
    pub(super) fn watch_recovered(&mut self) {
        if let List::Ended { failure } = &mut self.list {
            *failure = None;
        }
    }

    /// The graph has applied every change so far. Returns the list, if one was waiting.
    pub(super) fn list_applied(&mut self) -> Option<Listed> {
        match std::mem::take(&mut self.list) {
            List::Settled => None,
            List::Ended { failure } => {
                self.listed = true;
                Some(Listed { failure })
            }
        }
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
    fn a_watch_failure_outlives_the_application_of_its_list() {
        let mut progress = Progress::default();
        assert_eq!(progress.list_applied(), None);
        progress.list_ended(None);
        progress.watch_failed("forbidden".into());
        assert_eq!(progress.list_applied(), Some(Listed { failure: Some("forbidden".into()) }));
        assert!(progress.listed);
        assert_eq!(progress.list_applied(), None, "a list is returned once");
    }

    #[test]
    fn a_watch_that_recovers_has_no_failure() {
        let mut progress = Progress::default();
        progress.list_ended(None);
        progress.watch_failed("reset".into());
        progress.watch_recovered();
        assert_eq!(progress.list_applied(), Some(Listed { failure: None }));
        progress.list_ended(None);
        progress.watch_failed("expired".into());
        progress.list_ended(None);
        assert_eq!(
            progress.list_applied(),
            Some(Listed { failure: None }),
            "the failure belonged to an earlier list"
        );
    }

    #[test]
    fn a_failed_list_is_not_synced_by_an_earlier_one() {
        let mut progress = Progress::default();
        progress.list_ended(None);
        progress.watch_failed("expired".into());
        progress.list_failed();
        assert_eq!(progress.list_applied(), None);
        assert!(!progress.listed);
    }
}
