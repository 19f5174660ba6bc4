//! The predictions of a dry run, whether somebody else has fulfilled them, and their results.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::api::Finalizer;
use crate::telemetry::Queue;
use crate::worker::decision::{DecisionRecord, Fingerprint, JudgedOwner, RemovedReferences};
use kube_gc_core::graph::ObservedObject;
use kube_gc_core::object::{DeletionState, Identity, Key, OwnerReference, PropagationPolicy};

/// Predictions that wait to be settled. Further decisions are not compared.
const PENDING_AT_MOST: usize = 100_000;
/// Disagreements that are kept in detail.
const DISAGREEMENTS_AT_MOST: usize = 1000;
/// Disagreements that are remembered, so that each is reported once.
const DISPUTED_AT_MOST: usize = 100_000;
/// The time from the decision to the first check. Each further interval is twice as long.
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// The longest interval between two checks of one object.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);
/// The shortest pause after a check without a result.
const NOT_DECIDED: Duration = Duration::from_secs(1);

/// The result of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ComparisonResult {
    /// Somebody else has done it.
    Agreed,
    /// Nobody has done it within the grace period, and kube-gc still would.
    Disagreed,
    /// kube-gc would no longer do it.
    Overtaken,
    /// It was not compared, because there were too many predictions.
    Dropped,
}

impl ComparisonResult {
    /// The word used in metrics.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Agreed => "agreed",
            Self::Disagreed => "disagreed",
            Self::Overtaken => "overtaken",
            Self::Dropped => "dropped",
        }
    }
}

/// How many predictions had which result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// See [`ComparisonResult::Agreed`].
    pub agreed: u64,
    /// See [`ComparisonResult::Disagreed`].
    pub disagreed: u64,
    /// See [`ComparisonResult::Overtaken`].
    pub overtaken: u64,
    /// See [`ComparisonResult::Dropped`].
    pub dropped: u64,
}

/// A disagreement: kube-gc would do something that the other collector has not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// The object and the action.
    pub subject: Arc<Subject>,
    /// Why.
    pub grounds: Grounds,
    /// When it was found.
    pub at: SystemTime,
}

/// What a check of an object leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is settled.
    Settled(ComparisonResult),
    /// Another look later.
    Later,
    /// The object has to be re-evaluated. The number is for [`Ledger::decided`].
    Decide(u64),
}

/// How a re-evaluation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reevaluation {
    /// It was made, whatever it says.
    Made,
    /// Something failed, so there is no result yet.
    Failed,
}

#[derive(Debug)]
struct Prediction {
    grounds: Grounds,
    since: Duration,
    interval: Duration,
    /// How often the same decision was made.
    heard: u64,
}

/// The predictions of a dry run. Pure: time and the state of objects come in as arguments.
#[derive(Debug)]
pub struct Ledger {
    grace: Duration,
    room: usize,
    pending: HashMap<Arc<Subject>, Prediction>,
    /// When each object is checked next, except those that are being checked.
    looks: BTreeMap<Duration, VecDeque<Arc<Subject>>>,
    disputed: HashSet<Arc<Subject>>,
    order: VecDeque<Arc<Subject>>,
    disagreements: VecDeque<Disagreement>,
    tally: Tally,
}

impl Ledger {
    /// An empty ledger. A decision that is not carried out within the grace period is a
    /// disagreement.
    pub fn new(grace: Duration) -> Self {
        Self::with_room(grace, PENDING_AT_MOST)
    }

    /// The same with a maximum number of predictions.
    pub fn with_room(grace: Duration, room: usize) -> Self {
        Self {
            grace,
            room,
            pending: HashMap::new(),
            looks: BTreeMap::new(),
            disputed: HashSet::new(),
            order: VecDeque::new(),
            disagreements: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    /// Adds a decision. Returns its result if that is known at once, and `None` if the decision is
    /// no prediction or not new.
    pub fn hear(
        &mut self,
        decision: &DecisionRecord,
        now: Duration,
        at: SystemTime,
    ) -> Option<(PredictedAction, ComparisonResult)> {
        let action = PredictedAction::of(decision)?;
        let subject = Arc::new(Subject { object: decision.object.clone(), action });
        if let Some(known) = self.pending.get_mut(&subject) {
            known.heard += 1;
            known.grounds = Grounds::of(decision, known.grounds.at);
            return None;
        }
        if self.disputed.contains(&subject) {
            return None;
        }
        if self.pending.len() >= self.room {
            self.count(ComparisonResult::Dropped);
            return Some((subject.action.clone(), ComparisonResult::Dropped));
        }
        let grounds = Grounds::of(decision, at);
        let prediction = Prediction { grounds, since: now, interval: FIRST_LOOK, heard: 1 };
        self.pending.insert(Arc::clone(&subject), prediction);
        self.look_at(subject, now + FIRST_LOOK);
        None
    }

    /// Whether the same decision was made before and is not settled, or is a known disagreement.
    pub fn knows(&self, decision: &DecisionRecord) -> bool {
        PredictedAction::of(decision).is_some_and(|action| {
            let subject = Subject { object: decision.object.clone(), action };
            self.pending.contains_key(&subject) || self.disputed.contains(&subject)
        })
    }

    /// When the next look is due.
    pub fn next_look(&self) -> Option<Duration> {
        self.looks.first_key_value().map(|(at, _)| *at)
    }

    /// The objects to check now, up to a maximum number. For each, [`looked`](Self::looked) or
    /// [`postpone`](Self::postpone) must follow.
    pub fn due(&mut self, now: Duration, limit: usize) -> Vec<Arc<Subject>> {
        let mut due = Vec::new();
        while due.len() < limit
            && let Some(mut entry) = self.looks.first_entry()
            && *entry.key() <= now
        {
            due.extend(entry.get_mut().pop_front());
            if entry.get().is_empty() {
                entry.remove();
            }
        }
        due
    }

    /// Takes what the graph shows of an object, `None` if the object is gone, and returns what
    /// follows.
    pub fn looked(&mut self, subject: &Arc<Subject>, shown: Option<&ObservedObject>, now: Duration) -> Next {
        let Some(prediction) = self.pending.get_mut(subject) else { return Next::Later };
        let is_over = now >= prediction.since + self.grace;
        match progress(&subject.action, &prediction.grounds, shown) {
            Progress::CameTrue => self.settle(subject, ComparisonResult::Agreed),
            Progress::Overtaken => self.settle(subject, ComparisonResult::Overtaken),
            Progress::Changed => Next::Decide(prediction.heard),
            Progress::Stands if is_over => Next::Decide(prediction.heard),
            Progress::Stands => {
                let left = (prediction.since + self.grace).saturating_sub(now);
                prediction.interval = (prediction.interval * 2).min(BETWEEN_LOOKS);
                let pause = prediction.interval.min(left);
                self.look_at(Arc::clone(subject), now + pause);
                Next::Later
            }
        }
    }

    /// The object cannot be checked now.
    pub fn postpone(&mut self, subject: &Arc<Subject>, now: Duration) {
        let Some(prediction) = self.pending.get_mut(subject) else { return };
        prediction.interval = (prediction.interval * 2).clamp(NOT_DECIDED, BETWEEN_LOOKS);
        let at = now + prediction.interval;
        self.look_at(Arc::clone(subject), at);
    }

    /// The object was re-evaluated, after `heard` decisions that were the same. `shown` is its
    /// present state in the graph.
    pub fn decided(
        &mut self,
        subject: &Arc<Subject>,
        heard: u64,
        afresh: Reevaluation,
        shown: Option<&ObservedObject>,
        (now, at): (Duration, SystemTime),
    ) -> Next {
        let Some(prediction) = self.pending.get(subject) else { return Next::Later };
        let is_over = now >= prediction.since + self.grace;
        match (progress(&subject.action, &prediction.grounds, shown), prediction.heard > heard, afresh) {
            (Progress::CameTrue, _, _) => self.settle(subject, ComparisonResult::Agreed),
            (Progress::Overtaken, _, _) | (_, false, Reevaluation::Made) => {
                self.settle(subject, ComparisonResult::Overtaken)
            }
            (Progress::Stands, true, _) if is_over => {
                let grounds = prediction.grounds.clone();
                self.add_disagreement(Disagreement { subject: Arc::clone(subject), grounds, at });
                self.settle(subject, ComparisonResult::Disagreed)
            }
            // The object has changed and the decision is still the same, or the result is not known
            // yet.
            (Progress::Stands | Progress::Changed, _, _) => {
                self.postpone(subject, now);
                Next::Later
            }
        }
    }

    fn settle(&mut self, subject: &Arc<Subject>, result: ComparisonResult) -> Next {
        self.pending.remove(subject);
        self.count(result);
        Next::Settled(result)
    }

    fn add_disagreement(&mut self, disagreement: Disagreement) {
        self.disputed.insert(Arc::clone(&disagreement.subject));
        self.order.push_back(Arc::clone(&disagreement.subject));
        if self.order.len() > DISPUTED_AT_MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.disputed.remove(&oldest);
        }
        self.disagreements.push_front(disagreement);
        self.disagreements.truncate(DISAGREEMENTS_AT_MOST);
    }

    fn look_at(&mut self, subject: Arc<Subject>, at: Duration) {
        self.looks.entry(at).or_default().push_back(subject);
    }

    const fn count(&mut self, result: ComparisonResult) {
        let Tally { agreed, disagreed, overtaken, dropped } = &mut self.tally;
        *match result {
            ComparisonResult::Agreed => agreed,
            ComparisonResult::Disagreed => disagreed,
            ComparisonResult::Overtaken => overtaken,
            ComparisonResult::Dropped => dropped,
        } += 1;
    }

    /// How many predictions wait to be settled.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// How many came to what.
    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// The disagreements, newest first.
    pub fn disagreements(&self) -> impl Iterator<Item = &Disagreement> {
        self.disagreements.iter()
    }
}

/// What would have been done to an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PredictedAction {
    /// It would have been deleted.
    Delete,
    /// It would have lost these references.
    RemoveReferences(RemovedReferences),
    /// It would have lost its references to this owner, which orphans its dependents.
    Release(Identity),
    /// It would have lost this finalizer.
    RemoveFinalizer(Finalizer),
    /// It would have stopped blocking its owners.
    StopBlocking,
}

impl PredictedAction {
    /// The action that only the dry run kept from being carried out, if there is one.
    pub fn of(decision: &DecisionRecord) -> Option<Self> {
        if decision.outcome != "dry_run" {
            return None;
        }
        match decision.action {
            "delete" => Some(Self::Delete),
            "remove_references" => decision.basis.clone().map(|basis| Self::RemoveReferences(basis.gone)),
            "orphan" => decision.owner.clone().map(Self::Release),
            "remove_finalizer" => decision.finalizer.map(Self::RemoveFinalizer),
            "stop_blocking" => Some(Self::StopBlocking),
            _ => None,
        }
    }

    /// The word used in metrics and on the debug pages.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Delete => "delete",
            Self::RemoveReferences(_) => "remove_references",
            Self::Release(_) => "orphan",
            Self::RemoveFinalizer(_) => "remove_finalizer",
            Self::StopBlocking => "stop_blocking",
        }
    }
}

/// One object, identified by its uid, and what would have been done to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The object.
    pub object: Identity,
    /// What would have been done.
    pub action: PredictedAction,
}

impl Subject {
    /// The queue and the key for a re-evaluation.
    pub fn decided_by(&self) -> (Queue, Key) {
        match &self.action {
            PredictedAction::Release(owner) => (Queue::AttemptToOrphan, owner.key()),
            PredictedAction::RemoveFinalizer(Finalizer::Orphan) => {
                (Queue::AttemptToOrphan, self.object.key())
            }
            PredictedAction::Delete
            | PredictedAction::RemoveReferences(_)
            | PredictedAction::RemoveFinalizer(Finalizer::Foreground)
            | PredictedAction::StopBlocking => (Queue::AttemptToDelete, self.object.key()),
        }
    }
}

/// Why something would have been done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grounds {
    /// When it was decided first.
    pub at: SystemTime,
    /// The propagation policy.
    pub policy: Option<PropagationPolicy>,
    /// The first owners that the object names, each with its class.
    pub owners: Vec<JudgedOwner>,
    /// How many more it names.
    pub more_owners: usize,
    /// A fingerprint of all of them.
    pub all: Option<Fingerprint>,
}

impl Grounds {
    /// The grounds of a decision that was first made at that time.
    pub fn of(decision: &DecisionRecord, at: SystemTime) -> Self {
        let DecisionRecord { policy, owners, more_owners, basis, .. } = decision;
        let all = basis.as_ref().map(|basis| basis.all);
        Self { at, policy: *policy, owners: owners.clone(), more_owners: *more_owners, all }
    }
}

/// The state of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Somebody has done it.
    CameTrue,
    /// It no longer applies, because the object has changed.
    Overtaken,
    /// The write has not been done, and the object has changed, so the prediction may no longer
    /// apply.
    Changed,
    /// The write has not been done so far.
    Stands,
}

/// Compares what would have been done to what the graph shows; `None` if the object is gone.
pub fn progress(action: &PredictedAction, grounds: &Grounds, shown: Option<&ObservedObject>) -> Progress {
    match action {
        PredictedAction::Delete => match shown {
            None => Progress::CameTrue,
            Some(now) if now.deletion.is_being_deleted() => Progress::CameTrue,
            // An object without owners is not garbage.
            Some(now) if now.references.is_empty() => Progress::Overtaken,
            Some(now) => unless_changed(grounds, now),
        },
        PredictedAction::RemoveReferences(gone) => match shown {
            // kube-gc would have kept it, but a user may have deleted it.
            None => Progress::Overtaken,
            Some(now) if gone.is_gone_from(&now.references) => Progress::CameTrue,
            Some(now) if now.deletion.is_being_deleted() => Progress::Overtaken,
            Some(now) => unless_changed(grounds, now),
        },
        // Orphaning does not ask whether the dependent is being deleted itself.
        PredictedAction::Release(owner) => match shown {
            None => Progress::Overtaken,
            Some(now) if now.references.iter().any(|reference| names(reference, owner)) => Progress::Stands,
            Some(_) => Progress::CameTrue,
        },
        PredictedAction::RemoveFinalizer(finalizer) => match shown {
            None => Progress::CameTrue,
            Some(now) => finalizer_progress(*finalizer, now),
        },
        PredictedAction::StopBlocking => match shown {
            None => Progress::CameTrue,
            Some(now) if !now.references.iter().any(|reference| reference.block_owner_deletion) => {
                Progress::CameTrue
            }
            Some(now) if now.deletion != DeletionState::DeletingDependents => Progress::Overtaken,
            Some(_) => Progress::Stands,
        },
    }
}

fn names(reference: &OwnerReference, owner: &Identity) -> bool {
    reference.uid == owner.uid && *reference.name == *owner.name
}

fn unless_changed(grounds: &Grounds, now: &ObservedObject) -> Progress {
    let is_same = grounds.all == Some(Fingerprint::of(now.references.iter()));
    if is_same { Progress::Stands } else { Progress::Changed }
}

/// A second DELETE with another policy replaces one finalizer by the other.
const fn finalizer_progress(finalizer: Finalizer, now: &ObservedObject) -> Progress {
    let (it, other) = match finalizer {
        Finalizer::Foreground => (now.finalizers.foreground, now.finalizers.orphan),
        Finalizer::Orphan => (now.finalizers.orphan, now.finalizers.foreground),
    };
    match (it, other) {
        (true, _) => Progress::Stands,
        (false, true) => Progress::Overtaken,
        (false, false) => Progress::CameTrue,
    }
}
