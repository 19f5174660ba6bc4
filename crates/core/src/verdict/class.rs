//! Classifies one owner reference.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::graph::{OwnerState, OwnerView};
use crate::mutation::{self, Mutation};
use crate::object::{DeletionState, Identity, ObjectFacts};

/// The class of one owner reference. A deletion needs every reference of an
/// object to be [`Absent`](Self::Absent) or [`Waiting`](Self::Waiting).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ReferenceClass {
    /// The owner exists and keeps the dependent alive. This includes an owner that terminates with
    /// other finalizers than `foregroundDeletion`.
    Solid,
    /// The owner is being deleted in the foreground and waits for its dependents. A live read has
    /// confirmed it.
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
    InvalidScope,
}

/// What the graph knows about a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphClass<'a> {
    /// The class, without a request.
    Known(ReferenceClass),
    /// The watch shows the owner as being deleted in the foreground. A live read has to confirm it
    /// (see [`Confirmation`](super::Confirmation)).
    ConfirmWaiting(&'a Identity),
    /// The graph does not know: a live read decides. An absence counts only if the answer proves
    /// it.
    NeedsLookup(&'a Identity),
    /// Another partition has the owner. Its answer goes to [`from_state`].
    AskPartition(&'a Identity),
}

/// Classifies a reference by what the object's own partition knows.
pub fn from_graph(view: &OwnerView) -> GraphClass<'_> {
    match view {
        OwnerView::Unresolved => GraphClass::Known(ReferenceClass::Unresolved),
        OwnerView::InvalidScope => GraphClass::Known(ReferenceClass::InvalidScope),
        OwnerView::Remote(identity) => GraphClass::AskPartition(identity),
        OwnerView::Local { identity, state } => from_state(identity, state),
    }
}

/// Classifies a reference to `identity` by what the owner's partition knows. An owner that a
/// synced monitor shows is solid without a request: if that view is stale, its DELETED event
/// follows. Everything that leads to a deletion needs proof.
pub fn from_state<'a>(identity: &'a Identity, state: &OwnerState) -> GraphClass<'a> {
    match state {
        OwnerState::Observed { deletion: DeletionState::DeletingDependents, .. } => {
            GraphClass::ConfirmWaiting(identity)
        }
        OwnerState::Observed { deletion: DeletionState::Terminating, .. }
            if mutation::is(Mutation::TerminatingIsAbsent) =>
        {
            GraphClass::Known(ReferenceClass::Absent)
        }
        OwnerState::Observed {
            deletion: DeletionState::Live | DeletionState::Terminating | DeletionState::Orphaning,
            ..
        } => GraphClass::Known(ReferenceClass::Solid),
        OwnerState::Absent => GraphClass::Known(ReferenceClass::Absent),
        OwnerState::Unknown => GraphClass::NeedsLookup(identity),
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

impl fmt::Display for ReferenceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Solid => "solid",
            Self::Waiting => "waiting for its dependents to be deleted",
            Self::Absent => "absent",
            Self::Orphaned => "orphaned",
            Self::Unresolved => "unresolved",
            Self::InvalidScope => "of invalid scope",
        })
    }
}
