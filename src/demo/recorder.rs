//! Records the requests and decisions of the collector.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use http::Method;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Serialize;
use serde_json::Value;
use tower::ServiceExt as _;

use super::shop::display_name;
use kube_gc_apiserver::ApiServer;
use kube_gc_client::{Finalizer, path_of};
use kube_gc_controller::worker::decision::{DecisionObserver, DecisionRecord, JudgedOwner, Occurrence};
use kube_gc_core::object::{Identity, Namespace};

/// A request and its result, as the JSON output has them.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    pub method: String,
    pub path: String,
    /// The precondition on the uid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The precondition on the resource version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<String>,
    pub code: u16,
    pub milliseconds: f64,
}

impl Request {
    pub fn new(method: &Method, path: &str, body: &[u8], code: u16, began: Instant) -> Self {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        // A DELETE has preconditions; in a patch the metadata has the same effect.
        let preconditions = if *method == Method::PATCH { &body["metadata"] } else { &body["preconditions"] };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Self {
            method: method.to_string(),
            path: path.to_owned(),
            uid: text(&preconditions["uid"]),
            resource_version: text(&preconditions["resourceVersion"]),
            propagation_policy: text(&body["propagationPolicy"]),
            code,
            milliseconds: milliseconds(began),
        }
    }
}

/// One thing that the collector did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Step {
    /// Since the operation of the user.
    pub milliseconds: f64,
    /// Kind and name, and the namespace if it is not the shop.
    pub object: String,
    /// `delete`, `remove_references`, …
    pub action: &'static str,
    /// `deleted`, `patched`, …
    pub outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finalizer: Option<&'static str>,
    pub owners: Vec<Owner>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Request>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An owner and its class.
#[derive(Clone, Debug, Serialize)]
pub struct Owner {
    /// Kind and name, and the namespace if it is not the shop.
    pub object: String,
    /// `absent`, `waiting`, `solid`, …
    pub class: String,
    /// The source of that knowledge: `graph`, `live`, …
    pub evidence: String,
    /// The requests that looked it up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<Request>,
}

/// Records the collector's requests and decisions, and matches them. Clones share their state.
#[derive(Clone, Debug)]
pub struct Recorder(Arc<Mutex<Recording>>);

#[derive(Debug)]
struct Recording {
    since: Instant,
    /// Whether requests and steps are kept. Otherwise requests are only counted: a load, and in time also
    /// the use of the demo after its scenarios, causes too many to keep.
    detailed: bool,
    requests: Vec<Request>,
    steps: Vec<Step>,
    /// The number of requests about single objects.
    sent: u64,
    /// How many of them succeeded, by method.
    succeeded: BTreeMap<Method, u64>,
}

impl Recorder {
    /// A recorder that only counts.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Recording::new(false))))
    }

    /// Starts a new recording, which keeps requests and steps or only counts them.
    pub fn restart(&self, detailed: bool) {
        self.with(|recording| *recording = Recording::new(detailed));
    }

    /// The number of requests of this method that succeeded.
    pub fn count(&self, method: &Method) -> u64 {
        self.with(|recording| recording.succeeded.get(method).copied().unwrap_or_default())
    }

    /// The number of requests about single objects.
    pub fn total(&self) -> u64 {
        self.with(|recording| recording.sent)
    }

    /// The steps of the collector since the last call.
    pub fn take_steps(&self) -> Vec<Step> {
        self.with(|recording| std::mem::take(&mut recording.steps))
    }

    /// A client whose requests are recorded.
    pub fn client(&self, server: ApiServer) -> kube::Client {
        let recorder = self.clone();
        let recorded = move |request: http::Request<Body>| {
            let (recorder, server) = (recorder.clone(), server.clone());
            async move {
                let (method, uri) = (request.method().clone(), request.uri().clone());
                // Lists, watches and discovery are not about single objects.
                let names_object = uri.query().is_none() && uri.path().split('/').count() > 5;
                if !names_object && method == Method::GET {
                    return server.oneshot(request).await;
                }
                let (head, body) = request.into_parts();
                // The body of a request is already in memory.
                let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                let began = Instant::now();
                let copy = http::Request::from_parts(head, Body::from(body.to_vec()));
                let response = server.oneshot(copy).await?;
                let code = response.status().as_u16();
                recorder.with(|recording| recording.note(&method, uri.path(), &body, code, began));
                Ok(response)
            }
        };
        kube::Client::new(tower::service_fn(recorded), "default")
    }

    fn with<T>(&self, look: impl FnOnce(&mut Recording) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn milliseconds(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1e5).round() / 100.0
}

impl DecisionObserver for Recorder {
    fn decided(&self, decision: &DecisionRecord) -> Occurrence {
        self.with(|recording| {
            if recording.detailed {
                let step = recording.step(decision);
                recording.steps.push(step);
            }
        });
        Occurrence::First
    }
}

impl Recording {
    fn new(detailed: bool) -> Self {
        Self {
            since: Instant::now(),
            detailed,
            requests: Vec::new(),
            steps: Vec::new(),
            sent: 0,
            succeeded: BTreeMap::new(),
        }
    }

    fn note(&mut self, method: &Method, path: &str, body: &[u8], code: u16, began: Instant) {
        self.sent += 1;
        if (200..300).contains(&code) {
            *self.succeeded.entry(method.clone()).or_default() += 1;
        }
        if self.detailed {
            self.requests.push(Request::new(method, path, body, code, began));
        }
    }

    fn step(&self, decision: &DecisionRecord) -> Step {
        let DecisionRecord { object, action, finalizer, owners, owner, outcome, error, .. } = decision;
        let path = path_of(object).unwrap_or_default();
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
        // The name of a class in JSON.
        let class = serde_json::to_value(class).unwrap_or_default();
        Owner {
            object: display_name(&reference.kind, namespace, &reference.name),
            class: class.as_str().unwrap_or_default().to_owned(),
            evidence: evidence.to_string(),
            asked: self.requests.iter().rfind(asked).cloned().into_iter().collect(),
        }
    }
}

fn identity_name(identity: &Identity) -> String {
    let namespace = identity.namespace.as_ref().map_or("", Namespace::as_str);
    display_name(&identity.resource.kind, namespace, &identity.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_about_objects_are_counted_and_nothing_is_kept_after_the_end() {
        let server = ApiServer::new(kube_gc_apiserver::Settings::default());
        let recorder = Recorder::new();
        recorder.restart(true);
        let client = recorder.client(server);
        let send = async |method: Method, path: &str| {
            let request = http::Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            client.send(request).await.unwrap();
        };
        send(Method::GET, "/api/v1/namespaces/default/pods?limit=500").await;
        send(Method::GET, "/apis").await;
        assert_eq!(recorder.total(), 0, "lists are not about single objects");
        // A rejected request is no success.
        send(Method::DELETE, "/api/v1/namespaces/default/pods/a").await;
        assert_eq!((recorder.count(&Method::DELETE), recorder.total()), (0, 1));
        assert_eq!(recorder.with(|recording| recording.requests.len()), 1);
        recorder.restart(false);
        send(Method::DELETE, "/api/v1/namespaces/default/pods/a").await;
        assert_eq!((recorder.with(|recording| recording.requests.len()), recorder.total()), (0, 1));
    }
}
