//! Records the collector's requests and decisions, and matches them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use futures::future::BoxFuture;
use http::{Method, Response};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::mpsc;
use tower::Service;

use super::fixtures::display_name;
use super::report::{Owner, Request, Step};
use crate::api::Finalizer;
use crate::worker::decision::{DecisionObserver, DecisionRecord, JudgedOwner, Occurrence};
use kube_gc_core::object::{Identity, Namespace};

/// The recorder. Clones share their state.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    recording: Mutex<Recording>,
    steps: mpsc::UnboundedSender<Step>,
}

#[derive(Debug)]
struct Recording {
    since: Instant,
    /// Whether requests are kept. Otherwise they are only counted: a load, and in time also the
    /// use of the demo after its scenarios, causes too many to keep.
    detailed: bool,
    requests: Vec<Request>,
    /// The number of requests about single objects, by method.
    counts: BTreeMap<Method, Count>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    sent: u64,
    /// Those that succeeded.
    succeeded: u64,
}

impl Recorder {
    /// A recorder and the stream of its steps.
    pub fn new(detailed: bool) -> (Self, mpsc::UnboundedReceiver<Step>) {
        let (steps, receiver) = mpsc::unbounded_channel();
        let recording =
            Recording { since: Instant::now(), detailed, requests: Vec::new(), counts: BTreeMap::new() };
        (Self(Arc::new(Inner { recording: Mutex::new(recording), steps })), receiver)
    }

    /// Starts a new recording.
    pub fn restart(&self) {
        self.with(|recording| {
            recording.since = Instant::now();
            recording.requests.clear();
            recording.counts.clear();
        });
    }

    /// Stops keeping requests.
    pub fn stop(&self) {
        self.with(|recording| {
            recording.detailed = false;
            recording.requests = Vec::new();
        });
    }

    /// The number of requests of this method that succeeded.
    pub fn count(&self, method: &Method) -> u64 {
        self.with(|recording| recording.counts.get(method).map_or(0, |count| count.succeeded))
    }

    /// The number of requests about single objects.
    pub fn total(&self) -> u64 {
        self.with(|recording| recording.counts.values().map(|count| count.sent).sum())
    }

    /// A client whose requests are recorded.
    pub fn client<S, B>(&self, service: S) -> kube::Client
    where
        S: Service<http::Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<tower::BoxError> + Send,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<tower::BoxError>,
    {
        kube::Client::new(RecordingService { service, recorder: self.clone() }, "default")
    }

    fn with<T>(&self, look: impl FnOnce(&mut Recording) -> T) -> T {
        look(&mut self.0.recording.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn record(&self, method: &Method, path: &str, body: &[u8], code: u16, began: Instant) {
        self.with(|recording| {
            let count = recording.counts.entry(method.clone()).or_default();
            count.sent += 1;
            count.succeeded += u64::from((200..300).contains(&code));
            if recording.detailed {
                let request = request(method, path, body, code, began);
                recording.requests.push(request);
            }
        });
    }
}

/// Describes a request.
pub fn request(method: &Method, path: &str, body: &[u8], code: u16, began: Instant) -> Request {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    // A DELETE has preconditions; in a patch the metadata has the same effect.
    let preconditions = if *method == Method::PATCH { &body["metadata"] } else { &body["preconditions"] };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Request {
        method: method.to_string(),
        path: path.to_owned(),
        uid: text(&preconditions["uid"]),
        resource_version: text(&preconditions["resourceVersion"]),
        propagation_policy: text(&body["propagationPolicy"]),
        code,
        milliseconds: milliseconds(began),
    }
}

pub fn milliseconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e5).round() / 100.0
}

impl DecisionObserver for Recorder {
    fn decided(&self, decision: &DecisionRecord) -> Occurrence {
        self.with(|recording| {
            // Sent under the lock, so that the steps are in the order of their times.
            if recording.detailed {
                // The receiver is gone when the demo ends.
                let _ = self.0.steps.send(recording.step(decision));
            }
        });
        Occurrence::First
    }
}

impl Recording {
    fn step(&self, decision: &DecisionRecord) -> Step {
        let DecisionRecord { object, action, finalizer, owners, owner, outcome, error, .. } = decision;
        let path = object.path();
        let method = if *action == "delete" { "DELETE" } else { "PATCH" };
        let sent = |request: &&Request| request.path == path && request.method == method;
        let mut judged: Vec<Owner> = owners.iter().map(|owner| self.owner(object, owner)).collect();
        judged.extend(owner.as_ref().map(|owner| Owner {
            object: identity_name(owner),
            class: "orphaning".to_owned(),
            evidence: "graph".to_owned(),
            asked: Vec::new(),
        }));
        Step {
            milliseconds: milliseconds(self.since),
            object: identity_name(object),
            action,
            outcome,
            finalizer: finalizer.map(Finalizer::name),
            owners: judged,
            request: self.requests.iter().rfind(sent).cloned(),
            error: error.clone(),
        }
    }

    fn owner(&self, dependent: &Identity, judged: &JudgedOwner) -> Owner {
        let JudgedOwner { reference, class, evidence, error: _ } = judged;
        let namespace = dependent.namespace.as_ref().map_or("", Namespace::as_str);
        let asked = |request: &&Request| {
            request.method == "GET" && request.path.rsplit('/').next() == Some(&*reference.name)
        };
        Owner {
            object: display_name(&reference.kind, namespace, &reference.name),
            class: class_name(class),
            evidence: evidence.to_string(),
            asked: self.requests.iter().rfind(asked).cloned().into_iter().collect(),
        }
    }
}

/// The name of a class in JSON.
fn class_name(class: &impl serde::Serialize) -> String {
    serde_json::to_value(class).ok().and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default()
}

fn identity_name(identity: &Identity) -> String {
    let namespace = identity.namespace.as_ref().map_or("", Namespace::as_str);
    display_name(&identity.resource.kind, namespace, &identity.name)
}

/// Records the requests that pass through it.
#[derive(Clone)]
struct RecordingService<S> {
    service: S,
    recorder: Recorder,
}

impl<S, B> Service<http::Request<Body>> for RecordingService<S>
where
    S: Service<http::Request<Body>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Response<B>, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        // The service that was ready takes this request, its clone the next one.
        let next = self.service.clone();
        let mut service = std::mem::replace(&mut self.service, next);
        let (method, uri) = (request.method().clone(), request.uri().clone());
        // Lists, watches and discovery are not about single objects.
        let names_object = uri.query().is_none() && uri.path().split('/').count() > 5;
        if !names_object && method == Method::GET {
            return Box::pin(service.call(request));
        }
        let recorder = self.recorder.clone();
        Box::pin(async move {
            let (head, body) = request.into_parts();
            // The body of a request is already in memory.
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let began = Instant::now();
            let response = service.call(http::Request::from_parts(head, Body::from(body.to_vec()))).await?;
            recorder.record(&method, uri.path(), &body, response.status().as_u16(), began);
            Ok(response)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preconditions_are_found_in_deletions_and_in_patches() {
        let (delete, patch) = (
            br#"{"preconditions":{"uid":"u","resourceVersion":"7"},"propagationPolicy":"Orphan"}"#,
            br#"{"metadata":{"uid":"u","resourceVersion":"7","finalizers":[]}}"#,
        );
        let read = |method, body: &[u8]| request(&method, "/p", body, 200, Instant::now());
        let deleted = read(Method::DELETE, delete);
        assert_eq!((deleted.uid.as_deref(), deleted.resource_version.as_deref()), (Some("u"), Some("7")));
        assert_eq!(deleted.propagation_policy.as_deref(), Some("Orphan"));
        let patched = read(Method::PATCH, patch);
        assert_eq!((patched.uid.as_deref(), patched.resource_version.as_deref()), (Some("u"), Some("7")));
        assert_eq!(patched.propagation_policy, None);
    }

    #[tokio::test]
    async fn requests_about_objects_are_counted_and_lists_are_not() {
        let (recorder, _steps) = Recorder::new(true);
        let answer = tower::service_fn(|_: http::Request<Body>| async {
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(b"{}".to_vec())))
        });
        let client = recorder.client(answer);
        for (method, path) in [
            (Method::GET, "/api/v1/namespaces/shop/pods/a"),
            (Method::GET, "/api/v1/namespaces/shop/pods?limit=500"),
            (Method::GET, "/apis"),
            (Method::DELETE, "/api/v1/namespaces/shop/pods/a"),
        ] {
            let request = http::Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            client.send(request).await.unwrap();
        }
        assert_eq!((recorder.count(&Method::GET), recorder.count(&Method::DELETE)), (1, 1));
        assert_eq!(recorder.total(), 2);
        recorder.restart();
        assert_eq!(recorder.total(), 0);
    }

    #[tokio::test]
    async fn a_rejected_request_does_not_count_as_success_and_nothing_is_kept_after_the_end() {
        let (recorder, _steps) = Recorder::new(true);
        let answer = tower::service_fn(|_: http::Request<Body>| async {
            let mut answer = Response::new(Body::empty());
            *answer.status_mut() = http::StatusCode::CONFLICT;
            Ok::<_, std::convert::Infallible>(answer)
        });
        let client = recorder.client(answer);
        let delete = || http::Request::delete("/api/v1/namespaces/shop/pods/a").body(Body::empty()).unwrap();
        client.send(delete()).await.unwrap();
        assert_eq!((recorder.count(&Method::DELETE), recorder.total()), (0, 1));
        assert_eq!(recorder.with(|recording| recording.requests.len()), 1);
        recorder.stop();
        client.send(delete()).await.unwrap();
        assert_eq!(recorder.with(|recording| recording.requests.len()), 0);
        assert_eq!(recorder.total(), 2);
    }
}
