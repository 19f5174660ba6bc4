//! Compares a dry run with another collector that runs beside it.
//!
//! Each decision that only the dry run kept from being carried out is a prediction. It has come
//! true when the graph shows its effect, whoever caused it. A prediction that has not come true
//! after a grace period is re-evaluated: if the decision is the same again, the two collectors
//! disagree.

mod compare;
mod ledger;
mod prediction;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;
use tokio::time::Instant;

use self::ledger::{ComparisonResult, Disagreement, Ledger, Next};
use self::prediction::{PredictedAction, Subject};
use crate::actors::graph_handle::GraphHandle;
use crate::http::{ComparisonCounts, DisagreementView, ObjectView, OwnerView, Timestamp};
use crate::telemetry::PrintedReference;
use crate::telemetry::{Structured, record};
use crate::worker::decision::{DecisionObserver, DecisionRecord, LoggedOwners, Occurrence};
use kube_gc_core::graph::ObservedObject;
use kube_gc_core::text::listed;

pub use self::compare::{ComparisonContext, Deciders, compare};

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
    heard: Notify,
}

impl Comparison {
    /// A comparison without predictions. What is not done after the grace period is a
    /// disagreement.
    #[must_use]
    pub fn new(grace: Duration) -> Self {
        record::comparison_zeros();
        let ledger = Mutex::new(Ledger::new(grace));
        Self(Arc::new(Inner { ledger, origin: Instant::now(), heard: Notify::new() }))
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        // What a panic leaves half done is one prediction too many or too few.
        self.0.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.0.origin.elapsed()
    }

    /// Changes the ledger and updates the metrics.
    fn update<R>(&self, change: impl FnOnce(&mut Ledger, Duration) -> R) -> R {
        let now = self.now();
        let mut ledger = self.ledger();
        let result = change(&mut ledger, now);
        record::comparisons_pending(ledger.pending());
        result
    }

    /// Records the result of a look at an object.
    fn note(&self, subject: &Subject, next: Next) -> Next {
        if let Next::Settled(result) = next {
            record::comparison(subject.action.word(), result.word());
            if result == ComparisonResult::Disagreed {
                self.warn(subject);
            }
        }
        next
    }

    fn warn(&self, subject: &Subject) {
        let found =
            self.ledger().disagreements().find(|disagreement| *disagreement.subject == *subject).cloned();
        let Some(disagreement) = found else { return };
        let Disagreement { grounds, .. } = &disagreement;
        tracing::warn!(
            object = Structured::object(&subject.object).logged(),
            action = subject.action.word(),
            policy = grounds.policy.map(tracing::field::display),
            detail = detail(&subject.action),
            owners = LoggedOwners::field(grounds.owners.clone(), grounds.more_owners)
                .as_ref()
                .map(Structured::logged),
            predicted = %Timestamp(grounds.at),
            "disagreement: the other collector has not done this within comparison.grace, and kube-gc still would"
        );
    }

    /// How many predictions the other collector fulfilled, and how many it did not.
    #[must_use]
    pub fn compared(&self) -> ComparisonCounts {
        let tally = self.ledger().tally();
        ComparisonCounts { agreed: tally.agreed, disagreed: tally.disagreed }
    }

    /// The disagreements, newest first, with what the graph shows of each object now.
    pub async fn disagreements(&self, graph: &GraphHandle) -> Vec<DisagreementView> {
        let disagreements: Vec<Disagreement> = self.ledger().disagreements().cloned().collect();
        let keys: Vec<_> =
            disagreements.iter().map(|disagreement| disagreement.subject.object.key()).collect();
        let shown = graph.show(&keys).await.unwrap_or_else(|_| vec![None; keys.len()]);
        let each = disagreements.iter().zip(&shown);
        each.map(|(disagreement, shown)| DisagreementView {
            object: ObjectView::from(&disagreement.subject.object),
            action: disagreement.subject.action.word(),
            policy: disagreement.grounds.policy.map(|policy| policy.to_string()),
            detail: detail(&disagreement.subject.action),
            owners: disagreement.grounds.owners.iter().map(OwnerView::from).collect(),
            more_owners: disagreement.grounds.more_owners,
            predicted: Timestamp(disagreement.grounds.at),
            found: Timestamp(disagreement.at),
            now: state(shown.as_ref()),
        })
        .collect()
    }
}

impl DecisionObserver for Comparison {
    fn decided(&self, decision: &DecisionRecord) -> Occurrence {
        let at = SystemTime::now();
        let (heard, result) = self.update(|ledger, now| {
            let heard = if ledger.knows(decision) { Occurrence::Repeated } else { Occurrence::First };
            (heard, ledger.hear(decision, now, at))
        });
        if let Some((action, result)) = result {
            record::comparison(action.word(), result.word());
        }
        self.0.heard.notify_one();
        heard
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
fn state(shown: Option<&ObservedObject>) -> String {
    let Some(ObservedObject { deletion, finalizers, references }) = shown else { return "gone".to_owned() };
    let mut state = if deletion.is_being_deleted() { "is being deleted" } else { "lives" }.to_owned();
    for (is_there, finalizer) in [
        (finalizers.foreground, crate::api::Finalizer::Foreground),
        (finalizers.orphan, crate::api::Finalizer::Orphan),
    ] {
        if is_there {
            state.push_str(", with the finalizer ");
            state.push_str(finalizer.name());
        }
    }
    if references.is_empty() {
        return state + ", without owners";
    }
    let owners = references.iter().map(|reference| {
        let blocks = if reference.block_owner_deletion { ", which it blocks" } else { "" };
        format!("{}{blocks}", PrintedReference(reference))
    });
    state + ", owned by " + &listed("; ", references.len(), owners)
}
