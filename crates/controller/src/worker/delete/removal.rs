//! Removes references of an object to owners that are gone, because another owner is there, and ends
//! the foreground deletion of an owner that no dependent blocks any more.

use super::DeleteWork;
use super::deletion::waiting_owners;
use crate::actors::graph_handle::PartitionEnded;
use crate::actors::pool::Outcome;
use crate::worker::after_finalizer_removal;
use crate::worker::classified::Classified;
use crate::worker::decision::DecisionLine;
use crate::worker::interrupted::Interrupted;
use kube_gc_client::{ApiError, ErrorClass, Finalizer, LookupResult, Patched, References, Verb, WriteSlot};
use kube_gc_core::graph::{ExpectedChange, ForegroundProgress, ObjectSnapshot, ReferenceSnapshot, Snapshot};
use kube_gc_core::mailbox::Completion;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{DeletionState, ResourceVersion, Uid};
use kube_gc_core::verdict::{AfterConflict, Basis, Dependents, after_conflict};
use kube_gc_observe::telemetry::StuckReason;

impl DeleteWork {
    pub(super) async fn remove_references(
        &self,
        item: &ObjectSnapshot,
        classified: &[Classified],
        remove: &[usize],
        confirm_solid: Option<usize>,
    ) -> Result<Outcome, Interrupted> {
        let line = DecisionLine {
            owners: Some((item, classified)),
            remove,
            ..DecisionLine::new(&self.context.decisions, &item.identity, "remove_references")
        };
        let is_gone = |index: &usize| classified.get(*index).is_some_and(Classified::is_gone);
        // A waiting owner was confirmed for this moment only.
        let gone_for_good = remove.iter().all(is_gone);
        let remove = remove.iter().filter_map(|index| item.references.get(*index));
        let remove: Vec<_> = remove.map(|seen| seen.reference.clone()).collect();
        let all = item.references.iter().map(|seen| &seen.reference);
        let references = References::of(all, remove);
        let version = item.resource_version.clone();
        let version = version.filter(|_| !mutation::is(Mutation::PatchWithoutVersion));
        let solid = confirm_solid.and_then(|index| item.references.get(index));
        let patched = match solid {
            Some(solid) => self.remove_beside(solid, item, classified, &references, version).await,
            None => self.remove_at_rest(item, &references, version, gone_for_good).await.map_err(Into::into),
        };
        line.finish(&patched);
        if let Ok(patched) = &patched {
            self.expect_patch(item, patched);
        }
        self.check_owner_namespaces(item, classified);
        patched.map(|_| Completion::Done)
    }

    /// Removes references to owners of which some are waiting. That they still wait, and one solid owner,
    /// is confirmed right before the patch is sent: an owner that has ended its foreground deletion and
    /// is kept by another finalizer is solid again.
    async fn remove_beside(
        &self,
        solid: &ReferenceSnapshot,
        item: &ObjectSnapshot,
        classified: &[Classified],
        references: &References,
        version: Option<ResourceVersion>,
    ) -> Result<Patched, Interrupted> {
        let api = &self.context.api;
        let requests = 1 + api.requests_for_patch(&item.identity.resource.group_resource, references);
        let turn = api.write_slot(Verb::Patch, &item.identity, requests).await?;
        let mut owners = waiting_owners(item, classified)?;
        self.still_waiting(&turn, &mut owners).await?;
        self.confirm_solid(&turn, solid).await?;
        // The confirmation of the solid owner may have taken long.
        if !self.grown_old(&mut owners).await?.is_empty() {
            return Err(Interrupted::Changed("checking the owners took so long that the evidence expired"));
        }
        Ok(turn.api().remove_references(&item.identity, references, version.as_ref()).await?)
    }

    /// Removes references at the version of the decision. If the change is irrelevant to the
    /// decision, the patch is repeated at the new version: the object may change faster than its
    /// events arrive.
    async fn remove_at_rest(
        &self,
        item: &ObjectSnapshot,
        references: &References,
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
            let patched = way.remove_references(&item.identity, references, version.as_ref()).await;
            let is_conflict = patched.as_ref().is_err_and(|error| error.class == ErrorClass::Conflict);
            if !is_conflict || !gone_for_good || version.is_none() {
                return patched;
            }
            conflicts += 1;
            // The read and the patch share one write slot, so that nothing waits in between. The
            // last slot is given back before the next one is waited for.
            drop(turn.take());
            let requests = 1 + api.requests_for_patch(type_of_item, references);
            let next = turn.insert(api.write_slot(Verb::Patch, &item.identity, requests).await?);
            let live = match next.api().look_up(&item.identity).await {
                Ok(LookupResult::Found(live)) => live,
                Ok(LookupResult::Absent(proof)) => return Ok(Patched::Gone(proof)),
                Err(_) => return patched,
            };
            let dependents = Dependents::of(item);
            match after_conflict(&basis, version.as_ref(), Some(&live), dependents, conflicts) {
                AfterConflict::DeleteWith(current) => version = Some(current),
                // The key is re-evaluated, at once or after a pause.
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

    /// Removes the foreground finalizer of an object that no dependent is known to block.
    pub(super) async fn finish_foreground(&self, item: &ObjectSnapshot) -> Result<Outcome, Interrupted> {
        let doubtful = item.foreground == ForegroundProgress::PerhapsBlocked;
        if doubtful && self.is_blocked_through_unread(&item.identity.uid).await? {
            let error = format!(
                "a dependent may block {}: its owner reference names an apiVersion that cannot be \
                 discovered now (see /debug/discovery); kube-gc decides when it can",
                item.identity
            );
            return Ok(Completion::retry(StuckReason::Unresolved, error));
        }
        let line = DecisionLine {
            finalizer: Some(Finalizer::Foreground),
            ..DecisionLine::new(&self.context.decisions, &item.identity, "remove_finalizer")
        };
        let removal = self.remove_foreground_finalizer(item, doubtful).await.transpose();
        // The dependent that blocks it queues it again when it goes.
        let Some(removal) = removal else { return Ok(Completion::Done) };
        line.finish(&removal);
        if let Some(change) = after_finalizer_removal(item.resource_version.as_ref(), &removal?) {
            self.context.graph.expect(&item.identity.key(), change);
        }
        Ok(Completion::Done)
    }

    /// Whether a dependent, wherever it is, blocks the owner with this uid through a part of the
    /// API that could not be read.
    async fn is_blocked_through_unread(&self, owner: &Uid) -> Result<bool, PartitionEnded> {
        let owner = owner.clone();
        let blocks = self.context.graph.ask_all(move |graph, _| graph.is_blocked_through_unread(&owner));
        Ok(blocks.await?.contains(&true))
    }

    /// `None` if a dependent blocks the object.
    async fn remove_foreground_finalizer(
        &self,
        item: &ObjectSnapshot,
        doubtful: bool,
    ) -> Result<Option<Patched>, Interrupted> {
        // One request to read the object, and one to patch it.
        let turn = self.context.api.write_slot(Verb::Patch, &item.identity, 2).await?;
        // Checked only now, because a blocking dependent may have appeared while the request waited
        // for its turn.
        if !self.still_unblocked(item, doubtful).await? {
            return Ok(None);
        }
        let (api, seen) = (turn.api(), item.resource_version.as_ref());
        Ok(Some(api.remove_finalizer(&item.identity, seen, Finalizer::Foreground).await?))
    }

    /// Whether still no dependent blocks the object. The dependents of a cluster-scoped owner are
    /// in all partitions, and their links must have arrived first.
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
