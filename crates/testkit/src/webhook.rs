//! A webhook of the API server that reviews admissions as the test decides.
//!
//! The embedded server calls no webhooks. There, a guard of the server gives the answers of the
//! webhook.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use http::Response;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ApiResource;
use kube_gc_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::cluster::{Cluster, Ns, Obj};
use super::control_plane::ControlPlane;
use crate::lock;

mod review;

pub use kube_gc_apiserver::guards::Denial;
pub use review::{Asked, Decision, Gate, Hook};

use self::review::{Hooks, Registered};

/// The name of the webhook in its configuration.
const NAME: &str = "guard.example.com";

/// The behaviour of the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookBehavior {
    /// Allow everything.
    Accept,
    /// Deny everything with this message and, optionally, this code.
    Reject(&'static str, Option<u16>),
    /// Answer 500.
    Fail,
    /// Do not answer. Only with a real server.
    Hang,
}

/// A running webhook. It runs on the runtime of the test and ends when it is dropped.
pub struct Webhook {
    state: Arc<State>,
    config: Value,
    caller: Caller,
}

/// What a running webhook shares with the test.
struct State {
    behavior: Mutex<WebhookBehavior>,
    asked: AtomicUsize,
    /// What the test itself decides.
    hooks: Hooks,
}

/// How the API server gets the verdict.
enum Caller {
    /// A real server calls this webhook.
    Server(JoinHandle<()>),
    /// The embedded server uses a guard.
    Guard(ApiServer),
}

impl Webhook {
    /// Starts a webhook that allows everything, with the certificate of the API server, which is
    /// valid for this address, too.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let behavior = Mutex::new(WebhookBehavior::Accept);
        let state = Arc::new(State { behavior, asked: AtomicUsize::default(), hooks: Hooks::default() });
        if let Some(embedded) = plane.embedded() {
            // Nothing listens there.
            let config = json!({ "url": "https://127.0.0.1:1/" });
            let server = embedded.server().clone();
            return Ok(Self { state, config, caller: Caller::Guard(server) });
        }
        let dir = &plane.info().dir;
        let certificate = CertificateDer::from_pem_file(dir.join("apiserver.crt"))?;
        let key = PrivateKeyDer::from_pem_file(dir.join("apiserver.key"))?;
        let tls = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let config = json!({
            "url": format!("https://{}/", listener.local_addr()?),
            "caBundle": ByteString(std::fs::read(dir.join("ca.crt"))?),
        });
        let server = tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(tls)), Arc::clone(&state)));
        Ok(Self { state, config, caller: Caller::Server(server) })
    }

    /// The `clientConfig` for the API server.
    pub fn client_config(&self) -> &Value {
        &self.config
    }

    /// The number of calls by a real server.
    pub fn asked(&self) -> usize {
        self.state.asked.load(Ordering::SeqCst)
    }

    /// Changes the behaviour.
    pub fn set_behavior(&self, behavior: WebhookBehavior) {
        *lock(&self.state.behavior) = behavior;
    }

    /// Reviews updates and deletions of the Secrets of a namespace whose value of this label is
    /// `yes`. Returns the configuration of the webhook.
    pub async fn guard_secrets(&self, cluster: &Cluster, ns: &Ns, label: &'static str) -> Result<Obj> {
        let state = Arc::clone(&self.state);
        let resource = &ApiResource::erase::<Secret>(&());
        let hook = Hook { mutating: false, resource, operations: &["UPDATE", "DELETE"] };
        let judge = move |asked: Asked| {
            let decision = match *lock(&state.behavior) {
                WebhookBehavior::Reject(message, code)
                    if asked.object["metadata"]["labels"][label] == "yes" =>
                {
                    Decision::Deny(Denial { code, message: message.to_owned(), ..Denial::default() })
                }
                _ => Decision::Allow,
            };
            std::future::ready(decision)
        };
        self.review(cluster, ns, hook, judge).await
    }

    /// Registers the webhook with a real server for ConfigMaps of the namespaces that have this
    /// label, with a timeout in seconds. Returns the configuration, which the server applies some
    /// time later.
    pub async fn guard_configmaps(
        &self,
        cluster: &Cluster,
        label: &str,
        operations: &[&str],
        seconds: u32,
    ) -> Result<Obj> {
        let mut webhook =
            registration(self.client_config(), ("", "configmaps"), operations, &json!({ label: "here" }));
        webhook["timeoutSeconds"] = json!(seconds);
        let webhooks = json!([webhook]);
        let name = format!("{label}.{}", operations.join("-").to_lowercase());
        cluster.of::<ValidatingWebhookConfiguration>(name).field("webhooks", webhooks).create().await
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        match &self.caller {
            Caller::Server(server) => server.abort(),
            Caller::Guard(embedded) => embedded.admit_by(None),
        }
    }
}

/// The configuration of a webhook for writes of a type in the namespaces with these labels.
fn registration(
    client_config: &Value,
    (group, plural): (&str, &str),
    operations: &[&str],
    labels: &Value,
) -> Value {
    let rule = json!({
        "apiGroups": [group], "apiVersions": ["*"], "resources": [plural],
        "operations": operations, "scope": "*",
    });
    json!({
        "name": NAME,
        "clientConfig": client_config,
        "rules": [rule],
        "namespaceSelector": { "matchLabels": labels },
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    })
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, state: Arc<State>) {
    // Dropped with this future.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let (tls, state) = (tls.clone(), Arc::clone(&state));
                connections.spawn(async move {
                    let stream = tls.accept(stream).await?;
                    let service = service_fn(|request| answer(&state, request));
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?;
                    anyhow::Ok(())
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(state: &State, request: http::Request<Incoming>) -> Result<Response<Full<Bytes>>> {
    let number = request.uri().path().trim_start_matches('/').parse::<usize>().ok();
    let hook = number.and_then(|number| lock(&state.hooks).get(number).cloned());
    let body = request.into_body().collect().await?.to_bytes();
    state.asked.fetch_add(1, Ordering::SeqCst);
    let (code, content) = match respond(state, hook, &body).await {
        Ok(review) => (200, review.to_string()),
        Err(error) => (500, error.to_string()),
    };
    let response = Response::builder().status(code).header(CONTENT_TYPE, "application/json");
    Ok(response.body(Full::new(content.into()))?)
}

/// The answer to a review: that of a hook, or the one of the behaviour.
async fn respond(state: &State, hook: Option<Arc<Registered>>, body: &[u8]) -> Result<Value> {
    let mut review: Value = serde_json::from_slice(body)?;
    let request = review["request"].take();
    let response = match hook {
        Some(hook) => hook.respond(&request).await?,
        None => {
            let behavior = lock(&state.behavior).clone();
            if behavior == WebhookBehavior::Hang {
                std::future::pending::<()>().await;
            }
            behave(&behavior, &request)?
        }
    };
    Ok(json!({ "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response }))
}

fn behave(behavior: &WebhookBehavior, request: &Value) -> Result<Value> {
    let (allowed, result) = match behavior {
        WebhookBehavior::Accept => (true, json!({ "status": "Success" })),
        WebhookBehavior::Reject(message, code) => {
            (false, json!({ "status": "Failure", "message": message, "code": code }))
        }
        WebhookBehavior::Fail | WebhookBehavior::Hang => anyhow::bail!("broken by the test"),
    };
    Ok(json!({ "uid": request["uid"], "allowed": allowed, "status": result }))
}
