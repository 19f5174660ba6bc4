//! The orphan pool's work: removes the references of an owner's dependents, then its finalizer.

mod look;
mod release;
mod rounds;
mod unlistable;

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::{Stream, StreamExt, TryStreamExt, stream};
use tracing::Level;

use crate::actors::pool::{Outcome, Work, WorkerSlot};
use crate::worker::WorkContext;
use crate::worker::after_finalizer_removal;
use crate::worker::decision::{DecisionLine, LoggedAs};
use crate::worker::interrupted::{Interrupted, deferred};
use kube_gc_client::{ApiError, ErrorClass, EventType, Finalizer, LookupResult, Patched, References};
use kube_gc_core::graph::{DependentId, DependentView, Effects, ObjectSnapshot, Partition, Snapshot};
use kube_gc_core::mailbox::Completion;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{DeletionState, GroupResource, Identity, Key};
use kube_gc_observe::telemetry::{Queue, Structured, StuckReason};

use self::release::orphan_dependent;
use self::rounds::Confirmed;

pub use self::release::Releases;
pub use self::rounds::Rounds;

/// The number of dependents of one owner that are taken from the graph at a time, by default.
pub const PAGE: usize = 128;
/// The reason of the event on an owner whose dependents were not looked for in all of the API.
const NOT_LOOKED_FOR: &str = "DependentsNotLookedFor";
/// Another deletion with another policy applies, or a restore has undone the deletion.
const NO_LONGER: Interrupted = Interrupted::Changed("the owner no longer orphans its dependents");
/// How long that event may take.
const WARNING: Duration = Duration::from_secs(5);

/// Orphans the dependents of objects that are deleted with the orphan policy.
#[derive(Clone, Debug)]
pub struct OrphanWork {
    context: WorkContext,
    rounds: Rounds,
    page: usize,
}

impl Work for OrphanWork {
    const QUEUE: Queue = Queue::AttemptToOrphan;
    const UNTIL_DONE: Option<StuckReason> = Some(StuckReason::Orphaning);

    /// A round lists every type.
    const WAITS_FOR_OWNERS: bool = false;

    /// An owner with a dependent of a broken type fails until that type works again.
    fn is_woken(reason: StuckReason) -> bool {
        reason.is_parked() || matches!(reason, StuckReason::Denied | StuckReason::Failed)
    }

    async fn work(&self, key: Key, slot: WorkerSlot) -> Outcome {
        if let Some(deferred) = deferred(&self.context.api) {
            return deferred;
        }
        let work = Self { context: self.context.now(), ..self.clone() };
        work.attempt(&key, &slot).await.unwrap_or_else(Interrupted::outcome)
    }
}

impl OrphanWork {
    /// The work of the orphan pool, with this number of dependents of one owner taken from the graph
    /// at a time. Orphaning holds only these and the ones that are being patched in memory, and four
    /// bytes for each other one.
    pub const fn new(context: WorkContext, rounds: Rounds, page: usize) -> Self {
        Self { context, rounds, page }
    }

    async fn attempt(&self, key: &Key, slot: &WorkerSlot) -> Result<Outcome, Interrupted> {
        let Some(owner) = self.orphaning(key).await? else {
            return Ok(Completion::Done);
        };
        let identity = &owner.identity;
        self.confirm(&owner).await?;
        if identity.namespace.is_none() {
            self.context.graph.fence().await?;
        }
        let released = self.release_known(&owner).await?;
        // In a dry run a round would find all dependents again, since none was released.
        let confirmed = if self.context.api.gate().is_dry_run() {
            Confirmed::default()
        } else {
            if let Some(held) = self.rounds.hold_undiscovered(identity) {
                return Ok(held);
            }
            // Otherwise a round would serve no more owners than there are workers.
            slot.release();
            self.rounds.begin(identity).await?
        };
        // Lists that an outage fails say nothing of a part of the API.
        if let Some(deferred) = deferred(&self.context.api) {
            return Ok(deferred);
        }
        if let Some(held) = self.rounds.hold(identity, &confirmed, &released.types) {
            return Ok(held);
        }
        let passed_over = self.pass_over(identity, &confirmed).await;
        // A second DELETE may have changed the policy in the meantime.
        if self.orphaning(key).await?.is_none() {
            return Ok(Completion::Done);
        }
        let line = DecisionLine {
            finalizer: Some(Finalizer::Orphan),
            without: passed_over.as_deref(),
            ..DecisionLine::new(&self.context.decisions, identity, "remove_finalizer")
        };
        // Stored first: once the finalizer is gone, a late dependent must not count as garbage.
        // Also stored if no answer comes, because the request may have taken effect.
        let orphaned = &self.context.absent_owners.orphaned;
        let in_doubt = orphaned.contains(identity);
        if !mutation::is(Mutation::ForgetOrphaned) {
            orphaned.remember(identity, ());
        }
        let seen = owner.resource_version.as_ref();
        let removal = self.context.api.remove_finalizer(identity, seen, Finalizer::Orphan).await;
        if !in_doubt && !may_have_orphaned(&removal) {
            orphaned.forget(identity);
        }
        let shown = line.finish(&removal);
        let removal = removal?;
        log_orphaned(identity, released.count, &confirmed, shown);
        if let Some(change) = after_finalizer_removal(owner.resource_version.as_ref(), &removal) {
            self.context.graph.expect(key, change);
        }
        Ok(Completion::Done)
    }

    /// Warns of the parts of the API that nobody waits for any longer, and names them.
    async fn pass_over(&self, owner: &Identity, round: &Confirmed) -> Option<String> {
        let parts: Vec<_> = round.unlisted.iter().collect();
        if parts.is_empty() {
            return None;
        }
        let parts = unlistable::names(&parts);
        let message =
            format!("kube-gc did not look for dependents in {parts}; dependents there may be deleted later");
        let api = self.context.api.within(WARNING);
        if let Err(error) = api.tell(owner, EventType::Warning, NOT_LOOKED_FOR, &message).await {
            let object = Structured::object(owner);
            tracing::debug!(object = object.logged(), %error, "cannot create the Warning event about this object");
        }
        Some(format!("without a look at {parts}"))
    }

    /// The owner, if it is being deleted with the orphan policy at this moment.
    async fn orphaning(&self, key: &Key) -> Result<Option<Box<ObjectSnapshot>>, Interrupted> {
        Ok(match self.context.graph.look(key).await? {
            Snapshot::Object(item) if item.deletion == DeletionState::Orphaning => Some(item),
            Snapshot::Object(item) => {
                // A later DELETE with another policy applies from now on. But an owner without the
                // finalizer may be one that we have orphaned, if another client's finalizer keeps
                // it.
                if item.deletion != DeletionState::Terminating {
                    self.context.absent_owners.orphaned.forget(&item.identity);
                }
                None
            }
            Snapshot::Virtual { .. } | Snapshot::Gone => None,
            // The event may show the owner orphaning or not, and wakes only the delete pool.
            Snapshot::AwaitsEvent => {
                return Err(Interrupted::Changed("the watch does not show an earlier write of kube-gc yet"));
            }
        })
    }

    /// Confirms the owner if it was last seen before watches broke: a restore of the store may have
    /// undone its deletion. Dependents are released whatever their version is, so nothing else
    /// would notice.
    async fn confirm(&self, owner: &ObjectSnapshot) -> Result<(), Interrupted> {
        if self.context.api.restore_fence().disturbance().is_before(owner.resource_version.as_ref()) {
            return Ok(());
        }
        match self.context.api.look_up(&owner.identity).await? {
            LookupResult::Found(live) if live.deletion_state() == DeletionState::Orphaning => Ok(()),
            LookupResult::Found(_) | LookupResult::Absent(_) => Err(NO_LONGER),
        }
    }

    /// Releases every dependent that the graph knows. A failure does not stop the others, and what
    /// was released stays released when the owner is retried.
    async fn release_known(&self, owner: &ObjectSnapshot) -> Result<Released, Interrupted> {
        let (mut released, mut failed) = (Released::default(), None::<Interrupted>);
        let release = |dependent: Result<DependentView, Interrupted>| async {
            let dependent = dependent?;
            let references = References::of_dependent(&dependent);
            let DependentView { identity, .. } = dependent;
            orphan_dependent(&self.context, &owner.identity, &identity, &references).await?;
            Ok::<_, Interrupted>(identity.resource)
        };
        let dependents = self.dependents(owner.identity.key());
        let mut results = pin!(self.context.releases.each(dependents, release));
        while let Some(result) = results.next().await {
            match result {
                Ok(resource) => {
                    released.count += 1;
                    released.types.insert(resource.group_resource.clone());
                }
                // A deferred failure, which another object causes, is reported only if there is no
                // other failure.
                Err(interrupted) if failed.is_none() || !interrupted.is_deferred() => {
                    failed = Some(interrupted);
                }
                Err(_) => {}
            }
        }
        failed.map_or(Ok(released), Err)
    }

    /// The dependents that the graph knows, page by page. Before each page but the first, the owner
    /// must still be orphaning its dependents. The next page is fetched when the last dependent of
    /// a page has been taken, so that a slow one does not delay the next page.
    fn dependents(&self, owner: Key) -> impl Stream<Item = Result<DependentView, Interrupted>> {
        let pages = stream::try_unfold(None, move |left: Option<Vec<DependentId>>| {
            let (graph, owner) = (&self.context.graph, owner.clone());
            async move {
                let mut page = match left {
                    None => graph.ask_about(&owner, |graph, owner, _| graph.dependents(owner)).await?,
                    Some(left) if left.is_empty() => return Ok(None),
                    Some(_) if self.orphaning(&owner).await?.is_none() => return Err(NO_LONGER),
                    Some(left) => left,
                };
                let left = page.split_off(page.len().min(self.page));
                let views = move |graph: &mut Partition, owner: &Key, _: &mut Effects| {
                    graph.dependent_views(owner, &page)
                };
                let page = graph.ask_about(&owner, views).await?;
                Ok(Some((stream::iter(page.into_iter().map(Ok)), Some(left))))
            }
        });
        pages.try_flatten()
    }
}

/// Logs the end of an orphan deletion. If the log has summaries, only what is unusual has a line.
fn log_orphaned(owner: &Identity, dependents: usize, confirmed: &Confirmed, shown: LoggedAs) {
    let skipped = confirmed.unlisted.iter().map(|part| &part.what);
    let skipped = Structured::list("skipped_types", skipped);
    macro_rules! orphaned {
        ($level:expr) => {
            tracing::event!(
                $level,
                object = Structured::object(owner).logged(),
                dependents,
                late_dependents = confirmed.late,
                skipped_types = skipped.as_ref().map(Structured::logged),
                "orphaned"
            )
        };
    }
    if shown == LoggedAs::Line || confirmed.late > 0 || skipped.is_some() {
        orphaned!(Level::INFO);
    } else {
        orphaned!(Level::DEBUG);
    }
}

/// Dependents of one owner that were released.
#[derive(Debug, Default)]
struct Released {
    count: usize,
    types: BTreeSet<GroupResource>,
}

/// Whether this collector may have removed the finalizer. An answer that denies it is about its own
/// try only: an earlier try may have taken effect without an answer.
fn may_have_orphaned(removal: &Result<Patched, ApiError>) -> bool {
    match removal {
        Ok(Patched::Changed(_) | Patched::Gone(_)) => true,
        Ok(Patched::Unneeded(_)) => false,
        // In a dry run, another collector removes it.
        Err(error) => matches!(error.class, ErrorClass::Transient | ErrorClass::DryRun),
    }
}

#[cfg(test)]
mod tests;
