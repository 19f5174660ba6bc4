//! The delete pool's work: decides on one object and carries the decision out.
//!
//! One object with many owner references can take as long as thousands of others, and each owner
//! that nobody has seen costs a GET. Such large objects are a class of their own with few workers,
//! so that no other object waits behind them. They yield to everything else on their thread. Their
//! owners are looked up at a limited rate, in turns between namespaces.

mod classify;
mod deletion;
mod look_ups;
mod removal;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::actors::pool::{Outcome, Work, WorkerSlot};
use crate::worker::WorkContext;
use crate::worker::classified::{Classified, Evidence};
use crate::worker::decision::DecisionLine;
use crate::worker::interrupted::{self, Interrupted, api_outcome};
use kube_gc_client::{ApiError, ErrorClass, RateLimiter};
use kube_gc_core::graph::{ObjectSnapshot, Partition, Snapshot};
use kube_gc_core::mailbox::{Completion, Wait};
use kube_gc_core::mutation;
use kube_gc_core::object::Key;
use kube_gc_core::text::append_listed;
use kube_gc_core::verdict::{Decision, ParkReason, Precheck, ReferenceClass, decide, precheck};
use kube_gc_observe::telemetry::{Queue, Structured, StuckReason};

use self::classify::Classification;
use self::look_ups::{Confirmations, LookUps};

pub use self::look_ups::Births;

/// Decides on objects whose owners may be gone, and on owners that are deleting dependents.
#[derive(Clone, Debug)]
pub struct DeleteWork {
    context: WorkContext,
    look_ups: LookUps,
    confirmations: Confirmations,
    /// Limits how fast the owners of large objects are looked up.
    pace: Arc<RateLimiter>,
}

impl Work for DeleteWork {
    const QUEUE: Queue = Queue::AttemptToDelete;

    async fn work(&self, key: Key, slot: WorkerSlot) -> Outcome {
        if let Some(deferred) = interrupted::deferred(&self.context.api) {
            return deferred;
        }
        let work = Self { context: self.context.now(), ..self.clone() };
        work.attempt(&key, &slot).await.unwrap_or_else(Interrupted::outcome)
    }
}

impl DeleteWork {
    pub fn new(context: WorkContext) -> Self {
        let look_ups =
            LookUps::new(context.api.clone(), Arc::clone(&context.absent_owners), context.births.clone());
        let confirmations = Confirmations::new(context.api.restore_fence().clone());
        let pace = Arc::new(RateLimiter::new(LOOK_UPS_PER_SECOND, BURST));
        Self { context, look_ups, confirmations, pace }
    }

    async fn attempt(&self, key: &Key, slot: &WorkerSlot) -> Result<Outcome, Interrupted> {
        let graph = &self.context.graph;
        let snapshot = if slot.takes_all() {
            Some(graph.look(key).await?)
        } else {
            graph.ask_about(key, Partition::snapshot_and_queue_small).await?
        };
        let Some(snapshot) = snapshot else {
            slot.hand_over();
            return Ok(Completion::Done);
        };
        match snapshot {
            // The graph queues the key again when there is something to decide.
            Snapshot::Gone | Snapshot::AwaitsEvent => Ok(Completion::Done),
            Snapshot::Virtual { identity, generation } => self.verify(&identity, generation).await,
            Snapshot::Object(item) => self.object(&item).await,
        }
    }

    async fn object(&self, item: &ObjectSnapshot) -> Result<Outcome, Interrupted> {
        mutation::panic_over(&item.identity.name);
        match precheck(item) {
            Precheck::Nothing(reason) => {
                tracing::trace!(object = Structured::object(&item.identity).logged(), %reason, "nothing to do");
                Ok(Completion::Done)
            }
            Precheck::WaitForDependents(blocking) => {
                tracing::debug!(
                    object = Structured::object(&item.identity).logged(),
                    blocking,
                    "the object waits for its blocking dependents"
                );
                Ok(Completion::Done)
            }
            Precheck::RemoveForegroundFinalizer | Precheck::AskForUnreadReferences => {
                self.finish_foreground(item).await
            }
            Precheck::BreakDeadlock => self.break_deadlock(item).await,
            Precheck::Classify => self.decide(item).await,
        }
    }
}

impl DeleteWork {
    async fn decide(&self, item: &ObjectSnapshot) -> Result<Outcome, Interrupted> {
        let classified = match self.classify(item).await? {
            Classification::Done(classified) => classified,
            Classification::GoesOn => return Ok(Completion::Again),
        };
        let classes: Vec<_> = classified.iter().map(|owner| owner.class).collect();
        let kept = DecisionLine {
            owners: Some((item, &classified)),
            ..DecisionLine::new(&self.context.decisions, &item.identity, "keep")
        };
        match decide(item, &classes) {
            Decision::Keep(reason) => {
                tracing::debug!(object = Structured::object(&item.identity).logged(), %reason, "the object is kept");
                Ok(Completion::Done)
            }
            Decision::Report { .. } => {
                // The graph reported this when the reference appeared, and only a change of the
                // object itself can resolve it. The owner's own partition knows the namespace of
                // the owner.
                self.check_owner_namespaces(item, &classified);
                kept.parked(&"invalid scope");
                Ok(Completion::Done)
            }
            Decision::Park(reason) => {
                if let Some(deferred) = deferred(&classified) {
                    kept.deferred(&deferred);
                    return Ok(api_outcome(&deferred));
                }
                kept.parked(&reason);
                let error = parked_error(&reason, item, &classified);
                let failures = classified.iter().filter_map(|owner| owner.failure.as_ref());
                let retry_after = failures.filter_map(|error| match error.class {
                    ErrorClass::Throttled { retry_after } => retry_after,
                    _ => None,
                });
                Ok(match retry_after.max() {
                    Some(after) => Completion::later(StuckReason::Throttled, Wait::RetryAfter(after), error),
                    None => Completion::retry(StuckReason::Unresolved, error),
                })
            }
            Decision::RemoveReferences { remove, confirm_solid } => {
                self.remove_references(item, &classified, &remove, confirm_solid).await
            }
            Decision::Delete { policy, stop_blocking_first } => {
                self.delete(item, &classified, policy, stop_blocking_first).await
            }
        }
    }

    /// Asks whether the owners that are gone live in another namespace, which is a mistake of
    /// the dependent's author.
    fn check_owner_namespaces(&self, item: &ObjectSnapshot, classified: &[Classified]) {
        let is_gone =
            |owner: &Classified| matches!(owner.class, ReferenceClass::Absent | ReferenceClass::InvalidScope);
        let each = item.references.iter().zip(classified).filter(|(_, owner)| is_gone(owner));
        self.context.namespace_check.check(&item.identity, each.map(|(seen, _)| &seen.reference));
    }
}

/// Why the object is decided on soon: an owner may still be in admission, or look-ups of owners were not
/// sent and it waits for nothing else.
fn deferred(classified: &[Classified]) -> Option<ApiError> {
    let is_unborn = |error: &&ApiError| matches!(error.class, ErrorClass::Deferred { unborn: true, .. });
    if let Some(unborn) = classified.iter().filter_map(Classified::deferred).find(is_unborn) {
        return Some(unborn.clone());
    }
    // Owners that were not looked up on purpose do not count.
    let mut unresolved = classified
        .iter()
        .filter(|owner| owner.class == ReferenceClass::Unresolved && owner.evidence != Evidence::NotAsked);
    let first = unresolved.next()?.deferred()?.clone();
    unresolved.all(|owner| owner.deferred().is_some()).then_some(first)
}

/// Why an object is parked, with the errors of its first unresolved references.
fn parked_error(reason: &ParkReason, item: &ObjectSnapshot, classified: &[Classified]) -> String {
    let mut text = reason.to_string();
    let unresolved = classified.iter().filter(|owner| owner.class == ReferenceClass::Unresolved).count();
    let each = item.references.iter().zip(classified);
    append_listed(&mut text, "; ", unresolved, each.filter_map(|(seen, owner)| owner.error(&seen.reference)));
    text
}

/// How many owners of large objects are looked up in a second, over all objects.
/// kube-controller-manager looks up 20 owners in a second for all kinds of objects.
const LOOK_UPS_PER_SECOND: u32 = 250;
/// How many look-ups may follow each other without a pause after an idle time.
const BURST: u32 = 250;
/// Workers for large objects. Each takes about 3 MB for 8,000 references.
pub const LARGE_WORKERS: usize = 4;
