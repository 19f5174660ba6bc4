//! One log line and one count for each decision.

use std::fmt::{self, Debug, Display};
use std::sync::Arc;

use tokio::time::Instant;

use crate::api::{Api, ApiError, Deleted, ErrorClass, Finalizer, FinalizerRemoval, Patched};
use crate::telemetry::record;
pub use crate::worker::comparison::Basis;
use crate::worker::context::{Interrupted, WorkerContext};
use crate::worker::delete::{Classified, Dropped, Evidence};
use crate::worker::event_recorder::Written;
use crate::worker::repeats::Repeats;
use kube_gc_core::graph::ObjectSnapshot;
use kube_gc_core::object::{Identity, OwnerReference, PropagationPolicy, Uid};
use kube_gc_core::text::{LISTED, LONGEST, LONGEST_WORD, bounded, excerpt, listed, word};
use kube_gc_core::verdict::ReferenceClass;

/// The longest error of one owner that is kept with a decision.
const LONGEST_ERROR: usize = LONGEST / 4;

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
    /// The owners that the object names, and what is known of each: the first
    /// [`LISTED`] of them, in [`LONGEST`] bytes of text.
    pub owners: Vec<JudgedOwner>,
    /// How many more it names.
    pub more_owners: usize,
    /// In a dry run: what it rests on, for somebody who compares.
    pub basis: Option<Basis>,
    /// The one owner that it follows from.
    pub owner: Option<Identity>,
    /// How it ended, in the word of the log and the metrics.
    pub outcome: &'static str,
    /// Why it did not end well, if it did not.
    pub error: Option<String>,
}

impl Decision {
    /// About how many bytes it takes up.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let Self { object, owners, owner, error, .. } = self;
        let named = |identity: &Identity| identity.name.len() + identity.uid.text_bytes();
        size_of::<Self>()
            + named(object)
            + owner.as_ref().map_or(0, named)
            + error.as_ref().map_or(0, String::len)
            + owners.iter().map(JudgedOwner::bytes).sum::<usize>()
    }
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

impl JudgedOwner {
    /// A reference with what is known of its owner. What is too long to be shown is cut.
    fn of(reference: &OwnerReference, owner: &Classified) -> Self {
        let short = |text: &Arc<str>| match text.len() {
            0..=LONGEST_WORD => Arc::clone(text),
            _ => word(text).to_string().into(),
        };
        let OwnerReference { api_version, kind, name, uid, controller, block_owner_deletion } = reference;
        let shown_uid = || Uid::parse(&uid.shown().to_string()).unwrap_or_else(|| uid.clone());
        let reference = OwnerReference {
            api_version: short(api_version),
            kind: short(kind),
            name: short(name),
            uid: if uid.text_bytes() > LONGEST_WORD { shown_uid() } else { uid.clone() },
            controller: *controller,
            block_owner_deletion: *block_owner_deletion,
        };
        let error = owner.error(&reference).map(|error| match error.len() {
            0..=LONGEST_ERROR => error,
            _ => excerpt(&error, LONGEST_ERROR).to_string().into(),
        });
        Self { reference, class: owner.class, evidence: owner.evidence, error }
    }

    /// As many of an object's references as are kept.
    fn first_of(item: &ObjectSnapshot, classified: &[Classified]) -> Vec<Self> {
        let mut bytes = 0;
        let each = item.references.iter().zip(classified).take(LISTED);
        let judged = each.map(|(seen, owner)| Self::of(&seen.reference, owner));
        // One at least.
        let fits = |owner: &Self| {
            let is_room = bytes <= LONGEST / 2;
            bytes += owner.text();
            is_room
        };
        judged.take_while(fits).collect()
    }

    fn text(&self) -> usize {
        let OwnerReference { api_version, kind, name, uid, .. } = &self.reference;
        let error = self.error.as_ref().map_or(0, |error| error.len());
        api_version.len() + kind.len() + name.len() + uid.text_bytes() + error
    }

    /// About how many bytes it takes up. Texts that many references share are counted for each.
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.text()
    }
}

/// A reference and what is known of its owner, for people.
struct Judgement<'a>(&'a OwnerReference, &'a Classified);

impl Display for Judgement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {} ({})", Written(self.0), self.1.class, self.1.evidence)
    }
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
    owners: Option<(&'a ObjectSnapshot, &'a [Classified])>,
    owner: Option<&'a Identity>,
    observers: &'a [Arc<dyn DecisionObserver>],
    repeats: &'a Repeats,
    dry_run: bool,
    api: &'a Api,
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
            owners: None,
            owner: None,
            observers: &context.decisions,
            repeats: &context.repeats,
            dry_run: context.api.gate().is_dry_run(),
            api: &context.api,
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

    /// With the one owner that it follows from.
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
        record::decision(self.action, "parked", &self.object.resource.group_resource);
        self.observed("parked", Some(reason));
        // An outage meets all owners that are looked up at the time.
        let is_unanswered =
            self.owners.is_some_and(|(_, classified)| classified.iter().any(|owner| owner.is_unanswered));
        if is_unanswered && !self.api.may_log_unanswered() {
            tracing::debug!(object = %self.object, action = self.action, error = %reason, "parked");
            return;
        }
        let owners = self.shown_owners();
        let Self { object, action, .. } = self;
        let line = format!("{action} {owners} {reason}");
        match self.repeats.news(&object.key(), &line, Instant::now()) {
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

    /// What is shown of the owners that it rests on.
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
        let is_unsent = matches!(error.class, ErrorClass::GateClosed | ErrorClass::Fenced);
        // An outage, or one broken connection, meets all that is under way.
        let is_one_of_many = (error.is_unanswered() || is_unsent) && !self.api.may_log_unanswered();
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
            let (owners, more_owners) = self.owners.map_or_else(Default::default, |(item, classified)| {
                let owners = JudgedOwner::first_of(item, classified);
                let more = item.references.len() - owners.len();
                (owners, more)
            });
            let decision = Decision {
                object: self.object.clone(),
                action: self.action,
                policy: self.policy,
                finalizer: self.finalizer,
                owners,
                more_owners,
                basis: self.owners.filter(|_| self.dry_run).map(|(item, classified)| {
                    let each = item.references.iter().zip(classified);
                    Basis::of(each.map(|(seen, owner)| (&seen.reference, owner.class)))
                }),
                owner: self.owner.cloned(),
                outcome,
                error: error.map(bounded),
            };
            for observer in self.observers {
                observer.decided(&decision);
            }
        }
    }
}
