//! The last look before a DELETE, when there is nothing left to wait for.

use super::confirm::WaitingOwners;
use super::precondition::{CHANGED, Dropped, NotSent, Precondition};
use super::work::DeleteWork;
use crate::api::{Api, LookUp, WriteSlot};
use crate::worker::interrupted::Interrupted;
use kube_gc_core::graph::ObjectSnapshot;
use kube_gc_core::verdict::Basis;

/// How often everything is looked at for one DELETE.
const LOOKS: usize = 3;

impl DeleteWork {
    /// Whether the object is read right before its DELETE, because the DELETE alone does
    /// not make sure that it is still what was decided on: it binds no version, or the
    /// server might ignore what it binds.
    pub(super) fn is_read_first(&self, item: &ObjectSnapshot, precondition: &Precondition) -> bool {
        precondition.version().is_none()
            || self.context.api.is_aggregated(&item.identity.resource.group_resource)
    }

    /// With the turn of the DELETE: whatever the decision rests on that its precondition
    /// does not bind must still be so.
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
        Err(Interrupted::Changed("to read it takes longer than what is known of its owners lasts").into())
    }

    /// Reads the object: what was decided on must still be there. A version that it has is
    /// bound, unless it changes all the time.
    pub(super) async fn read_again(
        &self,
        api: &Api,
        item: &ObjectSnapshot,
        basis: &Basis,
        precondition: &mut Precondition,
    ) -> Result<(), NotSent> {
        let live = match api.look_up(&item.identity).await.map_err(Interrupted::Api)? {
            LookUp::Found(live) => live,
            LookUp::Absent(_) => return Err(NotSent::Dropped(Dropped::Gone)),
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
