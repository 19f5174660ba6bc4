//! How soon a key is retried after a conflict.

use std::time::Duration;

use super::Outcome;
use crate::telemetry::StuckReason;
use kube_gc_core::mailbox::{Backoff, Completion};

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
        Completion::Retry { reason: StuckReason::Conflict, error } if tries < CONFLICTS_AT_MOST => {
            let longest = AFTER_CONFLICT_AT_MOST.max(backoff.min);
            let after = backoff.delay(tries + 1).min(longest);
            Completion::RetryAfter { after, reason: StuckReason::Conflict, error }
        }
        outcome => outcome,
    }
}
