//! Classifies one owner reference.

use serde::{Deserialize, Serialize};

use crate::graph::{OwnerState, OwnerView};
use crate::mutation::{self, Mutation};
use crate::object::{DeletionState, Identity, ObjectFacts};

/// The class of one owner reference. A deletion needs every reference of an
/// object to be [`Absent`](Self::Absent) or [`Waiting`](Self::Waiting).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, strum::Display,
)]
#[cfg_attr(feature = "schemas", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "lowercase")]
pub enum ReferenceClass {
    /// The owner exists and keeps the dependent alive. This includes an owner that terminates with
    /// other finalizers than `foregroundDeletion`.
    Solid,
    /// The owner is being deleted in the foreground and waits for its dependents. A live read has
    /// confirmed it.
    #[strum(serialize = "waiting for its dependents to be deleted")]
    Waiting,
    /// Exactly this identity was proved absent.
    Absent,
    /// We have just orphaned the owner's dependents, and this one was created too late to be
    /// among them. It loses the reference and lives on, as the user asked
    /// (kubernetes/kubernetes#26120).
    Orphaned,
    /// The server does not know the kind or version, or the look-up failed. This proves nothing
    /// and is retried.
    Unresolved,
    /// A cluster-scoped dependent names an owner of a namespaced kind. This is never a reason to
    /// delete, and is not retried.
    #[strum(serialize = "of invalid scope")]
    InvalidScope,
}

/// The class of an owner by what its partition knows; `None` if a live read decides, which it also
/// does about a foreground deletion that the watch shows (see [`Confirmation`](super::Confirmation)).
/// An owner that a synced monitor shows is solid without a request: if that view is stale, its
/// DELETED event follows. Everything that leads to a deletion needs proof.
pub fn from_state(state: &OwnerState) -> Option<ReferenceClass> {
    match state {
        OwnerState::Observed { deletion: DeletionState::DeletingDependents, .. } | OwnerState::Unknown => {
            None
        }
        OwnerState::Observed { deletion: DeletionState::Terminating, .. }
            if mutation::is(Mutation::TerminatingIsAbsent) =>
        {
            Some(ReferenceClass::Absent)
        }
        OwnerState::Observed {
            deletion: DeletionState::Live | DeletionState::Terminating | DeletionState::Orphaning,
            ..
        } => Some(ReferenceClass::Solid),
        OwnerState::Absent => Some(ReferenceClass::Absent),
    }
}

/// The owner that a reference names, with its state if the dependent's own partition has it; or the
/// class of a reference that names none.
///
/// # Errors
/// The kind is not served, or has the wrong scope.
pub const fn named(owner: &OwnerView) -> Result<(&Identity, Option<&OwnerState>), ReferenceClass> {
    match owner {
        OwnerView::Unresolved => Err(ReferenceClass::Unresolved),
        OwnerView::InvalidScope => Err(ReferenceClass::InvalidScope),
        OwnerView::Remote(identity) => Ok((identity, None)),
        OwnerView::Local { identity, state } => Ok((identity, Some(state))),
    }
}

/// Classifies a reference by a live read that found exactly the identity that it names. An owner
/// with both finalizers orphans first, and is solid.
pub const fn from_live(owner: &ObjectFacts) -> ReferenceClass {
    match owner.deletion_state() {
        DeletionState::DeletingDependents => ReferenceClass::Waiting,
        DeletionState::Live | DeletionState::Terminating | DeletionState::Orphaning => ReferenceClass::Solid,
    }
}
