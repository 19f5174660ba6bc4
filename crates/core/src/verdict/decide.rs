//! What an object's own deletion decides, and the decision table.

use crate::graph::{ForegroundProgress, ObjectSnapshot};
use crate::mutation::{self, Mutation};
use crate::object::{DeletionState, PropagationPolicy};

use super::ReferenceClass;

/// What to do about an object, before its owners are considered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precheck {
    Nothing(IdleReason),
    /// Nothing blocks its foreground deletion any more: remove the finalizer
    /// `foregroundDeletion`.
    RemoveForegroundFinalizer,
    /// The same, unless a dependent blocks it through a part of the API that discovery could not
    /// read. The partitions have to be asked for such references.
    AskForUnreadReferences,
    /// This many dependents block its foreground deletion. Those that are not deleting dependents
    /// themselves have been queued. The last one that goes or stops blocking queues this object.
    WaitForDependents(usize),
    /// It is in a cycle of foreground deletions. Patch its own blocking references to
    /// non-blocking, which unblocks one owner.
    BreakDeadlock,
    /// Its owners decide: classify every reference and [`decide`].
    Classify,
}

/// Why there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display)]
pub enum IdleReason {
    /// It is being deleted and waits for its grace period or other finalizers only.
    #[strum(serialize = "it is being deleted already")]
    Terminating,
    /// It is being deleted with the policy Orphan, which is the orphan pool's work.
    #[strum(serialize = "it is being deleted and orphans its dependents first")]
    Orphaning,
    /// It names no owner, so it cannot be garbage.
    #[strum(serialize = "it has no owner references")]
    NoReferences,
}

/// Checks the object itself: whether it is being deleted and whether it has owners.
pub fn precheck(item: &ObjectSnapshot) -> Precheck {
    match item.deletion {
        DeletionState::Terminating => Precheck::Nothing(IdleReason::Terminating),
        DeletionState::Orphaning => Precheck::Nothing(IdleReason::Orphaning),
        DeletionState::DeletingDependents => match item.foreground {
            ForegroundProgress::Unblocked => Precheck::RemoveForegroundFinalizer,
            ForegroundProgress::PerhapsBlocked => Precheck::AskForUnreadReferences,
            ForegroundProgress::Blocked(count) => Precheck::WaitForDependents(count),
            ForegroundProgress::Deadlocked => Precheck::BreakDeadlock,
        },
        DeletionState::Live if item.references.is_empty() => Precheck::Nothing(IdleReason::NoReferences),
        DeletionState::Live => Precheck::Classify,
    }
}

/// What to do about an object whose references are all classified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Do nothing. Any relevant change queues the object again.
    Keep(KeepReason),
    /// Do nothing now. Retry with backoff, and as soon as discovery changes.
    Park(ParkReason),
    /// Report references that can never become valid. This is not retried.
    Report {
        /// Indices into the references.
        invalid_scope: Vec<usize>,
    },
    /// Remove references by a patch, conditional on the version of the snapshot.
    RemoveReferences {
        /// Indices into the references, ascending.
        remove: Vec<usize>,
        /// A solid reference whose owner a live read has to confirm first, because a waiting
        /// reference is removed and nothing else may be left to keep the object. If that owner
        /// is not solid, decide again with what was read.
        confirm_solid: Option<usize>,
    },
    /// Delete the object, conditional on its uid and the version of the snapshot.
    Delete {
        policy: PropagationPolicy,
        /// Patch the object's own blocking references to non-blocking first. One of its
        /// dependents is deleting dependents, so the deletion may close a cycle in which every
        /// object waits. See [`after_patch`](super::after_patch).
        stop_blocking_first: bool,
    },
}

/// Why an object is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display)]
pub enum KeepReason {
    /// All its owners are solid.
    #[strum(serialize = "its owners are solid")]
    Owned,
    /// It names no owner.
    #[strum(serialize = "it has no owner references")]
    NoReferences,
    /// It is being deleted already.
    #[strum(serialize = "it is being deleted already")]
    BeingDeleted,
}

/// Why an object cannot be decided on yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::Display)]
pub enum ParkReason {
    /// A reference is unresolved.
    #[strum(serialize = "an owner reference is unresolved")]
    Unresolved,
    /// There is not exactly one class per reference, so nothing is known.
    #[strum(serialize = "its owner references changed while they were looked up")]
    Unclassified,
}

/// Decides on an object by the classes of its references, one per reference and in their order.
///
/// The row for orphaned references comes first: such an object is never deleted in the same step,
/// and is evaluated again after the patch.
pub fn decide(item: &ObjectSnapshot, classes: &[ReferenceClass]) -> Decision {
    if item.deletion.is_being_deleted() {
        return Decision::Keep(KeepReason::BeingDeleted);
    }
    if classes.len() != item.references.len() {
        return Decision::Park(ParkReason::Unclassified);
    }
    if let Some(decision) = Decision::unless_garbage(classes) {
        return decision;
    }

    if classes.contains(&ReferenceClass::Waiting) && item.has_dependents && !item.finalizers.orphan {
        // The owner is deleted in the foreground, so this object's dependents go first too.
        let blocks = item.references.iter().any(|view| view.reference.block_owner_deletion);
        return Decision::Delete {
            policy: PropagationPolicy::Foreground,
            stop_blocking_first: item.has_dependent_deleting_dependents && blocks,
        };
    }
    // A DELETE replaces the finalizers by those of its policy, so the policy has to repeat what the
    // object's finalizers ask for.
    let policy = if mutation::is(Mutation::AlwaysBackground) {
        PropagationPolicy::Background
    } else if item.finalizers.orphan {
        PropagationPolicy::Orphan
    } else if item.finalizers.foreground {
        PropagationPolicy::Foreground
    } else {
        PropagationPolicy::Background
    };
    Decision::Delete { policy, stop_blocking_first: false }
}

impl Decision {
    /// What to do about an object whose references have these classes; `None` if it is garbage.
    pub fn unless_garbage(classes: &[ReferenceClass]) -> Option<Self> {
        use ReferenceClass::{Absent, InvalidScope, Orphaned, Solid, Unresolved, Waiting};

        // "All references are absent" is true of none.
        if classes.is_empty() {
            return Some(Self::Keep(KeepReason::NoReferences));
        }
        let has = |class| classes.contains(&class);
        let solid = classes.iter().position(|class| *class == Solid);
        if has(Orphaned) || (solid.is_some() && (has(Absent) || has(Waiting))) {
            let goes = |class| match class {
                Orphaned => true,
                Absent | Waiting => solid.is_some(),
                Solid | Unresolved | InvalidScope => false,
            };
            return Some(Self::RemoveReferences {
                remove: indices(classes, goes),
                confirm_solid: solid.filter(|_| has(Waiting) && !mutation::is(Mutation::TrustSolidOwner)),
            });
        }
        if has(Unresolved) {
            return Some(Self::Park(ParkReason::Unresolved));
        }
        if has(InvalidScope) {
            return Some(Self::Report { invalid_scope: indices(classes, |class| class == InvalidScope) });
        }
        solid.map(|_| Self::Keep(KeepReason::Owned))
    }
}

fn indices(classes: &[ReferenceClass], wanted: impl Fn(ReferenceClass) -> bool) -> Vec<usize> {
    let matching = classes.iter().enumerate().filter(|(_, class)| wanted(**class));
    matching.map(|(index, _)| index).collect()
}
