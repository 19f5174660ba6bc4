//! Confirmations that an owner is deleting its dependents.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use super::DeleteWork;
use super::classify::Classified;
use crate::actors::context::Interrupted;
use crate::api::LookUp;
use crate::graph::OwnerState;
use crate::object::{DeletionState, Identity, ResourceVersion};
use crate::verdict::{ReferenceClass, from_live};

/// How long one live look at an owner speaks for all of its dependents.
const VALID_FOR: Duration = Duration::from_secs(1);
/// How many owners are remembered; more only cost a request each.
const AT_MOST: usize = 1024;

/// A live look found that the owner was deleting its dependents while the graph
/// showed this version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The owner.
    pub owner: Identity,
    /// Its version in the graph at that moment.
    pub version: Option<ResourceVersion>,
}

/// Confirmations by owner. Each belongs to one version of its owner in the
/// graph, so any event of the owner drops it.
#[derive(Debug, Clone, Default)]
pub struct Confirmations {
    entries: Arc<DashMap<Identity, (Option<ResourceVersion>, Instant)>>,
}

impl Confirmations {
    /// The confirmation for this version of the owner, if it is fresh.
    pub fn get(&self, owner: &Identity, version: Option<&ResourceVersion>) -> Option<Waiting> {
        let fresh = self
            .entries
            .get(owner)
            .is_some_and(|entry| entry.0.as_ref() == version && entry.1.elapsed() < VALID_FOR);
        fresh.then(|| Waiting { owner: owner.clone(), version: version.cloned() })
    }

    /// Keeps a confirmation that was obtained just now.
    pub fn put(&self, owner: &Identity, version: Option<ResourceVersion>) -> Waiting {
        if self.entries.len() >= AT_MOST {
            self.entries.retain(|_, (_, at)| at.elapsed() < VALID_FOR);
        }
        self.entries.insert(owner.clone(), (version.clone(), Instant::now()));
        Waiting { owner: owner.clone(), version }
    }
}

impl DeleteWork {
    /// Right before a DELETE: every owner that was confirmed waiting must still be
    /// deleting dependents, at the version that was confirmed. A second DELETE of
    /// the owner with Orphan may have changed everybody's fate meanwhile.
    pub(super) async fn still_waiting(&self, classified: &[Classified]) -> Result<(), Interrupted> {
        for owner in classified.iter().filter(|owner| owner.class == ReferenceClass::Waiting) {
            let Some(identity) = &owner.identity else { continue };
            match (self.context.graph.owner_state(identity).await?, &owner.confirmed) {
                (
                    OwnerState::Observed { resource_version, deletion: DeletionState::DeletingDependents },
                    Some(confirmed),
                ) if resource_version == confirmed.version => {}
                // Not observed: it was looked up live for this very decision.
                (OwnerState::Unknown, None) => {}
                _ => return Err(Interrupted::Changed("an owner that was waiting has changed")),
            }
        }
        Ok(())
    }

    /// Before a waiting reference goes, one solid owner is confirmed live: without
    /// it the dependent would have had to go with the waiting owner.
    pub(super) async fn confirm_solid(&self, owner: &Classified) -> Result<(), Interrupted> {
        let Some(identity) = &owner.identity else {
            return Err(Interrupted::Changed("a solid owner has no identity"));
        };
        match self.look_ups.look_up(identity).await? {
            LookUp::Found(facts) if from_live(&facts) == ReferenceClass::Solid => Ok(()),
            LookUp::Found(_) | LookUp::Absent(_) => {
                Err(Interrupted::Changed("the owner that was solid is not solid any more"))
            }
        }
    }
}
