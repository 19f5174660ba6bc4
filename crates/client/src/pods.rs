//! The pods of one node, as node collection needs them: a list, a watch that follows it, and proof that
//! a pod is gone.
//!
//! What the watch knows may be behind, as any cache. So it proves nothing: before a pod counts as gone
//! and before images are removed, a consistent list is read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use k8s_openapi::api::core::v1 as k8s;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::client::Api;
use super::error::{ApiError, ErrorClass};
use super::list::Selection;
use super::list_watch::{ListWatch, Step, Watched};
use kube_gc_core::graph::DeletesProve;
use kube_gc_core::object::{ResourceType, ResourceVersion, Scope};
use kube_gc_decode::{Change, Decoded, Encoding, Keyed, Object, read_json};
use kube_gc_node::PodRef;
use kube_gc_node::view::{Answer as Proved, Phase, Pod};

/// The annotation of a mirror pod: the uid of the static pod that it mirrors.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The most pods that one node can have.
const MOST_PODS: usize = 20_000;

/// The selector of a node's pods, as a parameter.
const FIELD_SELECTOR: &str = "fieldSelector";

fn of_node(node: &str) -> String {
    format!("spec.nodeName={node}")
}

fn pod_type() -> Arc<ResourceType> {
    ResourceType::of("pods", "v1", "Pod", Scope::Namespaced)
}

fn too_many() -> String {
    format!("more than {MOST_PODS} pods")
}

impl Api {
    /// All pods that are bound to a node. For a consistent list, the API server reads all pods of the
    /// cluster before Kubernetes 1.31. Any other list is from its cache, and may be behind.
    ///
    /// # Errors
    ///
    /// The list cannot be read to its end.
    pub async fn pods_of_node(&self, node: &str, consistent: bool) -> Result<Vec<Pod>, ApiError> {
        let mut pods = BTreeMap::new();
        let visit = &mut |_: Encoding, item: &[u8]| {
            let (_, pod) = read(item)?;
            pods.insert(pod.pod.uid.clone(), pod);
            if pods.len() > MOST_PODS { Err(too_many()) } else { Ok(()) }
        };
        let (resource, selector) = (&*pod_type(), &*of_node(node));
        let selector = Some((FIELD_SELECTOR, selector));
        let selection = Selection { resource, namespace: None, selector, cached: !consistent, whole: true };
        Box::pin(self.list_items(selection, visit)).await?;
        Ok(pods.into_values().collect())
    }

    /// What a live GET by namespace and name says about a pod that the list lacks (safety 2).
    pub async fn prove_pod(&self, pod: &PodRef) -> Result<Proved, ApiError> {
        let PodRef { namespace, name, uid } = pod;
        if uid.is_empty() {
            return Ok(Proved::Failed);
        }
        let pods = pod_type();
        let answer = match Box::pin(self.get_named(&pods, Some(namespace), name)).await {
            Ok(answer) => answer,
            Err(error) if error.class == ErrorClass::Absent => return Ok(Proved::NotFound),
            Err(error) => return Err(error),
        };
        let Keyed(Object { metadata }): Keyed<Object<ObjectMeta>> = answer.json()?;
        let mirror_of = mirror_of(&metadata);
        let found = reference(metadata);
        if found.uid.is_empty() || (&found.namespace, &found.name) != (namespace, name) {
            return Err(answer.unusable("the response is not the pod that was asked for"));
        }
        Ok(if found.uid == *uid { Proved::SameUid } else { Proved::OtherUid { mirror_of } })
    }
}

/// Reads a pod and its version. One without a uid is an error, because it may be any.
fn read(object: &[u8]) -> Result<(Option<ResourceVersion>, Pod), String> {
    let mut pod: k8s::Pod = read_json(object)?;
    let version = pod.metadata.resource_version.take();
    let pod = view(pod);
    if pod.pod.uid.is_empty() {
        return Err("a pod has no uid".to_owned());
    }
    Ok((version.as_deref().and_then(ResourceVersion::parse), pod))
}

fn mirror_of(metadata: &ObjectMeta) -> Option<String> {
    metadata.annotations.as_ref()?.get(MIRROR).cloned()
}

fn reference(metadata: ObjectMeta) -> PodRef {
    PodRef {
        namespace: metadata.namespace.unwrap_or_default(),
        name: metadata.name.unwrap_or_default(),
        uid: metadata.uid.unwrap_or_default(),
    }
}

/// What the rules need of a pod.
fn view(pod: k8s::Pod) -> Pod {
    let (metadata, spec, status) =
        (pod.metadata, pod.spec.unwrap_or_default(), pod.status.unwrap_or_default());
    let statuses =
        [status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses];
    let runs = |status: k8s::ContainerStatus| {
        let state = status.state.unwrap_or_default();
        state.terminated.is_none() && state.waiting.is_none()
    };
    let volumes = spec.volumes.unwrap_or_default();
    // A pod has a container at least. Without one, this is not all of its spec.
    let without_image_volumes =
        !spec.containers.is_empty() && volumes.iter().all(|volume| volume.image.is_none());
    let containers = spec.containers.into_iter().chain(spec.init_containers.into_iter().flatten());
    let ephemeral = spec.ephemeral_containers.into_iter().flatten().map(|container| container.image);
    let images = containers
        .map(|container| container.image)
        .chain(ephemeral)
        .chain(volumes.into_iter().map(|volume| volume.image?.reference));
    Pod {
        phase: match status.phase.as_deref() {
            Some("Pending" | "") | None => Phase::Pending,
            Some("Running") => Phase::Running,
            Some("Succeeded") => Phase::Succeeded,
            Some("Failed") => Phase::Failed,
            Some(_) => Phase::Unknown,
        },
        evicted: status.reason.as_deref() == Some("Evicted"),
        deleting: metadata.deletion_timestamp.is_some(),
        containers_running: statuses.into_iter().flatten().flatten().any(runs),
        images: images.flatten().filter(|image| !image.is_empty()).collect(),
        without_image_volumes,
        mirror_of: mirror_of(&metadata),
        pod: reference(metadata),
    }
}

/// Follows the pods of one node until its last clone is dropped.
#[derive(Clone, Debug)]
pub struct PodWatch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    known: watch::Receiver<Known>,
    limit: Duration,
    task: AbortHandle,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What is known of the pods.
#[derive(Debug, Default)]
struct Known {
    pods: Pods,
    state: State,
}

type Pods = BTreeMap<String, Pod>;

#[derive(Debug, Default)]
enum State {
    #[default]
    Unlisted,
    /// They were listed, and a watch follows them.
    Current,
    Failed(ApiError),
}

/// What a list or an event says of a pod.
struct PodEvent(Change, Pod);

impl Watched for PodEvent {
    const WHOLE: bool = true;

    fn read(change: Change, _: Encoding, object: &[u8]) -> Result<Decoded<Self>, String> {
        let (version, pod) = read(object)?;
        if version.is_none() {
            return Err("a pod has no version".to_owned());
        }
        Ok(Decoded { version, object: Some(Self(change, pod)) })
    }
}

impl PodEvent {
    fn apply(self, pods: &mut Pods) {
        let Self(change, pod) = self;
        if change == Change::Deleted {
            pods.remove(&pod.pod.uid);
        } else {
            pods.insert(pod.pod.uid.clone(), pod);
        }
    }
}

impl Api {
    /// Follows the pods that are bound to a node.
    pub fn watch_pods(&self, node: &str) -> PodWatch {
        let (sender, known) = watch::channel(Known::default());
        let selection = (FIELD_SELECTOR, of_node(node));
        // Nothing that it shows is a proof, as with an aggregated API. So no write waits for it.
        let list_watch = self.watch_selected(pod_type(), Some(selection), DeletesProve::Nothing);
        let task = tokio::spawn(follow(list_watch, sender).boxed()).abort_handle();
        PodWatch(Arc::new(Inner { known, limit: self.settings().request_timeout, task }))
    }
}

/// Keeps what is known up to date.
async fn follow(mut list_watch: ListWatch<PodEvent>, known: watch::Sender<Known>) {
    let mut listed = Pods::new();
    while let Some(step) = list_watch.next().await {
        match step {
            Step::Init { .. } => listed.clear(),
            Step::InitApply(events) => events.into_iter().for_each(|event| event.apply(&mut listed)),
            Step::InitDone { .. } => {
                let pods = std::mem::take(&mut listed);
                known.send_replace(Known { state: State::of(&pods), pods });
            }
            Step::Events(events) => known.send_modify(|known| {
                events.into_iter().for_each(|event| event.apply(&mut known.pods));
                known.state = State::of(&known.pods);
            }),
            Step::Bookmark { .. } | Step::Resumed => {
                known.send_modify(|known| known.state = State::of(&known.pods));
            }
            Step::Expired { error } | Step::Failed { error, .. } => {
                tracing::debug!(%error, "the pods of this node are not watched now");
                known.send_modify(|known| known.state = State::Failed(error));
            }
            // The type is listed again.
            Step::WatchEnded | Step::StoreRestored { .. } => {}
        }
    }
}

impl State {
    /// The state while a watch follows these pods.
    fn of(pods: &Pods) -> Self {
        if pods.len() > MOST_PODS {
            Self::Failed(failed(ErrorClass::Unusable, too_many()))
        } else {
            Self::Current
        }
    }
}

fn failed(class: ErrorClass, message: String) -> ApiError {
    ApiError::new(class, "LIST", "pods of this node", message)
}

impl PodWatch {
    /// The pods, as far as they are known. Waits for the first list.
    ///
    /// # Errors
    ///
    /// The pods cannot be listed or watched now.
    pub async fn pods(&self) -> Result<Vec<Pod>, ApiError> {
        let mut known = self.0.known.clone();
        let is_listed = |known: &Known| !matches!(known.state, State::Unlisted);
        let waited = tokio::time::timeout(self.0.limit, known.wait_for(is_listed)).await;
        let failed = |message: &str| failed(ErrorClass::Transient, message.to_owned());
        let known = waited.map_err(|_| failed("no list within the time limit"))?;
        let known = known.map_err(|_| failed("the watch has ended unexpectedly"))?;
        match &known.state {
            State::Failed(error) => Err(error.clone()),
            State::Unlisted | State::Current => Ok(known.pods.values().cloned().collect()),
        }
    }

    /// The pods that were known last, also while they cannot be listed or watched.
    pub fn last(&self) -> Vec<Pod> {
        self.0.known.borrow().pods.values().cloned().collect()
    }
}

#[cfg(test)]
mod tests;
