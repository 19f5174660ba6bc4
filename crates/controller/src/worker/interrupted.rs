//! Why a worker could not finish a key, and what becomes of the key.

use std::sync::Arc;
use std::time::Duration;

use crate::actors::graph_handle::PartitionEnded;
use crate::actors::pool::Outcome;
use kube_gc_client::{Api, ApiError, ErrorClass};
use kube_gc_core::mailbox::Completion;
use kube_gc_core::text::bounded;
use kube_gc_observe::telemetry::StuckReason;

/// Why a worker stopped before it had finished a key.
#[derive(Clone, Debug)]
pub enum Interrupted {
    /// A request failed.
    Api(ApiError),
    /// A partition of the graph has ended.
    Graph(PartitionEnded),
    /// What the decision rests on has changed. The key is re-evaluated.
    Changed(&'static str),
    /// The brake is engaged.
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

    /// What becomes of the key.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Changed(what) => Completion::Retry { reason: StuckReason::Conflict, error: what.into() },
            Self::Graph(error) => {
                Completion::Retry { reason: StuckReason::Failed, error: error.to_string().into() }
            }
            Self::Braked(error) => {
                Completion::Park { at_most: Duration::MAX, reason: StuckReason::Braked, error }
            }
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
    let text: Arc<str> = bounded(error).into();
    match error.class {
        // The decision has been logged. A dry run does no more.
        ErrorClass::DryRun => Completion::Done,
        ErrorClass::Conflict => Completion::Retry { reason: StuckReason::Conflict, error: text },
        // Without a pause: where watches break again and again, the next retry would be void too.
        ErrorClass::Fenced => {
            Completion::RetryAfter { after: Duration::ZERO, reason: StuckReason::Conflict, error: text }
        }
        ErrorClass::Throttled { retry_after: Some(after) } => {
            Completion::RetryAfter { after, reason: StuckReason::Throttled, error: text }
        }
        ErrorClass::Throttled { retry_after: None } => {
            Completion::Retry { reason: StuckReason::Throttled, error: text }
        }
        ErrorClass::Denied => Completion::Retry { reason: StuckReason::Denied, error: text },
        ErrorClass::Deferred { retry_after, .. } => {
            Completion::Defer { after: retry_after, reason: StuckReason::Deferred, error: text }
        }
        _ => Completion::Retry { reason: StuckReason::Failed, error: text },
    }
}
