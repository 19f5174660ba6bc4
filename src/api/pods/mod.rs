//! The pods of one node, as node collection needs them: a list, a watch that follows it, and proof that
//! a pod is gone.

mod decode;
mod watch;

pub use watch::PodWatch;

use std::sync::Arc;

use http::Method;
use serde::Deserialize;

use self::decode::{List, Metadata, Object};
use super::call::{Answer, Call};
use super::client::Api;
use super::error::{ApiError, ErrorClass, unusable};
use super::media_type::JSON;
use super::pagination::Pagination;
use super::path;
use super::settings::Verb;
use kube_gc_core::object::{GroupResource, Identity, Namespace, ResourceType, Scope, Uid};
use kube_gc_decode::{Encoding, Keyed, json_fault};
use kube_gc_node::PodRef;
use kube_gc_node::view::{Answer as Proved, Pod};

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
                return Ok(ListedPods { pods, resource_version: list.metadata.resource_version });
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
            Reply::ok(r#"["PodList"]"#),
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
            Reply::ok(r#"[{"namespace":"default","name":"web","uid":"v"}]"#),
            Reply::ok("{}"),
        ] {
            assert_eq!(prove(reply.clone()).await, None, "{reply:?}");
        }
    }
}
