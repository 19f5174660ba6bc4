//! Removing containers: C7, C8.

use std::time::Duration;

use kube_gc_cri::labels::POD_UID;
use kube_gc_cri::messages::ContainerFilter;
use kube_gc_node::logs::c8_log_file;
use kube_gc_node::plan::{Candidate, Target};
use kube_gc_node::recheck::Fresh;
use kube_gc_node::view::{Container, ContainerState};
use kube_gc_node::{Files, Refusal, RuntimeView, still_removable};

use super::Fault;
use crate::node::{Look, NodeCollector, blocking, view};

/// How long an UNKNOWN container has to end, as with the kubelet.
const GRACE: Duration = Duration::from_secs(2);

/// The containers of one pod.
pub(super) fn of_pod(uid: &str) -> ContainerFilter {
    ContainerFilter {
        label_selector: [(POD_UID.to_owned(), uid.to_owned())].into(),
        ..ContainerFilter::default()
    }
}

impl NodeCollector {
    /// Looks at a container, removes its logs and its symlink, then the container.
    pub(super) async fn remove_container(&self, candidate: &Candidate, look: &Look) -> Result<(), Fault> {
        let Target::Container { id, uid, stop_first, symlink, .. } = &candidate.target else { return Ok(()) };
        let container = self.container(id).await?;
        let log_path = container.log_path.clone().unwrap_or_default();
        let runtime = RuntimeView { containers: vec![container], ..RuntimeView::default() };
        let files = Files::default();
        still_removable(candidate, &Fresh { runtime: &runtime, pods: &look.pods, files: &files })?;
        if *stop_first {
            self.client.stop_container(id, GRACE).await?;
            // It must not be running now, whatever the runtime said.
            match self.container(id).await?.state {
                ContainerState::Running => return Err(Refusal::Active.into()),
                ContainerState::Created | ContainerState::Exited | ContainerState::Unknown => {}
            }
        }
        self.remove_logs(&log_path, uid, symlink.clone()).await?;
        self.client.remove_container(id).await?;
        Ok(())
    }

    /// A container by its status.
    async fn container(&self, id: &str) -> Result<Container, Fault> {
        let status = self.client.container(id).await?;
        Ok(view::container_status(status.ok_or(Refusal::AlreadyGone)?))
    }

    /// C8: the log of a container, its rotated parts, and the symlink to it.
    async fn remove_logs(&self, path: &str, uid: &str, symlink: Option<String>) -> Result<(), Fault> {
        let log = match c8_log_file(path, uid, &self.rules.roots) {
            Ok(log) => Some(log),
            Err(error) => {
                tracing::debug!(path = %kube_gc_core::text::word(path), %error, "a container goes without its log");
                None
            }
        };
        if log.is_none() && symlink.is_none() {
            return Ok(());
        }
        let logs = self.logs.clone();
        blocking(move || {
            log.map_or(Ok(()), |log| logs.remove_log(&log))?;
            symlink.map_or(Ok(()), |name| logs.remove_symlink(&name))
        })
        .await??;
        Ok(())
    }
}
