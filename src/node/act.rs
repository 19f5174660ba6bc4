//! Carries out a plan, step by step.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::join_all;
use kube_gc_cri as cri;
use kube_gc_cri::messages::{ContainerFilter, ImageSpec, POD_UID, PodSandboxFilter};
use kube_gc_node::logs::{c8_log_file, l2_container_id};
use kube_gc_node::pass::{Outcome, PATIENCE, Pass, Record, Scope, Step};
use kube_gc_node::plan::{Candidate, Target, What};
use kube_gc_node::recheck::Fresh;
use kube_gc_node::view::{Container, ContainerState};
use kube_gc_node::{Files, Refusal, Rule, RuntimeView, still_removable};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::collector::soon;
use super::files::Logs;
use super::look::LastList;
use super::{Look, NodeCollector, NodeError, PassResult, blocking, disk, view};
use kube_gc_observe::telemetry::record;

/// After so many removals in a row that got no answer, a pass ends: each of them takes minutes.
const MOST_UNANSWERED: usize = 3;
/// How long an UNKNOWN container has to end, as with the kubelet.
const GRACE: Duration = Duration::from_secs(2);
/// Why a pass ends if somebody wants it to.
const END: &str = "it was asked to end";
/// What has failed although the runtime does not say so.
const LISTED: &str = "the runtime says that it is gone, and lists it";
/// How long to wait until it is asked again whether something is still listed.
const PAUSE: Duration = Duration::from_millis(100);

/// What came of a removal, and whether nothing has answered.
type Ended = (Outcome, bool);

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
        Self::Failed { is_unanswered: error.is_unanswered(), error: error.to_string() }
    }
}

impl From<String> for Fault {
    fn from(error: String) -> Self {
        Self::Failed { error, is_unanswered: false }
    }
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
    ) -> Result<PassResult, NodeError> {
        if !look.violations.is_empty() {
            return Err(NodeError::Unsafe(look.violations.join("; ")));
        }
        let start = Instant::now();
        let before = look.files.image_usage;
        let mut pass = Pass::new(&look.plan, scope);
        let (mut usage, mut unanswered) = (before, 0);
        let mut last: LastList = (look.pods.pods().to_vec(), None);
        let cancel = &cancel.child_token();
        let interrupted = loop {
            if cancel.is_cancelled() {
                break Some(END.to_owned());
            }
            match pass.next_step() {
                Step::Done => break None,
                Step::Remove(candidates) => {
                    let (ended, why) = match candidates.as_slice() {
                        [image] if image.what() == What::Image => {
                            let (removed, why) =
                                self.remove_image(image, look, &mut last, &mut pass, cancel).await;
                            (removed.map(|removed| ended(image, removed)).into_iter().collect(), why)
                        }
                        others => (self.remove_all(others, look).await, None),
                    };
                    let outcomes = ended.into_iter().map(|(outcome, is_unanswered)| {
                        unanswered = if is_unanswered { unanswered + 1 } else { 0 };
                        outcome
                    });
                    pass.record(candidates, outcomes);
                    if why.is_some() {
                        break why;
                    }
                    if unanswered >= MOST_UNANSWERED {
                        break Some(format!(
                            "the container runtime left {MOST_UNANSWERED} calls in a row unanswered"
                        ));
                    }
                }
                Step::Measure { patience, until } => {
                    let measured = match &self.disk {
                        Some(disk) => {
                            let measured = disk::measure(&**disk, usage, until, patience);
                            let Some(measured) = cancel.run_until_cancelled(measured).await else { continue };
                            measured
                        }
                        None => Err("it is not known where images are stored".to_owned()),
                    };
                    let measured = measured.map_err(|problem| tracing::warn!("{problem}")).ok();
                    usage = measured.or(usage);
                    pass.measured(measured);
                }
            }
        };
        let usage = self.disk.as_ref().and_then(|disk| disk.usage().ok()).or(usage);
        let (missing_bytes, missing_inodes) = pass.missing();
        // Without a measurement before the plan, `--free` could not even become a goal.
        let was_asked = self.rules.free.is_some() && scope != Scope::Containers;
        let unmeasured = pass.is_unmeasured() || (was_asked && before.is_none());
        let mut items = pass.into_records();
        if interrupted.is_some() {
            cancel.cancel();
        }
        self.doubt(look, &mut items, cancel).await;
        for Record { candidate, outcome } in items.iter().filter(|item| item.outcome == Outcome::Removed) {
            self.ledger.forget(candidate);
            tell(candidate, outcome);
        }
        self.tried.update(&look.plan, &items);
        let count = |is: fn(&Outcome) -> bool| items.iter().filter(|item| is(&item.outcome)).count();
        let gained = before.zip(usage).map(|(before, now)| now.available.saturating_sub(before.available));
        Ok(PassResult {
            removed: count(|outcome| matches!(outcome, Outcome::Removed)),
            refused: count(|outcome| matches!(outcome, Outcome::Refused(_))),
            failed: count(|outcome| matches!(outcome, Outcome::Failed(_))),
            freed_bytes: gained.unwrap_or_default(),
            missing_bytes,
            missing_inodes,
            unmeasured,
            interrupted,
            seconds: (start.elapsed().as_secs_f64() * 1000.0).floor() / 1000.0,
            items,
            usage,
        })
    }

    /// What is listed although the runtime says that it is gone has failed. What somebody else removes just now has
    /// some time for it. Images were listed right after their removal.
    async fn doubt(&mut self, look: &Look, items: &mut [Record], cancel: &CancellationToken) {
        let is_gone = |item: &&mut Record| {
            matches!(item.candidate.what(), What::Container | What::Sandbox)
                && item.outcome == Outcome::Removed
        };
        let mut gone: Vec<&mut Record> = items.iter_mut().filter(is_gone).collect();
        let until = Instant::now() + PATIENCE;
        while !gone.is_empty() {
            let now = async { self.runtime_view(&look.pod_keys(), &mut Vec::new()).await };
            let Some(Ok(runtime)) = soon(cancel, Box::pin(now)).await else { return };
            gone.retain(|item| is_listed(&item.candidate.target, &runtime));
            if gone.is_empty() || Instant::now() >= until || cancel.is_cancelled() {
                break;
            }
            sleep(PAUSE).await;
        }
        for Record { candidate, outcome } in gone {
            *outcome = Outcome::Failed(LISTED.to_owned());
            tell(candidate, outcome);
        }
    }

    /// Removes candidates at the same time, each after another look at it.
    async fn remove_all(&self, candidates: &[Candidate], look: &Look) -> Vec<Ended> {
        join_all(candidates.iter().map(async |it| ended(it, self.remove(it, look).await))).await
    }

    /// Removes an image if nothing uses it now. Returns what came of it, unless it was not tried, and why the pass
    /// cannot go on.
    async fn remove_image(
        &mut self,
        candidate: &Candidate,
        look: &Look,
        last: &mut LastList,
        pass: &mut Pass,
        cancel: &CancellationToken,
    ) -> (Option<Result<(), Fault>>, Option<String>) {
        let mut spec = ImageSpec { image: candidate.id().to_owned(), ..ImageSpec::default() };
        if let Target::Image { runtime_handler: Some(handler), .. } = &candidate.target {
            spec.runtime_handler.clone_from(handler);
        }
        self.save_without(candidate);
        let removed = match cancel.run_until_cancelled(Box::pin(self.see(&spec, look, last))).await {
            None => return (None, None),
            Some(Err(error)) => return (None, Some(format!("what uses images cannot be listed: {error}"))),
            Some(Ok((Err(error), _))) => Err(error.into()),
            Some(Ok((Ok(runtime), pods))) => {
                let fresh = Fresh { runtime: &runtime, pods: &pods, files: &Files::default() };
                match still_removable(candidate, &fresh) {
                    Ok(()) => self.client.remove_image(spec).await.map_err(Fault::from),
                    Err(Refusal::AlreadyGone) => Ok(()),
                    Err(refusal) => return (Some(Err(refusal.into())), None),
                }
            }
        };
        // At once: what is not listed now has gone, also if it is pulled again a moment later.
        let images: Vec<_> = match soon(cancel, self.client.all_images()).await {
            Some(Ok(images)) => images.into_iter().map(view::image).collect(),
            unknown => {
                // If it has gone and is pulled again, it is young.
                self.ledger.forget(candidate);
                let why = match unknown {
                    Some(Err(error)) => format!("images cannot be listed: {error}"),
                    _ => END.to_owned(),
                };
                let unknown = format!("it is not known whether it has gone: {why}");
                return (Some(removed.and(Err(unknown.into()))), Some(why));
            }
        };
        pass.listed(&images);
        self.ledger.retain(&images);
        let is_listed = images.iter().any(|image| candidate.image_key() == Some(image.key()));
        let removed = if is_listed { removed.and(Err(LISTED.to_owned().into())) } else { Ok(()) };
        (Some(removed), None)
    }

    /// Removes one candidate that is no image, after another look at it.
    async fn remove(&self, candidate: &Candidate, look: &Look) -> Result<(), Fault> {
        // What there is now of a candidate that is no file.
        let is_removable = |runtime: &RuntimeView| {
            still_removable(candidate, &Fresh { runtime, pods: &look.pods, files: &Files::default() })
        };
        match &candidate.target {
            // C7, C8: its logs and its symlink, then the container.
            Target::Container { id, uid, stop_first, symlink, .. } => {
                let container = self.container(id).await?;
                let log_path = container.log_path.clone().unwrap_or_default();
                is_removable(&RuntimeView { containers: vec![container], ..RuntimeView::default() })?;
                if *stop_first {
                    self.client.stop_container(id, GRACE).await?;
                    // It must not be running now, whatever the runtime said.
                    if self.container(id).await?.state == ContainerState::Running {
                        return Err(Refusal::Active.into());
                    }
                }
                self.remove_logs(&log_path, uid, symlink.clone()).await?;
                Ok(self.client.remove_container(id).await?)
            }
            // Both calls kill containers in it, so it is looked at before each.
            Target::Sandbox { id, .. } => {
                is_removable(&self.sandbox(id).await?)?;
                self.client.stop_sandbox(id).await?;
                is_removable(&self.sandbox(id).await?)?;
                Ok(self.client.remove_sandbox(id).await?)
            }
            Target::LogDirectory { name, uid } => {
                let runtime = self.of_pod(uid).await?;
                let directory = self.with_logs(name, Logs::directory).await?;
                let files = Files { log_directories: directory.into_iter().collect(), ..Files::default() };
                still_removable(candidate, &Fresh { runtime: &runtime, pods: &look.pods, files: &files })?;
                Ok(self.with_logs(name, Logs::remove_directory).await?)
            }
            Target::LogSymlink { name } => {
                let container = match l2_container_id(name) {
                    Some(id) => self.client.container(id).await?.map(view::container_status),
                    None => None,
                };
                let containers = container.into_iter().collect();
                let runtime = RuntimeView { containers, ..RuntimeView::default() };
                let symlink = self.with_logs(name, Logs::symlink).await?;
                let files = Files { log_symlinks: symlink.into_iter().collect(), ..Files::default() };
                still_removable(candidate, &Fresh { runtime: &runtime, pods: &look.pods, files: &files })?;
                Ok(self.with_logs(name, Logs::remove_symlink).await?)
            }
            // These go alone, by `remove_image`.
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
        let label_selector: BTreeMap<String, String> = [(POD_UID.to_owned(), uid.to_owned())].into();
        let containers =
            ContainerFilter { label_selector: label_selector.clone(), ..ContainerFilter::default() };
        let sandboxes = PodSandboxFilter { label_selector, ..PodSandboxFilter::default() };
        let (containers, sandboxes) = tokio::try_join!(
            self.client.containers(Some(containers)),
            self.client.sandboxes(Some(sandboxes))
        )?;
        Ok(RuntimeView {
            containers: containers.into_iter().map(view::container).collect(),
            sandboxes: sandboxes.into_iter().map(view::sandbox).collect(),
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

/// What a removal has come to. What somebody else has removed meanwhile is gone as well.
fn ended(candidate: &Candidate, removed: Result<(), Fault>) -> Ended {
    let (outcome, is_unanswered) = match removed {
        Ok(()) | Err(Fault::Refused(Refusal::AlreadyGone)) => (Outcome::Removed, false),
        Err(Fault::Refused(refusal)) => (Outcome::Refused(refusal), false),
        Err(Fault::Failed { error, is_unanswered }) => (Outcome::Failed(error), is_unanswered),
    };
    // At once: the others may take minutes. What went is told when a list has shown it.
    if outcome != Outcome::Removed {
        tell(candidate, &outcome);
    }
    (outcome, is_unanswered)
}

/// Whether a runtime lists something that was to be removed.
fn is_listed(target: &Target, runtime: &RuntimeView) -> bool {
    match target {
        Target::Container { id, .. } => runtime.containers.iter().any(|container| container.id == *id),
        Target::Sandbox { id, .. } => runtime.sandboxes.iter().any(|sandbox| sandbox.id == *id),
        Target::LogDirectory { .. } | Target::LogSymlink { .. } | Target::Image { .. } => false,
    }
}

/// Says what came of a candidate, in the log and in metrics.
fn tell(candidate: &Candidate, outcome: &Outcome) {
    let what: &str = candidate.what().into();
    let (rule, name, id, bytes) = (candidate.rule.number(), &candidate.name, candidate.id(), candidate.bytes);
    match outcome {
        Outcome::Removed => {
            tracing::info!(what, name, id, rule, bytes, "removed");
            if matches!(candidate.target, Target::Image { .. }) {
                record::node_image_collected(if candidate.rule == Rule::I6 { "age" } else { "space" });
            }
        }
        Outcome::Refused(refusal) => {
            tracing::info!(what, name, id, rule, reason = %refusal, "stays after all");
        }
        Outcome::Failed(error) => tracing::warn!(what, name, id, rule, error, "cannot be removed"),
    }
    record::node_removal(what, rule, outcome.into());
}
