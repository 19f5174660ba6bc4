//! Deletes one object whose owners are all absent or waiting.

use super::confirm::WaitingOwners;
use super::precondition::{CHANGED, Dropped, NotSent, Precondition};
use super::work::DeleteWork;
use crate::actors::graph_handle::Finding;
use crate::actors::pool::Outcome;
use crate::api::{Deleted, ErrorClass, LookupResult, Patched, WriteVerb};
use crate::telemetry::{Structured, record};
use crate::worker::brake::Reservation;
use crate::worker::classified::Classified;
use crate::worker::decision::DecisionLine;
use crate::worker::interrupted::Interrupted;
use kube_gc_core::graph::{ExpectedChange, ObjectSnapshot, Snapshot};
use kube_gc_core::mailbox::Completion;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::PropagationPolicy;
use kube_gc_core::verdict::{AfterConflict, Basis, Dependents, after_conflict, after_patch};

impl DeleteWork {
    pub(super) async fn delete(
        &self,
        item: &ObjectSnapshot,
        classified: &[Classified],
        policy: PropagationPolicy,
        stop_blocking_first: bool,
    ) -> Result<Outcome, Interrupted> {
        let line = DecisionLine::new(&self.context.decisions, &item.identity, "delete")
            .policy(policy)
            .owners(item, classified);
        let deleted = self.try_delete(item, classified, policy, stop_blocking_first).await;
        match &deleted {
            Ok(Done::Deleted(deleted)) => line.done(deleted),
            Ok(Done::Dropped(why)) => line.done(why),
            Err(interrupted) => line.interrupted(interrupted),
        }
        self.check_owner_namespaces(item, classified);
        if deleted.is_err() && mutation::is(Mutation::ForgetFailedDelete) {
            return Ok(Completion::Done);
        }
        match deleted? {
            Done::Deleted(Deleted::Removed) => {
                self.context.graph.expect(&item.identity.key(), ExpectedChange::Removed);
            }
            Done::Deleted(Deleted::Pending(facts)) => {
                if let Some(version) = facts.resource_version {
                    self.context.graph.expect(&item.identity.key(), ExpectedChange::Version(version));
                }
            }
            // The watch will show that too, unless the type is from an aggregated API.
            Done::Deleted(Deleted::AlreadyGone(proof)) | Done::Dropped(Dropped::Gone(proof)) => {
                let identity = &item.identity;
                tracing::debug!(
                    object = Structured::object(identity).logged(),
                    ?proof,
                    "the object is absent"
                );
                self.context.graph.verified(identity, item.generation, Finding::Absent).await?;
            }
            Done::Dropped(Dropped::BeingDeleted) => {}
        }
        Ok(Completion::Done)
    }

    async fn try_delete(
        &self,
        item: &ObjectSnapshot,
        classified: &[Classified],
        policy: PropagationPolicy,
        stop_blocking_first: bool,
    ) -> Result<Done, Interrupted> {
        // This comes first: the brake must hold an object before anything is done to it.
        let mut reservation = self.context.brake.admit(&item.identity, &self.context.graph).await?;
        let mut basis = Basis::of(item);
        let mut precondition = Precondition::of(item.resource_version.clone());
        if stop_blocking_first {
            if precondition.version().is_none() {
                match self.read_again(&self.context.api, item, &basis, &mut precondition).await {
                    Ok(()) => {}
                    Err(NotSent::Dropped(why)) => return Ok(Done::Dropped(why)),
                    Err(NotSent::Interrupted(why)) => return Err(why),
                }
            }
            basis = basis.without_blocking();
            precondition = self.stop_blocking(item, &basis, &precondition).await?;
        }
        let mut owners = WaitingOwners::of(item, classified)?;
        let mut conflicts = 0;
        loop {
            let sent =
                self.send(item, &basis, &mut owners, &mut precondition, policy, &mut reservation).await;
            match sent {
                Err(Interrupted::Api(error)) if error.class == ErrorClass::Conflict => {}
                ended => return ended,
            }
            conflicts += 1;
            precondition = match self.after_conflict(item, &basis, &precondition, conflicts).await? {
                Next::Delete(precondition) => precondition,
                Next::Drop(why) => return Ok(Done::Dropped(why)),
            };
        }
    }

    /// Waits for a write slot, checks everything once more, and sends the DELETE.
    async fn send(
        &self,
        item: &ObjectSnapshot,
        basis: &Basis,
        owners: &mut WaitingOwners,
        precondition: &mut Precondition,
        policy: PropagationPolicy,
        reservation: &mut Reservation,
    ) -> Result<Done, Interrupted> {
        let api = &self.context.api;
        let requests = 1 + u32::from(self.is_read_first(item, precondition));
        let mut turn = api.write_slot(WriteVerb::Delete, &item.identity, requests).await?;
        match self.last_look(&turn, item, basis, owners, precondition).await {
            Ok(()) => {}
            Err(NotSent::Dropped(why)) => return Ok(Done::Dropped(why)),
            Err(NotSent::Interrupted(why)) => return Err(why),
        }
        if mutation::is(Mutation::ConfirmBeforeWaiting) {
            drop(turn);
            turn = api.write_slot(WriteVerb::Delete, &item.identity, requests).await?;
        }
        reservation.sending();
        let answer = turn.delete(&item.identity, policy, precondition.version()).await;
        reservation.answered(&answer);
        Ok(Done::Deleted(answer?))
    }

    /// Reads the object after a conflict, and decides whether the change matters.
    async fn after_conflict(
        &self,
        item: &ObjectSnapshot,
        basis: &Basis,
        tried: &Precondition,
        conflicts: u32,
    ) -> Result<Next, Interrupted> {
        let (live, proof) = match self.context.api.look_up(&item.identity).await? {
            LookupResult::Found(facts) => (Some(facts), None),
            LookupResult::Absent(proof) => (None, Some(proof)),
        };
        let dependents = match self.context.graph.look(&item.identity.key()).await? {
            Snapshot::Object(now) => Dependents::of(&now),
            Snapshot::Gone | Snapshot::Virtual(_) => Dependents::default(),
            // The orphan pool is writing it.
            Snapshot::AwaitsEvent => return Err(Interrupted::Changed(CHANGED)),
        };
        let next = after_conflict(basis, tried.version(), live.as_ref(), dependents, conflicts);
        tracing::debug!(
            object = Structured::object(&item.identity).logged(),
            conflicts,
            next = word(&next),
            "the API server answered the DELETE with a conflict"
        );
        record::delete_conflict(word(&next));
        match (next, proof) {
            (_, Some(proof)) => Ok(Next::Drop(Dropped::Gone(proof))),
            (AfterConflict::BeingDeleted, None) => Ok(Next::Drop(Dropped::BeingDeleted)),
            (AfterConflict::Backoff, None) => Err(Interrupted::Changed(
                "the API server reports a conflict, but nothing relevant has changed",
            )),
            (AfterConflict::Absent | AfterConflict::Reevaluate, None) => Err(Interrupted::Changed(CHANGED)),
            (AfterConflict::DeleteWith(version), None) => Ok(Next::Delete(Precondition::Version(version))),
            (AfterConflict::DeleteWithUidAlone, None) => Ok(Next::Delete(Precondition::UidAlone)),
        }
    }

    /// The object may be part of a cycle of foreground deletions. It stops blocking its owners
    /// before it waits for its own dependents.
    async fn stop_blocking(
        &self,
        item: &ObjectSnapshot,
        expected: &Basis,
        precondition: &Precondition,
    ) -> Result<Precondition, Interrupted> {
        let references: Vec<_> = item.references.iter().map(|seen| seen.reference.clone()).collect();
        let patched =
            self.context.api.stop_blocking(&item.identity, &references, precondition.version()).await?;
        match patched {
            Patched::Changed(facts) | Patched::Unneeded(facts) => {
                after_patch(expected, &facts).map(Precondition::Version).ok_or(Interrupted::Changed(CHANGED))
            }
            Patched::Gone(_) => Err(Interrupted::Changed("the object was deleted in the meantime")),
        }
    }
}

/// The word for the metrics.
const fn word(next: &AfterConflict) -> &'static str {
    match next {
        AfterConflict::Absent => "absent",
        AfterConflict::BeingDeleted => "being_deleted",
        AfterConflict::Backoff => "backoff",
        AfterConflict::Reevaluate => "reevaluate",
        AfterConflict::DeleteWith(_) => "delete_with_new_version",
        AfterConflict::DeleteWithUidAlone => "delete_with_uid_alone",
    }
}

/// How a deletion ended.
pub(super) enum Done {
    Deleted(Deleted),
    Dropped(Dropped),
}

enum Next {
    Delete(Precondition),
    Drop(Dropped),
}
