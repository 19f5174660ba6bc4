//! Records decisions: a count for each, and a line in the log for each or for many.

mod observer;
mod summaries;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::sync::Arc;

use tokio::time::Instant;
use tracing::{Level, field};

use crate::worker::classified::Classified;
use crate::worker::interrupted::Interrupted;
use crate::worker::repeats::Repeats;
use kube_gc_client::{Api, ApiError, Effect, ErrorClass, Finalizer};
use kube_gc_core::graph::ObjectSnapshot;
use kube_gc_core::object::{Identity, OwnerReference, PropagationPolicy};
use kube_gc_core::text::bounded;
use kube_gc_core::verdict::ReferenceClass;
use kube_gc_observe::telemetry::{Structured, record};

use self::summaries::{Counted, Group};

pub use self::observer::{
    DecisionObserver, DecisionRecord, Ended, JudgedOwner, LoggedOwners, Occurrence, RemovedReferences,
};
pub use self::summaries::{LoggedAs, Summaries};

/// Records decisions in the log, in the metrics, and with whoever observes them.
#[derive(Clone, Debug)]
pub struct DecisionRecorder {
    /// Says whether this is a dry run.
    api: Api,
    observers: Arc<[Arc<dyn DecisionObserver>]>,
    repeats: Arc<Repeats>,
    summaries: Summaries,
}

impl DecisionRecorder {
    /// A recorder for these observers, with these summaries in the log.
    pub fn new(api: Api, observers: Vec<Arc<dyn DecisionObserver>>, summaries: Summaries) -> Self {
        Self { api, observers: observers.into(), repeats: Arc::default(), summaries }
    }
}

/// A decision from the moment when it is made to the moment when its write is answered. It is
/// logged then: object, owners with their class and evidence, action, policy, outcome.
#[derive(Debug)]
pub struct DecisionLine<'a> {
    pub(super) object: &'a Identity,
    pub(super) action: &'static str,
    pub(super) policy: Option<PropagationPolicy>,
    /// The finalizer that it is about.
    pub(super) finalizer: Option<Finalizer>,
    /// The owners as they were classified.
    pub(super) owners: Option<(&'a ObjectSnapshot, &'a [Classified])>,
    /// The indices of the references that it is to lose.
    pub(super) remove: &'a [usize],
    /// The owner that orphans the object.
    pub(super) owner: Option<&'a Identity>,
    /// What the decision could not take into account. If the write takes effect, the line has this
    /// in place of an error.
    pub(super) without: Option<&'a str>,
    pub(super) recorder: &'a DecisionRecorder,
    pub(super) dry_run: bool,
}

impl<'a> DecisionLine<'a> {
    /// Begins the line of a decision about an object.
    pub fn new(recorder: &'a DecisionRecorder, object: &'a Identity, action: &'static str) -> Self {
        Self {
            object,
            action,
            policy: None,
            finalizer: None,
            owners: None,
            remove: &[],
            owner: None,
            without: None,
            recorder,
            dry_run: recorder.api.gate().is_dry_run(),
        }
    }

    /// The write was answered, or the worker stopped before. Returns how the log shows the decision.
    pub fn finish<E: Clone + Into<Interrupted>>(&self, result: &Result<impl Ended, E>) -> LoggedAs {
        let error = match result {
            Ok(ended) => {
                let without = self.without.as_ref().map(|what| what as &dyn Display);
                return self.ended(ended.word(self.finalizer), without, Cause::Own);
            }
            Err(error) => error.clone().into(),
        };
        match error {
            Interrupted::Api(error) => return self.failed(&error),
            // The process is about to end.
            Interrupted::Graph(error) => return self.ended("deferred", Some(&error), Cause::Own),
            // Not a failure, and nothing was written. The next decision has its own line.
            Interrupted::Changed(reason) => {
                self.set_aside("reevaluated", &reason, "decision dropped; the object is re-evaluated");
            }
            // One warning stands for all objects.
            Interrupted::Braked(reason) => {
                self.observed(&self.record("braked", Some(&reason)));
                self.set_aside("braked", &reason, "held by the brake");
            }
        }
        LoggedAs::Hidden
    }

    /// The request was not sent, for a reason that is not the object's own. One line elsewhere
    /// stands for all objects.
    pub fn deferred(&self, reason: &dyn Display) {
        self.set_aside("deferred", reason, "request is deferred");
    }

    fn set_aside(&self, outcome: &'static str, reason: &dyn Display, message: &'static str) {
        record::decision(self.action, outcome, &self.object.resource.group_resource);
        let object = Structured::object(self.object);
        tracing::debug!(object = object.logged(), action = self.action, %reason, "{message}");
    }

    /// The object waits until something else changes.
    pub fn parked(&self, reason: &dyn Display) {
        let failures = self
            .owners
            .into_iter()
            .flat_map(|(_, classified)| classified)
            .filter_map(|owner| owner.failure.as_ref());
        let is_unanswered = failures.into_iter().any(|error| error.is_unanswered());
        self.ended("parked", Some(reason), if is_unanswered { Cause::Shared } else { Cause::Own });
    }

    fn failed(&self, error: &ApiError) -> LoggedAs {
        let effect = error.effect();
        let outcome = match error.class {
            ErrorClass::DryRun => return self.ended("dry_run", None, Cause::Own),
            ErrorClass::Deferred { .. } => {
                self.deferred(error);
                return LoggedAs::Hidden;
            }
            ErrorClass::Denied => {
                record::denied_write(self.action, &self.object.resource.group_resource);
                "denied"
            }
            ErrorClass::Conflict => "conflict",
            ErrorClass::Throttled { .. } => "throttled",
            _ => match effect {
                Effect::NotSent => "deferred",
                Effect::Unknown => "unknown",
                Effect::None => "failed",
            },
        };
        let cause = match error.class {
            // In a dry run the other collector is expected to be faster.
            ErrorClass::Conflict if self.dry_run => Cause::Expected,
            _ if error.is_unanswered() || effect == Effect::NotSent => Cause::Shared,
            _ => Cause::Own,
        };
        self.ended(outcome, Some(error), cause)
    }

    /// Counts the decision, shows it to the observers, and logs it.
    fn ended(&self, outcome: &'static str, error: Option<&dyn Display>, cause: Cause) -> LoggedAs {
        record::decision(self.action, outcome, &self.object.resource.group_resource);
        let decision = self.record(outcome, error);
        let is_known = self.observed(&decision) == Occurrence::Repeated;
        let DecisionRecord { owners, more_owners, error, .. } = &decision;
        let owners = LoggedOwners::field(owners.clone(), *more_owners);
        let (repeats, key) = (&self.recorder.repeats, self.object.key());
        let (level, shown, repeated) = match error {
            None => {
                let repeated = repeats.succeeded(&key);
                // A dry run decides again to compare itself with another collector.
                let shown = if is_known || !tracing::enabled!(Level::INFO) {
                    LoggedAs::Hidden
                } else {
                    self.recorder.summaries.add(|| (self.group(), self.counted(outcome)))
                };
                (Level::INFO, shown, repeated)
            }
            Some(_) if cause == Cause::Expected => (Level::WARN, LoggedAs::Hidden, 0),
            // What fails is tried again and again.
            Some(error) => {
                let owners = owners.as_ref().map(ToString::to_string).unwrap_or_default();
                let text = format!("{} {outcome} {owners} {error}", self.action);
                match repeats.check(&key, &text, cause == Cause::Shared, Instant::now()) {
                    Some(repeated) => (Level::WARN, LoggedAs::Line, repeated),
                    None => (Level::WARN, LoggedAs::Hidden, 0),
                }
            }
        };
        /// The fields of the line, the same at each level.
        macro_rules! decision {
            ($level:expr) => {
                tracing::event!(
                    $level,
                    object = Structured::object(self.object).logged(),
                    action = self.action,
                    policy = self.policy.map(field::display),
                    finalizer = self.finalizer.map(Finalizer::name),
                    owners = owners.as_ref().map(Structured::logged),
                    owner = self.owner.map(Structured::other_object).as_ref().map(Structured::logged),
                    outcome,
                    error = error.as_ref().map(field::display),
                    repeated = (repeated > 0).then_some(repeated),
                    "decision"
                )
            };
        }
        match (shown, level) {
            (LoggedAs::Line, Level::WARN) => decision!(Level::WARN),
            (LoggedAs::Line, _) => decision!(Level::INFO),
            (LoggedAs::Summary | LoggedAs::Hidden, _) => decision!(Level::DEBUG),
        }
        shown
    }

    fn counted(&self, outcome: &'static str) -> Counted {
        Counted { action: self.action, resource: self.object.resource.group_resource.clone(), outcome }
    }

    /// The owner whose deletion led to the decision. For the last step of an object's own deletion,
    /// it is that object.
    fn group(&self) -> Group {
        let named = self.owners.and_then(|(item, classified)| {
            let mut each = item.references.iter().zip(classified);
            let is_cause = |owner: &Classified| {
                use ReferenceClass::{Absent, Orphaned, Waiting};
                matches!(owner.class, Absent | Waiting | Orphaned)
            };
            let first = each.clone().next();
            let (seen, _) = each.find(|(_, owner)| is_cause(owner)).or(first)?;
            Some(seen.reference.clone().shortened())
        });
        let owner = named.unwrap_or_else(|| self.owner.unwrap_or(self.object).reference().shortened());
        let owner = OwnerReference { controller: false, block_owner_deletion: false, ..owner };
        Group { namespace: self.object.namespace.clone(), owner }
    }

    /// Shows the decision to all observers.
    fn observed(&self, decision: &DecisionRecord) -> Occurrence {
        self.recorder.observers.iter().fold(Occurrence::First, |before, observer| {
            match observer.decided(decision) {
                Occurrence::First => before,
                Occurrence::Repeated => Occurrence::Repeated,
            }
        })
    }

    fn record(&self, outcome: &'static str, error: Option<&dyn Display>) -> DecisionRecord {
        let owners = self.owners.map(|(item, classified)| JudgedOwner::first_of(item, classified));
        let owners = owners.unwrap_or_default();
        let named = self.owners.map_or(0, |(item, _)| item.references.len());
        let is_prediction = self.dry_run && !self.remove.is_empty();
        let removed = self.owners.filter(|_| is_prediction).map(|(item, _)| {
            RemovedReferences::of(item.references.iter().map(|seen| &seen.reference), self.remove)
        });
        DecisionRecord {
            object: self.object.clone(),
            action: self.action,
            policy: self.policy,
            finalizer: self.finalizer,
            more_owners: named - owners.len(),
            owners,
            removed,
            owner: self.owner.cloned(),
            outcome,
            error: error.map(bounded),
        }
    }
}

/// Why a decision was not carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// Something about the object.
    Own,
    /// An outage, or one broken connection, which fails every request that is in flight.
    Shared,
    /// Another collector, in a dry run.
    Expected,
}
