//! A webhook of the API server: reviews admissions and converts custom
//! resources, as long as the test wants it to.
//!
//! The embedded server asks no webhooks. There a guard of the server itself says
//! what the webhook would.

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
use kube_gc_apiserver::Embedded;
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

/// What it is called where it guards something.
const NAME: &str = "guard.example.com";

/// What the webhook does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything is allowed and converted.
    Fine,
    /// Everything is refused: with these words and, where it has one, this code.
    No(&'static str, Option<u16>),
    /// It answers 500.
    Broken,
    /// It does not answer. Only a real server asks one that does this.
    Hangs,
}

/// A running webhook. It runs on the test's own runtime and ends with its value.
pub struct Webhook {
    verdict: Arc<Mutex<Verdict>>,
    asked: Arc<AtomicUsize>,
    config: Value,
    means: Means,
}

/// How the API server gets to know the verdict.
enum Means {
    /// It asks this one.
    Server(JoinHandle<()>),
    /// It is the embedded one, and has a guard.
    Guard(Embedded),
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("verdict", &self.verdict).finish_non_exhaustive()
    }
}

impl Webhook {
    /// Starts one that says yes to everything, with the API server's own
    /// certificate: that one is for this address, too.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let (verdict, asked) = (Arc::new(Mutex::new(Verdict::Fine)), Arc::default());
        if let Some(embedded) = plane.embedded() {
            // Nobody is there.
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

    /// The `clientConfig` by which the API server finds it.
    pub fn client_config(&self) -> &Value {
        &self.config
    }

    /// How often a real server has asked it.
    pub fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// From now on it does this.
    pub fn say(&self, verdict: Verdict) {
        *self.verdict.lock().unwrap_or_else(PoisonError::into_inner) = verdict;
    }

    /// Lets a server that converts nothing for a watch that is open already end the
    /// watches of a type, as a real one does when it can not convert for them.
    pub fn ends_watches(&self, resource: &ApiResource) {
        if let Means::Guard(embedded) = &self.means {
            embedded.cut_watches(Some(&ResourceName::new(&resource.group, &resource.plural)));
        }
    }

    /// Lets the API server ask it about updates and deletions of Secrets of a
    /// namespace that have the value `yes` for this label. Returns the configuration
    /// that says so. A real server heeds it some time later.
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
                    Verdict::Broken if asked => panic!("what a broken webhook does, no guard does"),
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
    /// Lets a real API server ask it about ConfigMaps of the namespaces that have this
    /// label, and waits for its answer for so many seconds. Returns the configuration that
    /// says so, which the server heeds some time later.
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

/// What a running webhook is told, and tells.
#[derive(Clone)]
struct Says {
    verdict: Arc<Mutex<Verdict>>,
    asked: Arc<AtomicUsize>,
}

async fn serve(listener: TcpListener, tls: TlsAcceptor, says: Says) {
    // Ends with this future.
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
        Verdict::Hangs => unreachable!("it does not come to a review"),
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
