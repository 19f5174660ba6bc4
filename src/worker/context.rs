//! What the workers of both pools work with.

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use crate::actors::graph_handle::{GraphHandle, PartitionEnded};
use crate::actors::pool::Outcome;
use crate::actors::registry::Registry;
use crate::api::{Api, ApiError, ErrorClass};
use crate::telemetry::StuckReason;
use crate::worker::absent_owner_cache::Memory;
use crate::worker::brake::Brake;
use crate::worker::decision::DecisionObserver;
use crate::worker::event_recorder::Reporter;
use crate::worker::orphan::Releases;
use crate::worker::repeats::Repeats;
use kube_gc_core::brake::Limits;
use kube_gc_core::graph::Report;
use kube_gc_core::mailbox::Completion;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{Identity, OwnerReference, Uid};
use kube_gc_core::text::bounded;

/// How long the answer to "who has this uid?" is used again.
const LOCATED_FOR: Duration = Duration::from_secs(1);
/// How many of these answers are kept.
const LOCATED_AT_MOST: usize = 1024;

/// Shared by all workers.
#[derive(Debug, Clone)]
pub struct WorkerContext {
    /// The API server.
    pub api: Api,
    /// The graph.
    pub graph: GraphHandle,
    /// What was proved before.
    pub memory: Arc<Memory>,
    /// Events and log lines for people.
    pub reporter: Reporter,
    /// What keeps it from deleting too much.
    pub brake: Brake,
    /// How far the monitors are.
    pub registry: Registry,
    /// How many dependents are released at a time.
    pub releases: Releases,
    /// Who else hears of decisions.
    pub decisions: Arc<[Arc<dyn DecisionObserver>]>,
    /// What was last logged of objects that wait.
    pub repeats: Arc<Repeats>,
    located: Arc<DashMap<Uid, Located>>,
}

/// The answer to "who has this uid?".
#[derive(Debug)]
struct Located {
    at: Instant,
    found: Arc<[Identity]>,
}

impl WorkerContext {
    /// Puts it together.
    #[must_use]
    pub fn new(api: Api, graph: GraphHandle, memory: Arc<Memory>, reporter: Reporter) -> Self {
        Self {
            api,
            graph,
            memory,
            reporter,
            brake: Brake::new(Limits::default()),
            registry: Registry::default(),
            releases: Releases::new(1),
            decisions: Arc::default(),
            repeats: Arc::default(),
            located: Arc::default(),
        }
    }

    /// For one decision, which begins now: nothing comes of it once watches have broken.
    #[must_use]
    pub fn now(&self) -> Self {
        let number = self.api.restore_fence().acknowledged();
        Self { api: self.api.under(number), graph: self.graph.under(number), ..self.clone() }
    }

    /// With this brake.
    #[must_use]
    pub fn braked(mut self, brake: Brake) -> Self {
        self.brake = brake;
        self
    }

    /// With these monitors.
    #[must_use]
    pub fn monitored(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// With so many releases of dependents at a time.
    #[must_use]
    pub fn releasing(mut self, at_a_time: usize) -> Self {
        self.releases = Releases::new(at_a_time);
        self
    }

    /// With those who hear of every decision.
    #[must_use]
    pub fn observed(mut self, decisions: Vec<Arc<dyn DecisionObserver>>) -> Self {
        self.decisions = decisions.into();
        self
    }

    /// Before anything follows from an owner's absence: if its uid is alive in
    /// another namespace, the dependent's author has made a mistake and hears of it.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn report_misplaced(
        &self,
        dependent: &Identity,
        reference: &OwnerReference,
    ) -> Result<(), PartitionEnded> {
        let found = self.locate(&reference.uid).await?;
        let misplaced =
            found.iter().any(|owner| owner.namespace.is_some() && owner.namespace != dependent.namespace);
        if misplaced {
            self.reporter.report(Report::NamespaceMismatch {
                dependent: dependent.clone(),
                reference: reference.clone(),
            });
        }
        Ok(())
    }

    async fn locate(&self, uid: &Uid) -> Result<Arc<[Identity]>, PartitionEnded> {
        let now = Instant::now();
        if let Some(located) = self.located.get(uid)
            && now.duration_since(located.at) < LOCATED_FOR
        {
            return Ok(Arc::clone(&located.found));
        }
        let found: Arc<[Identity]> = self.graph.locate(uid).await?.into();
        if self.located.len() >= LOCATED_AT_MOST {
            self.located.retain(|_, located| now.duration_since(located.at) < LOCATED_FOR);
        }
        if self.located.len() < LOCATED_AT_MOST {
            self.located.insert(uid.clone(), Located { at: now, found: Arc::clone(&found) });
        }
        Ok(found)
    }
}

/// Why a key could not be finished now.
#[derive(Debug)]
pub enum Interrupted {
    /// A request failed.
    Api(ApiError),
    /// The graph ended.
    Graph(PartitionEnded),
    /// The world moved on: decide afresh.
    Changed(&'static str),
    /// Nothing is deleted for now.
    Braked(Arc<str>),
}

impl From<ApiError> for Interrupted {
    fn from(error: ApiError) -> Self {
        Self::Api(error)
    }
}

impl From<PartitionEnded> for Interrupted {
    fn from(error: PartitionEnded) -> Self {
        Self::Graph(error)
    }
}

impl Interrupted {
    /// Whether nothing was tried, for no failure of its own.
    #[must_use]
    pub const fn is_deferred(&self) -> bool {
        matches!(self, Self::Api(ApiError { class: ErrorClass::Deferred { .. }, .. }))
    }

    /// What becomes of the key.
    #[must_use]
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Changed(what) => Completion::Retry { reason: StuckReason::Conflict, error: what.into() },
            Self::Graph(error) => {
                Completion::Retry { reason: StuckReason::Failed, error: error.to_string().into() }
            }
            Self::Braked(error) => Completion::Park { reason: StuckReason::Braked, error },
            Self::Api(error) => api_outcome(&error),
        }
    }
}

/// What becomes of a key that ends in a request, if requests are held at this moment.
#[must_use]
pub fn held(api: &Api) -> Option<Outcome> {
    api.held().as_ref().map(api_outcome)
}

/// What becomes of a key whose request failed.
#[must_use]
pub fn api_outcome(error: &ApiError) -> Outcome {
    let text: Arc<str> = bounded(error).into();
    match error.class {
        // It was decided and reported; there is nothing left to do.
        ErrorClass::DryRun => Completion::Done,
        ErrorClass::Conflict => Completion::Retry { reason: StuckReason::Conflict, error: text },
        // At once: where watches break again and again, who waits is late again.
        ErrorClass::Fenced => {
            Completion::RetryAfter { after: Duration::ZERO, reason: StuckReason::Conflict, error: text }
        }
        ErrorClass::Throttled { retry_after: Some(after) } => {
            Completion::RetryAfter { after, reason: StuckReason::Throttled, error: text }
        }
        ErrorClass::Throttled { retry_after: None } => {
            Completion::Retry { reason: StuckReason::Throttled, error: text }
        }
        ErrorClass::Denied => Completion::Retry { reason: StuckReason::Denied, error: text },
        ErrorClass::Deferred { .. } if mutation::is(Mutation::ForgetDeferred) => Completion::Done,
        ErrorClass::Deferred { retry_after } => {
            Completion::Defer { after: retry_after, reason: StuckReason::Deferred, error: text }
        }
        _ => Completion::Retry { reason: StuckReason::Failed, error: text },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason_of(class: ErrorClass) -> Option<StuckReason> {
        let error =
            ApiError { class, action: "DELETE", target: "pods a/b".into(), message: "no".into(), code: None };
        match api_outcome(&error) {
            Completion::Retry { reason, error } => {
                assert!(error.ends_with("no"), "in the server's own words: {error}");
                Some(reason)
            }
            Completion::Done
            | Completion::Again
            | Completion::RetryAfter { .. }
            | Completion::Defer { .. }
            | Completion::Park { .. } => None,
        }
    }

    #[test]
    fn a_denial_is_told_from_a_failure() {
        assert_eq!(reason_of(ErrorClass::Denied), Some(StuckReason::Denied));
        assert_eq!(reason_of(ErrorClass::Transient), Some(StuckReason::Failed));
        assert_eq!(reason_of(ErrorClass::Refused), Some(StuckReason::Failed));
        assert_eq!(reason_of(ErrorClass::DryRun), None);
    }
}
