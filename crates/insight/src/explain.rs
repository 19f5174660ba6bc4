//! Why an object is still there: the verdict on it.

use serde::{Deserialize, Serialize};

use crate::advice::Advice;
use crate::chain::{Chain, chain};
use crate::contents::NamespaceReport;
use crate::finalizers::FinalizerReport;
use crate::hold::{Held, Hold, holds};
use crate::judge::{Evidence, Fate, JudgedReference, fate, is_orphaning, judged, locate, snapshot};
use crate::knowledge::{Asker, Live, LiveObject};
use crate::name::{ObjectName, Outside, Report, Source};
use crate::plan::keeps_contents;
use crate::sentence;
use kube_gc_core::graph::ObjectSnapshot;
use kube_gc_core::object::{DeletionState, Identity, ORPHAN_FINALIZER};
use kube_gc_core::verdict::{Decision, IdleReason, KeepReason, Precheck, ReferenceClass, decide, precheck};

/// The most owner references that an explanation lists.
const LISTED_REFERENCES: usize = 64;

/// What is going to happen to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Nothing.
    Stays,
    /// It stays until its owners, or its namespace, are gone, and those go.
    StaysForNow,
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
    #[default]
    Unknown,
}

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    pub object: ObjectName,
    pub outcome: Outcome,
    /// The verdict in one sentence.
    pub verdict: String,
    /// When the object was deleted; `null` if it is not being deleted, or if that is not known.
    pub deleted: Option<String>,
    /// When it was read, by the clock of the API server.
    pub as_of: Option<String>,
    /// The first references with their classes.
    pub references: Vec<JudgedReference>,
    pub reference_count: usize,
    pub finalizers: Vec<FinalizerReport>,
    /// What it waits for itself, if it is being deleted.
    pub held_by: Vec<HeldBy>,
    /// What blocks its foreground deletion, down to what holds everything.
    pub chain: Chain,
    /// Of a namespace that is being deleted, or of the definition of a custom resource: what is left in it.
    pub namespace: Option<NamespaceReport>,
    /// What a person can do.
    pub advice: Vec<String>,
    /// Whether something that could not be looked at may change the answer.
    pub depends_on_unseen: bool,
    /// What it advises, piece by piece.
    #[serde(skip)]
    pub to_do: Vec<Advice>,
    /// Why the collector deletes it: the begin of the verdict.
    #[serde(skip)]
    pub garbage: Option<String>,
}

/// One thing that an object waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct HeldBy {
    pub cause: Hold,
    /// The same in words.
    pub what: String,
}

impl From<&Held> for HeldBy {
    fn from(held: &Held) -> Self {
        Self { cause: held.hold, what: held.of_one() }
    }
}

/// Explains an object. An incomplete explanation is returned if more facts are needed.
pub fn explain(asker: &mut Asker<'_>, identity: &Identity) -> Explanation {
    let mut explanation = Explanation { object: identity.into(), ..Explanation::default() };
    let live = asker.live(identity);
    if let Some(Live::Found(object)) = live {
        explanation.finalizers = FinalizerReport::of(identity, &object.details, asker.catalog());
        explanation.deleted.clone_from(&object.details.deleted);
        explanation.as_of.clone_from(&object.details.read);
    }
    let Some(snapshot) = snapshot(asker, identity) else {
        explanation.not_shown(live);
        return explanation;
    };
    explanation.reference_count = snapshot.references.len();
    let Some(mut judged) = judged(asker, &snapshot.references) else { return explanation };
    locate(asker, &mut judged);
    let before = precheck(&snapshot);
    match before {
        Precheck::Classify => explanation.decide(asker, &snapshot, &judged),
        Precheck::Nothing(IdleReason::Terminating) => {
            let holds = holds(asker, identity, snapshot.deletion, false);
            explanation.held(&holds, asker.outside().source);
        }
        _ => explanation.being_deleted(before, asker.outside()),
    }
    if matches!(before, Precheck::WaitForDependents(_) | Precheck::BreakDeadlock) {
        // Whoever holds it itself need not wait for them.
        let own = holds(asker, identity, DeletionState::Terminating, true);
        explanation.also_held(&own, asker.outside().source);
        explanation.chain = chain(asker, identity);
        let advice = sentence::advice_on_chain(&explanation.chain, asker.outside().source);
        explanation.to_do.extend(advice);
    }
    let is_orphan = |finalizer: &FinalizerReport| finalizer.name == ORPHAN_FINALIZER;
    if explanation.deleted.is_none() && explanation.finalizers.iter().any(is_orphan) {
        let object = &explanation.object;
        let takes = "`kubectl delete` takes it away, unless it has --cascade=orphan.";
        let but = " Only a collector that deletes it because of its owners leaves it.";
        let but = if snapshot.references.is_empty() { "" } else { but };
        let advice = format!("The finalizer orphan of {object} does not keep its dependents: {takes}{but}");
        explanation.to_do.push(advice.into());
    }
    explanation.advice = Advice::once(&explanation.to_do);
    explanation.references = judged;
    explanation.references.truncate(LISTED_REFERENCES);
    explanation
}

impl Report for Explanation {
    // A watch that is broken shows what was, of the object and of its owners.
    fn rests_on(&self, what: &str) -> bool {
        let mut names = self.references.iter().map(|reference| &reference.owner).chain([&self.object]);
        self.depends_on_dependents()
            || self.namespace.is_some()
            || names.any(|name| name.resource.as_deref() == Some(what))
            || self.references.iter().any(|reference| reference.evidence == Evidence::Undiscovered)
    }

    fn doubt(&mut self) {
        self.depends_on_unseen = true;
    }
}

impl Explanation {
    /// Whether the answer depends on the dependents of the object: it is in a foreground deletion,
    /// or it goes because an owner is.
    pub fn depends_on_dependents(&self) -> bool {
        let deletes_dependents = self.deleted.is_some()
            && self.finalizers.iter().any(|finalizer| finalizer.name == "foregroundDeletion");
        let waits = self.outcome == Outcome::Goes
            && self.references.iter().any(|reference| reference.class == ReferenceClass::Waiting);
        deletes_dependents || waits
    }

    /// Whether it goes with its namespace, if that is being deleted.
    pub const fn is_kept(&self) -> bool {
        use Outcome::{LosesReferences, Stays, StaysForNow, Undecided};
        matches!(self.outcome, Stays | StaysForNow | LosesReferences | Undecided)
    }

    /// Its namespace is being deleted.
    pub fn is_within(&mut self, namespace: &Identity, live: Option<&LiveObject>) {
        if live.is_some_and(|live| keeps_contents(namespace, &live.details)) {
            let stays = "has no finalizers in its spec: it goes without the object, which stays in the store";
            self.verdict += &format!(" Namespace {}, which is being deleted, {stays}.", namespace.name);
        } else {
            self.stays_for_now(&format!("namespace {} exists, which is being deleted", namespace.name));
        }
    }

    /// It stays only as long as others do, and those go.
    pub(crate) fn stays_for_now(&mut self, others: &str) {
        self.outcome = Outcome::StaysForNow;
        self.verdict = format!("{} stays at most as long as {others}.", self.object);
        self.advice.clear();
    }

    /// By default, no collector looks at its type.
    pub fn is_ignored(&mut self) {
        let resource = self.object.resource.as_deref().unwrap_or_default();
        let ignore = "whatever its owners: by default, collectors ignore";
        self.verdict = format!("{} stays, {ignore} {resource} (`discovery.ignored`).", self.object);
        (self.outcome, self.depends_on_unseen, self.advice) = (Outcome::Stays, false, Vec::new());
    }

    /// What the collector would do with it `fails`, in the words of the API server.
    pub fn is_tried(&mut self, fails: &str, message: &str) {
        let deletes = self.garbage.as_ref().map(|why| (why, "delete it"));
        let (why, what) = deletes.unwrap_or((&self.verdict, "do that"));
        self.verdict = format!("{why} The collector tries to {what}, {fails}: {message}.");
        self.outcome = Outcome::Waits;
    }

    /// A collector could not do what it has to do with this object at the end of the chain.
    pub fn has_failed(&mut self, uid: &str, attempts: u32, (message, hint): (&str, &str)) {
        let leaves = self.chain.leaves.iter_mut().filter(|leaf| leaf.is_work() && leaf.object.uid == uid);
        for leaf in leaves {
            let failed = sentence::counted(attempts as usize, "attempt");
            leaf.waits_for.push_str(&format!("; {failed} failed: {message}"));
            self.advice = vec![format!("What to do about {}: {hint}.", leaf.object)];
        }
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
    fn decide(&mut self, asker: &mut Asker<'_>, snapshot: &ObjectSnapshot, judged: &[JudgedReference]) {
        let classes: Vec<_> = judged.iter().map(|reference| reference.class).collect();
        let decision = decide(snapshot, &classes);
        let is_kept =
            matches!(decision, Decision::Keep(KeepReason::Owned) | Decision::RemoveReferences { .. });
        let fate = is_kept.then(|| fate(asker, judged, &mut vec![snapshot.identity.key()]));
        let is_unseen = judged.iter().any(|reference| reference.evidence.is_unseen());
        self.outcome = match decision {
            Decision::Keep(_) | Decision::Report { .. } => Outcome::Stays,
            Decision::RemoveReferences { .. } => Outcome::LosesReferences,
            Decision::Delete { .. } => Outcome::Goes,
            Decision::Park(_) if is_unseen => Outcome::Unknown,
            Decision::Park(_) => Outcome::Undecided,
        };
        self.depends_on_unseen = matches!(decision, Decision::Park(_))
            && (is_unseen || judged.iter().any(|reference| reference.evidence == Evidence::Undiscovered));
        let source = asker.outside().source;
        self.verdict = sentence::decision(&self.object, &decision, judged, source);
        if let Decision::Delete { policy, .. } = &decision {
            self.garbage = Some(self.verdict.clone());
            let deletes = source.does("delete");
            self.verdict.push_str(&format!(" The collector{deletes} it with the policy {policy}."));
        }
        let unseen = " It goes when its owners do; whether they do was not looked at.";
        match fate {
            Some(Fate::Goes(owners)) => self.stays_for_now(&owners),
            Some(Fate::Unseen) => self.verdict += unseen,
            Some(Fate::Stays) | None => {}
        }
        if self.outcome == Outcome::Goes && !self.finalizers.is_empty() {
            let names = FinalizerReport::names(&self.finalizers);
            self.verdict.push_str(&format!(" Then it waits for {names}."));
        }
        if matches!(decision, Decision::Park(_)) {
            self.to_do = sentence::advice_on_references(&self.object, judged);
        }
        let solid = judged.iter().filter(|reference| reference.class == ReferenceClass::Solid);
        for JudgedReference { owner, identity, .. } in solid.take(LISTED_REFERENCES) {
            if identity.as_ref().is_some_and(|owner| is_orphaning(asker, owner)) {
                let (reason, advice) = sentence::orphaning(owner, source);
                self.verdict.push_str(&format!(" {reason}"));
                self.to_do.push(advice);
            }
        }
    }

    /// Its own deletion decides.
    fn being_deleted(&mut self, before: Precheck, outside: &Outside) {
        self.outcome = match before {
            Precheck::Nothing(IdleReason::NoReferences) | Precheck::Classify => Outcome::Stays,
            Precheck::RemoveForegroundFinalizer if !outside.is_empty() => Outcome::Unknown,
            // Others hold it after that.
            Precheck::RemoveForegroundFinalizer if self.finalizers.len() > 1 => Outcome::Waits,
            Precheck::RemoveForegroundFinalizer | Precheck::BreakDeadlock => Outcome::Goes,
            Precheck::Nothing(_) | Precheck::AskForUnreadReferences | Precheck::WaitForDependents(_) => {
                Outcome::Waits
            }
        };
        self.depends_on_unseen = before == Precheck::AskForUnreadReferences;
        self.verdict = sentence::deletion(&self.object, before, &self.finalizers, outside);
        if before == Precheck::Nothing(IdleReason::Orphaning) {
            self.to_do.push(sentence::orphaning(&self.object, outside.source).1);
        }
    }

    /// It waits for its dependents, and this holds it, too.
    fn also_held(&mut self, holds: &[Held], source: Source) {
        if !holds.is_empty() && self.deleted.is_some() {
            let of_dependents = std::mem::take(&mut self.verdict);
            self.held(holds, source);
            let also = holds.iter().map(|held| match held.is_grace() {
                true => held.of_one(),
                false => format!("it also waits for {}", held.of_one()),
            });
            let also: Vec<String> = also.collect();
            self.verdict = format!("{}; {}.", of_dependents.trim_end_matches('.'), also.join("; "));
        }
    }

    /// It is being deleted, and this holds it.
    fn held(&mut self, holds: &[Held], source: Source) {
        self.outcome = Outcome::Waits;
        self.held_by = holds.iter().map(HeldBy::from).collect();
        self.verdict = sentence::held(&self.object, holds);
        self.to_do = holds.iter().flat_map(|held| held.advice(&self.object, 1, source)).collect();
    }
}
