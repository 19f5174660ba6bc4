//! A webhook of the API server that reviews admissions and converts custom resources, as the test
//! decides.
//!
//! The embedded server calls no webhooks. There, a guard of the server gives the answers of the
//! webhook.

use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use http::Response;
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
use kube_gc_apiserver::resources::ResourceName;
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

mod review;

pub use kube_gc_apiserver::guards::Denial;
pub use review::{Asked, Decision, Gate, Hook};

use self::review::{Hooks, Registered};

/// The name of the webhook in its configuration.
const NAME: &str = "guard.example.com";

/// The behaviour of the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebhookBehavior {
    /// Allow and convert everything.
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
    behavior: Arc<Mutex<WebhookBehavior>>,
    asked: Arc<AtomicUsize>,
    config: Value,
    caller: Caller,
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

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("behavior", &self.behavior).finish_non_exhaustive()
    }
}

impl Webhook {
    /// Starts a webhook that allows everything, with the certificate of the API server, which is
    /// valid for this address, too.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let (behavior, asked) = (Arc::new(Mutex::new(WebhookBehavior::Accept)), Arc::default());
        let hooks = Hooks::default();
        if let Some(embedded) = plane.embedded() {
            // Nothing listens there.
            let config = json!({ "url": "https://127.0.0.1:1/" });
            let server = embedded.server().clone();
            server.convert_by(Some(Ok(())));
            return Ok(Self { behavior, asked, config, caller: Caller::Guard(server), hooks });
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
        let (behaves, counts, decide) = (Arc::clone(&behavior), Arc::clone(&asked), Arc::clone(&hooks));
        let handler = Handler { behavior: behaves, asked: counts, hooks: decide };
        let server = tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(tls)), handler));
        Ok(Self { behavior, asked, config, caller: Caller::Server(server), hooks })
    }

    /// The `clientConfig` for the API server.
    pub fn client_config(&self) -> &Value {
        &self.config
    }

    /// The number of calls by a real server.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Changes the behaviour.
    pub fn set_behavior(&self, behavior: WebhookBehavior) {
        if let Caller::Guard(embedded) = &self.caller {
            embedded.convert_by(Some(match &behavior {
                WebhookBehavior::Accept => Ok(()),
                WebhookBehavior::Reject(message, _) => Err((*message).to_owned()),
                other => panic!("the embedded server has no webhooks that {other:?}"),
            }));
        }
        *self.behavior.lock().unwrap_or_else(PoisonError::into_inner) = behavior;
    }

    /// Ends the watches of a type on a server that does not convert for open watches, as a real
    /// server does when a conversion fails.
    pub fn ends_watches(&self, resource: &ApiResource) {
        if let Caller::Guard(embedded) = &self.caller {
            embedded.cut_watches(Some(&ResourceName::new(&resource.group, &resource.plural)));
        }
    }

    /// Reviews updates and deletions of the Secrets of a namespace whose value of this label is
    /// `yes`. Returns the configuration of the webhook.
    pub async fn guard_secrets(&self, cluster: &Cluster, ns: &Ns, label: &'static str) -> Result<Obj> {
        let behavior = Arc::clone(&self.behavior);
        let resource = &ApiResource::erase::<Secret>(&());
        let hook = Hook { mutating: false, resource, operations: &["UPDATE", "DELETE"] };
        let judge = move |asked: Asked| {
            let behavior = behavior.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let decision = match behavior {
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
            Caller::Guard(embedded) => {
                embedded.admit_by(None);
                embedded.convert_by(None);
            }
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

/// What a running webhook shares with the test.
#[derive(Clone)]
struct Handler {
    behavior: Arc<Mutex<WebhookBehavior>>,
    asked: Arc<AtomicUsize>,
    hooks: Hooks,
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, handler: Handler) {
    // Dropped with this future.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let (tls, handler) = (tls.clone(), handler.clone());
                connections.spawn(async move {
                    let stream = tls.accept(stream).await?;
                    let service = service_fn(|request| answer(handler.clone(), request));
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?;
                    anyhow::Ok(())
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(
    handler: Handler,
    request: http::Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let number = request.uri().path().trim_start_matches('/').parse::<usize>().ok();
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let behavior = handler.behavior.lock().unwrap_or_else(PoisonError::into_inner).clone();
    handler.asked.fetch_add(1, Ordering::SeqCst);
    if behavior == WebhookBehavior::Hang {
        std::future::pending::<()>().await;
    }
    let hook = number
        .and_then(|number| handler.hooks.lock().unwrap_or_else(PoisonError::into_inner).get(number).cloned());
    let review = match (body.map_err(anyhow::Error::from), hook) {
        (Ok(body), Some(hook)) => reviewed(&hook, &body).await,
        (Ok(body), None) => review(&behavior, &body),
        (Err(error), _) => Err(error),
    };
    let mut response = Response::new(Full::default());
    match review {
        Ok(review) => {
            let json = http::HeaderValue::from_static("application/json");
            response.headers_mut().insert(http::header::CONTENT_TYPE, json);
            *response.body_mut() = Full::new(review.to_string().into());
        }
        Err(error) => {
            *response.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            *response.body_mut() = Full::new(error.to_string().into());
        }
    }
    Ok(response)
}

/// The answer of the test itself.
async fn reviewed(hook: &Registered, body: &[u8]) -> Result<Value> {
    let review: Value = serde_json::from_slice(body)?;
    let response = hook.respond(&review["request"]).await?;
    Ok(json!({ "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response }))
}

fn review(behavior: &WebhookBehavior, body: &[u8]) -> Result<Value> {
    let mut review: Value = serde_json::from_slice(body)?;
    let request = review["request"].take();
    let (allowed, result) = match behavior {
        WebhookBehavior::Accept => (true, json!({ "status": "Success" })),
        WebhookBehavior::Reject(message, code) => {
            let mut result = json!({ "status": "Failure", "message": message });
            if let Some(code) = code {
                result["code"] = json!(code);
            }
            (false, result)
        }
        WebhookBehavior::Fail => anyhow::bail!("broken by the test"),
        WebhookBehavior::Hang => unreachable!("the webhook is not called"),
    };
    let mut response = json!({ "uid": request["uid"] });
    if review["kind"] == "ConversionReview" {
        let mut objects = request["objects"].as_array().cloned().context("no objects")?;
        for object in &mut objects {
            object["apiVersion"] = request["desiredAPIVersion"].clone();
        }
        response["convertedObjects"] = if allowed { json!(objects) } else { json!([]) };
        response["result"] = result;
    } else {
        response["allowed"] = json!(allowed);
        response["status"] = result;
    }
    Ok(json!({ "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response }))
}
