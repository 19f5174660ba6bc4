//! What is known of the owners that a deletion does not concern.

use crate::knowledge::{Asker, Live};
use kube_gc_core::graph::{OwnerState, OwnerView, ReferenceSnapshot};
use kube_gc_core::object::DeletionState;
use kube_gc_core::verdict::{GraphClass, ReferenceClass, from_graph, from_live, from_state};

/// The class of a reference to an owner that was not visited, and whether that owner is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outside {
    /// It stays as it is.
    Known(ReferenceClass),
    /// It exists, is being deleted, and is held. When it has gone, its reference is absent.
    Leaving,
    /// It is being deleted, and its dependents are being released.
    Orphaning,
    /// It could not be looked at, so it may exist or not.
    Unseen,
}

/// Classifies a reference as a worker does; `None` if the question needs more facts.
pub(super) fn outside(asker: &mut Asker<'_>, seen: &ReferenceSnapshot) -> Option<Outside> {
    let undiscovered = asker.catalog().is_unread(&seen.reference.api_version);
    if let OwnerView::Local { state, .. } = &seen.owner
        && let Some(outside) = of_state(state)
    {
        return Some(outside);
    }
    let identity = match from_graph(&seen.owner) {
        GraphClass::Known(ReferenceClass::Unresolved) if undiscovered => return Some(Outside::Unseen),
        GraphClass::Known(class) => return Some(Outside::Known(class)),
        GraphClass::AskPartition(identity) => {
            let state = asker.owner(identity)?;
            if let Some(outside) = of_state(state) {
                return Some(outside);
            }
            match from_state(identity, state) {
                GraphClass::Known(class) => return Some(Outside::Known(class)),
                GraphClass::ConfirmWaiting(identity)
                | GraphClass::NeedsLookup(identity)
                | GraphClass::AskPartition(identity) => identity,
            }
        }
        GraphClass::ConfirmWaiting(identity) | GraphClass::NeedsLookup(identity) => identity,
    };
    Some(match asker.live(identity)? {
        Live::Found(live) => {
            of_deletion(live.facts.deletion_state()).unwrap_or(Outside::Known(from_live(&live.facts)))
        }
        Live::Absent(_) => Outside::Known(ReferenceClass::Absent),
        Live::Failed(_) | Live::NotAsked => Outside::Unseen,
    })
}

const fn of_state(state: &OwnerState) -> Option<Outside> {
    match state {
        OwnerState::Observed { deletion, .. } => of_deletion(*deletion),
        OwnerState::Absent | OwnerState::Unknown => None,
    }
}

const fn of_deletion(deletion: DeletionState) -> Option<Outside> {
    match deletion {
        DeletionState::Terminating => Some(Outside::Leaving),
        DeletionState::Orphaning => Some(Outside::Orphaning),
        DeletionState::Live | DeletionState::DeletingDependents => None,
    }
}
