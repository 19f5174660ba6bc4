//! Live look-ups of owners, one at a time for each identity.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use tokio::time::Instant;

use crate::actors::context::WorkerContext;
use crate::api::{ApiError, ErrorClass, LookUp};
use crate::object::Identity;

/// A look-up holds a worker, so it is given less time than a write: it can be
/// repeated at no cost but its own.
const AT_MOST: Duration = Duration::from_secs(5);

type InFlight = Shared<BoxFuture<'static, LookedUp>>;

/// What a look-up found, and when it was sent.
#[derive(Clone, Debug)]
pub struct LookedUp {
    /// Whoever joins a look-up gets an answer that is as old as its question.
    pub sent: Instant,
    /// The answer.
    pub answer: Result<LookUp, ApiError>,
}

/// Looks owners up. Dependents that ask for the same owner at the same time share
/// one request; a thousand dependents of one unknown owner do not cost a thousand.
#[derive(Clone)]
pub struct LookUps {
    context: WorkerContext,
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
    pub fn new(context: WorkerContext) -> Self {
        Self { context, in_flight: Arc::default() }
    }

    /// Looks an identity up, live.
    pub async fn look_up(&self, identity: &Identity) -> LookedUp {
        let shared = self
            .in_flight
            .entry(identity.clone())
            .or_insert_with(|| send(self.context.clone(), identity.clone()).boxed().shared())
            .clone();
        let looked_up = shared.clone().await;
        // Whoever is first takes it out, so that the next one asks afresh; an entry
        // that somebody has put in since stays.
        self.in_flight.remove_if(identity, |_, current| current.ptr_eq(&shared));
        if matches!(looked_up.answer, Ok(LookUp::Absent(_))) {
            self.context.memory.absent.remember(identity);
        }
        looked_up
    }
}

async fn send(context: WorkerContext, identity: Identity) -> LookedUp {
    let sent = Instant::now();
    let in_time = async {
        tokio::time::timeout(AT_MOST, context.api.look_up(&identity)).await.unwrap_or_else(|_| {
            Err(ApiError {
                class: ErrorClass::Transient,
                action: "GET",
                target: identity.to_string(),
                message: format!("no answer within {} s", AT_MOST.as_secs()),
                code: None,
            })
        })
    };
    let answer = context.health.request(&identity.resource.group_resource, in_time).await;
    LookedUp { sent, answer }
}
