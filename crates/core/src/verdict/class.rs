//! Classifies one owner reference, and says how long a confirmed foreground deletion stays valid.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::graph::{OwnerState, OwnerView};
use crate::mutation::{self, Mutation};
use crate::object::{DeletionState, Identity, ObjectFacts, ResourceVersion};

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
/// does about a foreground deletion that the watch shows (see [`Confirmation`]).
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

/// The confirmation by a live read that an owner waits for its dependents. All dependents share
/// it, since deleting 5,000 of them must not cost 5,000 reads.
///
/// It is checked again right before each DELETE, because a second deletion of the owner with the
/// policy Orphan changes what happens to every dependent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// What the graph knew when the read was sent.
    seen: OwnerState,
    /// The version that the read returned.
    live: Option<ResourceVersion>,
    /// When the read was sent.
    asked: Duration,
}

impl Confirmation {
    /// A confirmation expires after this time even without an event, because the watch may be
    /// late or broken.
    pub const LIFETIME: Duration = Duration::from_secs(1);

    /// A confirmation, if the live read shows that the owner waits. `seen` is what the graph knew
    /// when the read was sent, and `asked` is the time of that on a monotonic clock.
    pub fn new(seen: OwnerState, owner: &ObjectFacts, asked: Duration) -> Option<Self> {
        (from_live(owner) == ReferenceClass::Waiting).then(|| Self {
            seen,
            live: owner.resource_version.clone(),
            asked,
        })
    }

    /// Whether a decision may rest on it: it has not expired, the owner's node is still deleting
    /// dependents, and no event has arrived that is newer than the read. For an owner that no
    /// monitor shows, that has to be still so.
    pub fn holds(&self, state: &OwnerState, now: Duration) -> bool {
        self.is_young(now)
            && match state {
                OwnerState::Observed { deletion: DeletionState::DeletingDependents, resource_version } => {
                    // Without versions, events cannot be told apart.
                    resource_version.is_some() && (*resource_version == self.live || *state == self.seen)
                }
                OwnerState::Observed { .. } | OwnerState::Absent => false,
                OwnerState::Unknown => self.seen == OwnerState::Unknown,
            }
    }

    /// Whether a decision that rests on it may be carried out now: it has not expired, and the
    /// owner's node is still deleting dependents. Other changes of the owner do not matter.
    /// Otherwise an owner whose status changes all the time would keep its dependents forever.
    pub fn stands(&self, state: &OwnerState, now: Duration) -> bool {
        self.is_young(now)
            && match state {
                OwnerState::Observed { deletion, .. } => *deletion == DeletionState::DeletingDependents,
                OwnerState::Absent => false,
                OwnerState::Unknown => self.seen == OwnerState::Unknown,
            }
    }

    fn is_young(&self, now: Duration) -> bool {
        mutation::is(Mutation::ConfirmForEver)
            || now.checked_sub(self.asked).is_some_and(|age| age < Self::LIFETIME)
    }
}
