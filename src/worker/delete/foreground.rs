//! Ends the foreground deletion of an owner that no dependent blocks any more.

use super::work::DeleteWork;
use crate::actors::pool::Outcome;
use crate::api::{Finalizer, FinalizerRemoval, WriteVerb};
use crate::telemetry::StuckReason;
use crate::worker::decision::DecisionLine;
use crate::worker::interrupted::Interrupted;
use crate::worker::remove_reference::after_finalizer_removal;
use kube_gc_core::graph::{ForegroundProgress, ObjectSnapshot, Snapshot};
use kube_gc_core::mailbox::Completion;
use kube_gc_core::object::DeletionState;

impl DeleteWork {
    /// Removes the foreground finalizer of an object that no dependent is known to block.
    pub(super) async fn finish_foreground(&self, item: &ObjectSnapshot) -> Result<Outcome, Interrupted> {
        let doubtful = item.foreground == ForegroundProgress::PerhapsBlocked;
        if doubtful && self.context.graph.is_blocked_through_unread(&item.identity.uid).await? {
            return Ok(Completion::Retry {
                reason: StuckReason::Unresolved,
                error: format!(
                    "a dependent may block {}: its owner reference names an apiVersion that cannot be \
                     discovered now (see /debug/discovery); kube-gc decides when it can",
                    item.identity
                )
                .into(),
            });
        }
        let line = DecisionLine::new(&self.context.decisions, &item.identity, "remove_finalizer")
            .finalizer(Finalizer::Foreground);
        // One request to read the object, and one to patch it.
        let turn = match self.context.api.write_slot(WriteVerb::Patch, &item.identity, 2).await {
            Ok(turn) => turn,
            Err(error) => {
                line.finish(&Err::<FinalizerRemoval, _>(error.clone()));
                return Err(error.into());
            }
        };
        // Checked only now, because a blocking dependent may have appeared while the request waited
        // for its turn.
        if !self.still_unblocked(item, doubtful).await? {
            // The dependent that blocks it queues it again when it goes.
            return Ok(Completion::Done);
        }
        let removal = turn.api().remove_finalizer(&item.identity, Finalizer::Foreground).await;
        line.finish(&removal);
        if let Some(change) = after_finalizer_removal(item.resource_version.as_ref(), &removal?) {
            self.context.graph.expect(&item.identity.key(), change);
        }
        Ok(Completion::Done)
    }

    /// Whether still no dependent blocks the object. The dependents of a cluster-scoped owner are
    /// in all partitions, and their links must have arrived first.
    pub(super) async fn still_unblocked(
        &self,
        item: &ObjectSnapshot,
        doubtful: bool,
    ) -> Result<bool, Interrupted> {
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
                Err(Interrupted::Changed("a part of the API can no longer be discovered"))
            }
            _ => Ok(false),
        }
    }

    /// Breaks a cycle of objects in foreground deletion that block each other: one of them stops
    /// blocking its owners.
    pub(super) async fn break_deadlock(&self, item: &ObjectSnapshot) -> Result<Outcome, Interrupted> {
        let line = DecisionLine::new(&self.context.decisions, &item.identity, "stop_blocking");
        let references: Vec<_> = item.references.iter().map(|seen| seen.reference.clone()).collect();
        let version = item.resource_version.as_ref();
        let patched = self.context.api.stop_blocking(&item.identity, &references, version).await;
        line.finish(&patched);
        self.expect_patch(item, &patched?);
        Ok(Completion::Done)
    }
}
