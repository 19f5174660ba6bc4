//! The first look: what an object's own deletion already settles.

use std::fmt;

use serde::Serialize;

use crate::graph::{ForegroundProgress, ObjectSnapshot};
use crate::object::DeletionState;

/// What is to be done about an object before any owner is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Precheck {
    /// Nothing, for this reason.
    Nothing(IdleReason),
    /// Nothing blocks its foreground deletion any more: the finalizer
    /// `foregroundDeletion` goes.
    RemoveForegroundFinalizer,
    /// The same, unless a dependent blocks it through a part of the API that could
    /// not be read: all partitions know of such references.
    AskForUnreadReferences,
    /// So many dependents block its foreground deletion. Those that were not
    /// deleting dependents themselves have been queued; the last to go or to
    /// stop blocking wakes this object.
    WaitForDependents(usize),
    /// A ring of foreground deletions waits for itself. This object patches its
    /// own blocking references to non-blocking, which lets one owner go.
    BreakDeadlock,
    /// Its owners decide: classify every reference, then [`decide`](super::decide()).
    Classify,
}

/// Why there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum IdleReason {
    /// It is being deleted and waits for grace or foreign finalizers only.
    Terminating,
    /// It is being deleted and its dependents are to live on: the orphan pool's work.
    Orphaning,
    /// It names no owner, so no owner's absence can make it garbage.
    NoReferences,
}

/// Looks at the object itself: is it being deleted, has it owners at all?
#[must_use]
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

impl fmt::Display for Precheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing(reason) => write!(f, "nothing to do: {reason}"),
            Self::RemoveForegroundFinalizer => {
                f.write_str("no blocking dependents left: remove the finalizer foregroundDeletion")
            }
            Self::AskForUnreadReferences => {
                f.write_str("no known blocking dependents left: look for some behind what discovery misses")
            }
            Self::WaitForDependents(1) => f.write_str("waiting for 1 blocking dependent"),
            Self::WaitForDependents(count) => write!(f, "waiting for {count} blocking dependents"),
            Self::BreakDeadlock => {
                f.write_str("its blocking dependents wait for itself: stop blocking its own owners")
            }
            Self::Classify => f.write_str("its owners decide"),
        }
    }
}
