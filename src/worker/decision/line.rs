//! The log line of one decision.

use std::fmt::{self, Display};
use std::sync::Arc;

use tokio::time::Instant;

use super::ended::Ended;
use super::record::{DecisionObserver, DecisionRecord, JudgedOwner};
use crate::api::{Api, ApiError, ErrorClass, Finalizer};
use crate::telemetry::record;
use crate::worker::classified::Classified;
use crate::worker::event_recorder::Written;
use crate::worker::interrupted::Interrupted;
use crate::worker::reference_digest::ReferenceDigest;
use crate::worker::repeats::Repeats;
use kube_gc_core::graph::ObjectSnapshot;
use kube_gc_core::object::{Identity, OwnerReference, PropagationPolicy};
use kube_gc_core::text::{bounded, listed};

/// Records decisions in the log, in the metrics, and with whoever observes them.
#[derive(Clone, Debug)]
pub struct DecisionRecorder {
    /// Whether this is a dry run, and whether an outage has been logged already.
    api: Api,
    observers: Arc<[Arc<dyn DecisionObserver>]>,
    repeats: Arc<Repeats>,
}

impl DecisionRecorder {
    /// A recorder for these observers.
    #[must_use]
    pub fn new(api: Api, observers: Vec<Arc<dyn DecisionObserver>>) -> Self {
        Self { api, observers: observers.into(), repeats: Arc::default() }
    }
}

/// A reference and the class of its owner, for the log.
struct Judgement<'a>(&'a OwnerReference, &'a Classified);

impl Display for Judgement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {} ({})", Written(self.0), self.1.class, self.1.evidence)
    }
}

/// A decision from the moment when it is made to the moment when its write is answered. It is
/// logged then: object, owners with their class and evidence, action, policy, outcome.
#[derive(Debug)]
pub struct DecisionLine<'a> {
    object: &'a Identity,
    action: &'static str,
    policy: Option<PropagationPolicy>,
    finalizer: Option<Finalizer>,
    owners: Option<(&'a ObjectSnapshot, &'a [Classified])>,
    owner: Option<&'a Identity>,
    recorder: &'a DecisionRecorder,
    dry_run: bool,
}

impl<'a> DecisionLine<'a> {
    /// Begins the line of a decision about an object.
    #[must_use]
    pub fn new(recorder: &'a DecisionRecorder, object: &'a Identity, action: &'static str) -> Self {
        Self {
            object,
            action,
            policy: None,
            finalizer: None,
            owners: None,
            owner: None,
            recorder,
            dry_run: recorder.api.gate().is_dry_run(),
        }
    }

    /// With a propagation policy.
    #[must_use]
    pub const fn policy(mut self, policy: PropagationPolicy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// With the finalizer that it is about.
    #[must_use]
    pub const fn finalizer(mut self, finalizer: Finalizer) -> Self {
        self.finalizer = Some(finalizer);
        self
    }

    /// With the owners as they were classified.
    #[must_use]
    pub const fn owners(mut self, item: &'a ObjectSnapshot, classified: &'a [Classified]) -> Self {
        self.owners = Some((item, classified));
        self
    }

    /// With the owner that orphans the object.
    #[must_use]
    pub const fn owner(mut self, owner: &'a Identity) -> Self {
        self.owner = Some(owner);
        self
    }

    /// The write was answered.
    pub fn finish(&self, result: &Result<impl Ended, ApiError>) {
        match result {
            Ok(ended) => self.done(ended),
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
            Interrupted::Api(error) => self.failed(error),
            Interrupted::Graph(error) => self.write("failed", Some(error)),
            Interrupted::Changed(what) => {
                // Not a failure, and nothing was written. The next decision has its own line.
                record::decision(self.action, "decided_afresh", &self.object.resource.group_resource);
                tracing::debug!(object = %self.object, action = self.action, %what, "decided afresh");
            }
            Interrupted::Braked(why) => self.braked(why),
        }
    }

    /// The object waits until something else changes.
    pub fn parked(&self, reason: &dyn Display) {
        record::decision(self.action, "parked", &self.object.resource.group_resource);
        self.observed("parked", Some(reason));
        // An outage fails every look-up of the moment: a few lines speak for all.
        let is_unanswered =
            self.owners.is_some_and(|(_, classified)| classified.iter().any(|owner| owner.is_unanswered));
        if is_unanswered && !self.recorder.api.may_log_unanswered() {
            tracing::debug!(object = %self.object, action = self.action, error = %reason, "parked");
            return;
        }
        let owners = self.shown_owners();
        let Self { object, action, .. } = self;
        let line = format!("{action} {owners} {reason}");
        match self.recorder.repeats.news(&object.key(), &line, Instant::now()) {
            Some(repeated) => {
                let repeated = (repeated > 0).then_some(repeated);
                let owners = (!owners.is_empty()).then_some(owners);
                tracing::warn!(%object, action, owners, outcome = "parked", error = %reason, repeated, "decision");
            }
            None => {
                tracing::trace!(%object, action, outcome = "parked", error = %reason, "the same decision");
            }
        }
    }

    /// The owners that it rests on, for the log.
    fn shown_owners(&self) -> String {
        match (self.owners, self.owner) {
            (Some((item, classified)), _) => {
                let each = item.references.iter().zip(classified);
                listed(
                    "; ",
                    item.references.len(),
                    each.map(|(seen, owner)| Judgement(&seen.reference, owner)),
                )
            }
            (None, Some(owner)) => owner.to_string(),
            (None, None) => String::new(),
        }
    }

    /// The brake is engaged. One warning has said so for all objects.
    fn braked(&self, why: &str) {
        record::decision(self.action, "braked", &self.object.resource.group_resource);
        self.observed("braked", Some(&why));
        tracing::debug!(object = %self.object, action = self.action, why, "held by the brake");
    }

    /// The request was not sent, for a reason that is not the object's own. One line elsewhere
    /// speaks for all objects.
    pub fn deferred(&self, why: &dyn Display) {
        record::decision(self.action, "deferred", &self.object.resource.group_resource);
        tracing::debug!(object = %self.object, action = self.action, %why, "deferred");
    }

    fn failed(&self, error: &ApiError) {
        let is_unsent = matches!(error.class, ErrorClass::GateClosed | ErrorClass::Fenced);
        // An outage, or one broken connection, fails every request that is in flight.
        let is_one_of_many = (error.is_unanswered() || is_unsent) && !self.recorder.api.may_log_unanswered();
        let outcome = match error.class {
            ErrorClass::DryRun => return self.write("dry_run", None),
            ErrorClass::Deferred { .. } => return self.deferred(error),
            ErrorClass::Denied => {
                record::denied_write(self.action, &self.object.resource.group_resource);
                "denied"
            }
            ErrorClass::Conflict => "conflict",
            ErrorClass::Throttled { .. } => "throttled",
            ErrorClass::GateClosed | ErrorClass::Fenced => "deferred",
            _ => "failed",
        };
        self.log(outcome, Some(error), is_one_of_many);
    }

    fn write(&self, outcome: &'static str, error: Option<&dyn Display>) {
        self.log(outcome, error, false);
    }

    fn log(&self, outcome: &'static str, error: Option<&dyn Display>, is_one_of_many: bool) {
        record::decision(self.action, outcome, &self.object.resource.group_resource);
        self.observed(outcome, error);
        let Self { object, action, policy, finalizer, .. } = self;
        let owners = self.shown_owners();
        let policy = policy.map(tracing::field::display);
        let finalizer = finalizer.map(Finalizer::name);
        let owners = (!owners.is_empty()).then_some(owners);
        match error {
            None => tracing::info!(%object, action, policy, finalizer, owners, outcome, "decision"),
            // In a dry run the other collector is expected to be faster.
            Some(error) if self.dry_run && outcome == "conflict" || is_one_of_many => {
                tracing::debug!(%object, action, policy, finalizer, owners, outcome, %error, "decision");
            }
            Some(error) => {
                tracing::warn!(%object, action, policy, finalizer, owners, outcome, %error, "decision");
            }
        }
    }

    fn observed(&self, outcome: &'static str, error: Option<&dyn Display>) {
        if !self.recorder.observers.is_empty() {
            let (owners, more_owners) = self.owners.map_or_else(Default::default, |(item, classified)| {
                let owners = JudgedOwner::first_of(item, classified);
                let more = item.references.len() - owners.len();
                (owners, more)
            });
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
                observer.decided(&decision);
            }
        }
    }
}
