//! Verifies an owner that no monitor shows.

use super::work::DeleteWork;
use crate::actors::graph_handle::Finding;
use crate::actors::pool::Outcome;
use crate::api::{ApiError, ErrorClass, LookupResult};
use crate::telemetry::{Structured, StuckReason};
use crate::worker::interrupted::{Interrupted, api_outcome};
use kube_gc_core::graph::{Verification, VirtualSnapshot};
use kube_gc_core::mailbox::Completion;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::text::bounded;

impl DeleteWork {
    /// Looks up an owner that the graph knows only by references to it.
    pub(super) async fn verify(&self, owner: &VirtualSnapshot) -> Result<Outcome, Interrupted> {
        let VirtualSnapshot { identity, generation } = owner;
        let finding = match self.look_ups.look_up(identity).await.answer {
            Ok(LookupResult::Found(_)) => {
                return Ok(Completion::Retry {
                    reason: StuckReason::NotObserved,
                    error: bounded(format_args!("{identity} exists, but its watch does not show it yet"))
                        .into(),
                });
            }
            Ok(LookupResult::Absent(evidence)) => {
                tracing::debug!(
                    object = Structured::object(identity).logged(),
                    ?evidence,
                    "the owner is absent"
                );
                Finding::Absent
            }
            Err(error) if matches!(error.class, ErrorClass::NotServed) => Finding::NotServed,
            Err(error) => return Ok(not_looked_up(&error)),
        };
        match self.context.graph.verified(identity, *generation, finding).await? {
            Verification::Applied | Verification::Stale => Ok(Completion::Done),
            Verification::Retry => Ok(Completion::Retry {
                reason: StuckReason::NotObserved,
                error: bounded(format_args!(
                    "{identity} does not exist; another owner with this uid is checked next"
                ))
                .into(),
            }),
        }
    }
}

/// A look-up failed. It is retried with backoff, or at once when discovery changes or a type can be
/// listed again, but not before the time that the API server asked for.
fn not_looked_up(error: &ApiError) -> Outcome {
    match (error.class, api_outcome(error)) {
        _ if mutation::is(Mutation::ForgetFailedLookUp) => Completion::Done,
        (ErrorClass::Throttled { .. } | ErrorClass::Deferred { .. }, outcome) => outcome,
        (_, Completion::Retry { error, .. }) => Completion::Retry { reason: StuckReason::Unresolved, error },
        (_, outcome) => outcome,
    }
}
