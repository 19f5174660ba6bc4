//! How long a confirmed foreground deletion may be relied on.

use std::time::Duration;

use crate::graph::OwnerState;
use crate::mutation::{self, Mutation};
use crate::object::{DeletionState, ObjectFacts, ResourceVersion};

use super::{ReferenceClass, from_live};

/// The live confirmation that an owner waits for its dependents, made once for
/// all of them: deleting 5,000 dependents must not cost 5,000 reads.
///
/// It is checked again right before each DELETE, because a second deletion of
/// the owner with the policy Orphan changes the fate of every dependent.
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
    /// A confirmation is renewed after this time even if no event came: the
    /// watch may be late or cut.
    pub const LIFETIME: Duration = Duration::from_secs(1);

    /// Confirms by a live read, if it says that the owner waits. `seen` is what
    /// the graph knew, and `asked` the time (on any steady clock), when the read
    /// was sent.
    #[must_use]
    pub fn new(seen: OwnerState, owner: &ObjectFacts, asked: Duration) -> Option<Self> {
        (from_live(owner) == ReferenceClass::Waiting).then(|| Self {
            seen,
            live: owner.resource_version.clone(),
            asked,
        })
    }

    /// Whether it still holds: it is younger than a second, the owner's node is
    /// still deleting dependents, and no event has come but the one that the
    /// read has already seen. An owner that no monitor shows holds for as long
    /// as that stays so.
    #[must_use]
    pub fn holds(&self, state: &OwnerState, now: Duration) -> bool {
        self.is_young(now)
            && match state {
                OwnerState::Observed { deletion: DeletionState::DeletingDependents, resource_version } => {
                    // Without a version no event can be told from another.
                    resource_version.is_some() && (*resource_version == self.live || *state == self.seen)
                }
                OwnerState::Observed { .. } | OwnerState::Absent => false,
                OwnerState::Unknown => self.seen == OwnerState::Unknown,
            }
    }

    /// Whether a decision that was made while it [held](Self::holds) may be carried
    /// out now: it is younger than a second, and the owner's node is still deleting
    /// dependents. Whatever else has changed about the owner is no reason to decide
    /// afresh: one whose status changes all the time would keep its dependents for
    /// ever.
    #[must_use]
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
