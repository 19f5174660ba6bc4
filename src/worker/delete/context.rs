//! What the delete pool works with.

use std::sync::Arc;

use super::birth::Births;
use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::graph_handle::GraphHandle;
use crate::api::Api;
use crate::worker::brake::Brake;
use crate::worker::decision::DecisionRecorder;
#[cfg(test)]
use crate::worker::decision::Summaries;
use crate::worker::namespace_check::NamespaceCheck;

/// What the workers of the delete pool share, the one for large objects included.
#[derive(Clone, Debug)]
pub struct DeleteContext {
    /// The API server.
    pub api: Api,
    /// The graph.
    pub graph: GraphHandle,
    /// Owners that were proved absent, and owners whose dependents were orphaned.
    pub absent_owners: Arc<AbsentOwnerCache>,
    /// Owners that may still be in admission.
    pub births: Births,
    /// Limits how much is deleted.
    pub brake: Brake,
    /// Records decisions.
    pub decisions: DecisionRecorder,
    /// Warns about owners in another namespace.
    pub namespace_check: NamespaceCheck,
}

impl DeleteContext {
    /// The context of one decision, which begins now. It is void once watches break.
    #[must_use]
    pub fn now(&self) -> Self {
        let number = self.api.restore_fence().acknowledged();
        Self { api: self.api.under(number), graph: self.graph.under(number), ..self.clone() }
    }

    /// A context that believes every look-up, without a brake and without observers.
    #[cfg(test)]
    pub(crate) fn bare(api: Api, graph: GraphHandle, absent_owners: Arc<AbsentOwnerCache>) -> Self {
        Self {
            decisions: DecisionRecorder::new(api.clone(), Vec::new(), Summaries::off()),
            api,
            graph,
            absent_owners,
            births: Births::new(std::time::Duration::ZERO),
            brake: Brake::new(kube_gc_core::brake::Limits::default()),
            namespace_check: NamespaceCheck::silent(),
        }
    }
}
