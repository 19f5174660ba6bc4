//! A prediction, and whether somebody else has fulfilled it.

use std::time::SystemTime;

use crate::api::Finalizer;
use crate::telemetry::Queue;
use crate::worker::decision::{DecisionRecord, JudgedOwner};
use crate::worker::reference_digest::{Fingerprint, RemovedReferences};
use kube_gc_core::graph::ObservedObject;
use kube_gc_core::object::{DeletionState, Identity, Key, OwnerReference, PropagationPolicy};

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
    #[must_use]
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
    #[must_use]
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
    #[must_use]
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
    #[must_use]
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
#[must_use]
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
