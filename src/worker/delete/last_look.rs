//! The last check before a DELETE, when nothing remains to wait for.

use super::confirm::WaitingOwners;
use super::precondition::{CHANGED, Dropped, NotSent, Precondition};
use super::work::DeleteWork;
use crate::api::{Api, LookupResult, WriteSlot};
use crate::worker::interrupted::Interrupted;
use kube_gc_core::graph::ObjectSnapshot;
use kube_gc_core::verdict::Basis;

/// How often everything is checked for one DELETE.
const LOOKS: usize = 3;

impl DeleteWork {
    /// Whether the object is read right before its DELETE. That is necessary when the DELETE binds
    /// no version, or when the server may ignore preconditions.
    pub(super) fn is_read_first(&self, item: &ObjectSnapshot, precondition: &Precondition) -> bool {
        precondition.version().is_none()
            || self.context.api.is_aggregated(&item.identity.resource.group_resource)
    }

    /// Checks, with the write slot of the DELETE, everything that the decision rests on and that
    /// the precondition does not bind.
    pub(super) async fn last_look(
        &self,
        turn: &WriteSlot,
        item: &ObjectSnapshot,
        basis: &Basis,
        owners: &mut WaitingOwners,
        precondition: &mut Precondition,
    ) -> Result<(), NotSent> {
        let is_read = self.is_read_first(item, precondition);
        for _ in 0..LOOKS {
            self.still_waiting(turn, owners).await?;
            if !is_read {
                return Ok(());
            }
            self.read_again(turn.api(), item, basis, precondition).await?;
            if self.stand(owners).await? {
                return Ok(());
            }
            turn.take_tokens(1).await;
        }
        Err(Interrupted::Changed(
            "reading the object took so long that the evidence about its owners expired",
        )
        .into())
    }

    /// Reads the object, which must still be what was decided on. Its version becomes the
    /// precondition, unless it changes all the time.
    pub(super) async fn read_again(
        &self,
        api: &Api,
        item: &ObjectSnapshot,
        basis: &Basis,
        precondition: &mut Precondition,
    ) -> Result<(), NotSent> {
        let live = match api.look_up(&item.identity).await.map_err(Interrupted::Api)? {
            LookupResult::Found(live) => live,
            LookupResult::Absent(proof) => return Err(NotSent::Dropped(Dropped::Gone(proof))),
        };
        if live.being_deleted {
            return Err(NotSent::Dropped(Dropped::BeingDeleted));
        }
        if !basis.matches(&live) {
            return Err(Interrupted::Changed(CHANGED).into());
        }
        let changes_all_the_time = precondition.version().is_none() && item.resource_version.is_some();
        if !changes_all_the_time {
            *precondition = Precondition::of(live.resource_version);
        }
        Ok(())
    }
}
