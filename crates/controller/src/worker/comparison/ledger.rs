//! The predictions of a dry run, whether somebody else has fulfilled them, and their results.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::worker::decision::{DecisionRecord, Occurrence, RemovedReferences};
use kube_gc_client::Finalizer;
use kube_gc_core::object::{DeletionState, Identity, Key, ObjectFacts, OwnerReference};
use kube_gc_observe::telemetry::Queue;

/// Disagreements that are kept in detail.
const DISAGREEMENTS_AT_MOST: usize = 1000;
/// Disagreements that are remembered, so that each is reported once.
const DISPUTED_AT_MOST: usize = 100_000;
/// How often an object is looked at within the grace period, and the bounds of the pause in between.
const LOOKS: u32 = 60;
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// The result of a prediction. Its word is that of the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
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

/// How many predictions had which result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub agreed: u64,
    pub disagreed: u64,
    pub overtaken: u64,
    pub dropped: u64,
}

/// A disagreement: kube-gc would do something that the other collector has not done.
#[derive(Clone, Debug)]
pub struct Disagreement {
    pub subject: Arc<Subject>,
    pub decision: DecisionRecord,
    pub predicted: SystemTime,
    pub found: SystemTime,
}

/// What is known of an object.
#[derive(Clone, Debug)]
pub enum ObjectState {
    /// The type is not synced, so an object that is missing from the graph may exist.
    Unknown,
    /// The object, if it is there.
    Known(Option<ObjectFacts>),
}

/// What a look at an object leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Settled(ComparisonResult),
    /// Another look later.
    Later,
    /// The object has to be re-evaluated.
    Decide,
}

#[derive(Debug)]
struct Prediction {
    decision: DecisionRecord,
    at: SystemTime,
    since: Duration,
    /// Whether the same was decided since the last [`Next::Decide`].
    is_repeated: bool,
}

/// The predictions of a dry run. Pure: time and the state of objects come in as arguments.
#[derive(Debug)]
pub struct Ledger {
    grace: Duration,
    room: usize,
    pending: HashMap<Arc<Subject>, Prediction>,
    disputed: HashSet<Arc<Subject>>,
    disagreements: VecDeque<Disagreement>,
    tally: Tally,
}

impl Ledger {
    /// An empty ledger with a maximum number of predictions. A decision that is not carried out within
    /// the grace period is a disagreement.
    pub fn new(grace: Duration, room: usize) -> Self {
        Self {
            grace,
            room,
            pending: HashMap::new(),
            disputed: HashSet::new(),
            disagreements: VecDeque::new(),
            tally: Tally::default(),
        }
    }

    /// The pause between two looks at an object.
    pub fn pause(&self) -> Duration {
        (self.grace / LOOKS).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
    }

    /// Adds a decision. Returns whether it was made before and is not settled, or is a known
    /// disagreement, and the action if there is no room for it.
    pub fn hear(
        &mut self,
        decision: &DecisionRecord,
        (now, at): (Duration, SystemTime),
    ) -> (Occurrence, Option<PredictedAction>) {
        let Some(action) = PredictedAction::of(decision) else { return (Occurrence::First, None) };
        let subject = Arc::new(Subject { object: decision.object.clone(), action });
        if let Some(known) = self.pending.get_mut(&subject) {
            known.is_repeated = true;
            known.decision = decision.clone();
            return (Occurrence::Repeated, None);
        }
        if self.disputed.contains(&subject) {
            return (Occurrence::Repeated, None);
        }
        if self.pending.len() >= self.room {
            self.tally.dropped += 1;
            return (Occurrence::First, Some(subject.action.clone()));
        }
        let prediction = Prediction { decision: decision.clone(), at, since: now, is_repeated: false };
        self.pending.insert(subject, prediction);
        (Occurrence::First, None)
    }

    /// The objects to look at. For each, [`looked`](Self::looked) must follow.
    pub fn subjects(&self) -> Vec<Arc<Subject>> {
        self.pending.keys().cloned().collect()
    }

    /// Takes what the graph shows of an object, and returns what follows. After a re-evaluation,
    /// `decided` says whether the object was decided on.
    pub fn looked(
        &mut self,
        subject: &Arc<Subject>,
        state: &ObjectState,
        decided: Option<bool>,
        (now, at): (Duration, SystemTime),
    ) -> Next {
        let Some(prediction) = self.pending.get_mut(subject) else { return Next::Later };
        match progress(&subject.action, state) {
            Progress::Unknown => Next::Later,
            Progress::CameTrue => self.settle(subject, ComparisonResult::Agreed),
            Progress::Overtaken => self.settle(subject, ComparisonResult::Overtaken),
            Progress::Stands => match decided {
                None if now < prediction.since + self.grace => Next::Later,
                None => {
                    prediction.is_repeated = false;
                    Next::Decide
                }
                Some(_) if prediction.is_repeated => {
                    self.dispute(subject, at);
                    self.settle(subject, ComparisonResult::Disagreed)
                }
                Some(true) => self.settle(subject, ComparisonResult::Overtaken),
                // The result is not known yet.
                Some(false) => Next::Later,
            },
        }
    }

    fn settle(&mut self, subject: &Arc<Subject>, result: ComparisonResult) -> Next {
        self.pending.remove(subject);
        let Tally { agreed, disagreed, overtaken, dropped } = &mut self.tally;
        *match result {
            ComparisonResult::Agreed => agreed,
            ComparisonResult::Disagreed => disagreed,
            ComparisonResult::Overtaken => overtaken,
            ComparisonResult::Dropped => dropped,
        } += 1;
        Next::Settled(result)
    }

    fn dispute(&mut self, subject: &Arc<Subject>, found: SystemTime) {
        let Some(Prediction { decision, at, .. }) = self.pending.remove(subject) else { return };
        if self.disputed.len() >= DISPUTED_AT_MOST {
            self.disputed.clear();
        }
        self.disputed.insert(Arc::clone(subject));
        let subject = Arc::clone(subject);
        self.disagreements.push_front(Disagreement { subject, decision, predicted: at, found });
        self.disagreements.truncate(DISAGREEMENTS_AT_MOST);
    }

    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    pub const fn tally(&self) -> Tally {
        self.tally
    }

    /// The disagreements, newest first.
    pub fn disagreements(&self) -> impl Iterator<Item = &Disagreement> {
        self.disagreements.iter()
    }
}

/// What would have been done to an object. Its word is that of metrics and debug pages.
#[derive(Clone, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum PredictedAction {
    Delete,
    /// It would have lost these references.
    RemoveReferences(RemovedReferences),
    /// It would have lost its references to this owner, which orphans its dependents.
    #[strum(serialize = "orphan")]
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
            "remove_references" => {
                let removed = decision.removed.clone().filter(|removed| !removed.some.is_empty());
                removed.map(Self::RemoveReferences)
            }
            "orphan" => decision.owner.clone().map(Self::Release),
            "remove_finalizer" => decision.finalizer.map(Self::RemoveFinalizer),
            "stop_blocking" => Some(Self::StopBlocking),
            _ => None,
        }
    }
}

/// One object, identified by its uid, and what would have been done to it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    pub object: Identity,
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

/// The state of a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Somebody has done it.
    CameTrue,
    /// It no longer applies, because the object has changed.
    Overtaken,
    /// The write has not been done so far.
    Stands,
    /// Nobody can say.
    Unknown,
}

/// Compares what would have been done to what the graph shows.
pub fn progress(action: &PredictedAction, state: &ObjectState) -> Progress {
    let ObjectState::Known(shown) = state else { return Progress::Unknown };
    match action {
        PredictedAction::Delete => match shown {
            None => Progress::CameTrue,
            Some(now) if now.being_deleted => Progress::CameTrue,
            // An object without owners is not garbage.
            Some(now) if now.owners.is_empty() => Progress::Overtaken,
            Some(_) => Progress::Stands,
        },
        PredictedAction::RemoveReferences(gone) => match shown {
            // kube-gc would have kept it, but a user may have deleted it.
            None => Progress::Overtaken,
            Some(now) if gone.is_gone_from(&now.owners) => Progress::CameTrue,
            Some(now) if now.being_deleted => Progress::Overtaken,
            Some(_) => Progress::Stands,
        },
        // Orphaning does not ask whether the dependent is being deleted itself.
        PredictedAction::Release(owner) => match shown {
            None => Progress::Overtaken,
            Some(now) if now.owners.iter().any(|reference| names(reference, owner)) => Progress::Stands,
            Some(_) => Progress::CameTrue,
        },
        PredictedAction::RemoveFinalizer(finalizer) => match shown {
            None => Progress::CameTrue,
            Some(now) => finalizer_progress(*finalizer, now),
        },
        PredictedAction::StopBlocking => match shown {
            None => Progress::CameTrue,
            Some(now) if !now.owners.iter().any(|reference| reference.block_owner_deletion) => {
                Progress::CameTrue
            }
            Some(now) if now.deletion_state() != DeletionState::DeletingDependents => Progress::Overtaken,
            Some(_) => Progress::Stands,
        },
    }
}

fn names(reference: &OwnerReference, owner: &Identity) -> bool {
    reference.uid == owner.uid && *reference.name == *owner.name
}

/// A second DELETE with another policy replaces one finalizer by the other.
const fn finalizer_progress(finalizer: Finalizer, now: &ObjectFacts) -> Progress {
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
