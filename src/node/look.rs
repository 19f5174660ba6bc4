//! Everything that a plan needs, at one time.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::join3;
use kube_gc_core::text::word;
use kube_gc_cri as cri;
use kube_gc_cri::client::PodKey;
use kube_gc_cri::messages::{CONFIG_SEEN, CONFIG_SOURCE, Container, POD_UID, PodSandbox, PodSandboxState};
use kube_gc_node::logs::parse_directory;
use kube_gc_node::plan::{Candidate, Inputs, Plan, Target, What};
use kube_gc_node::pods::{PodState, Pods, UnknownReason};
use kube_gc_node::rules::Effects;
use kube_gc_node::safety;
use kube_gc_node::view::{Extent, Listed, SandboxImage};
use kube_gc_node::{Files, Moment, PodRef, PodView, RuntimeView, Timestamp, plan, pods};

use super::files::Entries;
use super::report::Says;
use super::{NodeCollector, NodeError, NodeOptions, Note, blocking, now, view};
use kube_gc_client::ApiError;

/// What there is on a node, and what has to go.
#[derive(Debug)]
pub struct Look {
    /// What has to go, and why.
    pub plan: Arc<Plan>,
    /// What could not be seen, for people.
    pub notes: Vec<Note>,
    /// Why the API server has not told the pods of this node.
    pub api_error: Option<ApiError>,
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
        let found = match self.kubelet() {
            None => blocking(options.detect).await.unwrap_or_else(unknown),
            found => found,
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
        let mut notes = Vec::new();
        let mut files = self.files(&mut notes).await;
        let mut runtime = self.runtime_view(&pod_keys(&files), &mut notes).await?;
        // After the runtime, so that a pod that is bound meanwhile is in the list.
        let (pods, api_error) = self.pod_view(&runtime, &files, &mut notes).await;
        if let Some(disk) = self.disk(&mut notes).await {
            files.image_usage =
                disk.usage().map_err(|problem| notes.push(note!("{problem}").saying(Says::Unmeasured))).ok();
            files.container_disk = disk.of_containers(&mut notes);
        }

        self.forget_gone(&runtime);
        self.add_layers(&mut runtime, now.wall, &mut notes).await;
        // Also if no image goes now, so that what is used is remembered (B8).
        let unlisted = self.learn_users(&mut runtime, &pods).await;
        notes.extend(unlisted.unwrap_or_else(|error| {
            runtime.sandbox_image = SandboxImage::Unknown;
            vec![note!("it is not known which images are used by others than CRI, so images stay: {error}")]
        }));
        self.join();
        self.ledger.observe(&runtime, &pods, &now);
        if !self.rules.labels.is_empty() {
            let without = plan(&self.inputs(&runtime, &pods, &files, now.wall));
            notes.extend(self.learn_labels(&mut runtime, &without).await);
        }
        let plan = plan(&self.inputs(&runtime, &pods, &files, now.wall));
        if let Some(source) = self.pods.as_ref().filter(|_| plan.wrong_node) {
            notes.push(note!(
                "the API server knows fewer than half of the ready sandboxes here, so no pod counts as gone, and images \
                 stay; check whether {} is the name of this node (`node.name`, --node)",
                word(&source.node)
            ));
        }
        notes.extend(self.lost_logs(&files, &plan));
        notes.extend(self.stale_records(&plan));
        let broken = safety::check(&self.inputs(&runtime, &pods, &files, now.wall), &plan);
        let violations = broken.iter().map(ToString::to_string).collect::<Vec<_>>();
        notes.extend(violations.iter().map(|violation| note!("{violation}")));
        Ok(Look { plan: Arc::new(plan), notes, api_error, pods, files, violations })
    }

    /// Notes which of all sandboxes a kubelet has made.
    pub(super) fn notice_kubelet(&mut self, sandboxes: &[PodSandbox]) {
        self.kubelet_pods = sandboxes.iter().filter_map(made_by_kubelet).cloned().collect();
    }

    /// The sandbox by which it is known that a kubelet runs here.
    pub(super) fn kubelet(&self) -> Option<String> {
        let uid = self.kubelet_pods.first()?;
        Some(format!("it has made the ready sandbox of the pod with uid {}", word(uid)))
    }

    /// A note if containers go and their logs stay: a kubelet runs here, and none of its pods has its logs where they
    /// are looked for.
    fn lost_logs(&self, files: &Files, plan: &Plan) -> Option<Note> {
        let with_logs = files.log_directories.iter().map(|directory| parse_directory(&directory.name).uid);
        let with_logs: HashSet<&str> = with_logs.collect();
        let has_logs = |uid: &String| with_logs.contains(uid.as_str());
        let goes_without = |candidate: &Candidate| matches!(&candidate.target, Target::Container { uid, .. } if !has_logs(uid));
        let are_elsewhere = !self.kubelet_pods.is_empty() && !self.kubelet_pods.iter().any(has_logs);
        (are_elsewhere && plan.removals.iter().any(goes_without)).then(|| {
            let go = if plan.effects == Effects::Nothing { "would go" } else { "go" };
            note!(
                "no pod has its logs below {}, so containers {go} without their logs; if the kubelet has another \
                 `podLogsDir`, set `node.roots.pods` to it",
                self.rules.roots.pods
            )
            .saying(Says::Hint)
        })
    }

    /// A note if images go beside a kubelet, which may have recorded with which credentials they were pulled (KEP-2535).
    fn stale_records(&self, plan: &Plan) -> Option<Note> {
        let goes =
            plan.effects != Effects::Nothing && plan.removals.iter().any(|it| it.what() == What::Image);
        (self.rules.beside_kubelet.is_some() && goes).then(|| {
            note!(
                "the kubelet (from 1.35 on) keeps its records of how images were pulled until it frees space itself; \
                 until then, revoked credentials open an image that goes here once somebody has pulled it again"
            )
            .saying(Says::Hint)
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
    async fn files(&self, notes: &mut Vec<Note>) -> Files {
        let logs = self.logs.clone();
        let read = move || (logs.directories(None), logs.symlinks(None));
        let Ok((directories, symlinks)) = blocking(read).await else {
            notes.push(note!("reading the logs failed unexpectedly"));
            return Files::default();
        };
        Files {
            log_directories: items(directories, "logs", notes),
            log_symlinks: items(symlinks, "symlinks", notes),
            ..Files::default()
        }
    }

    /// All containers, sandboxes and images.
    pub(super) async fn runtime_view(
        &mut self,
        keys: &[PodKey],
        notes: &mut Vec<Note>,
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
        self.notice_kubelet(&sandboxes.items);
        let mut runtime = RuntimeView {
            containers_extent: view::extent(containers.is_whole),
            containers: containers.items.into_iter().map(view::container).collect(),
            sandboxes_extent: view::extent(sandboxes.is_whole),
            sandboxes: sandboxes.items.into_iter().map(view::sandbox).collect(),
            ..RuntimeView::default()
        };
        if runtime.containers_extent == Extent::Slice || runtime.sandboxes_extent == Extent::Slice {
            notes.push(note!(
                "the container runtime cannot send whole lists; sandboxes, logs and images wait until it can (B1)"
            ));
        }
        match images {
            Ok(images) => runtime.images = images.into_iter().map(view::image).collect(),
            Err(error @ cri::Error::TooLarge { .. }) => {
                notes.push(note!("{error}; images stay (B1)"));
                runtime.images_extent = Extent::Slice;
            }
            Err(error) => return Err(error.into()),
        }
        match status {
            Ok(status) => {
                self.sandbox_image = status.sandbox_image().map_or(SandboxImage::None, SandboxImage::Named);
            }
            Err(error) => {
                notes.push(note!("the container runtime does not say which image sandboxes use: {error}"));
            }
        }
        runtime.sandbox_image = self.sandbox_image.clone();
        Ok(runtime)
    }

    /// The pods of this node, with proofs for those that are missing (safety 2). Usually the pods that a
    /// watch knows suffice, or a list from the API server's cache. Only if something here belongs to none
    /// of them, a consistent list is read, which is expensive on older servers.
    async fn pod_view(
        &mut self,
        runtime: &RuntimeView,
        files: &Files,
        notes: &mut Vec<Note>,
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
                self.known = Some(pods.pods().to_vec());
                (pods, None)
            }
            Err(error) => {
                let error: ApiError = error;
                let (why, known) = (error.to_string(), self.known_pods());
                let images =
                    if known.is_some() { "those known last hold their images" } else { "no image goes" };
                notes.push(note!(
                    "the pods of this node are not known, so none counts as gone, and {images}: {why}"
                ));
                (PodView::Unavailable { why, known }, Some(error))
            }
        }
    }
}

/// How many pods count as there because nothing confirms the node, or because somebody may not ask for them or
/// got no answer.
fn doubts(failure: Option<ApiError>, missing: &[PodRef], pods: &Pods<'_>) -> Vec<Note> {
    let count = |why: UnknownReason| {
        let state = PodState::Unknown(why);
        let count = missing.iter().filter(|pod| pods.state(&pod.uid) == state).count();
        let are = if count == 1 { "pod is" } else { "pods are" };
        (count > 0).then(|| format!("{count} {are} missing in the list, and not proved gone"))
    };
    let unconfirmed = count(UnknownReason::Unconfirmed);
    let unconfirmed = unconfirmed.map(|what| note!("{what}: {}", UnknownReason::Unconfirmed));
    let unproved = failure.and_then(|why| {
        let right = if why.code == Some(403) { "; allow this user to get pods" } else { "" };
        count(UnknownReason::Unproved).map(|what| note!("{what}: {why}{right}"))
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

/// What was read, or nothing, with a note of this kind.
fn items<T>(read: Result<Entries<T>, String>, kind: &'static str, notes: &mut Vec<Note>) -> Vec<T> {
    let is_missing = read.as_ref().is_ok_and(|read| read.items.is_empty());
    let says = if is_missing { Says::Hint } else { Says::Gap };
    let none = |problem| Entries { items: Vec::new(), problem: Some(problem) };
    let Entries { items, problem } = read.unwrap_or_else(none);
    notes.extend(problem.map(|text| Note { kind, says, text }));
    items
}

/// The pods that may have containers, for lists that are too long.
pub(super) fn pod_keys(files: &Files) -> Vec<PodKey> {
    let named = files.log_directories.iter().filter_map(|directory| parse_directory(&directory.name).named);
    named.map(|(namespace, _, uid)| PodKey { namespace: namespace.to_owned(), uid: uid.to_owned() }).collect()
}
