//! What the workers of all pools share.

use std::sync::Arc;

use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::graph_handle::GraphHandle;
use crate::actors::registry::Registry;
use crate::worker::brake::Brake;
use crate::worker::decision::DecisionRecorder;
use crate::worker::delete::Births;
use crate::worker::namespace_check::NamespaceCheck;
use crate::worker::orphan::Releases;
use kube_gc_client::Api;

/// What the workers of all pools share.
#[derive(Clone, Debug)]
pub struct WorkContext {
    /// The API server.
    pub api: Api,
    /// The graph.
    pub graph: GraphHandle,
    /// Owners that were proved absent, and owners whose dependents were orphaned.
    pub absent_owners: Arc<AbsentOwnerCache>,
    /// How far each monitor is.
    pub registry: Registry,
    /// Owners that may still be in admission.
    pub births: Births,
    /// Limits how much is deleted.
    pub brake: Brake,
    /// Limits how many dependents are patched at a time.
    pub releases: Releases,
    /// Records decisions.
    pub decisions: DecisionRecorder,
    /// Warns about owners in another namespace.
    pub namespace_check: NamespaceCheck,
}

impl WorkContext {
    /// The context of one decision, which begins now. It is void once watches break.
    pub fn now(&self) -> Self {
        let number = self.api.restore_fence().acknowledged();
        Self { api: self.api.under(number), graph: self.graph.under(number), ..self.clone() }
    }
}
