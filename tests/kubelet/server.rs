//! The API server as kube-gc sees it: it has the pods of a world, and answers what node collection
//! asks.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use kube::client::Body;
use kube_gc::internals::api::{Api, ApiSettings, WriteGate};
use serde_json::{Value, json};
use tower::Service;

use super::pods::{Pod, PodState};

/// A server with these pods, all on one node.
#[derive(Clone)]
struct Server(Arc<Vec<Pod>>);

/// A client of a server with these pods.
pub fn client(pods: Vec<Pod>) -> Api {
    let client = kube::Client::new(Server(Arc::new(pods)), "default");
    Api::from_clients(client, ApiSettings::default(), WriteGate::dry_run())
}

impl Service<Request<Body>> for Server {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (code, answer) = self.answer(request.uri().path());
        let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
        *response.status_mut() = code;
        let json = http::HeaderValue::from_static("application/json");
        response.headers_mut().insert(http::header::CONTENT_TYPE, json);
        ready(Ok(response))
    }
}

impl Server {
    fn answer(&self, path: &str) -> (http::StatusCode, Value) {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        match parts.as_slice() {
            ["api", "v1", "pods"] => {
                let items: Vec<Value> = self.0.iter().filter_map(listed).collect();
                let list = json!({
                    "kind": "PodList", "apiVersion": "v1", "metadata": { "resourceVersion": "1" }, "items": items,
                });
                (http::StatusCode::OK, list)
            }
            ["api", "v1", "namespaces", namespace, "pods", name] => {
                let found = self.0.iter().find(|pod| (&*pod.namespace, &*pod.name) == (*namespace, *name));
                match found.and_then(single) {
                    Some(pod) => (http::StatusCode::OK, pod),
                    None => not_found(name),
                }
            }
            _ => not_found(path),
        }
    }
}

fn not_found(name: &str) -> (http::StatusCode, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("pods \"{name}\" not found"), "reason": "NotFound",
        "details": { "name": name, "kind": "pods" }, "code": 404,
    });
    (http::StatusCode::NOT_FOUND, status)
}

/// A pod in the list of its node.
fn listed(pod: &Pod) -> Option<Value> {
    if !pod.state.is_listed() {
        return None;
    }
    let mut object = object(pod, &pod.uid);
    match pod.state {
        PodState::Running | PodState::Absent | PodState::Replaced => {}
        PodState::Succeeded => object["status"] = ended("Succeeded"),
        PodState::Failed => object["status"] = ended("Failed"),
        PodState::Evicted => object["status"] = json!({ "phase": "Failed", "reason": "Evicted" }),
        PodState::Ending => object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z"),
        PodState::Ended => {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            object["status"] = json!({ "phase": "Running", "containerStatuses": terminated() });
        }
        PodState::Static => {
            object["metadata"]["uid"] = json!(format!("{}-4000-8000-000000000000", &pod.uid[..13]));
            object["metadata"]["annotations"] = json!({ "kubernetes.io/config.mirror": pod.uid });
        }
    }
    Some(object)
}

/// The answer to a GET; a pod of the same name with another uid, if the pod was replaced.
fn single(pod: &Pod) -> Option<Value> {
    match pod.state {
        PodState::Absent => None,
        PodState::Replaced => Some(object(pod, "ffffffff-0000-4000-8000-000000000000")),
        _ => listed(pod),
    }
}

fn object(pod: &Pod, uid: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": { "namespace": pod.namespace, "name": pod.name, "uid": uid, "resourceVersion": "1" },
        "spec": { "nodeName": "node-1", "containers": [] },
        "status": { "phase": "Running", "containerStatuses": [{ "name": "app", "state": { "running": {} } }] },
    })
}

fn terminated() -> Value {
    json!([{ "name": "app", "state": { "terminated": { "exitCode": 0 } } }])
}

fn ended(phase: &str) -> Value {
    json!({ "phase": phase, "containerStatuses": terminated() })
}
