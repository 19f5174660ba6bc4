//! Records decisions: a count for each, and a line in the log for each or for many.

mod observer;
mod summaries;

use std::fmt::Display;
use std::sync::Arc;

use tokio::time::Instant;
use tracing::Level;

use crate::api::{Api, ApiError, Effect, ErrorClass, Finalizer};
use crate::telemetry::{Structured, record};
use crate::worker::classified::Classified;
use crate::worker::interrupted::Interrupted;
use crate::worker::repeats::{LineAction, Repeats};
use kube_gc_core::graph::ObjectSnapshot;
use kube_gc_core::object::{Identity, OwnerReference, PropagationPolicy};
use kube_gc_core::text::{bounded, word};
use kube_gc_core::verdict::ReferenceClass;

use self::summaries::{Counted, Subject};

pub use self::observer::{
    DecisionObserver, DecisionRecord, Ended, Fingerprint, JudgedOwner, LoggedOwners, Occurrence,
    ReferenceDigest, RemovedReferences,
};
pub use self::summaries::{DecisionLines, LoggedAs, Summaries};

/// Records decisions in the log, in the metrics, and with whoever observes them.
#[derive(Clone, Debug)]
pub struct DecisionRecorder {
    /// Whether this is a dry run, and whether an outage has been logged already.
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
    /// The propagation policy.
    pub(super) policy: Option<PropagationPolicy>,
    /// The finalizer that it is about.
    pub(super) finalizer: Option<Finalizer>,
    /// The owners as they were classified.
    pub(super) owners: Option<(&'a ObjectSnapshot, &'a [Classified])>,
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
            owner: None,
            without: None,
            recorder,
            dry_run: recorder.api.gate().is_dry_run(),
        }
    }

    /// The write was answered. Returns how the log shows the decision.
    pub fn finish(&self, result: &Result<impl Ended, ApiError>) -> LoggedAs {
        match result {
            Ok(ended) => self.write(ended.word(), self.without.as_ref().map(|what| what as &dyn Display)),
            Err(error) => self.failed(error),
        }
    }

    /// The write took effect, or turned out to be unnecessary.
    pub fn done(&self, ended: &impl Ended) {
        self.write(ended.word(), None);
    }

    /// The worker stopped before the write was answered.
    pub fn interrupted(&self, why: &Interrupted) {
        match why {
            Interrupted::Api(error) => {
                self.failed(error);
            }
            // The process is about to end.
            Interrupted::Graph(error) => {
                self.write("deferred", Some(error));
            }
            Interrupted::Changed(reason) => {
                // Not a failure, and nothing was written. The next decision has its own line.
                record::decision(self.action, "reevaluated", &self.object.resource.group_resource);
                tracing::debug!(
                    object = self.logged_object().logged(),
                    action = self.action,
                    %reason,
                    "decision dropped; the object is re-evaluated"
                );
            }
            Interrupted::Braked(reason) => self.braked(reason),
        }
    }

    /// The object waits until something else changes.
    pub fn parked(&self, reason: &dyn Display) {
        record::decision(self.action, "parked", &self.object.resource.group_resource);
        self.observed("parked", Some(reason));
        // An outage fails every lookup at that moment, so a few lines stand for all.
        let is_unanswered =
            self.owners.is_some_and(|(_, classified)| classified.iter().any(|owner| owner.is_unanswered));
        if is_unanswered && !self.recorder.api.may_log_unanswered() {
            tracing::debug!(
                object = self.logged_object().logged(),
                action = self.action,
                error = %reason,
                "object is parked"
            );
            return;
        }
        let owners = self.logged_owners();
        let shown_owners = owners.as_ref().map(ToString::to_string).unwrap_or_default();
        let action = self.action;
        match self.line_action(&format!("{action} {shown_owners} {reason}")) {
            LineAction::Write { repeated } => {
                tracing::warn!(
                    object = self.logged_object().logged(),
                    action,
                    owners = owners.as_ref().map(Structured::logged),
                    outcome = "parked",
                    error = %reason,
                    repeated,
                    "decision"
                );
            }
            LineAction::Suppress => {
                tracing::trace!(
                    object = self.logged_object().logged(),
                    action,
                    outcome = "parked",
                    error = %reason,
                    "decision is the same as before"
                );
            }
        }
    }

    /// Whether to log a line that says this about the object.
    fn line_action(&self, line: &str) -> LineAction {
        self.recorder.repeats.check(&self.object.key(), line, Instant::now())
    }

    fn logged_object(&self) -> Structured {
        Structured::object(self.object)
    }

    /// The owners that it rests on.
    fn logged_owners(&self) -> Option<Structured> {
        let (owners, more) = self.judged_owners();
        LoggedOwners::field(owners, more)
    }

    /// The first owners that it rests on, and the number of the others.
    fn judged_owners(&self) -> (Vec<JudgedOwner>, usize) {
        self.owners.map_or_else(Default::default, |(item, classified)| {
            let owners = JudgedOwner::first_of(item, classified);
            let more = item.references.len() - owners.len();
            (owners, more)
        })
    }

    /// The brake is engaged. One warning stands for all objects.
    fn braked(&self, reason: &str) {
        record::decision(self.action, "braked", &self.object.resource.group_resource);
        self.observed("braked", Some(&reason));
        tracing::debug!(
            object = self.logged_object().logged(),
            action = self.action,
            reason,
            "held by the brake"
        );
    }

    /// The request was not sent, for a reason that is not the object's own. One line elsewhere
    /// stands for all objects.
    pub fn deferred(&self, reason: &dyn Display) {
        record::decision(self.action, "deferred", &self.object.resource.group_resource);
        tracing::debug!(
            object = self.logged_object().logged(),
            action = self.action,
            %reason,
            "request is deferred"
        );
    }

    fn failed(&self, error: &ApiError) -> LoggedAs {
        let effect = error.effect();
        // An outage, or one broken connection, fails every request that is in flight.
        let is_shared_cause = error.is_unanswered() || effect == Effect::NotSent;
        let outcome = match error.class {
            ErrorClass::DryRun => return self.write("dry_run", None),
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
        let is_one_of_many = is_shared_cause && !self.recorder.api.may_log_unanswered();
        self.log(outcome, Some(error), is_one_of_many)
    }

    fn write(&self, outcome: &'static str, error: Option<&dyn Display>) -> LoggedAs {
        self.log(outcome, error, false)
    }

    fn log(&self, outcome: &'static str, error: Option<&dyn Display>, is_one_of_many: bool) -> LoggedAs {
        record::decision(self.action, outcome, &self.object.resource.group_resource);
        let heard = self.observed(outcome, error);
        let mut repeated = None;
        /// The fields of the line, the same at each level.
        macro_rules! decision {
            ($level:expr) => {
                tracing::event!(
                    $level,
                    object = self.logged_object().logged(),
                    action = self.action,
                    policy = self.policy.map(tracing::field::display),
                    finalizer = self.finalizer.map(Finalizer::name),
                    owners = self.logged_owners().as_ref().map(Structured::logged),
                    owner = self.owner.map(Structured::other_object).as_ref().map(Structured::logged),
                    outcome,
                    error = error.map(tracing::field::display),
                    repeated,
                    "decision"
                )
            };
        }
        if error.is_none() {
            repeated = self.recorder.repeats.succeeded(&self.object.key());
        }
        let shown = match error {
            // A dry run decides again to compare itself with another collector.
            None if heard == Occurrence::Repeated => LoggedAs::Hidden,
            None if tracing::enabled!(Level::INFO) => {
                self.recorder.summaries.add(|| (self.subject(), self.counted(outcome)))
            }
            // In a dry run the other collector is expected to be faster.
            Some(_) if self.dry_run && outcome == "conflict" || is_one_of_many => LoggedAs::Hidden,
            // What fails is tried again and again.
            Some(error) => match self.line_action(&format!("{} {outcome} {error}", self.action)) {
                LineAction::Write { repeated: before } => {
                    repeated = before;
                    decision!(Level::WARN);
                    return LoggedAs::Line;
                }
                LineAction::Suppress => LoggedAs::Hidden,
            },
            None => LoggedAs::Hidden,
        };
        match shown {
            LoggedAs::Line => decision!(Level::INFO),
            LoggedAs::Summary | LoggedAs::FirstSummary | LoggedAs::Hidden => decision!(Level::DEBUG),
        }
        shown
    }

    fn counted(&self, outcome: &'static str) -> Counted {
        Counted { action: self.action, resource: Arc::clone(&self.object.resource), outcome }
    }

    /// The owner whose deletion led to the decision. For the last step of an object's own deletion,
    /// it is that object.
    fn subject(&self) -> Subject {
        let named = self.owners.and_then(|(item, classified)| {
            let mut each = item.references.iter().zip(classified);
            let is_cause = |owner: &Classified| {
                use ReferenceClass::{Absent, Orphaned, Waiting};
                matches!(owner.class, Absent | Waiting | Orphaned)
            };
            let first = each.clone().next();
            let (seen, owner) = each.find(|(_, owner)| is_cause(owner)).or(first)?;
            Some(JudgedOwner::of(&seen.reference, owner).reference)
        });
        let owner = named.unwrap_or_else(|| reference_to(self.owner.unwrap_or(self.object)));
        let owner = OwnerReference { controller: false, block_owner_deletion: false, ..owner };
        Subject { namespace: self.object.namespace.clone(), owner }
    }

    fn observed(&self, outcome: &'static str, error: Option<&dyn Display>) -> Occurrence {
        let mut heard = Occurrence::First;
        if !self.recorder.observers.is_empty() {
            let (owners, more_owners) = self.judged_owners();
            let decision = DecisionRecord {
                object: self.object.clone(),
                action: self.action,
                policy: self.policy,
                finalizer: self.finalizer,
                owners,
                more_owners,
                basis: self.owners.filter(|_| self.dry_run).map(|(item, classified)| {
                    let each = item.references.iter().zip(classified);
                    ReferenceDigest::of(each.map(|(seen, owner)| (&seen.reference, owner.class)))
                }),
                owner: self.owner.cloned(),
                outcome,
                error: error.map(bounded),
            };
            for observer in &*self.recorder.observers {
                if observer.decided(&decision) == Occurrence::Repeated {
                    heard = Occurrence::Repeated;
                }
            }
        }
        heard
    }
}

/// An object in the form of a reference to it.
fn reference_to(object: &Identity) -> OwnerReference {
    OwnerReference {
        api_version: object.resource.api_version().into(),
        kind: object.resource.kind.as_ref().into(),
        name: word(&object.name).to_string().into(),
        uid: object.uid.clone(),
        controller: false,
        block_owner_deletion: false,
    }
}
