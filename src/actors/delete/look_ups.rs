//! Live look-ups of owners, one at a time for each identity.

use std::sync::Arc;

use dashmap::DashMap;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

use crate::actors::memory::Memory;
use crate::api::{Api, ApiError, LookUp};
use crate::object::Identity;

type InFlight = Shared<BoxFuture<'static, Result<LookUp, ApiError>>>;

/// Looks owners up. Dependents that ask for the same owner at the same time share
/// one request; a thousand dependents of one unknown owner do not cost a thousand.
#[derive(Clone)]
pub struct LookUps {
    api: Api,
    memory: Arc<Memory>,
    in_flight: Arc<DashMap<Identity, InFlight>>,
}

impl std::fmt::Debug for LookUps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LookUps").field("in_flight", &self.in_flight.len()).finish_non_exhaustive()
    }
}

impl LookUps {
    /// Look-ups that remember what they prove absent.
    #[must_use]
    pub fn new(api: Api, memory: Arc<Memory>) -> Self {
        Self { api, memory, in_flight: Arc::default() }
    }

    /// Looks an identity up, live.
    ///
    /// # Errors
    /// When the API server gave no answer that says anything about the object.
    pub async fn look_up(&self, identity: &Identity) -> Result<LookUp, ApiError> {
        let shared = self
            .in_flight
            .entry(identity.clone())
            .or_insert_with(|| {
                let (api, identity) = (self.api.clone(), identity.clone());
                async move { api.look_up(&identity).await }.boxed().shared()
            })
            .clone();
        let answer = shared.clone().await;
        // Whoever is first takes it out, so that the next one asks afresh; an entry
        // that somebody has put in since stays.
        self.in_flight.remove_if(identity, |_, current| current.ptr_eq(&shared));
        if matches!(answer, Ok(LookUp::Absent(_))) {
            self.memory.absent.remember(identity);
        }
        answer
    }
}
