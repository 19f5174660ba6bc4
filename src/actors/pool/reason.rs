//! Why a key is tried again, and how soon.

use std::time::Duration;

use super::Outcome;
use kube_gc_core::mailbox::{Backoff, Completion};

/// Why a key waits for its next try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RetryReason {
    /// The object changed while it was being decided on.
    Conflict,
    /// The API server, a role or an admission webhook said no.
    Denied,
    /// The API server failed or did not answer.
    Failed,
    /// The API server asked to come back later.
    Throttled,
    /// The worker panicked on it.
    Panicked,
    /// A reference's kind or version is not served, or its owner could not be looked up.
    Unresolved,
    /// An owner exists that no monitor has shown (yet).
    NotObserved,
    /// The brake is engaged: nothing is deleted until a person resumes.
    Braked,
    /// Its request was not sent: the API server cannot be reached, or requests of this kind
    /// hang for other objects.
    Deferred,
}

impl RetryReason {
    /// The word used in metrics and on the debug pages.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Conflict => "conflict",
            Self::Denied => "denied",
            Self::Failed => "failed",
            Self::Throttled => "throttled",
            Self::Panicked => "panicked",
            Self::Unresolved => "unresolved",
            Self::NotObserved => "not_observed",
            Self::Braked => "braked",
            Self::Deferred => "deferred",
        }
    }

    /// Whether the key waits for the world to change, rather than for a request
    /// to succeed the next time.
    #[must_use]
    pub const fn is_parked(self) -> bool {
        match self {
            Self::Unresolved | Self::NotObserved | Self::Braked => true,
            Self::Conflict
            | Self::Denied
            | Self::Failed
            | Self::Throttled
            | Self::Panicked
            | Self::Deferred => false,
        }
    }
}

/// The longest pause after a conflict: the object has changed, which is no failure, and one
/// that changes a hundred times a second must meet a moment of rest sooner than a pause that
/// doubles would let it.
pub(crate) const AFTER_CONFLICT_AT_MOST: Duration = Duration::from_millis(250);
/// After so many tries in a row it is a failure all the same: something answers everything
/// with a conflict.
const CONFLICTS_AT_MOST: u32 = 250;

/// What becomes of a key that met a conflict after so many tries in a row: see
/// [`AFTER_CONFLICT_AT_MOST`].
pub(super) fn after_conflicts(outcome: Outcome, tries: u32, backoff: Backoff) -> Outcome {
    match outcome {
        Completion::Retry { reason: RetryReason::Conflict, error } if tries < CONFLICTS_AT_MOST => {
            let longest = AFTER_CONFLICT_AT_MOST.max(backoff.min);
            let after = backoff.delay(tries + 1).min(longest);
            Completion::RetryAfter { after, reason: RetryReason::Conflict, error }
        }
        outcome => outcome,
    }
}
