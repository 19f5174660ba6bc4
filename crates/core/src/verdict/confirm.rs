//! How long a confirmed foreground deletion stays valid.

use std::time::Duration;

use crate::graph::OwnerState;
use crate::mutation::{self, Mutation};
use crate::object::{DeletionState, ObjectFacts, ResourceVersion};

use super::{ReferenceClass, from_live};

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
