//! Confirmations that an owner is deleting its dependents, shared by all of its dependents.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use super::look_ups::SentAt;
use crate::api::RestoreFence;
use kube_gc_core::graph::OwnerState;
use kube_gc_core::object::{Digest, Identity, ObjectFacts};
use kube_gc_core::verdict::Confirmation;

/// How many owners are remembered. Each further one costs a request.
const AT_MOST: usize = 1024;

/// Confirmations by owner. One look-up serves all dependents of an owner for as long as
/// [`Confirmation::holds`].
#[derive(Debug, Clone)]
pub struct Confirmations {
    entries: Arc<DashMap<Digest, Confirmed>>,
    origin: Instant,
    restore_fence: RestoreFence,
}

/// A confirmation, void once watches break.
#[derive(Clone, Debug)]
struct Confirmed {
    confirmation: Confirmation,
    /// The latest disturbance when it was made.
    under: u64,
}

impl Confirmations {
    /// An empty store.
    pub fn new(restore_fence: RestoreFence) -> Self {
        Self { entries: Arc::default(), origin: Instant::now(), restore_fence }
    }

    /// The present time on the clock of the confirmations.
    pub fn now(&self) -> Duration {
        self.origin.elapsed()
    }

    /// A moment on the clock of the confirmations.
    pub fn at(&self, moment: Instant) -> Duration {
        moment.duration_since(self.origin)
    }

    /// The confirmation that holds for an owner in this state.
    pub fn get(&self, owner: &Identity, state: &OwnerState) -> Option<Confirmation> {
        let (now, number) = (self.now(), self.restore_fence.acknowledged());
        let confirmed = self.entries.get(&Digest::of(owner))?;
        let holds = confirmed.under == number && confirmed.confirmation.holds(state, now);
        holds.then(|| confirmed.confirmation.clone())
    }

    /// Stores the result of a look-up that was sent when the graph knew `seen`. `None` if the owner
    /// is not deleting its dependents.
    pub fn confirm(
        &self,
        owner: &Identity,
        seen: OwnerState,
        facts: &ObjectFacts,
        asked: &SentAt,
    ) -> Option<Confirmation> {
        let confirmation = Confirmation::new(seen, facts, self.at(asked.at))?;
        if self.entries.len() >= AT_MOST {
            self.entries.clear();
        }
        let confirmed = Confirmed { confirmation: confirmation.clone(), under: asked.under };
        self.entries.insert(Digest::of(owner), confirmed);
        Some(confirmation)
    }
}
