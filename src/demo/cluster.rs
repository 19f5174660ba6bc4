//! The embedded server and the collector, and a user.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::Method;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Serialize;
use serde_json::Value;

use super::Options;
use super::recorder::{Recorder, Request};
use crate::app::process::Threads;
use crate::app::served::{Bound, ServedCollector};
use crate::app::{Error, ErrorKind};
use crate::introspect::{CollectorIntrospection, IdleQuery};
use kube_gc_apiserver::ApiServer;
use kube_gc_apiserver::http::{Scheme, Serving};
use kube_gc_client::{Api, WriteGate};
use kube_gc_core::object::{GroupResource, ResourceVersion};
use kube_gc_observe::telemetry::{Exporter, record};

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
    pub async fn start(options: &Options, threads: &Threads, recorder: &Recorder) -> Result<Self, Error> {
        let Options { api_listen, kubeconfig, settings, .. } = options;
        let exporter = Exporter::install().map_err(|error| Error::new(ErrorKind::Internal, error))?;
        record::zeros();
        let server =
            ApiServer::new(kube_gc_apiserver::Settings { epoch: SystemTime::now(), ..Default::default() });
        let serving = server.serve(*api_listen, Scheme::Http).await.map_err(|error| {
            let message = format!(
                "cannot serve the Kubernetes API: cannot listen on {api_listen}: {error}; choose another address \
                 with --api-listen"
            );
            Error::new(ErrorKind::Address, message)
        })?;
        let kubeconfig = Kubeconfig::write(kubeconfig.as_deref(), &serving.kubeconfig())?;
        let api = Api::from_clients(recorder.client(server.clone()), settings.into(), WriteGate::open());
        let collector = ServedCollector::start(
            api,
            settings,
            threads,
            exporter,
            vec![Arc::new(recorder.clone())],
            Bound::new(settings, None, None).await?,
        )?;
        let endpoints = Endpoints {
            server: serving.url(),
            health: format!("http://{}", collector.serving.health),
            debug: format!("http://{}", collector.serving.debug),
            kubeconfig: kubeconfig.0.clone(),
        };
        let user = User(server.client());
        Ok(Self { collector, serving, user, endpoints, _kubeconfig: kubeconfig })
    }

    pub fn collector(&self) -> &CollectorIntrospection {
        &self.collector.introspection
    }

    /// Whether the collector has seen these versions and has nothing left to do; otherwise, why not.
    pub async fn is_idle(&self, seen: &BTreeMap<GroupResource, ResourceVersion>) -> Result<(), String> {
        let seen = seen.clone().into_iter().collect();
        let query = IdleQuery { seen, parked_ok: true, ..IdleQuery::default() };
        let report = self.collector().idle(query).await;
        if report.idle {
            Ok(())
        } else {
            Err(format!("the collector is busy: {}", report.reasons.join("; ")))
        }
    }

    /// Resolves when a part of it fails.
    pub async fn fails(&self) -> Error {
        self.collector.serving.fails().await
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
