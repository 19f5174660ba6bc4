//! One node: its runtime, its pods, its files, and why it cannot be looked at.

use std::collections::HashMap;
use std::mem::discriminant;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::{FutureExt as _, StreamExt as _, stream};
use kube_gc_cri::{self as cri, Client};
use kube_gc_node::pass::PATIENCE;
use kube_gc_node::plan::Candidate;
use kube_gc_node::view::{Answer, Listed, Pod, Proof, SandboxImage};
use kube_gc_node::{Ledger, Moment, PodRef, PodView, Rules, Timestamp, Tried};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::disk::{self, Disk};
use super::files::Logs;
use super::unlisted::Layer;
use super::{Note, StateFile};
use kube_gc_client::{Api, ApiError, PodWatch};

/// How many live GETs are under way at a time.
const PROOFS_AT_A_TIME: usize = 8;

/// Looks at one node and carries out plans on it.
#[derive(Debug)]
pub struct NodeCollector {
    pub(super) client: Client,
    /// Where images and layers are, and of which connection; nothing as long as the runtime has not told.
    pub(super) disk: Option<(u64, Arc<dyn Disk>)>,
    /// Who knows the pods of this node; nothing without an API server.
    pub(super) pods: Option<PodSource>,
    /// Those of the last list, which count until the next one, because a watch may be behind.
    pub(super) known: Option<Vec<Pod>>,
    pub(super) logs: Logs,
    pub(super) rules: Rules,
    /// When images were first seen and last used.
    pub(super) ledger: Ledger,
    /// Where that is kept; nothing if it need not survive this process.
    pub(super) state: Option<StateFile>,
    /// What was to be removed, so that what is still there comes last.
    pub(super) tried: Tried,
    /// The images that each container mounts as volumes, which never change.
    pub(super) volumes: HashMap<String, Vec<String>>,
    /// What each dead container has in its own layer.
    pub(super) layers: HashMap<String, Layer>,
    /// The uids of pods with a ready sandbox that a kubelet has made, as of the last list.
    pub(super) kubelet_pods: Vec<String>,
    /// The image of sandboxes, by the last status of the runtime.
    pub(super) sandbox_image: SandboxImage,
}

impl NodeCollector {
    /// Collects what a container runtime has, with logs that are seen from a pod or from the host.
    pub fn new(client: Client, rules: Rules, in_pod: bool, pods: Option<PodSource>, ledger: Ledger) -> Self {
        Self {
            client,
            disk: None,
            pods,
            known: None,
            logs: Logs::new(rules.roots.clone(), in_pod),
            rules,
            ledger,
            state: None,
            tried: Tried::default(),
            volumes: HashMap::new(),
            layers: HashMap::new(),
            kubelet_pods: Vec::new(),
            sandbox_image: SandboxImage::Unknown,
        }
    }

    /// The same with another file system.
    #[cfg(any(test, feature = "demo"))]
    pub fn with_disk(mut self, disk: Arc<dyn Disk>) -> Self {
        self.disk = Some((u64::MAX, disk));
        self
    }

    /// The same with a file for the ages of images.
    pub fn with_state(mut self, state: StateFile) -> Self {
        self.state = Some(state);
        self
    }

    /// Where images and layers are; as it was told before until the runtime of this connection tells.
    pub(super) async fn disk(&mut self, notes: &mut Vec<Note>) -> Option<Arc<dyn Disk>> {
        // Before the call, which may make a new one.
        let connection = self.client.connections();
        if self.disk.as_ref().is_none_or(|(of, _)| *of < connection) {
            match disk::of_runtime(&self.client).await {
                Ok(disk) => self.disk = Some((connection, disk)),
                Err(problem) => notes.push(problem),
            }
        }
        self.disk.as_ref().map(|(_, disk)| Arc::clone(disk))
    }

    /// The settings of the rules.
    pub const fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Keeps the ages of images.
    pub fn save(&mut self) {
        self.join();
        if let Some(state) = &mut self.state {
            state.write(&self.ledger);
        }
    }

    /// Learns what other processes have written since.
    pub(super) fn join(&mut self) {
        if let Some(state) = &mut self.state {
            self.ledger = state.joined(std::mem::take(&mut self.ledger), &now());
        }
    }

    /// Keeps the ages of all images but this one, which goes next: if this process is killed then, and somebody pulls
    /// it again, it is new to the next process. A disk may take long, so this is done before the last look at it.
    pub(super) fn save_without(&mut self, candidate: &Candidate) {
        self.join();
        if let Some(state) = &mut self.state {
            let mut kept = self.ledger.clone();
            kept.forget(candidate);
            state.write(&kept);
        }
    }

    /// The runtime, as it calls itself: name and version.
    pub fn runtime(&self) -> String {
        let runtime = self.client.runtime();
        let word = kube_gc_core::text::word;
        format!("{} {}", word(&runtime.runtime_name), word(&runtime.runtime_version))
    }
}

/// Runs something that waits for the file system on a thread that may wait. A panic becomes an error.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.map_err(|error| format!("a task failed unexpectedly: {error}"))
}

/// What this comes to, unless it takes much longer than until the pass is asked to end: somebody waits for that.
pub(super) async fn soon<T>(cancel: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = cancel.cancelled().then(|()| sleep(PATIENCE / 2)) => None,
    }
}

/// The time by both clocks.
pub fn now() -> Moment {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let uptime = clock_gettime(ClockId::Boottime);
    let nanos = u32::try_from(uptime.tv_nsec).unwrap_or_default();
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
    Moment {
        wall: Timestamp::from_nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)),
        boot: boot.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()),
        uptime: Duration::new(u64::try_from(uptime.tv_sec).unwrap_or_default(), nanos),
    }
}

/// The API server, as far as it knows the pods of this node.
#[derive(Clone, Debug)]
pub struct PodSource {
    /// Its client.
    pub api: Api,
    /// The name of this node.
    pub node: String,
    /// A watch of what it says, for passes that repeat.
    pub(super) watch: Option<PodWatch>,
}

impl PodSource {
    /// A source that lists for each pass.
    pub fn new(api: Api, node: &str) -> Self {
        Self { api, node: node.to_owned(), watch: None }
    }

    /// The same with a watch instead of a list for each pass.
    pub fn watched(self) -> Self {
        let watch = Some(self.api.watch_pods(&self.node));
        Self { watch, ..self }
    }

    /// All pods of this node: from a list that is consistent, or as far as they are known.
    pub async fn view(&self, consistent: bool) -> Result<PodView, ApiError> {
        let watched = match &self.watch {
            Some(watch) if !consistent => watch.pods().await.ok(),
            _ => None,
        };
        let pods = match watched {
            Some(pods) => pods,
            // Not everybody who may list pods may watch them.
            None => self.api.pods_of_node(&self.node, consistent).await?,
        };
        Ok(PodView::Listed(Listed { pods, consistent, proofs: Vec::new() }))
    }

    /// Whether a watch tells each change by now.
    pub(super) fn is_watched(&self) -> bool {
        let known = self.watch.as_ref().and_then(|watch| watch.pods().now_or_never());
        known.is_some_and(|known| known.is_ok())
    }

    /// Asks about pods that the list lacks (safety 2). Also returns one of the failures.
    pub async fn proofs(&self, missing: Vec<PodRef>) -> (Vec<Proof>, Option<ApiError>) {
        let ask = |pod: PodRef| async move { (self.api.prove_pod(&pod).await, pod) };
        let mut answers = stream::iter(missing).map(ask).buffer_unordered(PROOFS_AT_A_TIME);
        let (mut proofs, mut failure) = (Vec::new(), None);
        while let Some((answer, pod)) = answers.next().await {
            let answer = answer.unwrap_or_else(|error| {
                let is_forbidden = error.code == Some(403);
                failure = Some(error);
                if is_forbidden { Answer::Forbidden } else { Answer::Failed }
            });
            proofs.push(Proof { pod, answer });
        }
        (proofs, failure)
    }
}

/// Why a node cannot be looked at.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The container runtime cannot be used.
    #[error("{0}")]
    Runtime(#[from] cri::Error),
    /// A plan breaks one of its own invariants. Nothing was removed.
    #[error("the plan contradicts itself, so nothing was removed: {0}; this is a bug of kube-gc")]
    Unsafe(String),
    /// The symlink to the socket leads to another runtime, of which this process knows nothing.
    #[error("{error}; {} leads to {} now: start kube-gc node again", link.display(), now.display())]
    Moved { error: cri::Error, link: PathBuf, now: PathBuf },
    /// Nobody waits for it any more.
    #[error("the process was asked to end")]
    Ended,
}

impl NodeError {
    /// Whether it has the same cause, whatever the runtime says of it.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Runtime(one), Self::Runtime(other)) => discriminant(one) == discriminant(other),
            _ => discriminant(self) == discriminant(other),
        }
    }
}
