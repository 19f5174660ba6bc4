//! Compares a dry run with another collector that runs beside it.
//!
//! Each decision that only the dry run kept from being carried out is a prediction. It has come
//! true when the graph shows its effect, whoever caused it. A prediction that has not come true
//! after a grace period is re-evaluated: if the decision is the same again, the two collectors
//! disagree. One task settles predictions: it checks the graph, re-evaluates the object, and checks again.

mod ledger;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use futures::{StreamExt as _, stream};
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use crate::actors::graph_handle::{GraphHandle, PartitionEnded};
use crate::actors::lifecycle::Phase;
use crate::actors::pool::{Outcome, Work as _, WorkerSlot};
use crate::actors::registry::Registry;
use crate::actors::supervision::task;
use crate::worker::decision::{DecisionObserver, DecisionRecord, JudgedOwner, LoggedOwners, Occurrence};
use crate::worker::delete::DeleteWork;
use crate::worker::orphan::OrphanWork;
use kube_gc_core::mailbox::{Completion, Wait};
use kube_gc_core::object::{Key, ObjectFacts};
use kube_gc_core::text::listed;
use kube_gc_observe::telemetry::{PrintedObject, PrintedReference, Queue, Structured, Timestamp, record};

use self::ledger::{
    ComparisonResult, Disagreement, Ledger, Next, ObjectState, PredictedAction, Subject, Tally,
};

/// The state of the comparison. Clones share it.
///
/// The workers add their decisions, and one task settles them. It holds the lock no longer than a
/// worker does.
#[derive(Clone, Debug)]
pub struct Comparison(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ledger: Mutex<Ledger>,
    origin: Instant,
}

impl Comparison {
    /// A comparison without predictions. What is not done after the grace period is a
    /// disagreement.
    pub fn new(grace: Duration) -> Self {
        record::comparison_zeros();
        Self(Arc::new(Inner {
            ledger: Mutex::new(Ledger::new(grace, PENDING_AT_MOST)),
            origin: Instant::now(),
        }))
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // What a panic leaves half done is one prediction too many or too few.
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the ledger and updates the metrics.
    fn update<R>(&self, change: impl FnOnce(&mut Ledger, (Duration, SystemTime)) -> R) -> R {
        let now = (self.0.origin.elapsed(), SystemTime::now());
        let mut ledger = self.ledger();
        let result = change(&mut ledger, now);
        record::comparisons_pending(ledger.pending());
        result
    }

    /// Records what a look at an object leads to.
    fn note(&self, subject: &Subject, next: Next) {
        let Next::Settled(result) = next else { return };
        let action: &str = (&subject.action).into();
        record::comparison(action, result.into());
        if result != ComparisonResult::Disagreed {
            return;
        }
        let found =
            self.ledger().disagreements().find(|disagreement| *disagreement.subject == *subject).cloned();
        let Some(Disagreement { decision, predicted, .. }) = found else { return };
        tracing::warn!(
            object = Structured::object(&subject.object).logged(),
            action,
            policy = decision.policy.map(tracing::field::display),
            detail = detail(&subject.action),
            owners = LoggedOwners::field(decision.owners, decision.more_owners)
                .as_ref()
                .map(Structured::logged),
            predicted = %Timestamp(predicted),
            "disagreement: the other collector has not done this within comparison.grace, and kube-gc still would"
        );
    }

    /// How many predictions the other collector fulfilled, and how many it did not.
    pub fn compared(&self) -> (u64, u64) {
        let tally = self.ledger().tally();
        (tally.agreed, tally.disagreed)
    }

    /// The disagreements, newest first, with what the graph shows of each object now.
    pub async fn disagreements(&self, graph: &GraphHandle) -> Vec<DisagreementView> {
        let disagreements: Vec<Disagreement> = self.ledger().disagreements().cloned().collect();
        let keys: Vec<_> =
            disagreements.iter().map(|disagreement| disagreement.subject.object.key()).collect();
        let shown = graph.show(&keys).await.unwrap_or_else(|_| vec![None; keys.len()]);
        let each = disagreements.into_iter().zip(&shown);
        each.map(|(Disagreement { subject, decision, predicted, found }, shown)| DisagreementView {
            object: PrintedObject::from(&subject.object),
            action: (&subject.action).into(),
            policy: decision.policy.map(|policy| policy.to_string()),
            detail: detail(&subject.action),
            owners: decision.owners,
            more_owners: decision.more_owners,
            predicted: Timestamp(predicted),
            found: Timestamp(found),
            now: state(shown.as_ref()),
        })
        .collect()
    }
}

/// A decision of a dry run that nobody else has carried out, on `/debug/decisions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DisagreementView {
    pub object: PrintedObject,
    /// The action that the dry run decided.
    pub action: &'static str,
    /// The propagation policy; `null` unless the action is a deletion.
    pub policy: Option<String>,
    /// The owner references or the finalizer to remove; `null` if there are none.
    pub detail: Option<String>,
    /// The owners of the object, each with its state at the decision; at most 16.
    pub owners: Vec<JudgedOwner>,
    /// The number of further owners.
    #[serde(skip_serializing_if = "is_zero")]
    pub more_owners: usize,
    /// When the dry run first decided it.
    pub predicted: Timestamp,
    /// When the re-evaluation found that nobody had done it.
    pub found: Timestamp,
    /// The state of the object at the re-evaluation.
    pub now: String,
}

/// Whether a count need not be shown.
pub const fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl DecisionObserver for Comparison {
    fn decided(&self, decision: &DecisionRecord) -> Occurrence {
        let (occurrence, dropped) = self.update(|ledger, now| ledger.hear(decision, now));
        if let Some(action) = dropped {
            record::comparison(action.into(), ComparisonResult::Dropped.into());
        }
        occurrence
    }
}

/// The details of an action.
fn detail(action: &PredictedAction) -> Option<String> {
    match action {
        PredictedAction::Delete | PredictedAction::StopBlocking => None,
        PredictedAction::RemoveReferences(gone) => {
            Some(format!("without {}", listed("; ", gone.count, gone.some.iter().map(PrintedReference))))
        }
        PredictedAction::Release(owner) => Some(format!("without {owner}")),
        PredictedAction::RemoveFinalizer(finalizer) => Some(format!("without {finalizer}")),
    }
}

/// Describes the state of an object.
fn state(shown: Option<&ObjectFacts>) -> String {
    let Some(ObjectFacts { being_deleted, finalizers, owners, .. }) = shown else { return "gone".to_owned() };
    let mut state = if *being_deleted { "is being deleted" } else { "lives" }.to_owned();
    for (is_there, finalizer) in [
        (finalizers.foreground, kube_gc_client::Finalizer::Foreground),
        (finalizers.orphan, kube_gc_client::Finalizer::Orphan),
    ] {
        if is_there {
            state.push_str(", with the finalizer ");
            state.push_str(finalizer.name());
        }
    }
    if owners.is_empty() {
        return state + ", without owners";
    }
    let described = owners.iter().map(|reference| {
        let blocks = if reference.block_owner_deletion { ", which it blocks" } else { "" };
        format!("{}{blocks}", PrintedReference(reference))
    });
    state + ", owned by " + &listed("; ", owners.len(), described)
}

/// Predictions that wait to be settled. Further decisions are not compared.
const PENDING_AT_MOST: usize = 100_000;

/// Objects that are looked at in one batch.
const LOOKS_AT_ONCE: usize = 4096;
/// Objects that are re-evaluated at the same time.
const DECISIONS_AT_ONCE: usize = 8;
/// How often the log has a summary, if there is news.
const SUMMARY_EVERY: Duration = Duration::from_secs(60);

/// What the comparison needs.
#[derive(Debug)]
pub struct ComparisonContext {
    pub graph: GraphHandle,
    /// Which types are synced.
    pub registry: Registry,
    /// Whether the state of the graph can be trusted.
    pub phase: watch::Receiver<Phase>,
    /// What the delete pool does to re-evaluate a key.
    pub delete: Arc<DeleteWork>,
    /// What the orphan pool does.
    pub orphan: Arc<OrphanWork>,
}

/// Settles predictions until the end of the process. To be run as a task.
pub async fn compare(comparison: Comparison, context: ComparisonContext) {
    let (pause, mut told) = (comparison.ledger().pause(), (Tally::default(), Instant::now()));
    loop {
        sleep(pause).await;
        if *context.phase.borrow() != Phase::Collecting {
            continue;
        }
        if let Err(error) = look(&comparison, &context).await {
            // The process is about to end.
            tracing::debug!(%error, "the comparison stops, because the process is shutting down");
            return;
        }
        if told.1.elapsed() >= SUMMARY_EVERY {
            let (tally, pending) = comparison.update(|ledger, _| (ledger.tally(), ledger.pending()));
            if tally != told.0 {
                let Tally { agreed, disagreed, overtaken, dropped } = tally;
                tracing::info!(
                    agreed,
                    disagreed,
                    overtaken,
                    dropped,
                    pending,
                    "comparison with the other collector"
                );
            }
            told = (tally, Instant::now());
        }
    }
}

async fn look(comparison: &Comparison, context: &ComparisonContext) -> Result<(), PartitionEnded> {
    let subjects = comparison.ledger().subjects();
    // One decision may settle many predictions: the decision on an owner releases all its
    // dependents.
    let mut afresh: HashMap<(Queue, Key), Vec<Arc<Subject>>> = HashMap::new();
    for some in subjects.chunks(LOOKS_AT_ONCE) {
        for (subject, next) in judge(comparison, context, some.to_vec(), None).await? {
            if next == Next::Decide {
                afresh.entry(subject.decided_by()).or_default().push(subject);
            }
        }
    }
    let decisions = afresh
        .into_iter()
        .map(|((queue, key), subjects)| async move { (decide(context, queue, key).await, subjects) });
    let mut decisions = stream::iter(decisions).buffer_unordered(DECISIONS_AT_ONCE);
    while let Some((was_made, subjects)) = decisions.next().await {
        judge(comparison, context, subjects, Some(was_made)).await?;
    }
    Ok(())
}

/// Looks at these objects, and records what follows.
async fn judge(
    comparison: &Comparison,
    context: &ComparisonContext,
    subjects: Vec<Arc<Subject>>,
    decided: Option<bool>,
) -> Result<Vec<(Arc<Subject>, Next)>, PartitionEnded> {
    let keys: Vec<_> = subjects.iter().map(|subject| subject.object.key()).collect();
    let shown = context.graph.show(&keys).await?;
    let each = subjects.into_iter().zip(shown);
    Ok(each
        .map(|(subject, shown)| {
            // Asked after the graph, because a graph that was emptied had its monitors stopped
            // before. The objects of a type that is no longer served are gone with it.
            let resource = &subject.object.resource.group_resource;
            let is_clear = shown.is_some()
                || context.registry.is_synced(resource)
                || !context.registry.is_monitored(resource);
            let seen = if is_clear { ObjectState::Known(shown) } else { ObjectState::Unknown };
            let next = comparison.update(|ledger, now| ledger.looked(&subject, &seen, decided, now));
            comparison.note(&subject, next);
            (subject, next)
        })
        .collect())
}

/// Re-evaluates a key now. The decision is observed as any other. False if there is no result yet.
async fn decide(context: &ComparisonContext, queue: Queue, key: Key) -> bool {
    let (delete, orphan) = (Arc::clone(&context.delete), Arc::clone(&context.orphan));
    // A task of its own, so that a panic counts as a failure.
    let outcome = task(async move {
        match queue {
            Queue::AttemptToOrphan => orphan.work(key, WorkerSlot::none()).await,
            _ => delete.work(key, WorkerSlot::none()).await,
        }
    });
    outcome.await.is_ok_and(|outcome| was_made(&outcome))
}

/// Whether the object was decided on, as a parked one was.
const fn was_made(outcome: &Outcome) -> bool {
    match outcome {
        Completion::Done | Completion::Later { wait: Wait::Woken(_), .. } => true,
        Completion::Later { wait: Wait::Backoff, reason, .. } => reason.is_parked(),
        Completion::Again | Completion::Later { .. } => false,
    }
}
