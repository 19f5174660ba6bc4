//! The embedded server and the collector, a user, and a recorder of what the collector does.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use http::Method;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Serialize;
use serde_json::Value;
use tower::ServiceExt as _;

use super::shop::display_name;
use crate::api::{Api, Finalizer, WriteGate};
use crate::app::{
    CollectorIntrospection, Error, ErrorKind, Protections, ServedCollector, Threads, api_settings,
};
use crate::config::Settings;
use crate::telemetry::{Exporter, record};
use crate::worker::decision::{DecisionObserver, DecisionRecord, JudgedOwner, Occurrence};
use kube_gc_apiserver::ApiServer;
use kube_gc_apiserver::http::{Scheme, Serving};
use kube_gc_core::object::{Identity, Namespace};

/// A running server and a running collector.
pub struct Cluster {
    collector: ServedCollector,
    serving: Serving,
    pub user: User,
    pub endpoints: Endpoints,
    /// Removes the file when it is dropped.
    _kubeconfig: Kubeconfig,
}

/// The addresses of everything that is running, as the JSON output has them.
#[derive(Clone, Debug, Serialize)]
pub struct Endpoints {
    /// The Kubernetes API.
    pub server: String,
    /// Health and metrics.
    pub health: String,
    /// The debug pages.
    pub debug: String,
    /// The kubeconfig for kubectl.
    pub kubeconfig: PathBuf,
}

impl Cluster {
    /// Starts the server and its collector. They communicate within the process. The server also
    /// listens on an address, for kubectl.
    pub async fn start(
        api_listen: SocketAddr,
        kubeconfig: Option<&Path>,
        settings: &Settings,
        recorder: &Recorder,
    ) -> Result<Self, Error> {
        let exporter = Exporter::install().map_err(|error| Error::new(ErrorKind::Internal, error))?;
        record::zeros();
        let server =
            ApiServer::new(kube_gc_apiserver::Settings { epoch: SystemTime::now(), ..Default::default() });
        let serving = server.serve(api_listen, Scheme::Http).await.map_err(|error| {
            let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
            let message = format!(
                "cannot serve the Kubernetes API: {error}{cause}; choose another address with --api-listen"
            );
            Error::new(ErrorKind::Address, message)
        })?;
        let kubeconfig = Kubeconfig::write(kubeconfig, &serving.kubeconfig())?;
        let api =
            Api::from_clients(recorder.client(server.clone()), api_settings(settings), WriteGate::open());
        let collector = ServedCollector::start(
            api,
            settings,
            &Threads::current(),
            exporter,
            vec![Arc::new(recorder.clone())],
            Protections::default(),
        )
        .await?;
        let endpoints = Endpoints {
            server: serving.url(),
            health: format!("http://{}", collector.health()),
            debug: format!("http://{}", collector.debug()),
            kubeconfig: kubeconfig.0.clone(),
        };
        let user = User(server.client());
        Ok(Self { collector, serving, user, endpoints, _kubeconfig: kubeconfig })
    }

    pub fn collector(&self) -> &CollectorIntrospection {
        self.collector.introspection()
    }

    /// Resolves when a part of it fails.
    pub async fn fails(&self) -> Error {
        self.collector.fails().await
    }

    /// Stops both.
    pub async fn stop(self, grace: Duration) {
        self.collector.stop(grace).await;
        self.serving.stop().await;
    }
}

/// A kubeconfig file that exists as long as this value.
struct Kubeconfig(PathBuf);

impl Kubeconfig {
    fn write(path: Option<&Path>, config: &str) -> Result<Self, Error> {
        let path = path.map_or_else(
            || std::env::temp_dir().join(format!("kube-gc-demo-{}.kubeconfig", std::process::id())),
            Path::to_owned,
        );
        // Never overwrite a file: it may be the only copy.
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
        match file.and_then(|mut file| file.write_all(config.as_bytes())) {
            Ok(()) => Ok(Self(path)),
            Err(error) => {
                let path = path.display();
                let message =
                    format!("cannot write the kubeconfig {path}: {error}; choose another with --kubeconfig");
                Err(Error::new(ErrorKind::Internal, message))
            }
        }
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        // Ignore a file that is already gone.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A client that acts like kubectl.
#[derive(Clone)]
pub struct User(pub kube::Client);

/// An answer and its request.
#[derive(Debug)]
pub struct Answer {
    pub request: Request,
    pub body: Value,
}

impl User {
    /// Sends a request. Any answer is a success; a missing answer is an error.
    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, String> {
        let failed = |error: &dyn std::fmt::Display| format!("{method} {path} failed: {error}");
        let content_type =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let text = body.map(Value::to_string).unwrap_or_default();
        let call = http::Request::builder()
            .method(method.clone())
            .uri(path)
            .header(http::header::ACCEPT, "application/json")
            .header(http::header::CONTENT_TYPE, content_type)
            .header(http::header::USER_AGENT, "kube-gc-demo")
            .body(Body::from(text.clone().into_bytes()))
            .map_err(|error| failed(&error))?;
        let began = Instant::now();
        let response = self.0.send(call).await.map_err(|error| failed(&error))?;
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| failed(&error))?.to_bytes();
        let path = path.split('?').next().unwrap_or_default();
        Ok(Answer {
            request: Request::new(&method, path, text.as_bytes(), code, began),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        })
    }

    /// Sends a request that must succeed.
    pub async fn send_ok(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Answer, String> {
        let answer = self.send(method, path, body).await?;
        if (200..300).contains(&answer.request.code) { Ok(answer) } else { Err(rejected(&answer)) }
    }

    /// Reads an object; `None` if it does not exist.
    pub async fn get(&self, path: &str) -> Result<Option<Value>, String> {
        let answer = self.send(Method::GET, path, None).await?;
        match answer.request.code {
            200 => Ok(Some(answer.body)),
            404 => Ok(None),
            _ => Err(rejected(&answer)),
        }
    }
}

fn rejected(answer: &Answer) -> String {
    let Request { method, path, code, .. } = &answer.request;
    format!("{method} {path} was answered with {code}: {}", answer.body["message"])
}

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
    fn new(method: &Method, path: &str, body: &[u8], code: u16, began: Instant) -> Self {
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
    pub fn new(detailed: bool) -> Self {
        Self(Arc::new(Mutex::new(Recording::new(detailed))))
    }

    /// Starts a new recording.
    pub fn restart(&self) {
        self.with(|recording| *recording = Recording::new(recording.detailed));
    }

    /// Stops keeping requests and steps.
    pub fn stop(&self) {
        self.with(|recording| *recording = Recording::new(false));
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

    #[test]
    fn preconditions_are_found_in_deletions_and_in_patches() {
        let (delete, patch) = (
            br#"{"preconditions":{"uid":"u","resourceVersion":"7"},"propagationPolicy":"Orphan"}"#,
            br#"{"metadata":{"uid":"u","resourceVersion":"7","finalizers":[]}}"#,
        );
        let read = |method, body: &[u8]| Request::new(&method, "/p", body, 200, Instant::now());
        let deleted = read(Method::DELETE, delete);
        assert_eq!((deleted.uid.as_deref(), deleted.resource_version.as_deref()), (Some("u"), Some("7")));
        assert_eq!(deleted.propagation_policy.as_deref(), Some("Orphan"));
        let patched = read(Method::PATCH, patch);
        assert_eq!((patched.uid.as_deref(), patched.resource_version.as_deref()), (Some("u"), Some("7")));
        assert_eq!(patched.propagation_policy, None);
    }

    #[tokio::test]
    async fn requests_about_objects_are_counted_and_nothing_is_kept_after_the_end() {
        let server = ApiServer::new(kube_gc_apiserver::Settings::default());
        let recorder = Recorder::new(true);
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
        recorder.stop();
        send(Method::DELETE, "/api/v1/namespaces/default/pods/a").await;
        assert_eq!((recorder.with(|recording| recording.requests.len()), recorder.total()), (0, 1));
    }
}
