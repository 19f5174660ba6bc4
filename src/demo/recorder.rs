//! Hears what the collector asks the server, and what it decides, and puts the
//! two together.

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

use super::story::{Owner, Request, Step};
use super::things::called;
use crate::api::Finalizer;
use crate::worker::{DecisionObserver, DecisionRecord, JudgedOwner};
use kube_gc_core::object::{Identity, Namespace};

/// Hears all; clones are the same.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    heard: Mutex<Heard>,
    steps: mpsc::UnboundedSender<Step>,
}

#[derive(Debug)]
struct Heard {
    since: Instant,
    /// Otherwise requests are only counted: a load makes too many, and so does, in time,
    /// whoever plays on after the story.
    detailed: bool,
    requests: Vec<Request>,
    /// Requests about single objects, by method.
    counts: BTreeMap<Method, Count>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    sent: u64,
    /// Those of them that had their effect.
    done: u64,
}

impl Recorder {
    /// A recorder, and what it has to tell.
    pub fn new(detailed: bool) -> (Self, mpsc::UnboundedReceiver<Step>) {
        let (steps, told) = mpsc::unbounded_channel();
        let heard = Heard { since: Instant::now(), detailed, requests: Vec::new(), counts: BTreeMap::new() };
        (Self(Arc::new(Inner { heard: Mutex::new(heard), steps })), told)
    }

    /// Begins anew: what comes now follows from what happens now.
    pub fn begin(&self) {
        self.with(|heard| {
            heard.since = Instant::now();
            heard.requests.clear();
            heard.counts.clear();
        });
    }

    /// The story is told: from now on nothing is kept.
    pub fn end(&self) {
        self.with(|heard| {
            heard.detailed = false;
            heard.requests = Vec::new();
        });
    }

    /// How many requests of this method had their effect.
    pub fn count(&self, method: &Method) -> u64 {
        self.with(|heard| heard.counts.get(method).map_or(0, |count| count.done))
    }

    /// How many requests there were about single objects.
    pub fn total(&self) -> u64 {
        self.with(|heard| heard.counts.values().map(|count| count.sent).sum())
    }

    /// A client that is listened to.
    pub fn client<S, B>(&self, service: S) -> kube::Client
    where
        S: Service<http::Request<Body>, Response = Response<B>> + Clone + Send + 'static,
        S::Future: Send,
        S::Error: Into<tower::BoxError> + Send,
        B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
        B::Error: Into<tower::BoxError>,
    {
        kube::Client::new(Listening { service, recorder: self.clone() }, "default")
    }

    fn with<T>(&self, look: impl FnOnce(&mut Heard) -> T) -> T {
        look(&mut self.0.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn heard(&self, method: &Method, path: &str, body: &[u8], code: u16, began: Instant) {
        self.with(|heard| {
            let count = heard.counts.entry(method.clone()).or_default();
            count.sent += 1;
            count.done += u64::from((200..300).contains(&code));
            if heard.detailed {
                let request = request(method, path, body, code, began);
                heard.requests.push(request);
            }
        });
    }
}

/// A request as the story tells it.
pub fn request(method: &Method, path: &str, body: &[u8], code: u16, began: Instant) -> Request {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    // A DELETE has its preconditions by name, in a patch they are metadata.
    let must = if *method == Method::PATCH { &body["metadata"] } else { &body["preconditions"] };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    Request {
        method: method.to_string(),
        path: path.to_owned(),
        uid: text(&must["uid"]),
        resource_version: text(&must["resourceVersion"]),
        propagation_policy: text(&body["propagationPolicy"]),
        code,
        milliseconds: milliseconds(began),
    }
}

pub fn milliseconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e5).round() / 100.0
}

impl DecisionObserver for Recorder {
    fn decided(&self, decision: &DecisionRecord) {
        self.with(|heard| {
            // In here: two that are told at once are told in the order of their times.
            if heard.detailed {
                // Nobody listens any more when the demo ends.
                let _ = self.0.steps.send(heard.step(decision));
            }
        });
    }
}

impl Heard {
    fn step(&self, decision: &DecisionRecord) -> Step {
        let DecisionRecord { object, action, finalizer, owners, owner, outcome, error, .. } = decision;
        let path = object.path();
        let method = if *action == "delete" { "DELETE" } else { "PATCH" };
        let sent = |request: &&Request| request.path == path && request.method == method;
        let mut judged: Vec<Owner> = owners.iter().map(|owner| self.owner(object, owner)).collect();
        judged.extend(owner.as_ref().map(|owner| Owner {
            object: story_name(owner),
            class: "orphaning".to_owned(),
            evidence: "graph".to_owned(),
            asked: Vec::new(),
        }));
        Step {
            milliseconds: milliseconds(self.since),
            object: story_name(object),
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
            object: called(&reference.kind, namespace, &reference.name),
            class: word(class),
            evidence: evidence.to_string(),
            asked: self.requests.iter().rfind(asked).cloned().into_iter().collect(),
        }
    }
}

/// The word that machines know a class by.
fn word(class: &impl serde::Serialize) -> String {
    serde_json::to_value(class).ok().and_then(|word| Some(word.as_str()?.to_owned())).unwrap_or_default()
}

fn story_name(identity: &Identity) -> String {
    let namespace = identity.namespace.as_ref().map_or("", Namespace::as_str);
    called(&identity.resource.kind, namespace, &identity.name)
}

/// The way to the server, listened to.
#[derive(Clone)]
struct Listening<S> {
    service: S,
    recorder: Recorder,
}

impl<S, B> Service<http::Request<Body>> for Listening<S>
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
        // The one that is ready answers; its clone is for the next request.
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
            // The body of a request is in memory already.
            let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            let began = Instant::now();
            let response = service.call(http::Request::from_parts(head, Body::from(body.to_vec()))).await?;
            recorder.heard(&method, uri.path(), &body, response.status().as_u16(), began);
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
    async fn requests_about_objects_are_heard_and_lists_are_not() {
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
        recorder.begin();
        assert_eq!(recorder.total(), 0);
    }

    #[tokio::test]
    async fn what_is_refused_is_sent_and_has_no_effect_and_after_the_story_nothing_is_kept() {
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
        assert_eq!(recorder.with(|heard| heard.requests.len()), 1);
        recorder.end();
        client.send(delete()).await.unwrap();
        assert_eq!(recorder.with(|heard| heard.requests.len()), 0);
        assert_eq!(recorder.total(), 2);
    }
}
