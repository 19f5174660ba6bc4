//! Carries out a plan, step by step.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::join_all;
use kube_gc_cri as cri;
use kube_gc_cri::messages::{ContainerFilter, ImageSpec, POD_UID, PodSandboxFilter};
use kube_gc_node::logs::{c8_log_file, l2_container_id};
use kube_gc_node::pass::{Outcome, PATIENCE, Pass, Record, Scope, Step};
use kube_gc_node::plan::{Candidate, Target, What};
use kube_gc_node::recheck::Fresh;
use kube_gc_node::view::{Container, ContainerState, Extent};
use kube_gc_node::{Files, Refusal, Rule, RuntimeView, still_removable};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::collector::soon;
use super::files::Logs;
use super::look::pod_keys;
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
/// What was to go, and has left the line.
const UNLISTED: &str = "it is there, and was not listed after another removal, so it may be a new one";
/// How long to wait until it is asked again whether something is still listed.
const PAUSE: Duration = Duration::from_millis(100);

/// What came of a removal.
struct Ended {
    outcome: Outcome,
    /// Whether nothing has answered.
    is_unanswered: bool,
}

/// What came of an image.
enum OfImage {
    /// It has gone, or why it has not.
    Ended(Result<(), Fault>),
    /// It was not tried, and why the pass ends.
    NotTried(String),
    /// It may have gone, and why the pass ends.
    Unknown(Fault, String),
}

/// Why a removal did not happen.
enum Fault {
    /// It stays, because something has changed.
    Refused(Refusal),
    /// The runtime or the file system failed. The next calls will fail, too, if nothing has answered.
    Failed { error: String, is_unanswered: bool },
    /// The pass was asked to end before.
    NotTried,
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
        (self.told.asked, self.told.failure) = (None, look.api_error.clone());
        let cancel = &cancel.child_token();
        let interrupted = loop {
            if cancel.is_cancelled() {
                break Some(END.to_owned());
            }
            match pass.next_step() {
                Step::Done => break None,
                Step::Remove(candidates) => {
                    let (ended, why) = match candidates.as_slice() {
                        [image @ Candidate { target: Target::Image { id, runtime_handler, .. }, .. }] => {
                            let spec = view::image_spec(id, runtime_handler.as_deref());
                            match self.remove_image(image, spec, look, &mut pass, cancel).await {
                                OfImage::Ended(removed) => (vec![ended(image, removed)], None),
                                OfImage::NotTried(why) => (Vec::new(), Some(why)),
                                OfImage::Unknown(fault, why) => (vec![ended(image, Err(fault))], Some(why)),
                            }
                        }
                        others => {
                            // What uses images is not known here, so none could go.
                            let runtime =
                                &RuntimeView { containers_extent: Extent::Slice, ..RuntimeView::default() };
                            let seen = Fresh { runtime, pods: &look.pods, files: &Files::default() };
                            let all =
                                others.iter().map(async |it| ended(it, self.remove(it, seen, cancel).await));
                            (join_all(all).await, None)
                        }
                    };
                    for (candidate, ended) in candidates.into_iter().zip(ended) {
                        let Some(Ended { outcome, is_unanswered }) = ended else { continue };
                        unanswered = if is_unanswered { unanswered + 1 } else { 0 };
                        pass.record(vec![candidate], [outcome]);
                    }
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
        let unlisted = self.told.failure.as_ref().filter(|_| look.api_error.is_none());
        let note = unlisted.map(|error| format!("pods could not be listed before each image: {error}"));
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
            note,
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
            let now = async { self.runtime_view(&pod_keys(&look.files), &mut Vec::new()).await };
            let Some(Ok(runtime)) = soon(cancel, Box::pin(now)).await else { return };
            let containers = runtime.containers.iter().map(|container| &container.id);
            let sandboxes = runtime.sandboxes.iter().map(|sandbox| &sandbox.id);
            let listed: HashSet<&str> = containers.chain(sandboxes).map(String::as_str).collect();
            gone.retain(|item| listed.contains(item.candidate.id()));
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

    /// Removes an image if nothing uses it now.
    async fn remove_image(
        &mut self,
        candidate: &Candidate,
        spec: ImageSpec,
        look: &Look,
        pass: &mut Pass,
        cancel: &CancellationToken,
    ) -> OfImage {
        self.save_without(candidate);
        let seen = cancel.run_until_cancelled(Box::pin(self.see(&spec, look))).await;
        if let (None, Some(why)) = (self.rules.beside_kubelet, self.kubelet()) {
            return OfImage::NotTried(format!("a kubelet runs on this node: {why}"));
        }
        let removed = match seen.filter(|_| !cancel.is_cancelled()) {
            None => return OfImage::NotTried(END.to_owned()),
            Some(Err(error)) => {
                return OfImage::NotTried(format!("what uses images cannot be listed: {error}"));
            }
            Some(Ok((Err(error), _))) => Err(error.into()),
            Some(Ok((Ok(runtime), pods))) => {
                let seen = Fresh { runtime: &runtime, pods: &pods, files: &Files::default() };
                match self.remove(candidate, seen, cancel).await {
                    Err(Fault::Refused(Refusal::AlreadyGone)) => Ok(()),
                    Err(refused @ Fault::Refused(_)) => return OfImage::Ended(Err(refused)),
                    unanswered @ Err(Fault::Failed { is_unanswered: true, .. }) => {
                        // The runtime may still remove it, and if it is pulled again then, it is young.
                        self.ledger.forget(candidate);
                        unanswered
                    }
                    removed => removed,
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
                return OfImage::Unknown(removed.err().unwrap_or_else(|| unknown.into()), why);
            }
        };
        self.ledger.retain(&images);
        // Somebody else has removed them, or the list was not whole.
        for image in pass.listed(&images) {
            let Target::Image { id, runtime_handler, .. } = &image.target else { continue };
            let spec = view::image_spec(id, runtime_handler.as_deref());
            let fault = match soon(cancel, self.client.image(spec)).await {
                None => Fault::NotTried,
                Some(Ok(None)) => continue,
                Some(Ok(Some(_))) => UNLISTED.to_owned().into(),
                Some(Err(error)) => Fault::from(error),
            };
            let Some(Ended { outcome, is_unanswered }) = ended(&image, Err(fault)) else { break };
            pass.record(vec![image], [outcome]);
            if is_unanswered {
                break;
            }
        }
        let is_listed = images.iter().any(|image| candidate.image_key() == Some(image.key()));
        OfImage::Ended(if is_listed { removed.and(Err(LISTED.to_owned().into())) } else { Ok(()) })
    }

    /// Removes one candidate, after another look at it. What uses an image was `seen` right before. Nothing begins
    /// once the pass is asked to end.
    async fn remove(&self, it: &Candidate, seen: Fresh<'_>, cancel: &CancellationToken) -> Result<(), Fault> {
        // What there is now of a candidate that is no file.
        let is_removable = |runtime: &RuntimeView| still_removable(it, &Fresh { runtime, ..seen });
        match &it.target {
            // C7, C8: its logs and its symlink, then the container.
            Target::Container { id, uid, stop_first, symlink, .. } => {
                let container = looked(cancel, self.container(id)).await?;
                let log_path = container.log_path.clone().unwrap_or_default();
                is_removable(&RuntimeView { containers: vec![container], ..RuntimeView::default() })?;
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
                is_removable(&looked(cancel, self.sandbox(id)).await?)?;
                self.client.stop_sandbox(id).await?;
                is_removable(&looked(cancel, self.sandbox(id)).await?)?;
                Ok(self.client.remove_sandbox(id).await?)
            }
            Target::LogDirectory { name, uid } => {
                let runtime = looked(cancel, self.of_pod(uid)).await?;
                let directory = looked(cancel, self.with_logs(name, Logs::directory)).await?;
                let files = Files { log_directories: directory.into_iter().collect(), ..Files::default() };
                still_removable(it, &Fresh { runtime: &runtime, files: &files, ..seen })?;
                Ok(self.with_logs(name, Logs::remove_directory).await?)
            }
            Target::LogSymlink { name } => {
                let container = match l2_container_id(name) {
                    Some(id) => looked(cancel, self.client.container(id)).await?.map(view::container_status),
                    None => None,
                };
                let containers = container.into_iter().collect();
                let runtime = RuntimeView { containers, ..RuntimeView::default() };
                let symlink = looked(cancel, self.with_logs(name, Logs::symlink)).await?;
                let files = Files { log_symlinks: symlink.into_iter().collect(), ..Files::default() };
                still_removable(it, &Fresh { runtime: &runtime, files: &files, ..seen })?;
                Ok(self.with_logs(name, Logs::remove_symlink).await?)
            }
            Target::Image { id, runtime_handler, .. } => {
                is_removable(seen.runtime)?;
                Ok(self.client.remove_image(view::image_spec(id, runtime_handler.as_deref())).await?)
            }
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
            self.client.sandboxes(Some(of_sandboxes))
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

/// What a look shows, unless the pass is asked to end before.
async fn looked<T, E: Into<Fault>>(
    cancel: &CancellationToken,
    look: impl Future<Output = Result<T, E>>,
) -> Result<T, Fault> {
    let seen = cancel.run_until_cancelled(look).await.filter(|_| !cancel.is_cancelled());
    seen.ok_or(Fault::NotTried)?.map_err(Into::into)
}

/// What a removal has come to; nothing if it was not tried. What somebody else has removed meanwhile is gone as well.
fn ended(candidate: &Candidate, removed: Result<(), Fault>) -> Option<Ended> {
    let (outcome, is_unanswered) = match removed {
        Ok(()) | Err(Fault::Refused(Refusal::AlreadyGone)) => (Outcome::Removed, false),
        Err(Fault::Refused(refusal)) => (Outcome::Refused(refusal), false),
        Err(Fault::Failed { error, is_unanswered }) => (Outcome::Failed(error), is_unanswered),
        Err(Fault::NotTried) => return None,
    };
    // At once: the others may take minutes. What went is told when a list has shown it.
    if outcome != Outcome::Removed {
        tell(candidate, &outcome);
    }
    Some(Ended { outcome, is_unanswered })
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
