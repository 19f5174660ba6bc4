//! What one owner reference is worth.

use std::fmt;

use serde::Serialize;

use crate::graph::{OwnerState, OwnerView};
use crate::mutation::{self, Mutation};
use crate::object::{DeletionState, Identity, ObjectFacts};

/// The class of one owner reference. A deletion needs every reference of an
/// object to be [`Absent`](Self::Absent) or [`Waiting`](Self::Waiting).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ReferenceClass {
    /// The owner exists and keeps the dependent alive; also while it terminates
    /// with other finalizers than `foregroundDeletion`.
    Solid,
    /// The owner exists, is being deleted in the foreground and waits for its
    /// dependents to go. Confirmed live.
    Waiting,
    /// Exactly this identity was proved absent.
    Absent,
    /// The owner was orphaned by us a moment ago and this dependent came too
    /// late for the round: it loses the reference and lives on, as its user
    /// asked (kubernetes/kubernetes#26120).
    Orphaned,
    /// The kind or version is unknown to the server, or the look-up failed.
    /// Nothing may be concluded; to be tried again.
    Unresolved,
    /// A cluster-scoped dependent names a namespaced kind of owner. Never a
    /// reason to delete, never tried again.
    InvalidScope,
}

/// What the graph alone can say about a reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphClass<'a> {
    /// This, without any request.
    Known(ReferenceClass),
    /// The owner is being deleted in the foreground as far as the watch has
    /// told. A live read has to confirm it (see [`Confirmation`](super::Confirmation)).
    ConfirmWaiting(&'a Identity),
    /// The graph does not know: look it up live. An absence only counts when the
    /// answer proves it.
    LookUp(&'a Identity),
    /// Another partition has the owner: its answer goes to [`from_state`].
    AskPartition(&'a Identity),
}

/// Classifies a reference by what the object's own partition knows.
#[must_use]
pub fn from_graph(view: &OwnerView) -> GraphClass<'_> {
    match view {
        OwnerView::Unresolved => GraphClass::Known(ReferenceClass::Unresolved),
        OwnerView::InvalidScope => GraphClass::Known(ReferenceClass::InvalidScope),
        OwnerView::Remote(identity) => GraphClass::AskPartition(identity),
        OwnerView::Local { identity, state } => from_state(identity, state),
    }
}

/// Classifies a reference to `identity` by what the partition that has the owner
/// knows. An owner that a synced monitor shows needs no request to be solid: if
/// that view is stale, its delete event follows. Everything that leads to a
/// deletion needs proof.
#[must_use]
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
        OwnerState::Unknown => GraphClass::LookUp(identity),
    }
}

/// Classifies a reference by a live read that found exactly the identity it
/// names. An owner that carries both finalizers orphans first and is solid.
#[must_use]
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
