//! The precheck: what an object's own deletion state decides.

use std::fmt;

use crate::graph::{ForegroundProgress, ObjectSnapshot};
use crate::object::DeletionState;

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
    /// Its owners decide: classify every reference and [`decide`](super::decide()).
    Classify,
}

/// Why there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdleReason {
    /// It is being deleted and waits for its grace period or other finalizers only.
    Terminating,
    /// It is being deleted with the policy Orphan, which is the orphan pool's work.
    Orphaning,
    /// It names no owner, so it cannot be garbage.
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

impl fmt::Display for IdleReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Terminating => "it is being deleted already",
            Self::Orphaning => "it is being deleted and orphans its dependents first",
            Self::NoReferences => "it has no owner references",
        })
    }
}
