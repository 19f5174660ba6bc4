//! Carries out a plan, step by step.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use kube_gc_cri as cri;
use kube_gc_cri::messages::{ContainerFilter, ImageSpec, POD_UID, PodSandboxFilter};
use kube_gc_node::images::Purpose;
use kube_gc_node::logs::c8_log_file;
use kube_gc_node::pass::{Outcome, Pass, Record, Scope, Step, Summary};
use kube_gc_node::plan::{Candidate, Target, What};
use kube_gc_node::pressure::Usage;
use kube_gc_node::recheck::Fresh;
use kube_gc_node::view::{Container, ContainerState, Extent};
use kube_gc_node::{Files, Refusal, RuntimeView, still_removable};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::files::Logs;
use super::{Look, NodeCollector, NodeError, blocking, disk, view};
use kube_gc_observe::telemetry::record;

/// After so many removals in a row that got no answer, a pass ends: each of them takes minutes.
const MOST_UNANSWERED: usize = 3;
/// How long an UNKNOWN container has to end, as with the kubelet.
const GRACE: Duration = Duration::from_secs(2);
/// How many symlinks go before all containers are listed again.
const SYMLINKS_PER_LIST: usize = 50;

/// What came of a plan.
#[derive(Debug)]
pub struct PassOutcome {
    /// Each candidate that was tried.
    pub removals: Vec<Record>,
    /// All together.
    pub summary: Summary,
    /// How full the file system of the images was at the end, if it could be measured.
    pub usage: Option<Usage>,
    /// How many bytes it has gained during the pass.
    pub freed_bytes: u64,
    /// Whether space was to be freed and the file system could not be measured, so that it is not
    /// known whether enough is free.
    pub unmeasured: bool,
    /// Why the pass ended before its end.
    pub interrupted: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// Why a removal did not happen.
enum Fault {
    /// It stays, because something has changed.
    Refused(Refusal),
    /// The runtime or the file system failed. The next calls will fail, too, if nothing has answered.
    Failed { error: String, is_unanswered: bool },
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<cri::Error> for Fault {
    fn from(error: cri::Error) -> Self {
        use cri::Error::{Connect, NoSocket, NotListening};
        let is_unreachable = matches!(error, NoSocket { .. } | NotListening { .. } | Connect { .. });
        Self::Failed { is_unanswered: is_unreachable || error.outcome_is_unknown(), error: error.to_string() }
    }
}

impl From<String> for Fault {
    fn from(error: String) -> Self {
        Self::Failed { error, is_unanswered: false }
    }
}

/// What a pass remembers between two steps.
#[derive(Default)]
struct PassState {
    /// All containers, for symlinks, and for how many more of them that list holds.
    listed: Option<(Arc<RuntimeView>, usize)>,
    unanswered: usize,
    usage: Option<Usage>,
}

impl NodeCollector {
    /// Carries out a plan, until it is done or `cancel` asks it to end. Each candidate is looked at
    /// again right before its removal.
    ///
    /// # Errors
    /// The plan breaks one of its own invariants; nothing was removed.
    pub async fn carry_out(
        &mut self,
        look: &Look,
        scope: Scope,
        cancel: &CancellationToken,
    ) -> Result<PassOutcome, NodeError> {
        if !look.violations.is_empty() {
            return Err(NodeError::Unsafe(look.violations.join("; ")));
        }
        let start = Instant::now();
        let mut pass = Pass::new(&look.plan, scope, self.rules.limits.images);
        let mut state = PassState { usage: look.files.image_usage, ..PassState::default() };
        let mut interrupted = None;
        loop {
            if cancel.is_cancelled() {
                interrupted = Some("it was asked to end".to_owned());
                break;
            }
            match pass.next_step() {
                Step::Done => break,
                Step::Remove(candidates) => {
                    pass.record(self.remove_all(&candidates, look, &mut state).await);
                    if state.unanswered >= MOST_UNANSWERED {
                        interrupted = Some(format!(
                            "the container runtime left {MOST_UNANSWERED} calls in a row unanswered"
                        ));
                        break;
                    }
                }
                Step::ListContainers => match self.look_again(look).await {
                    Ok((runtime, pods)) => pass.listed(Some(&Fresh {
                        runtime: &runtime,
                        pods: pods.as_ref().unwrap_or(&look.pods),
                        files: &Files::default(),
                    })),
                    Err(error) => {
                        tracing::warn!(%error, "cannot list containers again, so no image is removed");
                        pass.listed(None);
                    }
                },
                Step::Measure { patience } => {
                    let measured = disk::measure(&*self.disk, state.usage, patience).await;
                    let usage = measured.map_err(|problem| tracing::warn!("{problem}")).ok();
                    state.usage = usage.or(state.usage);
                    pass.measured(usage);
                }
            }
        }
        let free = |usage: Option<Usage>| usage.map_or(0, |usage| usage.available);
        let usage = self.disk.usage().ok().or(state.usage);
        let summary = pass.summary();
        // Without a measurement before the plan, `--free` could not even become a goal.
        let was_asked = self.rules.free.is_some() && scope != Scope::Containers;
        Ok(PassOutcome {
            unmeasured: summary.unmeasured || (was_asked && look.files.image_usage.is_none()),
            summary,
            removals: pass.records().to_vec(),
            usage,
            freed_bytes: look
                .files
                .image_usage
                .map_or(0, |before| free(usage).saturating_sub(before.available)),
            interrupted,
            took: start.elapsed(),
        })
    }

    /// Removes candidates at the same time, each after another look at it.
    async fn remove_all(&self, candidates: &[Candidate], look: &Look, state: &mut PassState) -> Vec<Outcome> {
        let symlinks = candidates.iter().any(|candidate| candidate.what() == What::LogSymlink);
        let listed =
            if symlinks { self.listed(candidates.len(), look, state).await.map(Some) } else { Ok(None) };
        let removals = candidates.iter().map(async |candidate| {
            let (outcome, is_unanswered) = match self.remove(candidate, look, listed.as_ref()).await {
                Ok(()) => (Outcome::Removed, false),
                Err(Fault::Refused(refusal)) => (Outcome::Refused(refusal), false),
                Err(Fault::Failed { error, is_unanswered }) => (Outcome::Failed(error), is_unanswered),
            };
            // At once: the others may take minutes.
            tell(candidate, &outcome);
            (outcome, is_unanswered)
        });
        let mut outcomes = Vec::with_capacity(candidates.len());
        for (outcome, is_unanswered) in join_all(removals).await {
            state.unanswered = if is_unanswered { state.unanswered + 1 } else { 0 };
            outcomes.push(outcome);
        }
        outcomes
    }

    /// Removes one candidate, after another look at it. `listed` has all containers, for symlinks.
    async fn remove(
        &self,
        candidate: &Candidate,
        look: &Look,
        listed: Result<&Option<Arc<RuntimeView>>, &cri::Error>,
    ) -> Result<(), Fault> {
        match &candidate.target {
            Target::Container { .. } => self.remove_container(candidate, look).await,
            Target::Sandbox { .. } => self.remove_sandbox(candidate, look).await,
            Target::LogDirectory { .. } => self.remove_log_directory(candidate, look).await,
            Target::LogSymlink { .. } => match listed {
                Ok(Some(runtime)) => self.remove_symlink(candidate, look, runtime).await,
                Ok(None) => Ok(()),
                Err(error) => Err(error.clone().into()),
            },
            Target::Image { id, runtime_handler, .. } => {
                let spec = ImageSpec {
                    image: id.clone(),
                    runtime_handler: runtime_handler.clone().unwrap_or_default(),
                    ..ImageSpec::default()
                };
                self.client.remove_image(spec).await.map_err(Fault::from)
            }
        }
    }

    /// All containers, for so many symlinks. One list serves [`SYMLINKS_PER_LIST`] of them.
    async fn listed(
        &self,
        symlinks: usize,
        look: &Look,
        state: &mut PassState,
    ) -> Result<Arc<RuntimeView>, cri::Error> {
        if let Some((runtime, left)) = state.listed.take().filter(|(_, left)| *left >= symlinks) {
            state.listed = Some((Arc::clone(&runtime), left - symlinks));
            return Ok(runtime);
        }
        let containers = self.client.all_containers(&look.pod_keys()).await?;
        let runtime = RuntimeView {
            containers_extent: view::extent(containers.coverage),
            containers: containers.items.into_iter().map(view::container).collect(),
            images_extent: Extent::Slice,
            ..RuntimeView::default()
        };
        let runtime = Arc::new(runtime);
        state.listed = Some((Arc::clone(&runtime), SYMLINKS_PER_LIST.saturating_sub(symlinks)));
        Ok(runtime)
    }

    /// C7: looks at a container, removes its logs and its symlink, then the container.
    async fn remove_container(&self, candidate: &Candidate, look: &Look) -> Result<(), Fault> {
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

    /// S1: stops a sandbox and removes it, each right after a look at it: both calls kill containers in it.
    async fn remove_sandbox(&self, candidate: &Candidate, look: &Look) -> Result<(), Fault> {
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

    /// L1. Only what has the label of the pod matters, so only that is asked for.
    async fn remove_log_directory(&self, candidate: &Candidate, look: &Look) -> Result<(), Fault> {
        let Target::LogDirectory { name, uid } = &candidate.target else { return Ok(()) };
        let label_selector: BTreeMap<String, String> = [(POD_UID.to_owned(), uid.clone())].into();
        let of_pod = ContainerFilter { label_selector: label_selector.clone(), ..ContainerFilter::default() };
        let sandboxes_of_pod = PodSandboxFilter { label_selector, ..PodSandboxFilter::default() };
        let (containers, sandboxes) = tokio::try_join!(
            self.client.containers(Some(of_pod)),
            self.client.sandboxes(Some(sandboxes_of_pod)),
        )?;
        let runtime = RuntimeView {
            containers: containers.into_iter().map(view::container).collect(),
            sandboxes: sandboxes.into_iter().map(view::sandbox).collect(),
            ..RuntimeView::default()
        };
        let directory = self.with_logs(name, Logs::directory).await?;
        let files = Files { log_directories: directory.into_iter().collect(), ..Files::default() };
        still_removable(candidate, &Fresh { runtime: &runtime, pods: &look.pods, files: &files })?;
        Ok(self.with_logs(name, Logs::remove_directory).await?)
    }

    /// L2.
    async fn remove_symlink(
        &self,
        candidate: &Candidate,
        look: &Look,
        runtime: &RuntimeView,
    ) -> Result<(), Fault> {
        let Target::LogSymlink { name } = &candidate.target else { return Ok(()) };
        let symlink = self.with_logs(name, Logs::symlink).await?;
        let files = Files { log_symlinks: symlink.into_iter().collect(), ..Files::default() };
        still_removable(candidate, &Fresh { runtime, pods: &look.pods, files: &files })?;
        Ok(self.with_logs(name, Logs::remove_symlink).await?)
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

/// Says what came of a candidate, in the log and in metrics.
fn tell(candidate: &Candidate, outcome: &Outcome) {
    let what = name_of(candidate.what());
    let (rule, id, bytes) = (candidate.rule.number(), candidate.id(), candidate.bytes);
    let came = match outcome {
        Outcome::Removed => {
            tracing::info!(what, id, rule, bytes, "removed");
            if let Target::Image { purpose, .. } = candidate.target {
                record::node_image_collected(match purpose {
                    Purpose::Age => "age",
                    Purpose::Space => "space",
                });
            }
            "removed"
        }
        Outcome::Refused(refusal) => {
            tracing::info!(what, id, rule, reason = %refusal, "stays after all");
            "refused"
        }
        Outcome::Failed(error) => {
            tracing::warn!(what, id, rule, error, "cannot be removed");
            "failed"
        }
    };
    record::node_removal(what, rule, came);
}

/// What an item is called in logs and metrics.
const fn name_of(what: What) -> &'static str {
    match what {
        What::Container => "container",
        What::Sandbox => "sandbox",
        What::LogDirectory => "log_directory",
        What::LogSymlink => "log_symlink",
        What::Image => "image",
    }
}
