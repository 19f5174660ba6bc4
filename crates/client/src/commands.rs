//! What only commands ask for: tables of objects, and connections to a port of a pod through the API
//! server, as `kubectl port-forward` makes them.

use std::fmt;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;
use tokio::io::DuplexStream;

use super::call::{Call, JSON};
use super::client::Api;
use super::connection_error::error_chain;
use super::error::{ApiError, ErrorClass, unusable};
use super::inspect::{each, fault};
use super::path;
use super::settings::Verb;
use kube_gc_core::object::{GroupResource, Identity, ResourceVersion};
use kube_gc_core::text::word;
use kube_gc_decode::json_fault;

/// The most pods that a search for a label returns.
const MOST_PODS: usize = 100;

/// A pod, and whether requests to it make sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelledPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
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
        let target = path::describe(&resource, namespace, None);
        let call = Call::list(collection, JSON, &resource, &target);
        let answer = Box::pin(self.call(call)).await?;
        let unusable = |why| unusable("LIST", target, why, answer.code);
        let list: Value = match serde_json::from_slice(&answer.body) {
            Ok(list) => list,
            Err(error) => return Err(unusable(json_fault(&error))),
        };
        let pods = list.get("items").and_then(Value::as_array);
        let pods = pods.and_then(|pods| pods.iter().take(MOST_PODS).map(LabelledPod::of).collect());
        pods.ok_or_else(|| unusable("it is no list of pods with names".to_owned()))
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
        // Its connections can become something else than HTTP/1.1.
        let pods = kube::Api::<Pod>::namespaced(self.0.clients.lists.clone(), namespace);
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

impl LabelledPod {
    /// `None` if it has no name.
    fn of(pod: &Value) -> Option<Self> {
        let mut ports = each(&pod["spec"]["containers"]).flat_map(|container| each(&container["ports"]));
        let debug = ports.find(|port| port["name"] == "debug");
        let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
        let metadata = &pod["metadata"];
        Some(Self {
            namespace: metadata["namespace"].as_str()?.to_owned(),
            name: metadata["name"].as_str()?.to_owned(),
            runs: pod["status"]["phase"] == "Running" && metadata["deletionTimestamp"].is_null(),
            ready: each(&pod["status"]["conditions"]).any(is_ready),
            debug_port: debug.and_then(|port| u16::try_from(port["containerPort"].as_u64()?).ok()),
        })
    }
}

/// A table with one row, or else the object.
const TABLE: &str = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json";
/// The most columns of a table that are read.
const MOST_COLUMNS: usize = 64;

impl Api {
    /// The cells of an object's row in the server's own table, each with the name of its column.
    /// Empty if the server has no table for it.
    ///
    /// With a version, the row is at least as new, and may come from the server's cache. For the
    /// server, this is a third of the work of a read from its store.
    ///
    /// # Errors
    ///
    /// The object cannot be read.
    pub async fn table_row(
        &self,
        identity: &Identity,
        at_least: Option<&ResourceVersion>,
    ) -> Result<Vec<(String, String)>, ApiError> {
        let mut call = Call::object(Verb::Get, identity)?;
        call.path.push_str("?includeObject=None");
        if let Some(version) = at_least {
            call.path.push_str("&resourceVersion=");
            path::encode(&mut call.path, &version.to_string());
        }
        call.accept = TABLE;
        let answer = self.call(call).await?;
        let table: Value =
            serde_json::from_slice(&answer.body).map_err(|error| fault(identity, &answer, &error))?;
        if table["kind"] != "Table" {
            return Ok(Vec::new());
        }
        let text = |cell: &Value| match cell {
            Value::String(text) => word(text).to_string(),
            Value::Null => String::new(),
            other => word(&other.to_string()).to_string(),
        };
        let columns = each(&table["columnDefinitions"]).map(|column| text(&column["name"]));
        let cells = each(&table["rows"][0]["cells"]).map(text);
        Ok(columns.zip(cells).take(MOST_COLUMNS).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scripted::{Reply, Server, widget, widget_json};

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

    #[tokio::test]
    async fn a_row_is_read_with_the_names_of_its_columns() {
        let table = r#"{"kind":"Table","columnDefinitions":[{"name":"Name","type":"string"},{"name":"Ready"},
            {"name":"Age"}],"rows":[{"cells":["w","1/1",4,"surplus"]}]}"#;
        let server = Server::replying([Reply::ok(table), Reply::ok(widget_json(""))]);
        let version = ResourceVersion::parse("7&");
        let row = server.api().table_row(&widget(), version.as_ref()).await.unwrap();
        let cells = [("Name", "w"), ("Ready", "1/1"), ("Age", "4")];
        assert_eq!(row, cells.map(|(name, cell)| (name.to_owned(), cell.to_owned())));
        assert_eq!(server.api().table_row(&widget(), None).await.unwrap(), []);
        let requests = server.requests();
        assert!(requests[0].ends_with("/w?includeObject=None&resourceVersion=7%26"));
        assert!(requests[1].ends_with("/w?includeObject=None"));
    }
}
