//! How soon a key is retried after a conflict.

use std::time::Duration;

use super::Outcome;
use crate::telemetry::StuckReason;
use kube_gc_core::mailbox::{Backoff, Completion};

/// The longest pause after a conflict. A conflict is no failure: the object changed. An object that
/// changes a hundred times a second is deleted in a quiet moment, which doubling pauses would miss.
pub(crate) const AFTER_CONFLICT_AT_MOST: Duration = Duration::from_millis(250);
/// After this many conflicts in a row, a conflict counts as a failure: some component answers every
/// write with one.
const CONFLICTS_AT_MOST: u32 = 250;

/// Shortens the pause of a key after a conflict; see [`AFTER_CONFLICT_AT_MOST`].
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
