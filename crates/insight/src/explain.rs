//! Why an object is still there, or why it goes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use kube_gc_core::graph::ObjectSnapshot;
use kube_gc_core::object::Identity;
use kube_gc_core::verdict::{Decision, Precheck, ReferenceClass, decide, precheck};

use super::chain::{Chain, chain};
use super::classify::{Evidence, JudgedReference, classify};
use super::contents::NamespaceReport;
use super::finalizers::FinalizerReport;
use super::judge::snapshot;
use super::knowledge::{Asker, Live};
use super::name::ObjectName;
use super::sentence;

/// The most owner references that an explanation lists.
const LISTED_REFERENCES: usize = 64;

/// What is going to happen to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Nothing.
    Stays,
    /// It stays, and the collector removes owner references.
    LosesReferences,
    /// The collector deletes it, or removes the finalizer that holds it.
    Goes,
    /// It is being deleted, and something holds it.
    Waits,
    /// The collector cannot decide.
    Undecided,
    /// It does not exist.
    Absent,
    /// It could not be looked at.
    Unknown,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub object: ObjectName,
    pub outcome: Outcome,
    /// The verdict in one sentence.
    pub verdict: String,
    /// When the object was deleted; `null` if it is not being deleted, or if that is not known.
    pub deleted: Option<String>,
    /// The first references with their classes.
    pub references: Vec<JudgedReference>,
    pub reference_count: usize,
    pub finalizers: Vec<FinalizerReport>,
    /// What blocks its foreground deletion, down to what holds everything.
    pub chain: Chain,
    /// Of a namespace that is being deleted: what is left in it.
    pub namespace: Option<NamespaceReport>,
    /// What a person can do.
    pub advice: Vec<String>,
    /// Whether something that could not be looked at may change the answer.
    pub depends_on_unseen: bool,
}

/// Explains an object. An incomplete explanation is returned if more facts are needed.
pub fn explain(asker: &mut Asker<'_>, identity: &Identity) -> Explanation {
    let mut explanation = Explanation {
        object: identity.into(),
        outcome: Outcome::Unknown,
        verdict: String::new(),
        deleted: None,
        references: Vec::new(),
        reference_count: 0,
        finalizers: Vec::new(),
        chain: Chain::default(),
        namespace: None,
        advice: Vec::new(),
        depends_on_unseen: false,
    };
    let live = asker.live(identity);
    if let Some(Live::Found(object)) = live {
        explanation.finalizers = FinalizerReport::of(&object.details, asker.catalog());
        explanation.deleted.clone_from(&object.details.deleted);
    }
    let Some(snapshot) = snapshot(asker, identity) else {
        explanation.not_shown(live);
        return explanation;
    };
    explanation.reference_count = snapshot.references.len();
    let judged: Option<Vec<JudgedReference>> = {
        // All are asked about at once, so no needed one may end the loop.
        let all: Vec<_> = snapshot.references.iter().map(|seen| classify(asker, seen)).collect();
        all.into_iter().collect()
    };
    let Some(judged) = judged else { return explanation };
    let before = precheck(&snapshot);
    match before {
        Precheck::Classify => explanation.decide(&snapshot, &judged),
        _ => explanation.being_deleted(before),
    }
    if matches!(before, Precheck::WaitForDependents(_) | Precheck::BreakDeadlock) {
        explanation.chain = chain(asker, identity);
        explanation.advice.extend(sentence::advice_on_chain(&explanation.chain));
    }
    explanation.references = judged;
    explanation.references.truncate(LISTED_REFERENCES);
    explanation
}

impl Explanation {
    /// Whether the answer depends on the dependents of the object: it is in a foreground deletion,
    /// or it goes because an owner is.
    #[must_use]
    pub fn depends_on_dependents(&self) -> bool {
        let deletes_dependents = self.deleted.is_some()
            && self.finalizers.iter().any(|finalizer| finalizer.name == "foregroundDeletion");
        let waits = self.outcome == Outcome::Goes
            && self.references.iter().any(|reference| reference.class == ReferenceClass::Waiting);
        deletes_dependents || waits
    }

    /// No graph and no read shows the object.
    fn not_shown(&mut self, live: Option<&Live>) {
        (self.outcome, self.verdict) = match live {
            Some(Live::Absent(evidence)) => (Outcome::Absent, sentence::absent(&self.object, evidence)),
            Some(Live::Failed(why)) => {
                self.depends_on_unseen = true;
                (Outcome::Unknown, format!("{} cannot be read: {why}", self.object))
            }
            Some(Live::Found(_) | Live::NotAsked) | None => {
                (Outcome::Unknown, format!("{} was not looked at.", self.object))
            }
        };
    }

    /// The owners decide.
    fn decide(&mut self, snapshot: &ObjectSnapshot, judged: &[JudgedReference]) {
        let classes: Vec<_> = judged.iter().map(|reference| reference.class).collect();
        let decision = decide(snapshot, &classes);
        self.outcome = match decision {
            Decision::Keep(_) | Decision::Report { .. } => Outcome::Stays,
            Decision::RemoveReferences { .. } => Outcome::LosesReferences,
            Decision::Delete { .. } => Outcome::Goes,
            Decision::Park(_) => Outcome::Undecided,
        };
        let unseen = |reference: &&JudgedReference| {
            matches!(
                reference.evidence,
                Evidence::Failed { .. } | Evidence::NotAsked | Evidence::Undiscovered
            )
        };
        self.depends_on_unseen = matches!(decision, Decision::Park(_)) && judged.iter().any(|r| unseen(&r));
        self.verdict = sentence::decision(&self.object, &decision, judged);
        self.advice.extend(sentence::advice_on_references(&decision, judged));
    }

    /// Its own deletion decides.
    fn being_deleted(&mut self, before: Precheck) {
        self.outcome = match before {
            Precheck::Nothing(kube_gc_core::verdict::IdleReason::NoReferences) | Precheck::Classify => {
                Outcome::Stays
            }
            Precheck::RemoveForegroundFinalizer | Precheck::BreakDeadlock => Outcome::Goes,
            Precheck::Nothing(_) | Precheck::AskForUnreadReferences | Precheck::WaitForDependents(_) => {
                Outcome::Waits
            }
        };
        self.depends_on_unseen = before == Precheck::AskForUnreadReferences;
        self.verdict = sentence::deletion(&self.object, before, &self.finalizers);
        self.advice.extend(sentence::advice_on_finalizers(before, &self.finalizers));
    }
}
