//! Confirmations that an owner is deleting its dependents.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use super::DeleteWork;
use super::classify::Classified;
use super::look_ups::LookedUp;
use crate::actors::context::Interrupted;
use crate::api::LookUp;
use crate::graph::{ObjectSnapshot, OwnerState, ReferenceSnapshot};
use crate::object::{Identity, ObjectFacts};
use crate::verdict::{Confirmation, ReferenceClass, from_live};

/// How many owners are remembered; more only cost a request each.
const AT_MOST: usize = 1024;

/// Confirmations by owner: one live look speaks for all dependents of an owner,
/// for as long as [`Confirmation::holds`].
#[derive(Debug, Clone)]
pub struct Confirmations {
    entries: Arc<DashMap<Identity, Confirmation>>,
    origin: Instant,
}

impl Default for Confirmations {
    fn default() -> Self {
        Self { entries: Arc::default(), origin: Instant::now() }
    }
}

impl Confirmations {
    /// Now, on the clock of the confirmations.
    pub fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// A moment, on the clock of the confirmations.
    pub fn at(&self, moment: Instant) -> Duration {
        moment.duration_since(self.origin)
    }

    /// The confirmation that holds for an owner in this state.
    pub fn get(&self, owner: &Identity, state: &OwnerState) -> Option<Confirmation> {
        let now = self.now();
        self.entries.get(owner).filter(|confirmation| confirmation.holds(state, now)).map(|held| held.clone())
    }

    /// Confirms by a live look that was asked for at `asked`, when the graph knew
    /// `seen`; `None` if the owner is not deleting its dependents.
    pub fn confirm(
        &self,
        owner: &Identity,
        seen: OwnerState,
        facts: &ObjectFacts,
        asked: Duration,
    ) -> Option<Confirmation> {
        let confirmation = Confirmation::new(seen, facts, asked)?;
        if self.entries.len() >= AT_MOST {
            self.entries.clear();
        }
        self.entries.insert(owner.clone(), confirmation.clone());
        Some(confirmation)
    }
}

impl DeleteWork {
    /// Right before a DELETE: every owner that was confirmed waiting must still be
    /// deleting dependents. A second DELETE of the owner with Orphan may have
    /// changed everybody's fate meanwhile. A confirmation that has become too old is made
    /// anew, and the decision stands: where requests are slow and the object changes all
    /// the time, one that began afresh would never get to its end.
    pub(super) async fn still_waiting(
        &self,
        item: &ObjectSnapshot,
        classified: &[Classified],
    ) -> Result<(), Interrupted> {
        let each = item.references.iter().zip(classified);
        for (seen, owner) in each.filter(|(_, owner)| owner.class == ReferenceClass::Waiting) {
            let (Some(identity), Some(confirmed)) = (seen.owner.identity(), &owner.confirmed) else {
                return Err(Interrupted::Changed("a waiting owner was not confirmed"));
            };
            let state = self.context.graph.owner_state(identity).await?;
            if !confirmed.stands(&state, self.confirmations.now())
                && self.confirmations.get(identity, &state).is_none()
            {
                self.confirm_waiting(identity, state).await?;
            }
        }
        Ok(())
    }

    /// Confirms by a live look that an owner is deleting its dependents, as far as the
    /// graph does not know better.
    async fn confirm_waiting(&self, owner: &Identity, state: OwnerState) -> Result<(), Interrupted> {
        const CHANGED: Interrupted = Interrupted::Changed("an owner that was waiting has changed");
        let LookedUp { sent, answer } = self.look_ups.look_up(owner).await;
        let LookUp::Found(facts) = answer? else { return Err(CHANGED) };
        let confirmed = self.confirmations.confirm(owner, state.clone(), &facts, self.confirmations.at(sent));
        match confirmed {
            Some(confirmed) if confirmed.stands(&state, self.confirmations.now()) => Ok(()),
            _ => Err(CHANGED),
        }
    }

    /// Before a waiting reference goes, one solid owner is confirmed live: without
    /// it the dependent would have had to go with the waiting owner.
    pub(super) async fn confirm_solid(&self, owner: &ReferenceSnapshot) -> Result<(), Interrupted> {
        let Some(identity) = owner.owner.identity() else {
            return Err(Interrupted::Changed("a solid owner has no identity"));
        };
        match self.look_ups.look_up(identity).await.answer? {
            LookUp::Found(facts) if from_live(&facts) == ReferenceClass::Solid => Ok(()),
            LookUp::Found(_) | LookUp::Absent(_) => {
                Err(Interrupted::Changed("the owner that was solid is not solid any more"))
            }
        }
    }
}
