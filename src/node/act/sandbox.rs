//! Removing sandboxes: S1.

use kube_gc_cri::labels::POD_UID;
use kube_gc_cri::messages::{ContainerFilter, PodSandboxFilter};
use kube_gc_node::plan::{Candidate, Target};
use kube_gc_node::recheck::Fresh;
use kube_gc_node::{Files, Refusal, RuntimeView, still_removable};

use super::Fault;
use crate::node::{Look, NodeCollector, view};

/// The sandboxes of one pod.
pub(super) fn of_pod(uid: &str) -> PodSandboxFilter {
    PodSandboxFilter {
        label_selector: [(POD_UID.to_owned(), uid.to_owned())].into(),
        ..PodSandboxFilter::default()
    }
}

impl NodeCollector {
    /// Stops a sandbox and removes it, each right after a look at it: both calls kill containers in it.
    pub(super) async fn remove_sandbox(&self, candidate: &Candidate, look: &Look) -> Result<(), Fault> {
        let Target::Sandbox { id, .. } = &candidate.target else { return Ok(()) };
        self.is_still_empty(id, candidate, look).await?;
        self.client.stop_sandbox(id).await?;
        self.is_still_empty(id, candidate, look).await?;
        self.client.remove_sandbox(id).await?;
        Ok(())
    }

    /// Looks at a sandbox and at the containers in it.
    async fn is_still_empty(&self, id: &str, candidate: &Candidate, look: &Look) -> Result<(), Fault> {
        let filter = ContainerFilter { pod_sandbox_id: id.to_owned(), ..ContainerFilter::default() };
        let (sandbox, containers) =
            tokio::try_join!(self.client.sandbox(id), self.client.containers(Some(filter)))?;
        let sandbox = view::sandbox_status(sandbox.ok_or(Refusal::AlreadyGone)?);
        let runtime = RuntimeView {
            sandboxes: vec![sandbox],
            containers: containers.into_iter().map(view::container).collect(),
            ..RuntimeView::default()
        };
        let files = Files::default();
        Ok(still_removable(candidate, &Fresh { runtime: &runtime, pods: &look.pods, files: &files })?)
    }
}
