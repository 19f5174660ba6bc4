//! Deletes one object whose owners are all absent or waiting: the checks before the DELETE, and what
//! follows from its answer.

use std::collections::HashSet;
use std::ops::ControlFlow;

use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::DeleteWork;
use super::look_ups::{LOOK_UPS_AT_ONCE, LookedUp};
use crate::actors::pool::Outcome;
use crate::worker::brake::Reservation;
use crate::worker::classified::Classified;
use crate::worker::decision::{DecisionLine, Ended};
use crate::worker::interrupted::Interrupted;
use kube_gc_client::{
    AbsenceProof, Api, DeleteOrder, Deleted, ErrorClass, Finalizer, LookupResult, Patched, Verb, WriteSlot,
};
use kube_gc_core::graph::{ExpectedChange, Finding, ObjectSnapshot, OwnerState, ReferenceSnapshot, Snapshot};
use kube_gc_core::mailbox::Completion;
use kube_gc_core::object::{DeletionState, Identity, PropagationPolicy, ResourceVersion};
use kube_gc_core::verdict::{
    AfterConflict, Basis, Confirmation, Dependents, ReferenceClass, after_conflict, after_patch, from_live,
};
use kube_gc_observe::telemetry::{Structured, record};

impl DeleteWork {
    pub(super) async fn delete(
        &self,
        item: &ObjectSnapshot,
        classified: &[Classified],
        policy: PropagationPolicy,
        stop_blocking_first: bool,
    ) -> Result<Outcome, Interrupted> {
        let line = DecisionLine {
            policy: Some(policy),
            owners: Some((item, classified)),
            ..DecisionLine::new(&self.context.decisions, &item.identity, "delete")
        };
        let deleted = self.try_delete(item, classified, policy, stop_blocking_first).await;
        line.finish(&deleted);
        self.check_owner_namespaces(item, classified);
        let (identity, key) = (&item.identity, item.identity.key());
        match deleted? {
            Done::Answered(Deleted::Removed) => self.context.graph.expect(&key, ExpectedChange::Removed),
            Done::Answered(Deleted::Pending(facts)) => {
                if let Some(version) = facts.resource_version {
                    self.context.graph.expect(&key, ExpectedChange::Version(version));
                }
            }
            // The watch will show that too, unless the type is from an aggregated API.
            Done::Answered(Deleted::AlreadyGone(proof)) => {
                tracing::debug!(
                    object = Structured::object(identity).logged(),
                    ?proof,
                    "the object is absent"
                );
                self.context.graph.verified(identity, item.generation, Finding::Absent).await?;
            }
            Done::BeingDeleted => {}
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
        let grounds = classified.iter().map(Classified::ground);
        let order = DeleteOrder::of_garbage(item, policy, grounds).ok_or(Interrupted::Changed(UNPROVED))?;
        // This comes first: the brake must hold an object before anything is done to it.
        let mut reservation = self.context.brake.admit(&item.identity, &self.context.graph).await?;
        let mut basis = Basis::of(item);
        let mut precondition = item.resource_version.clone();
        if stop_blocking_first {
            if precondition.is_none()
                && let Some(why) = self.read_again(&self.context.api, item, &basis, &mut precondition).await?
            {
                return Ok(why);
            }
            basis = basis.without_blocking();
            precondition = Some(self.stop_blocking(item, &basis, precondition.as_ref()).await?);
        }
        let mut owners = waiting_owners(item, classified)?;
        let mut conflicts = 0;
        loop {
            let sent =
                self.send(item, &order, &basis, &mut owners, &mut precondition, &mut reservation).await;
            match sent {
                Err(Interrupted::Api(error)) if error.class == ErrorClass::Conflict => {}
                ended => return ended,
            }
            conflicts += 1;
            match self.after_conflict(item, &basis, precondition.as_ref(), conflicts).await? {
                ControlFlow::Continue(next) => precondition = next,
                ControlFlow::Break(why) => return Ok(why),
            }
        }
    }

    /// Waits for a write slot, checks everything once more, and sends the DELETE.
    async fn send(
        &self,
        item: &ObjectSnapshot,
        order: &DeleteOrder,
        basis: &Basis,
        owners: &mut WaitingOwners,
        precondition: &mut Precondition,
        reservation: &mut Reservation,
    ) -> Result<Done, Interrupted> {
        let api = &self.context.api;
        let requests = 1 + u32::from(self.is_read_first(item, precondition));
        let turn = api.write_slot(Verb::Delete, &item.identity, requests).await?;
        if let Some(why) = self.last_look(&turn, item, basis, owners, precondition).await? {
            return Ok(why);
        }
        reservation.sending();
        let answer = turn.api().delete(order, precondition.as_ref()).await;
        reservation.answered(&answer);
        Ok(Done::Answered(answer?))
    }

    /// Reads the object after a conflict, and decides whether the change matters.
    async fn after_conflict(
        &self,
        item: &ObjectSnapshot,
        basis: &Basis,
        tried: Option<&ResourceVersion>,
        conflicts: u32,
    ) -> Result<ControlFlow<Done, Precondition>, Interrupted> {
        let (live, proof) = match self.context.api.look_up(&item.identity).await? {
            LookupResult::Found(facts) => (Some(facts), None),
            LookupResult::Absent(proof) => (None, Some(proof)),
        };
        let dependents = match self.context.graph.look(&item.identity.key()).await? {
            Snapshot::Object(now) => Dependents::of(&now),
            Snapshot::Gone | Snapshot::Virtual { .. } => Dependents::default(),
            // The orphan pool is writing it.
            Snapshot::AwaitsEvent => return Err(Interrupted::Changed(CHANGED)),
        };
        let next = after_conflict(basis, tried, live.as_ref(), dependents, conflicts);
        let word: &str = (&next).into();
        tracing::debug!(
            object = Structured::object(&item.identity).logged(),
            conflicts,
            next = word,
            "the API server answered the DELETE with a conflict"
        );
        record::delete_conflict(word);
        match (next, proof) {
            (_, Some(proof)) => Ok(ControlFlow::Break(Done::gone(proof))),
            (AfterConflict::BeingDeleted, None) => Ok(ControlFlow::Break(Done::BeingDeleted)),
            (AfterConflict::Backoff, None) => Err(Interrupted::Changed(
                "the API server reports a conflict, but nothing relevant has changed",
            )),
            (AfterConflict::Absent | AfterConflict::Reevaluate, None) => Err(Interrupted::Changed(CHANGED)),
            (AfterConflict::DeleteWith(version), None) => Ok(ControlFlow::Continue(Some(version))),
            (AfterConflict::DeleteWithUidAlone, None) => Ok(ControlFlow::Continue(None)),
        }
    }

    /// The object may be part of a cycle of foreground deletions. It stops blocking its owners
    /// before it waits for its own dependents.
    async fn stop_blocking(
        &self,
        item: &ObjectSnapshot,
        expected: &Basis,
        version: Option<&ResourceVersion>,
    ) -> Result<ResourceVersion, Interrupted> {
        let references: Vec<_> = item.references.iter().map(|seen| seen.reference.clone()).collect();
        let patched = self.context.api.stop_blocking(&item.identity, &references, version).await?;
        match patched {
            Patched::Changed(facts) | Patched::Unneeded(facts) => {
                after_patch(expected, &facts).ok_or(Interrupted::Changed(CHANGED))
            }
            Patched::Gone(_) => Err(Interrupted::Changed("the object was deleted in the meantime")),
        }
    }
}

/// How a deletion ended.
#[derive(Clone, Debug)]
enum Done {
    Answered(Deleted),
    /// The object is being deleted by somebody else.
    BeingDeleted,
}

impl Done {
    const fn gone(proof: AbsenceProof) -> Self {
        Self::Answered(Deleted::AlreadyGone(proof))
    }
}

impl Ended for Done {
    fn word(&self, finalizer: Option<Finalizer>) -> &'static str {
        match self {
            Self::Answered(deleted) => deleted.word(finalizer),
            Self::BeingDeleted => "already_being_deleted",
        }
    }
}

/// How often everything is checked for one DELETE.
const LOOKS: usize = 3;

impl DeleteWork {
    /// Whether the object is read right before its DELETE. That is necessary when the DELETE binds
    /// no version, or when the server may ignore preconditions.
    fn is_read_first(&self, item: &ObjectSnapshot, precondition: &Precondition) -> bool {
        precondition.is_none() || self.context.api.is_aggregated(&item.identity.resource.group_resource)
    }

    /// Checks, with the write slot of the DELETE, everything that the decision rests on and that
    /// the precondition does not bind. Returns why the DELETE is no longer needed, if so.
    async fn last_look(
        &self,
        turn: &WriteSlot,
        item: &ObjectSnapshot,
        basis: &Basis,
        owners: &mut WaitingOwners,
        precondition: &mut Precondition,
    ) -> Result<Option<Done>, Interrupted> {
        let is_read = self.is_read_first(item, precondition);
        for _ in 0..LOOKS {
            self.still_waiting(turn, owners).await?;
            if !is_read {
                return Ok(None);
            }
            if let Some(why) = self.read_again(turn.api(), item, basis, precondition).await? {
                return Ok(Some(why));
            }
            if self.grown_old(owners).await?.is_empty() {
                return Ok(None);
            }
            turn.api().take_tokens(1).await;
        }
        Err(Interrupted::Changed(
            "reading the object took so long that the evidence about its owners expired",
        ))
    }

    /// Reads the object, which must still be what was decided on. Its version becomes the
    /// precondition, unless it changes all the time. Returns as `last_look`.
    async fn read_again(
        &self,
        api: &Api,
        item: &ObjectSnapshot,
        basis: &Basis,
        precondition: &mut Precondition,
    ) -> Result<Option<Done>, Interrupted> {
        let live = match api.look_up(&item.identity).await? {
            LookupResult::Found(live) => live,
            LookupResult::Absent(proof) => return Ok(Some(Done::gone(proof))),
        };
        if live.being_deleted {
            return Ok(Some(Done::BeingDeleted));
        }
        if !basis.matches(&live) {
            return Err(Interrupted::Changed(CHANGED));
        }
        let changes_all_the_time = precondition.is_none() && item.resource_version.is_some();
        if !changes_all_the_time {
            *precondition = live.resource_version;
        }
        Ok(None)
    }
}

/// How often confirmations are renewed for one request. If look-ups take longer than
/// confirmations last, renewing would never end.
const RENEWALS: usize = 3;

const UNPROVED: &str = "it is not confirmed that an owner waits for its dependents";

const NOT_WAITING: Interrupted =
    Interrupted::Changed("an owner no longer waits for its dependents, or has changed");

/// The owners that must be waiting for a decision to hold, each with its confirmation.
pub(super) type WaitingOwners = Vec<(Identity, Confirmation)>;

pub(super) fn waiting_owners(
    item: &ObjectSnapshot,
    classified: &[Classified],
) -> Result<WaitingOwners, Interrupted> {
    let mut owners: WaitingOwners = Vec::new();
    let mut known = HashSet::new();
    let each = item.references.iter().zip(classified);
    for (seen, owner) in each.filter(|(_, owner)| owner.class == ReferenceClass::Waiting) {
        let (Some(identity), Some(confirmed)) = (seen.owner.identity(), &owner.confirmed) else {
            return Err(Interrupted::Changed(UNPROVED));
        };
        if known.insert(identity) {
            owners.push((identity.clone(), Confirmation::clone(confirmed)));
        }
    }
    Ok(owners)
}

impl DeleteWork {
    /// Checks, with the write slot of a DELETE, that every owner that was confirmed waiting is
    /// still deleting its dependents. A second DELETE of the owner with the policy Orphan may have
    /// changed that in the meantime. A confirmation that is too old is renewed and the decision
    /// stands. If the key were re-evaluated instead, slow requests about an object that changes
    /// all the time would never end.
    ///
    /// Nothing is waited for between the last look at the graph and the return.
    pub(super) async fn still_waiting(
        &self,
        turn: &WriteSlot,
        owners: &mut WaitingOwners,
    ) -> Result<(), Interrupted> {
        for _ in 0..RENEWALS {
            let old = self.grown_old(owners).await?;
            if old.is_empty() {
                return Ok(());
            }
            // All at once: one after another, the first would be outdated before the last is made.
            turn.api().take_tokens(u32::try_from(old.len()).unwrap_or(u32::MAX)).await;
            let renewals = old.into_iter().map(|((owner, confirmed), state)| async move {
                *confirmed = self.confirm_waiting(turn, owner, state).await?;
                Ok::<_, Interrupted>(())
            });
            let renewals: Vec<_> = renewals.collect();
            stream::iter(renewals).buffer_unordered(LOOK_UPS_AT_ONCE).try_collect::<()>().await?;
        }
        Err(Interrupted::Changed("checking the owners took so long that the evidence expired"))
    }

    /// The owners whose confirmation is too old, with their states in the graph. An error if an
    /// owner is known to have stopped waiting.
    pub(super) async fn grown_old<'a>(
        &self,
        owners: &'a mut WaitingOwners,
    ) -> Result<Vec<(&'a mut (Identity, Confirmation), OwnerState)>, Interrupted> {
        let states = owners.iter().map(|(owner, _)| self.context.graph.owner_state(owner));
        let states = try_join_all(states).await?;
        let now = self.confirmations.now();
        let mut old = Vec::new();
        for (owner, state) in owners.iter_mut().zip(states) {
            match &state {
                OwnerState::Observed { deletion: DeletionState::DeletingDependents, .. }
                | OwnerState::Unknown => {}
                OwnerState::Observed { .. } | OwnerState::Absent => return Err(NOT_WAITING),
            }
            if owner.1.stands(&state, now) {
                continue;
            }
            match self.confirmations.get(&owner.0, &state) {
                Some(by_another) => owner.1 = by_another,
                None => old.push((owner, state)),
            }
        }
        Ok(old)
    }

    /// Looks an owner up and confirms that it is deleting its dependents.
    async fn confirm_waiting(
        &self,
        turn: &WriteSlot,
        owner: &Identity,
        state: OwnerState,
    ) -> Result<Confirmation, Interrupted> {
        let known = || self.confirmations.get(owner, &state).map(Ok);
        let note = |LookedUp { asked, answer }| {
            let LookupResult::Found(facts) = answer? else { return Err(NOT_WAITING) };
            self.confirmations.confirm(owner, state.clone(), &facts, &asked).ok_or(NOT_WAITING)
        };
        self.look_ups.look_up_unless(Some(turn), (owner, state.version()), None, known, note).await
    }

    /// Confirms one solid owner by a look-up before a reference to a waiting owner is removed.
    /// Without a solid owner, the dependent would have to be deleted.
    pub(super) async fn confirm_solid(
        &self,
        turn: &WriteSlot,
        owner: &ReferenceSnapshot,
    ) -> Result<(), Interrupted> {
        let Some(identity) = owner.owner.identity() else {
            return Err(Interrupted::Changed("the owner that keeps the object cannot be looked up"));
        };
        match self.look_ups.look_up_now(turn, identity).await.answer? {
            LookupResult::Found(facts) if from_live(&facts) == ReferenceClass::Solid => Ok(()),
            LookupResult::Found(_) | LookupResult::Absent(_) => Err(Interrupted::Changed(
                "the owner that kept the object is gone or waits for its dependents",
            )),
        }
    }
}

/// The object has changed since the decision.
const CHANGED: &str = "its owner references, finalizers or dependents changed";

/// The precondition of a DELETE besides the uid: the resource version of the decision. `None` if the
/// object has no version, or if its status changes faster than it can be read and the last read
/// showed that the decision still holds.
type Precondition = Option<ResourceVersion>;
