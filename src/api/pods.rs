//! The pods of one node, as node collection needs them: a list, a watch that follows it, and proof that
//! a pod is gone.
//!
//! What the watch knows may be behind, as any cache. So it proves nothing: before a pod counts as gone
//! and before an image is removed, a consistent list is read.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use http::Method;
use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1 as k8s;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ListMeta, ObjectMeta};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::call::{Answer, Call, JSON};
use super::client::Api;
use super::connection_error::error_chain;
use super::error::{self, ApiError, ErrorClass, NO_TEXT, unusable};
use super::list::Pagination;
use super::path;
use super::settings::Verb;
use kube_gc_core::object::{GroupResource, Identity, Namespace, ResourceType, Scope, Uid};
use kube_gc_decode::{Encoding, Keyed, LineSplitter, Status, json_fault, keyed_or_default, or_default};
use kube_gc_node::PodRef;
use kube_gc_node::view::{Answer as Proved, Phase, Pod};

/// The annotation of a mirror pod: the uid of the static pod that it mirrors.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// How many pods a page of the list has. A node has a few hundred at most.
const PAGE: u32 = 500;
/// The most pods that one node can have.
const MOST_PODS: usize = 20_000;

/// The longest event. etcd stores no object of this size.
const LONGEST_EVENT: usize = 16 << 20;
/// After so many failures in a row, the pods are listed again.
const MOST_FAILURES: u32 = 2;

impl Api {
    /// All pods that are bound to a node. A consistent list has no `resourceVersion`; before
    /// Kubernetes 1.31 the API server reads all pods of the cluster for it. Any other list is from
    /// the API server's cache, and may be behind.
    ///
    /// # Errors
    ///
    /// The list cannot be read to its end.
    pub async fn pods_of_node(&self, node: &str, consistent: bool) -> Result<Vec<Pod>, ApiError> {
        Ok(self.list_pods(node, consistent).await?.pods)
    }

    /// The same, with the version from which a watch goes on.
    async fn list_pods(&self, node: &str, consistent: bool) -> Result<ListedPods, ApiError> {
        let resource = GroupResource::new("", "pods");
        let target = || format!("pods of node {}", kube_gc_core::text::word(node));
        let mut pods = Vec::new();
        let mut pages = Pagination::default();
        let (mut token, mut limit) = (String::new(), PAGE);
        loop {
            let mut page = format!("/api/v1/pods?limit={limit}");
            of_node(&mut page, node);
            match token.as_str() {
                "" if consistent => {}
                "" => page.push_str("&resourceVersion=0"),
                token => {
                    page.push_str("&continue=");
                    path::encode(&mut page, token);
                }
            }
            let call = Call::list(page, JSON, &resource, target());
            let answer = match Box::pin(self.call(call)).await {
                // A few very large pods must not keep the others from being listed.
                Err(error) if error.class == ErrorClass::TooLong && limit > 1 => {
                    limit = (limit / 8).max(1);
                    continue;
                }
                answer => answer?,
            };
            let list: List = read("LIST", target, &answer)?;
            // Anything else would read as an empty list, and all pods would count as gone.
            if list.kind != "PodList" {
                return Err(unusable(
                    "LIST",
                    target(),
                    "the response is not a list of pods".into(),
                    answer.code,
                ));
            }
            let count = list.items.len();
            pods.extend(list.items.into_iter().map(view));
            token = list.metadata.continue_.unwrap_or_default();
            let more = pages.go_on(&token, count).map_err(str::to_owned);
            let more = more.and_then(|()| {
                if pods.len() > MOST_PODS { Err(format!("more than {MOST_PODS} pods")) } else { Ok(()) }
            });
            more.map_err(|why| unusable("LIST", target(), why, answer.code))?;
            if token.is_empty() {
                return Ok(ListedPods {
                    pods,
                    resource_version: list.metadata.resource_version.unwrap_or_default(),
                });
            }
        }
    }

    /// What a live GET by namespace and name says about a pod that the list lacks (safety 2).
    pub async fn prove_pod(&self, pod: &PodRef) -> Result<Proved, ApiError> {
        let Some(uid) = Uid::parse(&pod.uid) else { return Ok(Proved::Failed) };
        let identity = Identity {
            resource: pod_type(),
            namespace: Namespace::parse(&pod.namespace),
            name: pod.name.as_str().into(),
            uid,
        };
        let call = Call::object(Verb::Get, Method::GET, "GET", &identity)?;
        let answer = match Box::pin(self.call(call)).await {
            Ok(answer) => answer,
            Err(error) if error.class == ErrorClass::Absent => return Ok(Proved::NotFound),
            Err(error) => return Err(error),
        };
        let target = || format!("pods {}/{}", pod.namespace, pod.name);
        let Found { metadata } = read("GET", target, &answer)?;
        let mirror_of = mirror_of(&metadata);
        let found = reference(metadata);
        if found.uid.is_empty() || (&found.namespace, &found.name) != (&pod.namespace, &pod.name) {
            let why = "the response is not the pod that was asked for".to_owned();
            return Err(unusable("GET", target(), why, answer.code));
        }
        Ok(if found.uid == pod.uid { Proved::SameUid } else { Proved::OtherUid { mirror_of } })
    }
}

/// The metadata of a pod, which are all that is asked for: the kind is `PartialObjectMetadata`.
#[derive(Deserialize)]
struct Found {
    #[serde(default, deserialize_with = "keyed_or_default")]
    metadata: ObjectMeta,
}

/// A list of pods, as the API server sends it. Its kind is checked by the caller.
#[derive(Deserialize)]
struct List {
    #[serde(default, deserialize_with = "or_default")]
    kind: String,
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<k8s::Pod>,
}

/// All pods of a node at one time.
struct ListedPods {
    pods: Vec<Pod>,
    resource_version: String,
}

/// Adds the selector of a node's pods to the query of a path.
fn of_node(path: &mut String, node: &str) {
    path.push_str("&fieldSelector=spec.nodeName%3D");
    path::encode(path, node);
}

/// The type of pods.
fn pod_type() -> Arc<ResourceType> {
    Arc::new(ResourceType {
        group_resource: GroupResource::new("", "pods"),
        version: "v1".into(),
        kind: "Pod".into(),
        scope: Scope::Namespaced,
    })
}

fn read<'a, T: Deserialize<'a>>(
    action: &'static str,
    target: impl Fn() -> String,
    answer: &'a Answer,
) -> Result<T, ApiError> {
    if answer.encoding != Encoding::Json {
        return Err(unusable(action, target(), "the response is not JSON".to_owned(), answer.code));
    }
    serde_json::from_slice(&answer.body)
        .map(|Keyed(read)| read)
        .map_err(|error| unusable(action, target(), json_fault(&error), answer.code))
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
    /// By uid.
    pods: BTreeMap<String, Pod>,
    state: State,
}

#[derive(Debug, Default)]
enum State {
    /// They were not listed yet.
    #[default]
    Unlisted,
    /// They were listed, and a watch follows them.
    Current,
    /// They cannot be listed or watched now.
    Failed(ApiError),
}

impl Api {
    /// Follows the pods that are bound to a node.
    #[must_use]
    pub fn watch_pods(&self, node: &str) -> PodWatch {
        let (sender, known) = watch::channel(Known::default());
        let follower = Follower {
            api: self.clone(),
            node: node.to_owned(),
            resource: GroupResource::new("", "pods"),
            known: sender,
        };
        let task = tokio::spawn(follower.run().boxed()).abort_handle();
        PodWatch(Arc::new(Inner { known, limit: self.settings().request_timeout, task }))
    }
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
        let failed = |message: &str| ApiError {
            class: ErrorClass::Transient,
            action: "LIST",
            target: "pods of this node".to_owned(),
            message: message.to_owned(),
            code: None,
        };
        let known = waited.map_err(|_| failed("no list within the time limit"))?;
        let known = known.map_err(|_| failed("the watch has ended unexpectedly"))?;
        match &known.state {
            State::Failed(error) => Err(error.clone()),
            State::Unlisted | State::Current => Ok(known.pods.values().cloned().collect()),
        }
    }
}

/// Lists and watches, again and again.
struct Follower {
    api: Api,
    node: String,
    resource: GroupResource,
    known: watch::Sender<Known>,
}

/// How far a follower has come.
#[derive(Default)]
struct Position {
    /// The version from which a watch goes on; nothing before a list.
    version: Option<String>,
    /// How many requests in a row have failed.
    failures: u32,
}

/// An event of a watch. Its object is read by its type.
#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    object: &'a RawValue,
}

impl Follower {
    async fn run(self) {
        let mut position = Position::default();
        loop {
            let began = Instant::now();
            let watches = position.version.is_some();
            let ended =
                if watches { self.watch(&mut position).await } else { self.list(&mut position).await };
            match ended {
                // A server that closes each watch at once is not flooded.
                Ok(()) if watches => sleep_until(began + self.api.settings().watch.least_interval).await,
                Ok(()) => {}
                Err(error) => {
                    tracing::debug!(%error, "the pods of this node are not watched now");
                    position.failures += 1;
                    // A broken connection loses nothing. After anything else, the version may not be
                    // usable any more.
                    if error.class != ErrorClass::Transient || position.failures >= MOST_FAILURES {
                        position.version = None;
                    }
                    self.known.send_modify(|known| known.state = State::Failed(error));
                    self.pause(position.failures).await;
                }
            }
        }
    }

    async fn pause(&self, failures: u32) {
        if self.api.is_unreachable() {
            return self.api.reachable().await;
        }
        let timing = &self.api.settings().watch;
        let longest = timing.least_backoff.saturating_mul(1 << failures.min(10)).min(timing.greatest_backoff);
        sleep(self.api.0.jitter.within(&(longest / 2..longest))).await;
    }

    /// Lists the pods from the API server's cache.
    async fn list(&self, position: &mut Position) -> Result<(), ApiError> {
        let ListedPods { pods, resource_version } = self.api.list_pods(&self.node, false).await?;
        position.version = Some(resource_version);
        let pods = pods.into_iter().map(|pod| (pod.pod.uid.clone(), pod)).collect();
        self.known.send_replace(Known { pods, state: State::Current });
        Ok(())
    }

    /// Watches until the server ends the watch.
    async fn watch(&self, position: &mut Position) -> Result<(), ApiError> {
        let timing = &self.api.settings().watch;
        let lasting = self.api.0.jitter.within(&(timing.shortest..timing.longest));
        let mut path =
            format!("/api/v1/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds={}", lasting.as_secs());
        of_node(&mut path, &self.node);
        path.push_str("&resourceVersion=");
        path::encode(&mut path, position.version.as_deref().unwrap_or_default());
        let mut call = Call::get(Verb::Watch, path, JSON, &self.resource);
        (call.action, call.target) = ("WATCH", self.target());
        let deadline = Instant::now() + lasting + timing.grace;
        let response = Box::pin(self.api.open(call)).await?;
        if Encoding::of(response.headers()) != Encoding::Json {
            return Err(self.error(ErrorClass::Unusable, "the response is not JSON"));
        }
        self.known.send_modify(|known| known.state = State::Current);
        let mut body = response.into_body();
        let mut lines = LineSplitter::new(LONGEST_EVENT);
        loop {
            let frame = match timeout_at(deadline, body.frame()).await {
                Err(_) => return Err(self.error(ErrorClass::Transient, "the watch did not end in time")),
                Ok(None) => {
                    position.failures = 0;
                    return Ok(());
                }
                Ok(Some(Err(error))) => return Err(self.error(ErrorClass::Transient, error_chain(&error))),
                Ok(Some(Ok(frame))) => frame,
            };
            let Ok(data) = frame.into_data() else { continue };
            lines.feed(&data);
            loop {
                let line = lines.next_line();
                match line.map_err(|error| self.error(ErrorClass::Unusable, error.to_string()))? {
                    Some(line) => self.event(&line, position)?,
                    None => break,
                }
            }
        }
    }

    /// Applies an event. One that cannot be read is an error, because it may be anything.
    fn event(&self, line: &[u8], position: &mut Position) -> Result<(), ApiError> {
        let unusable = |error: &serde_json::Error| self.error(ErrorClass::Unusable, json_fault(error));
        let Keyed(Event { kind, object }) = serde_json::from_slice(line).map_err(|error| unusable(&error))?;
        let object = object.get();
        if kind == "ERROR" {
            let Keyed(status): Keyed<Status> =
                serde_json::from_str(object).map_err(|error| unusable(&error))?;
            let class = error::classify(status.code, &status, None, None);
            let code = (status.code != 0).then_some(status.code);
            return Err(ApiError { code, ..self.error(class, error::message(&status, NO_TEXT)) });
        }
        let mut object: k8s::Pod = serde_json::from_str(object).map_err(|error| unusable(&error))?;
        let version = object.metadata.resource_version.take().unwrap_or_default();
        let pod = view(object);
        if version.is_empty() || (kind != "BOOKMARK" && pod.pod.uid.is_empty()) {
            return Err(self.error(ErrorClass::Unusable, "an event has no version or no uid"));
        }
        match kind {
            "BOOKMARK" => {}
            "ADDED" | "MODIFIED" => {
                let mut is_full = false;
                self.known.send_modify(|known| {
                    known.pods.insert(pod.pod.uid.clone(), pod);
                    is_full = known.pods.len() > MOST_PODS;
                });
                if is_full {
                    return Err(self.error(ErrorClass::Unusable, format!("more than {MOST_PODS} pods")));
                }
            }
            "DELETED" => self.known.send_modify(|known| {
                known.pods.remove(&pod.pod.uid);
            }),
            _ => return Err(self.error(ErrorClass::Unusable, "an event is of an unknown type")),
        }
        (position.version, position.failures) = (Some(version), 0);
        Ok(())
    }

    fn error(&self, class: ErrorClass, message: impl Into<String>) -> ApiError {
        ApiError { class, action: "WATCH", target: self.target(), message: message.into(), code: None }
    }

    fn target(&self) -> String {
        format!("pods of node {}", kube_gc_core::text::word(&self.node))
    }
}

#[cfg(test)]
mod tests;
