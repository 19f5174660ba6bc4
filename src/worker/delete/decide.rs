//! Decides on an object by the classes of its owner references.

use super::classify::Classification;
use super::work::DeleteWork;
use crate::actors::pool::Outcome;
use crate::api::{ApiError, ErrorClass};
use crate::telemetry::{Structured, StuckReason};
use crate::worker::classified::{Classified, Evidence};
use crate::worker::decision::DecisionLine;
use crate::worker::interrupted::{Interrupted, api_outcome};
use kube_gc_core::graph::ObjectSnapshot;
use kube_gc_core::mailbox::Completion;
use kube_gc_core::text::append_listed;
use kube_gc_core::verdict::{Decision, ParkReason, ReferenceClass, decide};

impl DeleteWork {
    pub(super) async fn decide(&self, item: &ObjectSnapshot) -> Result<Outcome, Interrupted> {
        let classified = match self.classify(item).await? {
            Classification::Done(classified) => classified,
            Classification::GoesOn => return Ok(Completion::Again),
        };
        let classes: Vec<_> = classified.iter().map(|owner| owner.class).collect();
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
                DecisionLine::new(&self.context.decisions, &item.identity, "keep")
                    .owners(item, &classified)
                    .parked(&"invalid scope");
                Ok(Completion::Done)
            }
            Decision::Park(reason) => {
                if let Some(deferred) = deferred(&classified) {
                    DecisionLine::new(&self.context.decisions, &item.identity, "keep").deferred(&deferred);
                    return Ok(api_outcome(&deferred));
                }
                DecisionLine::new(&self.context.decisions, &item.identity, "keep")
                    .owners(item, &classified)
                    .parked(&reason);
                let error = parked_error(&reason, item, &classified).into();
                Ok(match classified.iter().filter_map(|owner| owner.retry_after).max() {
                    Some(after) => Completion::RetryAfter { after, reason: StuckReason::Throttled, error },
                    None => Completion::Retry { reason: StuckReason::Unresolved, error },
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
    pub(super) fn check_owner_namespaces(&self, item: &ObjectSnapshot, classified: &[Classified]) {
        let is_gone =
            |owner: &Classified| matches!(owner.class, ReferenceClass::Absent | ReferenceClass::InvalidScope);
        let each = item.references.iter().zip(classified).filter(|(_, owner)| is_gone(owner));
        self.context.namespace_check.check(&item.identity, each.map(|(seen, _)| &seen.reference));
    }
}

/// Why the object is decided on soon: an owner may still be in admission, or look-ups of owners were not
/// sent and it waits for nothing else.
fn deferred(classified: &[Classified]) -> Option<ApiError> {
    let mut all = classified.iter().filter_map(|owner| owner.deferred.as_deref());
    if let Some(unborn) = all.find(|error| matches!(error.class, ErrorClass::Deferred { unborn: true, .. })) {
        return Some(unborn.clone());
    }
    // Owners that were not looked up on purpose do not count.
    let is_unresolved = |owner: &&Classified| owner.class == ReferenceClass::Unresolved;
    let mut failed =
        classified.iter().filter(is_unresolved).filter(|owner| owner.evidence != Evidence::NotAsked);
    let first = failed.next()?.deferred.clone()?;
    failed.all(|owner| owner.deferred.is_some()).then_some(*first)
}

/// Why an object is parked, with the errors of its first unresolved references.
fn parked_error(reason: &ParkReason, item: &ObjectSnapshot, classified: &[Classified]) -> String {
    let mut text = reason.to_string();
    let unresolved = classified.iter().filter(|owner| owner.class == ReferenceClass::Unresolved).count();
    let each = item.references.iter().zip(classified);
    append_listed(&mut text, "; ", unresolved, each.filter_map(|(seen, owner)| owner.error(&seen.reference)));
    text
}
