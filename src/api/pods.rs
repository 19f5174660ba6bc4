//! The pods of one node, as node collection needs them.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::Method;
use serde::{Deserialize, Deserializer};

use super::call::{Answer, Call};
use super::client::Api;
use super::decode::{Encoding, json_fault};
use super::error::{ApiError, ErrorClass, unusable};
use super::media_type::JSON;
use super::pagination::Pagination;
use super::path;
use super::settings::Verb;
use kube_gc_core::object::{GroupResource, Identity, Namespace, ResourceType, Scope, Uid};
use kube_gc_node::PodRef;
use kube_gc_node::view::{Answer as Proved, Phase, Pod};

/// The annotation of a mirror pod: the uid of the static pod that it mirrors.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// How many pods a page of the list has. A node has a few hundred at most.
const PAGE: u32 = 500;
/// The most pods that one node can have.
const MOST_PODS: usize = 20_000;

impl Api {
    /// All pods that are bound to a node. A consistent list has no `resourceVersion`; before
    /// Kubernetes 1.31 the API server reads all pods of the cluster for it. Any other list is from
    /// the API server's cache, and may be behind.
    ///
    /// # Errors
    ///
    /// The list cannot be read to its end.
    pub async fn pods_of_node(&self, node: &str, consistent: bool) -> Result<Vec<Pod>, ApiError> {
        let resource = GroupResource::new("", "pods");
        let target = || format!("pods of node {}", kube_gc_core::text::word(node));
        let mut pods = Vec::new();
        let mut pages = Pagination::default();
        let (mut token, mut limit) = (String::new(), PAGE);
        loop {
            let mut page = format!("/api/v1/pods?limit={limit}&fieldSelector=spec.nodeName%3D");
            path::encode(&mut page, node);
            match token.as_str() {
                "" if consistent => {}
                "" => page.push_str("&resourceVersion=0"),
                token => {
                    page.push_str("&continue=");
                    path::encode(&mut page, token);
                }
            }
            let mut call = Call::get(Verb::List, page, JSON, &resource);
            (call.action, call.target) = ("LIST", target());
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
            pods.extend(list.items.into_iter().map(Object::into_pod));
            token = list.metadata.next;
            let more = pages.go_on(&token, count).map_err(str::to_owned);
            let more = more.and_then(|()| {
                if pods.len() > MOST_PODS { Err(format!("more than {MOST_PODS} pods")) } else { Ok(()) }
            });
            more.map_err(|why| unusable("LIST", target(), why, answer.code))?;
            if token.is_empty() {
                return Ok(pods);
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
        let found: Object = read("GET", target, &answer)?;
        let Metadata { namespace, name, uid, .. } = &found.metadata;
        if uid.is_empty() || (namespace, name) != (&pod.namespace, &pod.name) {
            let why = "the response is not the pod that was asked for".to_owned();
            return Err(unusable("GET", target(), why, answer.code));
        }
        Ok(if *uid == pod.uid { Proved::SameUid } else { Proved::OtherUid { mirror_of: found.mirror_of() } })
    }
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
        .map_err(|error| unusable(action, target(), json_fault(&error), answer.code))
}

/// A list of pods. Only what is used is read.
#[derive(Deserialize)]
struct List {
    #[serde(default, deserialize_with = "or_default")]
    kind: String,
    #[serde(default)]
    metadata: ListMeta,
    #[serde(deserialize_with = "or_default", default)]
    items: Vec<Object>,
}

#[derive(Default, Deserialize)]
struct ListMeta {
    #[serde(rename = "continue", default, deserialize_with = "or_default")]
    next: String,
}

#[derive(Deserialize)]
struct Object {
    metadata: Metadata,
    #[serde(default, deserialize_with = "or_default")]
    spec: Spec,
    #[serde(default, deserialize_with = "or_default")]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    #[serde(default, deserialize_with = "or_default")]
    namespace: String,
    #[serde(default, deserialize_with = "or_default")]
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    uid: String,
    #[serde(default)]
    deletion_timestamp: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    annotations: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "or_default")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    ephemeral_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    volumes: Vec<Volume>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Container {
    #[serde(deserialize_with = "or_default")]
    image: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Volume {
    image: Option<ImageVolume>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ImageVolume {
    #[serde(deserialize_with = "or_default")]
    reference: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(deserialize_with = "or_default")]
    phase: String,
    #[serde(deserialize_with = "or_default")]
    reason: String,
    #[serde(deserialize_with = "or_default")]
    container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    init_container_statuses: Vec<ContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    ephemeral_container_statuses: Vec<ContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ContainerStatus {
    #[serde(deserialize_with = "or_default")]
    state: State,
}

/// Which of the states is there; what they contain is not read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct State {
    terminated: Option<serde::de::IgnoredAny>,
    waiting: Option<serde::de::IgnoredAny>,
}

/// Reads `null` as the default.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Object {
    fn mirror_of(&self) -> Option<String> {
        self.metadata.annotations.get(MIRROR).cloned()
    }

    fn into_pod(self) -> Pod {
        let mirror_of = self.mirror_of();
        let Self { metadata, spec, status } = self;
        let statuses = status
            .container_statuses
            .iter()
            .chain(&status.init_container_statuses)
            .chain(&status.ephemeral_container_statuses);
        let runs =
            |status: &ContainerStatus| status.state.terminated.is_none() && status.state.waiting.is_none();
        let containers_running = statuses.into_iter().any(runs);
        let containers =
            spec.containers.into_iter().chain(spec.init_containers).chain(spec.ephemeral_containers);
        let volumes = spec.volumes.into_iter().filter_map(|volume| volume.image);
        let images = containers
            .map(|container| container.image)
            .chain(volumes.map(|volume| volume.reference))
            .filter(|image| !image.is_empty());
        Pod {
            pod: PodRef { namespace: metadata.namespace, name: metadata.name, uid: metadata.uid },
            phase: match status.phase.as_str() {
                "Pending" | "" => Phase::Pending,
                "Running" => Phase::Running,
                "Succeeded" => Phase::Succeeded,
                "Failed" => Phase::Failed,
                _ => Phase::Unknown,
            },
            evicted: status.reason == "Evicted",
            deleting: metadata.deletion_timestamp.is_some(),
            containers_running,
            images: images.collect(),
            mirror_of,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::scripted::{Reply, Server};

    fn page(names: &[&str], next: &str) -> Reply {
        let items: Vec<_> = names
            .iter()
            .map(|name| json!({ "metadata": { "namespace": "default", "name": name, "uid": name } }))
            .collect();
        Reply::ok(json!({ "kind": "PodList", "metadata": { "continue": next }, "items": items }).to_string())
    }

    #[tokio::test]
    async fn only_pods_of_the_node_are_listed_and_all_pages_of_them() {
        let server = Server::replying([page(&["a", "b"], "next/1"), page(&["c"], "")]);
        let pods = server.api().pods_of_node("node-1", true).await.unwrap();
        assert_eq!(pods.iter().map(|pod| pod.pod.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
        let lines: Vec<String> = server.seen().iter().map(|seen| seen.line()).collect();
        let list = "GET /api/v1/pods?limit=500&fieldSelector=spec.nodeName%3Dnode-1";
        assert_eq!(lines, [list.to_owned(), format!("{list}&continue=next%2F1")]);
        let server = Server::replying([page(&[], "")]);
        server.api().pods_of_node("node-1", false).await.unwrap();
        assert_eq!(server.seen()[0].line(), format!("{list}&resourceVersion=0"));
    }

    /// Fails if anything else than a list of pods reads as an empty one: all pods would be gone.
    #[tokio::test]
    async fn what_is_no_list_of_pods_is_an_error() {
        let token = page(&["a"], "same");
        for reply in [
            Reply::ok("{}"),
            Reply::ok(r#"{"kind":"Pod","metadata":{"name":"a"}}"#),
            Reply::ok(r#"{"kind":"PodList","items":"#),
            Reply::ok("<html>"),
            Reply::status(500, "etcd", "{}"),
            token,
        ] {
            let server = Server::answering(move |_| reply.clone());
            assert!(server.api().pods_of_node("node-1", true).await.is_err());
        }
    }

    async fn prove(reply: Reply) -> Option<Proved> {
        let server = Server::replying([reply]);
        let proved = server.api().prove_pod(&PodRef::new("default", "web", "u")).await;
        let line = server.seen()[0].line();
        assert_eq!(line, "GET /api/v1/namespaces/default/pods/web", "no cache may answer");
        proved.ok()
    }

    #[tokio::test]
    async fn safety_2_only_the_pods_own_404_or_another_pod_proves_that_it_is_gone() {
        let own = Reply::status(404, "pods \"web\" not found", r#"{"name":"web","kind":"pods"}"#);
        assert_eq!(prove(own).await, Some(Proved::NotFound));
        let found = |uid: &str, annotations: serde_json::Value| {
            let metadata =
                json!({ "namespace": "default", "name": "web", "uid": uid, "annotations": annotations });
            Reply::ok(json!({ "kind": "Pod", "metadata": metadata }).to_string())
        };
        assert_eq!(prove(found("u", json!({}))).await, Some(Proved::SameUid));
        assert_eq!(prove(found("v", json!(null))).await, Some(Proved::OtherUid { mirror_of: None }));
        let mirror = found("v", json!({ "kubernetes.io/config.mirror": "u" }));
        assert_eq!(prove(mirror).await, Some(Proved::OtherUid { mirror_of: Some("u".to_owned()) }));
        for reply in [
            Reply::code(404, "404 page not found"),
            Reply::status(404, "no", r#"{"name":"default","kind":"namespaces"}"#),
            Reply::status(404, "no", r#"{"name":"other","kind":"pods"}"#),
            Reply::status(403, "no", "{}"),
            Reply::ok(r#"{"metadata":{"namespace":"default","name":"other","uid":"v"}}"#),
            Reply::ok(r#"{"metadata":{"namespace":"default","name":"web"}}"#),
            Reply::ok("{}"),
        ] {
            assert_eq!(prove(reply.clone()).await, None, "{reply:?}");
        }
    }

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value::<Object>(value).unwrap().into_pod()
    }

    #[test]
    fn what_the_rules_need_of_a_pod_is_read() {
        let read = pod(json!({
            "metadata": {
                "namespace": "default", "name": "web", "uid": "u", "deletionTimestamp": "2024-01-01T00:00:00Z",
                "annotations": { "kubernetes.io/config.mirror": "static" },
            },
            "spec": {
                "containers": [{ "name": "web", "image": "web:1" }],
                "initContainers": [{ "name": "init", "image": "init:1" }],
                "ephemeralContainers": [{ "name": "debug", "image": "debug:1" }],
                "volumes": [{ "name": "v", "image": { "reference": "volume:1" } }, { "name": "w", "emptyDir": {} }],
            },
            "status": {
                "phase": "Failed", "reason": "Evicted",
                "containerStatuses": [{ "state": { "terminated": { "exitCode": 1 } } }],
                "initContainerStatuses": [{ "state": { "waiting": {} } }],
                "ephemeralContainerStatuses": [{ "state": { "running": { "startedAt": null } } }],
            },
        }));
        assert_eq!(read.pod, PodRef::new("default", "web", "u"));
        assert_eq!(read.images, ["web:1", "init:1", "debug:1", "volume:1"]);
        assert_eq!((read.phase, read.evicted, read.deleting), (Phase::Failed, true, true));
        assert!(read.containers_running);
        assert_eq!(read.mirror_of.as_deref(), Some("static"));
    }

    #[test]
    fn a_container_without_a_state_counts_as_running_and_an_ended_one_does_not() {
        let with = |state: serde_json::Value| {
            pod(json!({ "metadata": {}, "status": { "containerStatuses": [{ "state": state }] } }))
                .containers_running
        };
        assert!(with(json!({})) && with(json!(null)));
        assert!(!with(json!({ "terminated": { "exitCode": 0 } })));
    }

    #[test]
    fn nulls_and_missing_fields_are_read_as_nothing() {
        let read = pod(json!({
            "metadata": { "namespace": null, "annotations": null },
            "spec": { "containers": null, "volumes": null },
            "status": null,
        }));
        assert_eq!((read.phase, read.images.len(), read.containers_running), (Phase::Pending, 0, false));
        assert_eq!(pod(json!({ "metadata": {}, "status": { "phase": "New" } })).phase, Phase::Unknown);
    }
}
