//! Deleting one object whose owners are all absent or waiting.

use super::DeleteWork;
use super::classify::Classified;
use crate::actors::context::Interrupted;
use crate::actors::decision::DecisionLine;
use crate::actors::messages::Finding;
use crate::actors::pool::Outcome;
use crate::api::{Deleted, ErrorClass, LookUp, Patched};
use crate::graph::{ExpectedChange, ObjectSnapshot, Snapshot};
use crate::mailbox::Completion;
use crate::object::{PropagationPolicy, ResourceVersion};
use crate::telemetry;
use crate::verdict::{AfterConflict, after_conflict, after_patch};

impl DeleteWork {
    pub(super) async fn delete(
        &self,
        item: &ObjectSnapshot,
        classified: &[Classified],
        policy: PropagationPolicy,
        stop_blocking_first: bool,
    ) -> Result<Outcome, Interrupted> {
        self.report_misplaced(item, classified).await?;
        let line = DecisionLine::new(&item.identity, "delete").policy(policy).owners(item, classified);
        let deleted = self.try_delete(item, classified, policy, stop_blocking_first).await;
        match &deleted {
            Ok(Done::Deleted(deleted)) => line.finish(Ok::<_, &crate::api::ApiError>(deleted.as_str())),
            Ok(Done::Dropped(why)) => line.dropped(why),
            Err(interrupted) => line.interrupted(interrupted),
        }
        match deleted? {
            Done::Deleted(Deleted::Removed) => {
                self.context.graph.expect(&item.identity.key(), ExpectedChange::Removed).await?;
            }
            Done::Deleted(Deleted::Pending(facts)) => {
                if let Some(version) = facts.resource_version {
                    self.context
                        .graph
                        .expect(&item.identity.key(), ExpectedChange::Version(version))
                        .await?;
                }
            }
            // The server says that it is gone. The watch will say so too, unless it
            // is one of an aggregated API.
            Done::Deleted(Deleted::AlreadyGone) | Done::Dropped(Dropped::Gone) => {
                let identity = &item.identity;
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
        let mut precondition = match &item.resource_version {
            Some(version) => Precondition::Version(version.clone()),
            None => self.without_version(item).await?,
        };
        if stop_blocking_first {
            precondition = self.stop_blocking(item, precondition).await?;
        }
        let mut conflicts = 0;
        loop {
            self.still_waiting(classified).await?;
            let version = match &precondition {
                Precondition::Version(version) => Some(version),
                Precondition::UidAlone => None,
            };
            match self.context.api.delete(&item.identity, policy, version).await {
                Ok(deleted) => return Ok(Done::Deleted(deleted)),
                Err(error) if matches!(error.class, ErrorClass::Conflict) => {}
                Err(error) => return Err(error.into()),
            }
            conflicts += 1;
            precondition = match self.after_conflict(item, &precondition, conflicts).await? {
                Next::Delete(precondition) => precondition,
                Next::Drop(why) => return Ok(Done::Dropped(why)),
            };
        }
    }

    /// Reads what changed and decides whether that matters.
    async fn after_conflict(
        &self,
        item: &ObjectSnapshot,
        tried: &Precondition,
        conflicts: u32,
    ) -> Result<Next, Interrupted> {
        let live = match self.context.api.look_up(&item.identity).await? {
            LookUp::Found(facts) => Some(facts),
            LookUp::Absent(_) => None,
        };
        let has_dependents = match self.context.graph.look(&item.identity.key()).await? {
            Snapshot::Object(now) => now.has_dependents,
            Snapshot::Gone | Snapshot::Virtual(_) => false,
        };
        let tried = match tried {
            Precondition::Version(version) => Some(version),
            Precondition::UidAlone => None,
        };
        let next = after_conflict(item, has_dependents, tried, live.as_ref(), conflicts);
        telemetry::delete_conflict(next.as_str());
        match next {
            AfterConflict::Absent => Ok(Next::Drop(Dropped::Gone)),
            AfterConflict::BeingDeleted => Ok(Next::Drop(Dropped::BeingDeleted)),
            AfterConflict::Backoff => Err(Interrupted::Changed("conflict, and nothing that matters has changed")),
            AfterConflict::DecideAfresh => Err(Interrupted::Changed("the object changed in what was decided on")),
            AfterConflict::DeleteWith(version) => Ok(Next::Delete(Precondition::Version(version))),
            AfterConflict::DeleteWithUidAlone => Ok(Next::Delete(Precondition::UidAlone)),
        }
    }

    /// An object without a resource version (some aggregated APIs) is read right
    /// before its deletion instead.
    async fn without_version(&self, item: &ObjectSnapshot) -> Result<Precondition, Interrupted> {
        let LookUp::Found(live) = self.context.api.look_up(&item.identity).await? else {
            return Ok(Precondition::UidAlone);
        };
        let decided_on = item.references.iter().map(|seen| &seen.reference);
        if !live.owners.iter().eq(decided_on) || live.finalizers != item.finalizers {
            return Err(Interrupted::Changed("the object changed in what was decided on"));
        }
        Ok(live.resource_version.map_or(Precondition::UidAlone, Precondition::Version))
    }

    /// The object might be part of a circle of foreground deletions: it stops
    /// blocking its owners before it waits for its own dependents.
    async fn stop_blocking(
        &self,
        item: &ObjectSnapshot,
        precondition: Precondition,
    ) -> Result<Precondition, Interrupted> {
        let references: Vec<_> = item.references.iter().map(|seen| seen.reference.clone()).collect();
        if !references.iter().any(|reference| reference.block_owner_deletion) {
            return Ok(precondition);
        }
        let version = match &precondition {
            Precondition::Version(version) => Some(version),
            Precondition::UidAlone => None,
        };
        match self.context.api.stop_blocking(&item.identity, &references, version).await? {
            Patched::Changed(facts) | Patched::Unneeded(facts) => after_patch(item, &facts)
                .map(Precondition::Version)
                .ok_or(Interrupted::Changed("the object changed while it was unblocked")),
            Patched::Gone => Err(Interrupted::Changed("the object went while it was unblocked")),
        }
    }
}

/// What, besides the uid, the object must still be for the DELETE to take effect.
#[derive(Clone, Debug)]
enum Precondition {
    /// Exactly the version that was decided on.
    Version(ResourceVersion),
    /// Only the same object: it has no version, or its status changes faster than
    /// it can be read, and what was decided on was the same at the last reading.
    UidAlone,
}

/// How a deletion ended.
enum Done {
    Deleted(Deleted),
    Dropped(Dropped),
}

/// Why a deletion is not needed any more.
#[derive(Clone, Copy, Debug)]
pub enum Dropped {
    /// The object is gone.
    Gone,
    /// Somebody else deletes it already.
    BeingDeleted,
}

enum Next {
    Delete(Precondition),
    Drop(Dropped),
}
