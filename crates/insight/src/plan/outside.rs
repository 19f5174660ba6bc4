//! What the owners that were not visited do, whatever becomes of the objects that were.

use std::collections::HashMap;

use crate::judge::is_garbage;
use crate::knowledge::{Asker, Live};
use crate::plan::walk::Index;
use kube_gc_core::graph::{OwnerState, ReferenceSnapshot};
use kube_gc_core::object::{DeletionState, Key};
use kube_gc_core::verdict::{ReferenceClass, from_live, from_state, named};

/// The most owners that are looked at, to find out whether they are garbage.
const MOST_OWNERS: usize = 1_000;

/// What a reference of an object that was visited refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    Visited(Index),
    /// Its owner was not visited, and stays as it is.
    Known(ReferenceClass),
    /// Its owner exists, and is being deleted and held, or garbage. When it has gone, the reference is absent.
    Leaving,
    /// Its owner is being deleted, and the dependents of that are being released.
    Orphaning,
    /// Its owner could not be looked at, so it may exist or not.
    Unseen,
    /// Its owner exists, and perhaps is garbage: there are too many to look at each.
    Unfollowed,
}

/// Classifies a reference to an owner that was not visited, as a worker does; `None` if the question needs
/// more facts.
pub(super) fn outside(
    asker: &mut Asker<'_>,
    seen: &ReferenceSnapshot,
    garbage: &mut HashMap<Key, bool>,
) -> Option<Met> {
    let met = stays(asker, seen)?;
    let owner = seen.owner.identity().filter(|_| met == Met::Known(ReferenceClass::Solid));
    let Some(owner) = owner else { return Some(met) };
    let key = owner.key();
    if garbage.len() >= MOST_OWNERS && !garbage.contains_key(&key) {
        return Some(Met::Unfollowed);
    }
    let is_garbage = *garbage.entry(key).or_insert_with(|| is_garbage(asker, owner));
    Some(if is_garbage { Met::Leaving } else { met })
}

/// The same, if an owner that exists and is not being deleted stays.
fn stays(asker: &mut Asker<'_>, seen: &ReferenceSnapshot) -> Option<Met> {
    let (identity, state) = match named(&seen.owner) {
        Err(ReferenceClass::Unresolved) if asker.catalog().is_unread(&seen.reference.api_version) => {
            return Some(Met::Unseen);
        }
        Err(class) => return Some(Met::Known(class)),
        Ok((identity, Some(state))) => (identity, state),
        Ok((identity, None)) => (identity, asker.owner(identity)?),
    };
    let leaving = |deletion| match deletion {
        DeletionState::Terminating => Some(Met::Leaving),
        DeletionState::Orphaning => Some(Met::Orphaning),
        DeletionState::Live | DeletionState::DeletingDependents => None,
    };
    let by_graph = match state {
        OwnerState::Observed { deletion, .. } => leaving(*deletion),
        OwnerState::Absent | OwnerState::Unknown => None,
    };
    if let Some(met) = by_graph.or_else(|| from_state(state).map(Met::Known)) {
        return Some(met);
    }
    Some(match asker.live(identity)? {
        Live::Found(live) => {
            leaving(live.facts.deletion_state()).unwrap_or(Met::Known(from_live(&live.facts)))
        }
        Live::Absent(_) => Met::Known(ReferenceClass::Absent),
        Live::Failed(_) | Live::NotAsked => Met::Unseen,
    })
}
