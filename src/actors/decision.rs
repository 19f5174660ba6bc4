//! One log line and one count for each decision.

use std::fmt::{Debug, Display, Write};
use std::sync::Arc;

use super::context::{Interrupted, WorkerContext};
use super::delete::{Classified, Dropped, Evidence};
use super::reporter::Written;
use crate::api::{Api, ApiError, Deleted, ErrorClass, Finalizer, FinalizerRemoval, Patched};
use crate::graph::ObjectSnapshot;
use crate::object::{Identity, OwnerReference, PropagationPolicy};
use crate::telemetry::record;
use crate::verdict::ReferenceClass;

/// Hears of every decision when it has ended, next to the log.
pub trait DecisionObserver: Debug + Send + Sync {
    /// A decision has ended.
    fn decided(&self, decision: &Decision);
}

/// A decision and how it ended.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The object that it is about.
    pub object: Identity,
    /// What was to be done: `delete`, `remove_references`, `remove_finalizer`, …
    pub action: &'static str,
    /// With which propagation policy.
    pub policy: Option<PropagationPolicy>,
    /// Which finalizer it is about.
    pub finalizer: Option<Finalizer>,
    /// Every owner that the object names, and what is known of it.
    pub owners: Vec<JudgedOwner>,
    /// The one owner that it follows from.
    pub owner: Option<Identity>,
    /// How it ended, in the word of the log and the metrics.
    pub outcome: &'static str,
    /// Why it did not end well, if it did not.
    pub error: Option<String>,
}

/// What one owner reference was worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedOwner {
    /// The reference.
    pub reference: OwnerReference,
    /// What it is worth.
    pub class: ReferenceClass,
    /// How that is known.
    pub evidence: Evidence,
    /// Why it could not be found out, in the words of whoever was asked.
    pub error: Option<Arc<str>>,
}

/// How a write that was answered ended, in a word for the log and the metrics.
pub trait Ended {
    /// The word.
    fn word(&self) -> &'static str;
}

impl Ended for Deleted {
    fn word(&self) -> &'static str {
        match self {
            Self::Removed => "deleted",
            Self::Pending(_) => "deletion_pending",
            Self::AlreadyGone => "already_gone",
        }
    }
}

impl Ended for Patched {
    fn word(&self) -> &'static str {
        match self {
            Self::Changed(_) => "patched",
            Self::Unneeded(_) => "unneeded",
            Self::Gone => "already_gone",
        }
    }
}

impl Ended for FinalizerRemoval {
    fn word(&self) -> &'static str {
        match self {
            Self::Removed(_) => "removed",
            Self::NotPresent => "unneeded",
            Self::Gone => "already_gone",
            Self::NotBeingDeleted => "not_being_deleted",
        }
    }
}

/// A decision on its way from being made to having had its effect. Written to the
/// log when it ends: object, owners with their class and evidence, action,
/// policy, outcome.
#[derive(Debug)]
pub struct DecisionLine<'a> {
    object: &'a Identity,
    action: &'static str,
    policy: Option<PropagationPolicy>,
    finalizer: Option<Finalizer>,
    owners: String,
    owner: Option<&'a Identity>,
    observers: &'a [Arc<dyn DecisionObserver>],
    dry_run: bool,
    api: &'a Api,
    judged: Vec<JudgedOwner>,
}

impl<'a> DecisionLine<'a> {
    /// Begins the line of a decision about an object.
    #[must_use]
    pub fn new(context: &'a WorkerContext, object: &'a Identity, action: &'static str) -> Self {
        Self {
            object,
            action,
            policy: None,
            finalizer: None,
            owners: String::new(),
            owner: None,
            observers: &context.decisions,
            dry_run: context.api.gate().is_dry_run(),
            api: &context.api,
            judged: Vec::new(),
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
    pub fn owners(mut self, item: &ObjectSnapshot, classified: &[Classified]) -> Self {
        for (seen, owner) in item.references.iter().zip(classified) {
            let separator = if self.owners.is_empty() { "" } else { "; " };
            // Writing to a string cannot fail.
            let _ = write!(
                self.owners,
                "{separator}{} is {} ({})",
                Written(&seen.reference),
                owner.class,
                owner.evidence
            );
            if !self.observers.is_empty() {
                self.judged.push(JudgedOwner {
                    reference: seen.reference.clone(),
                    class: owner.class,
                    evidence: owner.evidence,
                    error: owner.error.clone(),
                });
            }
        }
        self
    }

    /// With the one owner that it follows from.
    #[must_use]
    pub fn owner(mut self, owner: &'a Identity) -> Self {
        self.owners = owner.to_string();
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

    /// It had its effect.
    pub fn done(&self, ended: &impl Ended) {
        self.write(ended.word(), None);
    }

    /// It is not needed any more.
    pub fn dropped(&self, why: &Dropped) {
        self.write(
            match why {
                Dropped::Gone => "already_gone",
                Dropped::BeingDeleted => "already_being_deleted",
            },
            None,
        );
    }

    /// It did not come to its end.
    pub fn interrupted(&self, why: &Interrupted) {
        match why {
            Interrupted::Api(error) => self.failed(error),
            Interrupted::Graph(error) => self.write("failed", Some(error)),
            Interrupted::Changed(what) => {
                // Nothing is wrong and nothing was done; the next line says what was.
                record::decision(self.action, "decided_afresh", &self.object.resource.group_resource);
                tracing::debug!(object = %self.object, action = self.action, %what, "decided afresh");
            }
            Interrupted::Braked(why) => self.held(why),
        }
    }

    /// Nothing can be done until something else changes.
    pub fn parked(&self, reason: &dyn Display) {
        self.write("parked", Some(reason));
    }

    /// It is put off until a person resumes. One warning has said so, for all of them.
    fn held(&self, why: &str) {
        record::decision(self.action, "braked", &self.object.resource.group_resource);
        self.observed("braked", Some(&why));
        tracing::debug!(object = %self.object, action = self.action, why, "held by the brake");
    }

    /// Its request was not sent, for no failure of its own. One line speaks for all of them.
    pub fn deferred(&self, why: &dyn Display) {
        record::decision(self.action, "deferred", &self.object.resource.group_resource);
        tracing::debug!(object = %self.object, action = self.action, %why, "deferred");
    }

    fn failed(&self, error: &ApiError) {
        let is_unanswered = error.class == ErrorClass::Transient && error.code.is_none();
        let is_unsent = matches!(error.class, ErrorClass::GateClosed | ErrorClass::Doubted);
        // An outage, or one broken connection, meets all that is under way.
        let is_one_of_many = (is_unanswered || is_unsent) && !self.api.may_log_unanswered();
        let outcome = match error.class {
            ErrorClass::DryRun => return self.write("dry_run", None),
            ErrorClass::Deferred { .. } => return self.deferred(error),
            ErrorClass::Denied => {
                record::denied_write(self.action, &self.object.resource.group_resource);
                "denied"
            }
            ErrorClass::Conflict => "conflict",
            ErrorClass::Throttled { .. } => "throttled",
            ErrorClass::GateClosed | ErrorClass::Doubted => "deferred",
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
        let Self { object, action, policy, finalizer, owners, .. } = self;
        let policy = policy.map(tracing::field::display);
        let finalizer = finalizer.map(Finalizer::name);
        let owners = (!owners.is_empty()).then_some(owners);
        match error {
            None => tracing::info!(%object, action, policy, finalizer, owners, outcome, "decision"),
            // Another collector was faster, as it should be.
            Some(error) if self.dry_run && outcome == "conflict" || is_one_of_many => {
                tracing::debug!(%object, action, policy, finalizer, owners, outcome, %error, "decision");
            }
            Some(error) => {
                tracing::warn!(%object, action, policy, finalizer, owners, outcome, %error, "decision");
            }
        }
    }

    fn observed(&self, outcome: &'static str, error: Option<&dyn Display>) {
        if !self.observers.is_empty() {
            let decision = Decision {
                object: self.object.clone(),
                action: self.action,
                policy: self.policy,
                finalizer: self.finalizer,
                owners: self.judged.clone(),
                owner: self.owner.cloned(),
                outcome,
                error: error.map(ToString::to_string),
            };
            for observer in self.observers {
                observer.decided(&decision);
            }
        }
    }
}
