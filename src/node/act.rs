//! Carries out a plan, step by step.

mod container;
mod sandbox;

use std::time::Duration;

use kube_gc_cri::messages::ImageSpec;
use kube_gc_cri::{self as cri};
use kube_gc_node::images::Purpose;
use kube_gc_node::pass::{Outcome, Pass, Record, Scope, Step, Summary};
use kube_gc_node::plan::{Candidate, Target, What};
use kube_gc_node::pressure::Usage;
use kube_gc_node::recheck::Fresh;
use kube_gc_node::view::Extent;
use kube_gc_node::{Files, RuntimeView, still_removable};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Look, NodeCollector, NodeError, disk, view};
use crate::telemetry::record;

/// After so many calls in a row that got no answer, a pass ends: each of them takes minutes.
const MOST_UNANSWERED: usize = 3;
/// How many symlinks go before all containers are listed again.
const SYMLINKS_PER_LIST: usize = 50;

/// What came of a plan.
#[derive(Debug)]
pub struct Carried {
    /// Each candidate that was tried.
    pub removals: Vec<Record>,
    /// All together.
    pub summary: Summary,
    /// How full the file system of the images was at the end, if it could be measured.
    pub usage: Option<Usage>,
    /// How many bytes it has gained during the pass.
    pub freed_bytes: u64,
    /// Why the pass ended before its end.
    pub interrupted: Option<String>,
    /// How long it took.
    pub took: Duration,
}

/// Why a removal did not happen.
enum Fault {
    /// It stays, because something has changed.
    Refused(kube_gc_node::Refusal),
    /// The runtime failed.
    Runtime(cri::Error),
    /// The file system failed.
    Files(String),
}

impl From<kube_gc_node::Refusal> for Fault {
    fn from(refusal: kube_gc_node::Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<cri::Error> for Fault {
    fn from(error: cri::Error) -> Self {
        Self::Runtime(error)
    }
}

impl From<String> for Fault {
    fn from(problem: String) -> Self {
        Self::Files(problem)
    }
}

/// What a pass remembers between two steps.
#[derive(Default)]
struct Memory {
    /// All containers, for symlinks, and for how many more of them that list holds.
    listed: Option<(RuntimeView, usize)>,
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
    ) -> Result<Carried, NodeError> {
        if !look.violations.is_empty() {
            return Err(NodeError::Unsafe(look.violations.join("; ")));
        }
        let start = Instant::now();
        let mut pass = Pass::new(&look.plan, scope, self.rules.limits.images);
        let mut memory = Memory { usage: look.files.image_usage, ..Memory::default() };
        let mut interrupted = None;
        loop {
            if cancel.is_cancelled() {
                interrupted = Some("it was asked to end".to_owned());
                break;
            }
            match pass.next_step() {
                Step::Done => break,
                Step::Remove(candidate) => {
                    let outcome = self.remove(&candidate, look, &mut memory).await;
                    tell(&candidate, &outcome);
                    pass.record(outcome);
                    if memory.unanswered >= MOST_UNANSWERED {
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
                    let measured = disk::measure(&*self.disk, memory.usage, patience).await;
                    let usage = measured.map_err(|problem| tracing::warn!("{problem}")).ok();
                    memory.usage = usage.or(memory.usage);
                    pass.measured(usage);
                }
            }
        }
        let free = |usage: Option<Usage>| usage.map_or(0, |usage| usage.available);
        let usage = self.disk.usage().ok().or(memory.usage);
        Ok(Carried {
            summary: pass.summary(),
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

    /// Removes one candidate, after another look at it.
    async fn remove(&self, candidate: &Candidate, look: &Look, memory: &mut Memory) -> Outcome {
        let removed = match &candidate.target {
            Target::Container { .. } => self.remove_container(candidate, look).await,
            Target::Sandbox { .. } => self.remove_sandbox(candidate, look).await,
            Target::LogDirectory { .. } => self.remove_log_directory(candidate, look).await,
            Target::LogSymlink { .. } => self.remove_symlink(candidate, look, memory).await,
            Target::Image { id, runtime_handler, .. } => {
                let spec = ImageSpec {
                    image: id.clone(),
                    runtime_handler: runtime_handler.clone().unwrap_or_default(),
                    ..ImageSpec::default()
                };
                self.client.remove_image(spec).await.map_err(Fault::from)
            }
        };
        let is_unanswered = matches!(&removed, Err(Fault::Runtime(error)) if error.outcome_is_unknown() || is_unreachable(error));
        memory.unanswered = if is_unanswered { memory.unanswered + 1 } else { 0 };
        match removed {
            Ok(()) => Outcome::Removed,
            Err(Fault::Refused(refusal)) => Outcome::Refused(refusal),
            Err(Fault::Runtime(error)) => Outcome::Failed(error.to_string()),
            Err(Fault::Files(problem)) => Outcome::Failed(problem),
        }
    }

    /// L1. Only what has the label of the pod matters, so only that is asked for.
    async fn remove_log_directory(&self, candidate: &Candidate, look: &Look) -> Result<(), Fault> {
        let Target::LogDirectory { name, uid } = &candidate.target else { return Ok(()) };
        let (containers, sandboxes) = tokio::try_join!(
            self.client.containers(Some(container::of_pod(uid))),
            self.client.sandboxes(Some(sandbox::of_pod(uid))),
        )?;
        let runtime = RuntimeView {
            containers: containers.into_iter().map(view::container).collect(),
            sandboxes: sandboxes.into_iter().map(view::sandbox).collect(),
            ..RuntimeView::default()
        };
        let (logs, name) = (self.logs.clone(), name.clone());
        let directory = {
            let (logs, name) = (logs.clone(), name.clone());
            blocking(move || logs.directory(&name)).await?
        };
        let files = Files { log_directories: directory.into_iter().collect(), ..Files::default() };
        still_removable(candidate, &Fresh { runtime: &runtime, pods: &look.pods, files: &files })?;
        Ok(blocking(move || logs.remove_directory(&name)).await?)
    }

    /// L2.
    async fn remove_symlink(
        &self,
        candidate: &Candidate,
        look: &Look,
        memory: &mut Memory,
    ) -> Result<(), Fault> {
        let Target::LogSymlink { name } = &candidate.target else { return Ok(()) };
        let runtime = match memory.listed.take() {
            Some((runtime, left)) if left > 0 => memory.listed.insert((runtime, left - 1)),
            _ => {
                let containers = self.client.all_containers(&look.pod_keys()).await?;
                let runtime = RuntimeView {
                    containers_extent: view::extent(containers.coverage),
                    containers: containers.items.into_iter().map(view::container).collect(),
                    images_extent: Extent::Slice,
                    ..RuntimeView::default()
                };
                memory.listed.insert((runtime, SYMLINKS_PER_LIST))
            }
        };
        let (logs, name) = (self.logs.clone(), name.clone());
        let symlink = {
            let (logs, name) = (logs.clone(), name.clone());
            blocking(move || logs.symlink(&name)).await?
        };
        let files = Files { log_symlinks: symlink.into_iter().collect(), ..Files::default() };
        still_removable(candidate, &Fresh { runtime: &runtime.0, pods: &look.pods, files: &files })?;
        Ok(blocking(move || logs.remove_symlink(&name)).await?)
    }
}

/// Runs something that waits for the file system.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(format!("a task failed unexpectedly: {error}")))
}

/// Whether nothing listens, so that the next calls will fail, too.
const fn is_unreachable(error: &cri::Error) -> bool {
    matches!(
        error,
        cri::Error::NoSocket { .. } | cri::Error::NotListening { .. } | cri::Error::Connect { .. }
    )
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
