//! Connections to a port of a pod, through the API server, as `kubectl port-forward` makes them.

use std::fmt;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use tokio::io::DuplexStream;

use super::call::Call;
use super::client::Api;
use super::error::{ApiError, ErrorClass, unusable};
use super::error_chain::error_chain;
use super::media_type::JSON;
use super::path;
use super::settings::Verb;
use kube_gc_core::object::GroupResource;
use kube_gc_decode::json_fault;

/// The most pods that a search for a label returns.
const MOST_PODS: usize = 100;

/// A pod, and whether requests to it make sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledPod {
    pub namespace: String,
    pub name: String,
    /// Its containers run, and it is not being deleted.
    pub runs: bool,
    /// All its containers say that they are ready.
    pub ready: bool,
    /// The port that a container calls `debug`.
    pub debug_port: Option<u16>,
}

/// A connection to a port of a pod.
pub struct ForwardedPort {
    /// The bytes that the pod reads and writes.
    pub stream: DuplexStream,
    /// Why the connection failed, in the words of the kubelet; `None` after a connection without
    /// an error.
    pub failure: BoxFuture<'static, Option<String>>,
}

impl fmt::Debug for ForwardedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForwardedPort").finish_non_exhaustive()
    }
}

#[derive(Deserialize)]
struct PodList {
    items: Vec<ListedPod>,
}

#[derive(Deserialize)]
struct ListedPod {
    metadata: ListedMetadata,
    #[serde(default)]
    spec: ListedSpec,
    #[serde(default)]
    status: ListedStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedMetadata {
    namespace: String,
    name: String,
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListedSpec {
    containers: Vec<ListedContainer>,
}

#[derive(Deserialize)]
struct ListedContainer {
    #[serde(default)]
    ports: Vec<ListedPort>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedPort {
    name: Option<String>,
    container_port: u16,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListedStatus {
    phase: String,
    conditions: Vec<ListedCondition>,
}

#[derive(Deserialize)]
struct ListedCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

impl Api {
    /// The first pods with a label, in one namespace or in all.
    ///
    /// # Errors
    ///
    /// The pods cannot be listed.
    pub async fn pods_labelled(
        &self,
        namespace: Option<&str>,
        label: &str,
    ) -> Result<Vec<LabelledPod>, ApiError> {
        let resource = GroupResource::new("", "pods");
        let mut collection = "/api/v1/".to_owned();
        if let Some(namespace) = namespace {
            collection.push_str("namespaces/");
            path::encode(&mut collection, namespace);
            collection.push('/');
        }
        collection.push_str(&format!("pods?limit={MOST_PODS}&labelSelector="));
        path::encode(&mut collection, label);
        let mut call = Call::get(Verb::List, collection, JSON, &resource);
        call.action = "LIST";
        call.target = path::describe(&resource, namespace, None);
        let target = call.target.clone();
        let answer = Box::pin(self.call(call)).await?;
        let list: PodList = serde_json::from_slice(&answer.body)
            .map_err(|error| unusable("LIST", target, json_fault(&error), answer.code))?;
        Ok(list.items.into_iter().take(MOST_PODS).map(LabelledPod::from).collect())
    }

    /// Connects to a port of a pod. It needs the right to `get` and `create` `pods/portforward`.
    ///
    /// # Errors
    ///
    /// The API server does not forward the port.
    pub async fn forward_port(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
    ) -> Result<ForwardedPort, ApiError> {
        let failed = |class, message: String, code| ApiError {
            class,
            action: "FORWARD",
            target: format!("port {port} of pod {namespace}/{pod}"),
            message,
            code,
        };
        let pods = kube::Api::<Pod>::namespaced(self.upgradable(), namespace);
        // Boxed, because it is large.
        let forwarded = Box::pin(pods.portforward(pod, &[port])).await;
        let mut forwarder = forwarded.map_err(|error| match error {
            kube::Error::Api(status) => {
                let is_denied = matches!(status.code, 401 | 403);
                let class = if is_denied { ErrorClass::Denied } else { ErrorClass::Refused };
                failed(class, status.message.clone(), Some(status.code))
            }
            error => failed(ErrorClass::Unusable, error_chain(&error), None),
        })?;
        let stream = forwarder.take_stream(port);
        let failure = forwarder.take_error(port);
        let (Some(stream), Some(failure)) = (stream, failure) else {
            return Err(failed(ErrorClass::Unusable, "the port was not forwarded".to_owned(), None));
        };
        // The task of the forwarder goes on until one end closes the stream.
        Ok(ForwardedPort { stream, failure: failure.boxed() })
    }
}

impl From<ListedPod> for LabelledPod {
    fn from(pod: ListedPod) -> Self {
        let ListedPod { metadata, spec, status } = pod;
        let ports = spec.containers.iter().flat_map(|container| &container.ports);
        let mut debug = ports.filter(|port| port.name.as_deref() == Some("debug"));
        let is_ready = |condition: &ListedCondition| condition.kind == "Ready" && condition.status == "True";
        Self {
            runs: status.phase == "Running" && metadata.deletion_timestamp.is_none(),
            ready: status.conditions.iter().any(is_ready),
            debug_port: debug.next().map(|port| port.container_port),
            namespace: metadata.namespace,
            name: metadata.name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::scripted::{Reply, Server};

    #[tokio::test]
    async fn pods_are_found_by_their_label() {
        let list = r#"{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[
            {"metadata":{"namespace":"a","name":"b"},"spec":{"containers":[{"ports":[{"name":"http","containerPort":1},
             {"name":"debug","containerPort":2}]},{}]},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}},
            {"metadata":{"namespace":"a","name":"c","deletionTimestamp":"2026-01-01T00:00:00Z"},"status":{"phase":"Running"}}]}"#;
        let server = Server::replying([Reply::ok(list)]);
        let pods = server.api().pods_labelled(Some("a"), "x/y=z").await.unwrap();
        let pod = |name: &str, runs, debug_port| LabelledPod {
            namespace: "a".into(),
            name: name.into(),
            runs,
            ready: runs,
            debug_port,
        };
        assert_eq!(pods, [pod("b", true, Some(2)), pod("c", false, None)]);
        let server = Server::replying([Reply::ok(r#"{"kind":"Nothing"}"#)]);
        assert_eq!(server.api().pods_labelled(None, "x").await.unwrap_err().class, ErrorClass::Unusable);
    }
}
