//! Confirms owners right before a request that rests on them.

use std::collections::HashSet;

use futures::future::try_join_all;
use futures::{StreamExt as _, TryStreamExt as _, stream};

use super::look_ups::{LOOK_UPS_AT_ONCE, LookedUp};
use super::work::DeleteWork;
use crate::api::{LookupResult, WriteSlot};
use crate::worker::classified::Classified;
use crate::worker::interrupted::Interrupted;
use kube_gc_core::graph::{ObjectSnapshot, OwnerState, ReferenceSnapshot};
use kube_gc_core::object::{DeletionState, Identity};
use kube_gc_core::verdict::{Confirmation, ReferenceClass, from_live};

/// How often confirmations are renewed for one request. If look-ups take longer than
/// confirmations last, renewing would never end.
const RENEWALS: usize = 3;

const CHANGED: Interrupted =
    Interrupted::Changed("an owner no longer waits for its dependents, or has changed");

/// The owners that must be waiting for a decision to hold, each with its confirmation.
#[derive(Debug)]
pub(super) struct WaitingOwners(Vec<(Identity, Confirmation)>);

impl WaitingOwners {
    pub fn of(item: &ObjectSnapshot, classified: &[Classified]) -> Result<Self, Interrupted> {
        let mut owners: Vec<(Identity, Confirmation)> = Vec::new();
        let mut known = HashSet::new();
        let each = item.references.iter().zip(classified);
        for (seen, owner) in each.filter(|(_, owner)| owner.class == ReferenceClass::Waiting) {
            let (Some(identity), Some(confirmed)) = (seen.owner.identity(), &owner.confirmed) else {
                return Err(Interrupted::Changed(
                    "it is not confirmed that an owner waits for its dependents",
                ));
            };
            if known.insert(identity) {
                owners.push((identity.clone(), Confirmation::clone(confirmed)));
            }
        }
        Ok(Self(owners))
    }
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
            turn.take_tokens(u32::try_from(old.len()).unwrap_or(u32::MAX)).await;
            let renewed = old.into_iter().map(|(index, state)| {
                let owner = owners.0.get(index).map(|(owner, _)| owner.clone());
                async move {
                    let owner = owner.ok_or(CHANGED)?;
                    Ok::<_, Interrupted>((index, self.confirm_waiting(turn, &owner, state).await?))
                }
            });
            let renewed: Vec<_> =
                stream::iter(renewed.collect::<Vec<_>>()).buffered(LOOK_UPS_AT_ONCE).try_collect().await?;
            for (index, confirmed) in renewed {
                if let Some(owner) = owners.0.get_mut(index) {
                    owner.1 = confirmed;
                }
            }
        }
        Err(Interrupted::Changed("checking the owners took so long that the evidence expired"))
    }

    /// Whether all of these owners are still waiting, by what is known without a request.
    pub(super) async fn stand(&self, owners: &mut WaitingOwners) -> Result<bool, Interrupted> {
        Ok(self.grown_old(owners).await?.is_empty())
    }

    /// The indices of the owners whose confirmation is too old, with their states in the graph. An
    /// error if an owner is known to have stopped waiting.
    async fn grown_old(&self, owners: &mut WaitingOwners) -> Result<Vec<(usize, OwnerState)>, Interrupted> {
        let states = owners.0.iter().map(|(owner, _)| self.context.graph.owner_state(owner));
        let states = try_join_all(states).await?;
        let now = self.confirmations.now();
        let mut old = Vec::new();
        for (index, ((owner, confirmed), state)) in owners.0.iter_mut().zip(states).enumerate() {
            match &state {
                OwnerState::Observed { deletion: DeletionState::DeletingDependents, .. }
                | OwnerState::Unknown => {}
                OwnerState::Observed { .. } | OwnerState::Absent => return Err(CHANGED),
            }
            if confirmed.stands(&state, now) {
                continue;
            }
            match self.confirmations.get(owner, &state) {
                Some(by_another) => *confirmed = by_another,
                None => old.push((index, state)),
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
            let LookupResult::Found(facts) = answer? else { return Err(CHANGED) };
            self.confirmations.confirm(owner, state.clone(), &facts, &asked).ok_or(CHANGED)
        };
        self.look_ups.look_up_on(turn, owner, known, note).await
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
