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
use kube::api::ApiResource;
use kube_gc_apiserver::ApiServer;
use kube_gc_apiserver::guards::{Admission, Conversion, Denial, Review};
use kube_gc_apiserver::resources::ResourceName;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::cluster::{Cluster, Ns, Obj};
use super::control_plane::ControlPlane;

/// The name of the webhook in its configuration.
const NAME: &str = "guard.example.com";

/// The behaviour of the webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Allow and convert everything.
    Fine,
    /// Deny everything with this message and, optionally, this code.
    No(&'static str, Option<u16>),
    /// Answer 500.
    Broken,
    /// Do not answer. Only with a real server.
    Hangs,
}

/// A running webhook. It runs on the runtime of the test and ends when it is dropped.
pub struct Webhook {
    verdict: Arc<Mutex<Verdict>>,
    asked: Arc<AtomicUsize>,
    config: Value,
    means: Means,
}

/// How the API server gets the verdict.
enum Means {
    /// A real server calls this webhook.
    Server(JoinHandle<()>),
    /// The embedded server uses a guard.
    Guard(ApiServer),
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("verdict", &self.verdict).finish_non_exhaustive()
    }
}

impl Webhook {
    /// Starts a webhook that allows everything, with the certificate of the API server, which is
    /// valid for this address, too.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let (verdict, asked) = (Arc::new(Mutex::new(Verdict::Fine)), Arc::default());
        if let Some(embedded) = plane.embedded() {
            // Nothing listens there.
            let config = json!({ "url": "https://127.0.0.1:1/" });
            let (server, says) = (embedded.server().clone(), Arc::clone(&verdict));
            server.convert_by(Some(Conversion::new(move || {
                match says.lock().unwrap_or_else(PoisonError::into_inner).clone() {
                    Verdict::Fine => Ok(()),
                    Verdict::No(message, _) => Err(message.to_owned()),
                    Verdict::Broken => Err("the server could not be reached".to_owned()),
                    Verdict::Hangs => panic!("no conversion of the embedded server hangs"),
                }
            })));
            return Ok(Self { verdict, asked, config, means: Means::Guard(server) });
        }
        let dir = &plane.info().dir;
        let certificate = CertificateDer::from_pem_file(dir.join("apiserver.crt"))?;
        let key = PrivateKeyDer::from_pem_file(dir.join("apiserver.key"))?;
        let tls = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let config = json!({
            "url": format!("https://{}/", listener.local_addr()?),
            "caBundle": ByteString(std::fs::read(dir.join("ca.crt"))?),
        });
        let says = Says { verdict: Arc::clone(&verdict), asked: Arc::clone(&asked) };
        let server = tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(tls)), says));
        Ok(Self { verdict, asked, config, means: Means::Server(server) })
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
    pub fn say(&self, verdict: Verdict) {
        *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) = verdict;
    }

    /// Ends the watches of a type on a server that does not convert for open watches, as a real
    /// server does when a conversion fails.
    pub fn ends_watches(&self, resource: &ApiResource) {
        if let Means::Guard(embedded) = &self.means {
            embedded.cut_watches(Some(&ResourceName::new(&resource.group, &resource.plural)));
        }
    }

    /// Registers the webhook for updates and deletions of Secrets of a namespace whose value of
    /// this label is `yes`. Returns the configuration. A real server applies it some time later.
    pub async fn guard_secrets(&self, cluster: &Cluster, ns: &Ns, label: &'static str) -> Result<Obj> {
        if let Means::Guard(embedded) = &self.means {
            let (verdict, namespace) = (Arc::clone(&self.verdict), ns.name().to_owned());
            embedded.admit_by(Some(Admission::new(move |review| {
                let asked = is_secret(review, &namespace) && review.object.label(label) == Some("yes");
                let verdict = verdict.lock().unwrap_or_else(PoisonError::into_inner).clone();
                match verdict {
                    Verdict::No(message, code) if asked => {
                        Some(Denial { webhook: NAME.to_owned(), code, message: message.to_owned() })
                    }
                    Verdict::Broken if asked => {
                        panic!("the guards of the embedded server cannot break a webhook")
                    }
                    Verdict::No(..) | Verdict::Fine | Verdict::Broken | Verdict::Hangs => None,
                }
            })));
        }
        cluster.set_label(ns.as_object(), label, "here").await?;
        let rule = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"],
            "operations": ["UPDATE", "DELETE"], "scope": "*",
        });
        let webhooks = json!([{
            "name": NAME,
            "clientConfig": self.client_config(),
            "rules": [rule],
            "namespaceSelector": { "matchLabels": { label: "here" } },
            "objectSelector": { "matchLabels": { label: "yes" } },
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
        }]);
        let name = format!("{}-guard", ns.name());
        cluster.of::<ValidatingWebhookConfiguration>(name).field("webhooks", webhooks).create().await
    }
}

impl Webhook {
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
        let rule = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": operations, "scope": "*",
        });
        let webhooks = json!([{
            "name": NAME,
            "clientConfig": self.client_config(),
            "rules": [rule],
            "namespaceSelector": { "matchLabels": { label: "here" } },
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Fail",
            "timeoutSeconds": seconds,
        }]);
        let name = format!("{label}.{}", operations.join("-").to_lowercase());
        cluster.of::<ValidatingWebhookConfiguration>(name).field("webhooks", webhooks).create().await
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        match &self.means {
            Means::Server(server) => server.abort(),
            Means::Guard(embedded) => {
                embedded.admit_by(None);
                embedded.convert_by(None);
            }
        }
    }
}

fn is_secret(review: &Review<'_>, namespace: &str) -> bool {
    review.resource == ResourceName::new("", "secrets")
        && review.subresource.is_none()
        && review.object.key().namespace.as_deref() == Some(namespace)
}

/// The behaviour and the call count of a running webhook.
#[derive(Clone)]
struct Says {
    verdict: Arc<Mutex<Verdict>>,
    asked: Arc<AtomicUsize>,
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, says: Says) {
    // Dropped with this future.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let (tls, says) = (tls.clone(), says.clone());
                connections.spawn(async move {
                    let stream = tls.accept(stream).await?;
                    let service = service_fn(|request| answer(says.clone(), request));
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?;
                    anyhow::Ok(())
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(says: Says, request: http::Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let verdict = says.verdict.lock().unwrap_or_else(PoisonError::into_inner).clone();
    says.asked.fetch_add(1, Ordering::SeqCst);
    if verdict == Verdict::Hangs {
        std::future::pending::<()>().await;
    }
    let review = body.map_err(anyhow::Error::from).and_then(|body| review(&verdict, &body));
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

fn review(verdict: &Verdict, body: &[u8]) -> Result<Value> {
    let mut review: Value = serde_json::from_slice(body)?;
    let request = review["request"].take();
    let (allowed, result) = match verdict {
        Verdict::Fine => (true, json!({ "status": "Success" })),
        Verdict::No(message, code) => {
            let mut result = json!({ "status": "Failure", "message": message });
            if let Some(code) = code {
                result["code"] = json!(code);
            }
            (false, result)
        }
        Verdict::Broken => anyhow::bail!("broken by the test"),
        Verdict::Hangs => unreachable!("the webhook is not called"),
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
