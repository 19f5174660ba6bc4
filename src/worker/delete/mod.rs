//! The delete pool's work: decide about one object and do it.

mod classify;
mod confirm;
mod deletion;
mod large;
mod last_look;
mod look_ups;

use actix::Recipient;

use self::classify::Classification;
use self::confirm::Confirmations;
use self::large::Pace;
use self::look_ups::LookUps;
use crate::actors::messages::{Enqueue, Finding};
use crate::actors::pool::{Outcome, Place, Work};
use crate::api::{ApiError, ErrorClass, Finalizer, FinalizerRemoval, LookUp, Patched, WriteSlot, WriteVerb};
use crate::telemetry::{Queue, StuckReason};
use crate::worker::context::{Interrupted, WorkerContext, api_outcome, held};
use crate::worker::decision::DecisionLine;
use crate::worker::remove_reference::{Removal, after_removal};
use kube_gc_core::graph::{
    ExpectedChange, ForegroundProgress, ObjectSnapshot, ReferenceSnapshot, Snapshot, Verification,
    VirtualSnapshot,
};
use kube_gc_core::mailbox::Completion;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{DeletionState, Key, ResourceVersion};
use kube_gc_core::text::{append_listed, bounded};
use kube_gc_core::verdict::{
    AfterConflict, Basis, Decision, Dependents, ParkReason, Precheck, ReferenceClass, after_conflict, decide,
    precheck,
};

pub use self::classify::{Classified, Evidence};
pub use self::deletion::Dropped;
pub use self::large::{LARGE_WORKERS, LargeWork, large_backoff};

/// Decides about objects whose owners may be gone, and about owners that are
/// deleting dependents.
#[derive(Clone, Debug)]
pub struct DeleteWork {
    context: WorkerContext,
    look_ups: LookUps,
    confirmations: Confirmations,
    /// Where objects are worked on that name very many owners.
    large: Recipient<Enqueue>,
    /// How fast owners of these are looked up.
    pace: Pace,
}

impl Work for DeleteWork {
    const QUEUE: Queue = Queue::AttemptToDelete;

    async fn work(&self, key: Key, place: Place) -> Outcome {
        if let Some(held) = held(&self.context.api) {
            return held;
        }
        match self.now().attempt(&key, &place).await {
            Ok(outcome) => outcome,
            Err(interrupted) => interrupted.outcome(),
        }
    }
}

impl DeleteWork {
    /// The work, on these means.
    #[must_use]
    pub fn new(context: WorkerContext, large: Recipient<Enqueue>) -> Self {
        let look_ups = LookUps::new(context.clone());
        let confirmations = Confirmations::new(context.api.restore_fence().clone());
        Self { context, look_ups, confirmations, large, pace: Pace::default() }
    }

    /// For one decision, which begins now.
    fn now(&self) -> Self {
        Self { context: self.context.now(), ..self.clone() }
    }

    async fn attempt(&self, key: &Key, place: &Place) -> Result<Outcome, Interrupted> {
        let snapshot = if place.is_worker() {
            let Some(snapshot) = self.context.graph.look_at_small(key).await? else {
                self.large.do_send(Enqueue::from(vec![key.clone()]));
                return Ok(Completion::Done);
            };
            snapshot
        } else {
            self.context.graph.look(key).await?
        };
        match snapshot {
            // What matters is queued again when it is known.
            Snapshot::Gone | Snapshot::AwaitsEvent => Ok(Completion::Done),
            Snapshot::Virtual(owner) => self.verify(&owner).await,
            Snapshot::Object(item) => self.object(&item).await,
        }
    }

    /// Finds out whether an owner exists that no monitor shows.
    async fn verify(&self, owner: &VirtualSnapshot) -> Result<Outcome, Interrupted> {
        let VirtualSnapshot { identity, generation } = owner;
        let finding = match self.look_ups.look_up(identity).await.answer {
            Ok(LookUp::Found(_)) => {
                return Ok(Completion::Retry {
                    reason: StuckReason::NotObserved,
                    error: bounded(format_args!("{identity} exists, and no monitor shows it yet")).into(),
                });
            }
            Ok(LookUp::Absent(evidence)) => {
                tracing::debug!(%identity, ?evidence, "owner is absent");
                Finding::Absent
            }
            Err(error) if matches!(error.class, ErrorClass::NotServed) => Finding::NotServed,
            Err(error) => return Ok(not_looked_up(&error)),
        };
        match self.context.graph.verified(identity, *generation, finding).await? {
            Verification::Applied | Verification::Stale => Ok(Completion::Done),
            Verification::Retry => Ok(Completion::Retry {
                reason: StuckReason::NotObserved,
                error: bounded(format_args!("{identity} is absent; another identity is tried next")).into(),
            }),
        }
    }

    async fn object(&self, item: &ObjectSnapshot) -> Result<Outcome, Interrupted> {
        mutation::panic_over(&item.identity.name);
        match precheck(item) {
            Precheck::Nothing(reason) => {
                tracing::trace!(object = %item.identity, %reason, "nothing to do");
                Ok(Completion::Done)
            }
            Precheck::WaitForDependents(blocking) => {
                tracing::debug!(object = %item.identity, blocking, "waits for its blocking dependents");
                Ok(Completion::Done)
            }
            Precheck::RemoveForegroundFinalizer | Precheck::AskForUnreadReferences => {
                self.finish_foreground(item).await
            }
            Precheck::BreakDeadlock => self.break_deadlock(item).await,
            Precheck::Classify => self.decide(item).await,
        }
    }

    /// No dependent is known to block the object any more: let it go.
    async fn finish_foreground(&self, item: &ObjectSnapshot) -> Result<Outcome, Interrupted> {
        let doubtful = item.foreground == ForegroundProgress::PerhapsBlocked;
        if doubtful && self.context.graph.is_blocked_through_unread(&item.identity.uid).await? {
            return Ok(Completion::Retry {
                reason: StuckReason::Unresolved,
                error: format!(
                    "a dependent blocks {} through an apiVersion that discovery fails for; \
                     this is decided when that can be read (see /debug/discovery)",
                    item.identity
                )
                .into(),
            });
        }
        let line = DecisionLine::new(&self.context, &item.identity, "remove_finalizer")
            .finalizer(Finalizer::Foreground);
        // One to read it, and one to patch it.
        let turn = match self.context.api.write_slot(WriteVerb::Patch, &item.identity, 2).await {
            Ok(turn) => turn,
            Err(error) => {
                line.finish(&Err::<FinalizerRemoval, _>(error.clone()));
                return Err(error.into());
            }
        };
        // Not before: another dependent may have come meanwhile, and what the answer above
        // could not name any more is in the graph by now.
        if !self.still_unblocked(item, doubtful).await? {
            // Whatever blocks it now wakes it when it goes.
            return Ok(Completion::Done);
        }
        let removal = turn.api().remove_finalizer(&item.identity, Finalizer::Foreground).await;
        line.finish(&removal);
        if let FinalizerRemoval::Removed(facts) = removal? {
            self.context.graph.expect(&item.identity.key(), after_removal(item, &facts));
        }
        Ok(Completion::Done)
    }

    /// The dependents of a cluster-scoped owner live in every partition: what they
    /// had to tell must have arrived before it may go.
    async fn still_unblocked(&self, item: &ObjectSnapshot, doubtful: bool) -> Result<bool, Interrupted> {
        if doubtful || item.identity.namespace.is_none() {
            self.context.graph.fence().await?;
        }
        let Snapshot::Object(now) = self.context.graph.look(&item.identity.key()).await? else {
            return Ok(false);
        };
        match (now.deletion, now.foreground) {
            (DeletionState::DeletingDependents, ForegroundProgress::Unblocked) => Ok(true),
            (DeletionState::DeletingDependents, ForegroundProgress::PerhapsBlocked) if doubtful => Ok(true),
            (DeletionState::DeletingDependents, ForegroundProgress::PerhapsBlocked) => {
                Err(Interrupted::Changed("a part of the API cannot be read any more"))
            }
            _ => Ok(false),
        }
    }

    /// Objects that delete their dependents in the foreground wait for each other
    /// in a circle: one that stops blocking lets all of them go.
    async fn break_deadlock(&self, item: &ObjectSnapshot) -> Result<Outcome, Interrupted> {
        let line = DecisionLine::new(&self.context, &item.identity, "stop_blocking");
        let references: Vec<_> = item.references.iter().map(|seen| seen.reference.clone()).collect();
        let version = item.resource_version.as_ref();
        let patched = self.context.api.stop_blocking(&item.identity, &references, version).await;
        line.finish(&patched);
        self.expect_patch(item, &patched?);
        Ok(Completion::Done)
    }

    async fn decide(&self, item: &ObjectSnapshot) -> Result<Outcome, Interrupted> {
        let classified = match self.classify(item).await? {
            Classification::Done(classified) => classified,
            Classification::GoesOn => return Ok(Completion::Again),
        };
        let classes: Vec<_> = classified.iter().map(|owner| owner.class).collect();
        match decide(item, &classes) {
            Decision::Keep(reason) => {
                tracing::debug!(object = %item.identity, %reason, "kept");
                Ok(Completion::Done)
            }
            Decision::Report { .. } => {
                // The graph reported it when the reference came; nothing can change
                // that but a change of the object itself. But the owner's own
                // partition knows its namespace.
                self.report_misplaced(item, &classified).await?;
                DecisionLine::new(&self.context, &item.identity, "keep")
                    .owners(item, &classified)
                    .parked(&"invalid scope");
                Ok(Completion::Done)
            }
            Decision::Park(reason) => {
                if let Some(deferred) = only_deferred(&classified) {
                    DecisionLine::new(&self.context, &item.identity, "keep").deferred(&deferred);
                    return Ok(api_outcome(&deferred));
                }
                DecisionLine::new(&self.context, &item.identity, "keep")
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

    async fn remove_references(
        &self,
        item: &ObjectSnapshot,
        classified: &[Classified],
        remove: &[usize],
        confirm_solid: Option<usize>,
    ) -> Result<Outcome, Interrupted> {
        let line =
            DecisionLine::new(&self.context, &item.identity, "remove_references").owners(item, classified);
        let is_gone = |index: &usize| classified.get(*index).is_some_and(Classified::is_gone);
        // Those that wait were confirmed for this moment alone.
        let gone_for_good = remove.iter().all(is_gone);
        let remove: Vec<_> = remove.iter().filter_map(|index| item.references.get(*index)).collect();
        let remove: Vec<_> = remove.into_iter().map(|seen| seen.reference.clone()).collect();
        let all = item.references.iter().map(|seen| &seen.reference);
        let removal = Removal::of(all, remove);
        let version = item.resource_version.clone();
        let version = version.filter(|_| !mutation::is(Mutation::PatchWithoutVersion));
        let solid = confirm_solid.and_then(|index| item.references.get(index));
        let patched = match solid {
            Some(solid) => self.remove_beside(solid, item, &removal, version).await,
            None => Ok(self.remove_at_rest(item, &removal, version, gone_for_good).await),
        };
        if let Ok(patched) = &patched {
            line.finish(patched);
        }
        if let Ok(Ok(patched)) = &patched {
            self.expect_patch(item, patched);
        }
        // Afterwards: all partitions are asked, which takes its time.
        self.report_misplaced(item, classified).await?;
        patched??;
        Ok(Completion::Done)
    }

    /// Takes references away of which some wait: with the turn of the patch, one solid
    /// owner is confirmed.
    async fn remove_beside(
        &self,
        solid: &ReferenceSnapshot,
        item: &ObjectSnapshot,
        removal: &Removal,
        version: Option<ResourceVersion>,
    ) -> Result<Result<Patched, ApiError>, Interrupted> {
        let api = &self.context.api;
        let requests = 1 + api.requests_for_patch(&item.identity.resource.group_resource);
        let turn = match api.write_slot(WriteVerb::Patch, &item.identity, requests).await {
            Ok(turn) => turn,
            Err(error) => return Ok(Err(error)),
        };
        self.confirm_solid(&turn, solid).await?;
        let references = removal.references();
        Ok(turn.api().remove_references(&item.identity, references, version.as_ref()).await)
    }

    /// Takes references away at the version that was decided on. If the object has changed,
    /// and only in what the decision does not rest on, at the version that it has by then:
    /// it may change faster than an event of it takes to get here.
    async fn remove_at_rest(
        &self,
        item: &ObjectSnapshot,
        removal: &Removal,
        mut version: Option<ResourceVersion>,
        gone_for_good: bool,
    ) -> Result<Patched, ApiError> {
        let type_of_item = &item.identity.resource.group_resource;
        let api = &self.context.api;
        let mut turn: Option<WriteSlot> = None;
        let basis = Basis::of(item);
        let mut conflicts = 0;
        loop {
            let way = turn.as_ref().map_or(api, WriteSlot::api);
            let patched = way.remove_references(&item.identity, removal.references(), version.as_ref()).await;
            let is_conflict = patched.as_ref().is_err_and(|error| error.class == ErrorClass::Conflict);
            if !is_conflict || !gone_for_good || version.is_none() {
                return patched;
            }
            conflicts += 1;
            // To be read and patched without a pause in between; and not to be waited for
            // while the last turn is held.
            drop(turn.take());
            let requests = 1 + api.requests_for_patch(type_of_item);
            let next = turn.insert(api.write_slot(WriteVerb::Patch, &item.identity, requests).await?);
            let live = match next.api().look_up(&item.identity).await {
                Ok(LookUp::Found(live)) => live,
                Ok(LookUp::Absent(_)) => return Ok(Patched::Gone),
                Err(_) => return patched,
            };
            let dependents = Dependents::of(item);
            match after_conflict(&basis, version.as_ref(), Some(&live), dependents, conflicts) {
                AfterConflict::DeleteWith(current) => version = Some(current),
                // Decided afresh, or after a pause.
                _ => return patched,
            }
        }
    }

    fn expect_patch(&self, item: &ObjectSnapshot, patched: &Patched) {
        if let Patched::Changed(facts) = patched
            && let Some(version) = facts.resource_version.clone()
        {
            self.context.graph.expect(&item.identity.key(), ExpectedChange::Version(version));
        }
    }

    /// A dependent whose owner lives in another namespace is about to suffer for it;
    /// one that lives in none gains nothing by it.
    async fn report_misplaced(
        &self,
        item: &ObjectSnapshot,
        classified: &[Classified],
    ) -> Result<(), Interrupted> {
        for (seen, owner) in item.references.iter().zip(classified) {
            if matches!(owner.class, ReferenceClass::Absent | ReferenceClass::InvalidScope) {
                self.context.report_misplaced(&item.identity, &seen.reference).await?;
            }
        }
        Ok(())
    }
}

/// Why the look-ups of owners were not sent, if nothing else keeps the object.
fn only_deferred(classified: &[Classified]) -> Option<ApiError> {
    // Nothing follows from those that were not asked.
    let is_unresolved = |owner: &&Classified| owner.class == ReferenceClass::Unresolved;
    let mut failed =
        classified.iter().filter(is_unresolved).filter(|owner| owner.evidence != Evidence::NotAsked);
    let first = failed.next()?.deferred.clone()?;
    failed.all(|owner| owner.deferred.is_some()).then_some(*first)
}

/// Why an object is parked, with the reasons of some of its references.
fn parked_error(reason: &ParkReason, item: &ObjectSnapshot, classified: &[Classified]) -> String {
    let mut text = reason.to_string();
    let unresolved = classified.iter().filter(|owner| owner.class == ReferenceClass::Unresolved).count();
    let each = item.references.iter().zip(classified);
    append_listed(&mut text, "; ", unresolved, each.filter_map(|(seen, owner)| owner.error(&seen.reference)));
    text
}

/// An owner could not be looked up: it is tried again with backoff, at once when
/// discovery changes or a type can be listed again, and not before the API server
/// wants to hear of it.
fn not_looked_up(error: &ApiError) -> Outcome {
    match (error.class, api_outcome(error)) {
        _ if mutation::is(Mutation::ForgetFailedLookUp) => Completion::Done,
        (ErrorClass::Throttled { .. } | ErrorClass::Deferred { .. }, outcome) => outcome,
        (_, Completion::Retry { error, .. }) => Completion::Retry { reason: StuckReason::Unresolved, error },
        (_, outcome) => outcome,
    }
}

#[cfg(test)]
mod tests;
