//! What the orphan pool works with.

use std::sync::Arc;

use super::releases::Releases;
use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::graph_handle::GraphHandle;
use crate::actors::registry::Registry;
use crate::api::Api;
use crate::worker::decision::DecisionRecorder;

/// What the workers of the orphan pool and their confirmation rounds share.
#[derive(Clone, Debug)]
pub struct OrphanContext {
    /// The API server.
    pub api: Api,
    /// The graph.
    pub graph: GraphHandle,
    /// Owners that were proved absent, and owners whose dependents were orphaned.
    pub absent_owners: Arc<AbsentOwnerCache>,
    /// How far each monitor is.
    pub registry: Registry,
    /// Limits how many dependents are patched at a time.
    pub releases: Releases,
    /// Records decisions.
    pub decisions: DecisionRecorder,
}

impl OrphanContext {
    /// The context of one decision, which begins now. It is void once watches break.
    #[must_use]
    pub fn now(&self) -> Self {
        let number = self.api.restore_fence().acknowledged();
        Self { api: self.api.under(number), graph: self.graph.under(number), ..self.clone() }
    }
}
