//! Why a worker could not finish a key, and what becomes of the key.

use std::sync::Arc;
use std::time::Duration;

use crate::actors::graph_handle::PartitionEnded;
use crate::actors::pool::Outcome;
use kube_gc_client::{Api, ApiError, ErrorClass};
use kube_gc_core::mailbox::{Completion, Wait};
use kube_gc_core::text::bounded;
use kube_gc_observe::telemetry::StuckReason;

/// Why a worker stopped before it had finished a key.
#[derive(Clone, Debug)]
pub enum Interrupted {
    Api(ApiError),
    Graph(PartitionEnded),
    /// What the decision rests on has changed. The key is re-evaluated.
    Changed(&'static str),
    Braked(Arc<str>),
}

impl From<ApiError> for Interrupted {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<PartitionEnded> for Interrupted {
    fn from(error: PartitionEnded) -> Self {
        Self::Graph(error)
    }
}

impl Interrupted {
    /// Whether no request was sent, for a reason that is not the object's own.
    pub const fn is_deferred(&self) -> bool {
        matches!(self, Self::Api(ApiError { class: ErrorClass::Deferred { .. }, .. }))
    }

    pub fn outcome(self) -> Outcome {
        match self {
            Self::Changed(what) => Completion::retry(StuckReason::Conflict, what),
            Self::Graph(error) => Completion::retry(StuckReason::Failed, error.to_string()),
            Self::Braked(error) => Completion::later(StuckReason::Braked, Wait::Woken(Duration::MAX), error),
            Self::Api(error) => api_outcome(&error),
        }
    }
}

/// What becomes of each key while no request can be sent, if that is so now.
pub fn deferred(api: &Api) -> Option<Outcome> {
    api.held().as_ref().map(api_outcome)
}

/// What becomes of a key whose request failed.
pub fn api_outcome(error: &ApiError) -> Outcome {
    let (reason, wait) = match error.class {
        // The decision has been logged. A dry run does no more.
        ErrorClass::DryRun => return Completion::Done,
        ErrorClass::Conflict => (StuckReason::Conflict, Wait::Backoff),
        // Without a pause: where watches break again and again, the next retry would be void too.
        ErrorClass::Fenced => (StuckReason::Conflict, Wait::RetryAfter(Duration::ZERO)),
        ErrorClass::Throttled { retry_after } => {
            (StuckReason::Throttled, retry_after.map_or(Wait::Backoff, Wait::RetryAfter))
        }
        ErrorClass::Denied => (StuckReason::Denied, Wait::Backoff),
        ErrorClass::Deferred { retry_after, .. } => (StuckReason::Deferred, Wait::Untried(retry_after)),
        _ => (StuckReason::Failed, Wait::Backoff),
    };
    Completion::later(reason, wait, bounded(error))
}
