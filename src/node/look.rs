//! Everything that a plan needs, at one time.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join3;
use kube_gc_core::text::word;
use kube_gc_cri as cri;
use kube_gc_cri::client::PodKey;
use kube_gc_cri::messages::{
    CONFIG_SEEN, CONFIG_SOURCE, Container, ImageSpec, POD_UID, PodSandbox, PodSandboxState,
};
use kube_gc_node::logs::parse_directory;
use kube_gc_node::plan::{Candidate, Inputs, Plan, Target, What};
use kube_gc_node::pods::{PodState, Pods, UnknownReason};
use kube_gc_node::rules::Effects;
use kube_gc_node::safety;
use kube_gc_node::view::{Extent, Listed, Pod, SandboxImage};
use kube_gc_node::{Files, Moment, PodRef, PodView, RuntimeView, Timestamp, plan, pods};
use tokio::time::Instant;

use super::files::Entries;
use super::{NodeCollector, NodeError, NodeOptions, PodSource, blocking, now, view};
use kube_gc_client::{ApiError, PodWatch};

/// How long what a consistent list has told of pods is enough, beside a watch. For one, old API servers read all pods
/// of the cluster.
const CONSISTENT: Duration = Duration::from_secs(10);

/// What the API server has told of the pods.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Those of the last list, which count until the next one, because a watch may be behind.
    pods: Option<Vec<Pod>>,
    /// When a consistent list was last asked for in this pass.
    pub(super) asked: Option<Instant>,
    /// Why pods could not be listed in this pass.
    pub(super) failure: Option<ApiError>,
}

impl Told {
    /// Whether the API server did not answer in this pass: it would take as long again.
    fn is_silent(&self) -> bool {
        self.failure.as_ref().is_some_and(ApiError::is_unanswered)
    }
}

/// What there is on a node, and what has to go.
#[derive(Debug)]
pub struct Look {
    /// What has to go, and why.
    pub plan: Arc<Plan>,
    /// What could not be seen, for people.
    pub notes: Vec<String>,
    /// Why the API server has not told the pods of this node.
    pub api_error: Option<ApiError>,
    /// The sandbox by which it is known that a kubelet runs here.
    kubelet: Option<String>,
    pub(super) pods: PodView,
    pub(super) files: Files,
    /// The invariants that the plan breaks: none, unless there is a bug.
    pub(super) violations: Vec<String>,
}

impl NodeCollector {
    /// Looks at the node and plans. Before anything is removed, it looks for a kubelet that was not known, and
    /// plans anew beside one (safety 3).
    ///
    /// # Errors
    /// As of [`NodeCollector::look`].
    pub async fn look_beside(&mut self, options: &mut NodeOptions) -> Result<Look, NodeError> {
        let look = self.look(now()).await?;
        if options.kubelet.is_some() || look.plan.removals.is_empty() {
            return Ok(look);
        }
        // What cannot be ruled out counts as present.
        let unknown = |error| Some(format!("whether one does is not known: {error}"));
        let found = match &look.kubelet {
            None => blocking(options.detect).await.unwrap_or_else(unknown),
            found => found.clone(),
        };
        options.notice(found);
        let Some(why) = &options.kubelet else { return Ok(look) };
        tracing::warn!(why, beside_kubelet = ?options.beside, "a kubelet runs on this node");
        self.rules.clone_from(&options.rules);
        self.look(now()).await
    }

    /// Looks at the node and plans. Writes nothing.
    ///
    /// # Errors
    /// The container runtime does not answer. That something else cannot be seen is in the notes.
    pub async fn look(&mut self, now: Moment) -> Result<Look, NodeError> {
        let now = &now;
        let mut notes = Vec::new();
        let mut files = self.files(&mut notes).await;
        let mut runtime = self.runtime_view(&pod_keys(&files), &mut notes).await?;
        // After the runtime, so that a pod that is bound meanwhile is in the list.
        let (pods, api_error) = self.pod_view(&runtime, &files, &mut notes).await;
        let kubelet = self.kubelet();
        match self.disk().await {
            Ok(disk) => {
                files.image_usage = disk.usage().map_err(|problem| notes.push(problem)).ok();
                files.container_disk = disk.of_containers(&mut notes);
            }
            Err(problem) => notes.push(problem),
        }

        self.forget_gone(&runtime);
        self.add_layers(&mut runtime, now.wall, &mut notes).await;
        // Also if no image goes now, so that what is used is remembered (B8).
        let unlisted = self.learn_users(&mut runtime, &pods).await;
        notes.extend(unlisted.unwrap_or_else(|error| {
            runtime.sandbox_image = SandboxImage::Unknown;
            vec![format!("it is not known which images are used by others than CRI, so images stay: {error}")]
        }));
        self.ledger.observe(&runtime, &pods, now);
        if !self.rules.labels.is_empty() {
            let without = plan(&self.inputs(&runtime, &pods, &files, now.wall));
            notes.extend(self.learn_labels(&mut runtime, &without).await);
        }
        let plan = plan(&self.inputs(&runtime, &pods, &files, now.wall));
        notes.extend(self.lost_logs(&files, &plan));
        notes.extend(self.stale_records(&plan));
        let broken = safety::check(&self.inputs(&runtime, &pods, &files, now.wall), &plan);
        let violations: Vec<String> = broken.iter().map(ToString::to_string).collect();
        notes.extend(violations.iter().cloned());
        Ok(Look { plan: Arc::new(plan), notes, api_error, kubelet, pods, files, violations })
    }

    /// The sandbox by which it is known that a kubelet runs here.
    pub(super) fn kubelet(&self) -> Option<String> {
        let uid = self.kubelet_pods.first()?;
        Some(format!("it has made the ready sandbox of the pod with uid {}", word(uid)))
    }

    /// A note if containers go and their logs stay: a kubelet runs here, and none of its pods has its logs where they
    /// are looked for.
    fn lost_logs(&self, files: &Files, plan: &Plan) -> Option<String> {
        let with_logs = files.log_directories.iter().map(|directory| parse_directory(&directory.name).uid);
        let with_logs: HashSet<&str> = with_logs.collect();
        let has_logs = |uid: &String| with_logs.contains(uid.as_str());
        let goes_without = |candidate: &Candidate| matches!(&candidate.target, Target::Container { uid, .. } if !has_logs(uid));
        let are_elsewhere = !self.kubelet_pods.is_empty() && !self.kubelet_pods.iter().any(has_logs);
        (are_elsewhere && plan.removals.iter().any(goes_without)).then(|| {
            let go = if plan.effects == Effects::Nothing { "would go" } else { "go" };
            format!(
                "no pod has its logs below {}, so containers {go} without their logs; if the kubelet has another \
                 `podLogsDir`, set `node.roots.pods` to it",
                self.rules.roots.pods
            )
        })
    }

    /// A note if images go beside a kubelet, which may have recorded with which credentials they were pulled (KEP-2535).
    fn stale_records(&self, plan: &Plan) -> Option<String> {
        let goes =
            plan.effects != Effects::Nothing && plan.removals.iter().any(|it| it.what() == What::Image);
        (self.rules.beside_kubelet.is_some() && goes).then(|| {
            "the kubelet (from 1.35 on) keeps its records of how images were pulled until it frees space itself; \
             until then, revoked credentials open an image that goes here once somebody has pulled it again"
                .to_owned()
        })
    }

    /// What a plan is made from.
    const fn inputs<'a>(
        &'a self,
        runtime: &'a RuntimeView,
        pods: &'a PodView,
        files: &'a Files,
        now: Timestamp,
    ) -> Inputs<'a> {
        Inputs { runtime, pods, files, ledger: &self.ledger, rules: &self.rules, tried: &self.tried, now }
    }

    /// The logs and symlinks.
    async fn files(&self, notes: &mut Vec<String>) -> Files {
        let logs = self.logs.clone();
        let read = move || (logs.directories(), logs.symlinks());
        let Ok((directories, symlinks)) = blocking(read).await else {
            notes.push("reading the logs failed unexpectedly".to_owned());
            return Files::default();
        };
        Files {
            log_directories: items(directories, notes),
            log_symlinks: items(symlinks, notes),
            ..Files::default()
        }
    }

    /// All containers, sandboxes and images.
    pub(super) async fn runtime_view(
        &mut self,
        keys: &[PodKey],
        notes: &mut Vec<String>,
    ) -> Result<RuntimeView, NodeError> {
        let (lists, images, status) = join3(
            async {
                tokio::try_join!(self.client.all::<Container>(keys), self.client.all::<PodSandbox>(keys))
            },
            self.client.all_images(),
            self.client.status(),
        )
        .await;
        // On a new connection, it may be another runtime.
        self.client.follow().await?;
        let (containers, sandboxes) = lists?;
        self.kubelet_pods = sandboxes.items.iter().filter_map(made_by_kubelet).cloned().collect();
        let mut runtime = RuntimeView {
            containers_extent: view::extent(containers.is_whole),
            containers: containers.items.into_iter().map(view::container).collect(),
            sandboxes_extent: view::extent(sandboxes.is_whole),
            sandboxes: sandboxes.items.into_iter().map(view::sandbox).collect(),
            ..RuntimeView::default()
        };
        if runtime.containers_extent == Extent::Slice || runtime.sandboxes_extent == Extent::Slice {
            notes.push(
                "the container runtime cannot send whole lists; sandboxes, logs and images wait until it can (B1)"
                    .to_owned(),
            );
        }
        match images {
            Ok(images) => runtime.images = images.into_iter().map(view::image).collect(),
            Err(error @ cri::Error::TooLarge { .. }) => {
                notes.push(format!("{error}; images stay (B1)"));
                runtime.images_extent = Extent::Slice;
            }
            Err(error) => return Err(error.into()),
        }
        match status {
            Ok(status) => self.sandbox_image = Some(status.sandbox_image()),
            Err(error) => {
                notes.push(format!("the container runtime does not say which image sandboxes use: {error}"));
            }
        }
        runtime.sandbox_image = match self.sandbox_image.clone() {
            Some(image) => image.map_or(SandboxImage::None, SandboxImage::Named),
            None => SandboxImage::Unknown,
        };
        Ok(runtime)
    }

    /// The pods of this node, with proofs for those that are missing (safety 2). Usually the pods that a
    /// watch knows suffice, or a list from the API server's cache. Only if something here belongs to none
    /// of them, a consistent list is read, which is expensive on older servers.
    async fn pod_view(
        &mut self,
        runtime: &RuntimeView,
        files: &Files,
        notes: &mut Vec<String>,
    ) -> (PodView, Option<ApiError>) {
        let Some(source) = &self.pods else { return (PodView::None, None) };
        let told = async {
            let mut view = source.view(false).await?;
            let lacks_pods = !pods::needing_proof(runtime, &view, files).is_empty()
                || Pods::of(runtime, &view, files).is_on_wrong_node();
            if lacks_pods {
                view = source.view(true).await?;
                let missing = pods::needing_proof(runtime, &view, files);
                if let PodView::Listed(Listed { proofs, .. }) = &mut view {
                    let (answers, failure) = source.proofs(missing.clone()).await;
                    *proofs = answers;
                    notes.extend(doubts(failure, &missing, &Pods::of(runtime, &view, files)));
                }
            }
            Ok(view)
        };
        match told.await {
            Ok(pods) => {
                self.told.pods = Some(pods.pods().to_vec());
                (pods, None)
            }
            Err(error) => {
                let error: ApiError = error;
                let (why, known) = (error.to_string(), self.known_pods());
                let images =
                    if known.is_some() { "those known last hold their images" } else { "no image goes" };
                notes.push(format!(
                    "the pods of this node are not known, so none counts as gone, and {images}: {why}"
                ));
                (PodView::Unavailable { why, known }, Some(error))
            }
        }
    }

    /// Looks at what may use an image by now, and at the image, right before its removal (B2).
    ///
    /// Whatever is listed first is the oldest at the removal, so the API server, which may take long, comes first.
    /// containerd has a container before CRI lists it, and is asked after CRI, so it tells one that was made meanwhile.
    /// The image comes last: who gives it a new name, and uses it by that, may have come after the lists of users, but
    /// then the image has that name, and stays. A pod may have been bound meanwhile: a watch has heard of it, and without
    /// one, another list tells. What comes after that, nobody can see.
    pub(super) async fn see(
        &mut self,
        image: &ImageSpec,
        look: &Look,
    ) -> Result<(Result<RuntimeView, cri::Error>, PodView), cri::Error> {
        let keys = pod_keys(&look.files);
        loop {
            if self.told.asked.is_none_or(|asked| asked.elapsed() >= CONSISTENT) {
                self.told.asked = Some(Instant::now());
                self.told.pods = self.list_pods(true).await.or(self.told.pods.take());
            }
            let was_silent = self.told.is_silent();
            if self.rules.beside_kubelet.is_none() {
                let sandboxes = self.client.all::<PodSandbox>(&keys).await?.items;
                self.kubelet_pods = sandboxes.iter().filter_map(made_by_kubelet).cloned().collect();
            }
            let containers = self.client.all::<Container>(&keys).await?;
            let mut runtime = RuntimeView {
                containers_extent: view::extent(containers.is_whole),
                containers: containers.items.into_iter().map(view::container).collect(),
                ..RuntimeView::default()
            };
            self.learn_users(&mut runtime, &listed(self.known_pods(), None)).await?;
            let image = self.client.image(image.clone()).await;
            let is_watched = self.pods.as_ref().is_some_and(PodSource::is_watched);
            let late = if is_watched { None } else { self.list_pods(false).await };
            // What was listed while nothing answered is too old.
            if was_silent || !self.told.is_silent() {
                let seen = image.map(|image| {
                    runtime.images.extend(image.map(view::image));
                    runtime
                });
                return Ok((seen, listed(self.known_pods(), late)));
            }
        }
    }

    /// The pods that are known without a request; nothing if none was ever read.
    fn known_pods(&self) -> Option<Vec<Pod>> {
        let watch = self.pods.as_ref().and_then(|source| source.watch.as_ref());
        let watched = watch.map(PodWatch::last).unwrap_or_default();
        Some([self.told.pods.clone()?, watched].concat())
    }

    /// The pods by a new list. If they cannot be listed, a pass goes on.
    async fn list_pods(&mut self, consistent: bool) -> Option<Vec<Pod>> {
        let source = self.pods.as_ref().filter(|_| !self.told.is_silent())?;
        let listed = source.api.pods_of_node(&source.node, consistent).await;
        listed.map_err(|error| self.told.failure = Some(error)).ok()
    }
}

fn listed(pods: Option<Vec<Pod>>, late: Option<Vec<Pod>>) -> PodView {
    let pods = pods.into_iter().chain(late).flatten().collect();
    PodView::Listed(Listed { pods, ..Listed::default() })
}

/// How many pods count as there because nothing confirms the node, or because somebody may not ask for them or
/// got no answer.
fn doubts(failure: Option<ApiError>, missing: &[PodRef], pods: &Pods<'_>) -> Vec<String> {
    let count = |why: UnknownReason| {
        let state = PodState::Unknown(why);
        let count = missing.iter().filter(|pod| pods.state(&pod.uid) == state).count();
        let are = if count == 1 { "pod is" } else { "pods are" };
        (count > 0).then(|| format!("{count} {are} missing in the list, and not proved gone"))
    };
    let unconfirmed = count(UnknownReason::Unconfirmed);
    let unconfirmed = unconfirmed.map(|what| format!("{what}: {}", UnknownReason::Unconfirmed));
    let unproved = failure.and_then(|why| {
        let right = if why.code == Some(403) { "; allow this user to get pods" } else { "" };
        count(UnknownReason::Unproved).map(|what| format!("{what}: {why}{right}"))
    });
    unconfirmed.into_iter().chain(unproved).collect()
}

/// The uid of the pod of a ready sandbox that a kubelet has made, by what only it writes there.
fn made_by_kubelet(sandbox: &PodSandbox) -> Option<&String> {
    let is_ready = sandbox.state() != PodSandboxState::SandboxNotready;
    let mut annotations = [CONFIG_SOURCE, CONFIG_SEEN].into_iter();
    let is_annotated = annotations.all(|annotation| sandbox.annotations.contains_key(annotation));
    sandbox.labels.get(POD_UID).filter(|_| is_ready && is_annotated)
}

/// What was read, or nothing, with a note.
fn items<T>(read: Result<Entries<T>, String>, notes: &mut Vec<String>) -> Vec<T> {
    match read {
        Ok(Entries { items, problem }) => {
            notes.extend(problem);
            items
        }
        Err(problem) => {
            notes.push(problem);
            Vec::new()
        }
    }
}

/// The pods that may have containers, for lists that are too long.
pub(super) fn pod_keys(files: &Files) -> Vec<PodKey> {
    let named = files.log_directories.iter().filter_map(|directory| parse_directory(&directory.name).named);
    named.map(|(namespace, _, uid)| PodKey { namespace: namespace.to_owned(), uid: uid.to_owned() }).collect()
}
