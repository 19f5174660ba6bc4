//! Looks at one candidate, and removes it: a container or a sandbox by the runtime, a log or a symlink by `files`,
//! which alone removes those. `image` alone removes images.

use std::time::Duration;

use kube_gc_cri as cri;
use kube_gc_cri::messages::{ContainerFilter, ListPodSandboxRequest, POD_UID, PodSandboxFilter};
use kube_gc_node::logs::{c8_log_file, l2_container_id};
use kube_gc_node::plan::{Candidate, Target};
use kube_gc_node::recheck::Fresh;
use kube_gc_node::view::{Container, ContainerState};
use kube_gc_node::{Files, PodView, Refusal, RuntimeView, still_removable};
use tokio_util::sync::CancellationToken;

use super::act::END;
use super::files::Logs;
use super::{NodeCollector, blocking, view};

/// How long an UNKNOWN container has to end, as with the kubelet.
const GRACE: Duration = Duration::from_secs(2);

/// Why a removal did not happen.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    /// It stays, because something has changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The runtime failed. The next calls will fail, too, if nothing has answered.
    #[error(transparent)]
    Runtime(#[from] cri::Error),
    /// Something else failed.
    #[error("{0}")]
    Other(String),
    /// The pass was asked to end before.
    #[error("{END}")]
    NotTried,
}

impl From<String> for Fault {
    fn from(error: String) -> Self {
        Self::Other(error)
    }
}

impl NodeCollector {
    /// Removes one candidate, after another look at it. Nothing begins once the pass is asked to end.
    pub(super) async fn remove(
        &self,
        it: &Candidate,
        pods: &PodView,
        cancel: &CancellationToken,
    ) -> Result<(), Fault> {
        let look = |runtime: RuntimeView, files: Files| {
            still_removable(it, &Fresh { runtime: &runtime, pods, files: &files })
        };
        match &it.target {
            // C7, C8: its logs and its symlink, then the container.
            Target::Container { id, uid, stop_first, symlink, .. } => {
                let container = looked(cancel, self.container(id)).await?;
                let log_path = container.log_path.clone().unwrap_or_default();
                look(
                    RuntimeView { containers: vec![container], ..RuntimeView::default() },
                    Files::default(),
                )?;
                if *stop_first {
                    self.client.stop_container(id, GRACE).await?;
                    // It must not be running now, whatever the runtime said.
                    if looked(cancel, self.container(id)).await?.state == ContainerState::Running {
                        return Err(Refusal::Active.into());
                    }
                }
                self.remove_logs(&log_path, uid, symlink.clone()).await?;
                Ok(self.client.remove_container(id).await?)
            }
            // Both calls kill containers in it, so it is looked at before each.
            Target::Sandbox { id, .. } => {
                look(looked(cancel, self.sandbox(id)).await?, Files::default())?;
                self.client.stop_sandbox(id).await?;
                look(looked(cancel, self.sandbox(id)).await?, Files::default())?;
                Ok(self.client.remove_sandbox(id).await?)
            }
            Target::LogDirectory { name, uid } => {
                let runtime = looked(cancel, self.of_pod(uid)).await?;
                let found = self.with_logs(name, |logs, name| logs.directories(Some(name)));
                let log_directories = looked(cancel, found).await?.items;
                look(runtime, Files { log_directories, ..Files::default() })?;
                Ok(self.with_logs(name, Logs::remove_directory).await?)
            }
            Target::LogSymlink { name } => {
                let container = match l2_container_id(name) {
                    Some(id) => looked(cancel, self.client.container(id)).await?.map(view::container_status),
                    None => None,
                };
                let containers = container.into_iter().collect();
                let runtime = RuntimeView { containers, ..RuntimeView::default() };
                let found = self.with_logs(name, |logs, name| logs.symlinks(Some(name)));
                let log_symlinks = looked(cancel, found).await?.items;
                look(runtime, Files { log_symlinks, ..Files::default() })?;
                Ok(self.with_logs(name, Logs::remove_symlink).await?)
            }
            // What uses it is not known here.
            Target::Image { .. } => Err(Refusal::Unknown.into()),
        }
    }

    /// A container by its status.
    async fn container(&self, id: &str) -> Result<Container, Fault> {
        let status = self.client.container(id).await?;
        Ok(view::container_status(status.ok_or(Refusal::AlreadyGone)?))
    }

    /// C8: the log of a container, its rotated parts, and the symlink to it.
    async fn remove_logs(&self, path: &str, uid: &str, symlink: Option<String>) -> Result<(), Fault> {
        let log = c8_log_file(path, uid, &self.rules.roots);
        if log.is_none() && !path.is_empty() {
            tracing::warn!(path = %kube_gc_core::text::word(path), "a container goes without its log, which is not in the directory of its pod");
        }
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

    /// A sandbox by its status, and the containers in it.
    async fn sandbox(&self, id: &str) -> Result<RuntimeView, Fault> {
        let filter = ContainerFilter { pod_sandbox_id: id.to_owned(), ..ContainerFilter::default() };
        let (sandbox, containers) =
            tokio::try_join!(self.client.sandbox(id), self.client.containers(Some(filter)))?;
        Ok(RuntimeView {
            sandboxes: vec![view::sandbox_status(sandbox.ok_or(Refusal::AlreadyGone)?)],
            containers: containers.into_iter().map(view::container).collect(),
            ..RuntimeView::default()
        })
    }

    /// What has the label of a pod.
    async fn of_pod(&self, uid: &str) -> Result<RuntimeView, Fault> {
        let label = || [(POD_UID.to_owned(), uid.to_owned())].into();
        let of_containers = ContainerFilter { label_selector: label(), ..ContainerFilter::default() };
        let of_sandboxes = PodSandboxFilter { label_selector: label(), ..PodSandboxFilter::default() };
        let (containers, sandboxes) = tokio::try_join!(
            self.client.containers(Some(of_containers)),
            self.client.call(ListPodSandboxRequest { filter: Some(of_sandboxes) })
        )?;
        Ok(RuntimeView {
            containers: containers.into_iter().map(view::container).collect(),
            sandboxes: sandboxes.items.into_iter().map(view::sandbox).collect(),
            ..RuntimeView::default()
        })
    }

    /// Does something with one of the logs or symlinks.
    async fn with_logs<T: Send + 'static>(
        &self,
        name: &str,
        work: fn(&Logs, &str) -> Result<T, String>,
    ) -> Result<T, String> {
        let (logs, name) = (self.logs.clone(), name.to_owned());
        blocking(move || work(&logs, &name)).await?
    }
}

/// What a look shows, unless the pass is asked to end before.
pub(super) async fn looked<T, E: Into<Fault>>(
    cancel: &CancellationToken,
    look: impl Future<Output = Result<T, E>>,
) -> Result<T, Fault> {
    let seen = cancel.run_until_cancelled(look).await.filter(|_| !cancel.is_cancelled());
    seen.ok_or(Fault::NotTried)?.map_err(Into::into)
}
