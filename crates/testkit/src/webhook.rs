//! A webhook of the API server that reviews admissions as the test decides.
//!
//! The embedded server calls no webhooks. There, a guard of the server gives the answers of the
//! webhook.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use http::Response;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::ByteString;
use kube_gc_apiserver::ApiServer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::control_plane::ControlPlane;
use crate::lock;

mod review;

pub use kube_gc_apiserver::guards::Denial;
pub use review::{Asked, Decision, Gate, Hook};

use self::review::Hooks;

/// The name of the webhook in its configuration.
const NAME: &str = "guard.example.com";

/// A running webhook. It runs on the runtime of the test and ends when it is dropped.
pub struct Webhook {
    hooks: Arc<Hooks>,
    /// The `clientConfig` for the API server.
    config: Value,
    caller: Caller,
}

/// How the API server gets the verdict.
enum Caller {
    /// A real server calls this webhook.
    Server(JoinHandle<()>),
    /// The embedded server uses a guard.
    Guard(ApiServer),
}

impl Webhook {
    /// Starts a webhook, with the certificate of the API server, which is valid for this address,
    /// too. [`review`](Self::review) registers it.
    pub async fn start(plane: &ControlPlane) -> Result<Self> {
        let hooks = Arc::<Hooks>::default();
        if let Some(embedded) = plane.embedded() {
            // Nothing listens there.
            let config = json!({ "url": "https://127.0.0.1:1/" });
            let server = embedded.server().clone();
            return Ok(Self { hooks, config, caller: Caller::Guard(server) });
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
        let server = tokio::spawn(serve(listener, TlsAcceptor::from(Arc::new(tls)), Arc::clone(&hooks)));
        Ok(Self { hooks, config, caller: Caller::Server(server) })
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

async fn serve(listener: TcpListener, tls: TlsAcceptor, hooks: Arc<Hooks>) {
    // Dropped with this future.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                let (tls, hooks) = (tls.clone(), Arc::clone(&hooks));
                connections.spawn(async move {
                    let stream = tls.accept(stream).await?;
                    let service = service_fn(|request| answer(&hooks, request));
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service).await?;
                    anyhow::Ok(())
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn answer(hooks: &Hooks, request: http::Request<Incoming>) -> Result<Response<Full<Bytes>>> {
    let (code, content) = match respond(hooks, request).await {
        Ok(review) => (200, review.to_string()),
        Err(error) => (500, error.to_string()),
    };
    let response = Response::builder().status(code).header(CONTENT_TYPE, "application/json");
    Ok(response.body(Full::new(content.into()))?)
}

/// The answer to a review, whose path has the number of the hook.
async fn respond(hooks: &Hooks, request: http::Request<Incoming>) -> Result<Value> {
    let number: usize = request.uri().path().trim_start_matches('/').parse()?;
    let hook = lock(hooks).get(number).cloned().context("no such hook")?;
    let body = request.into_body().collect().await?.to_bytes();
    let mut review: Value = serde_json::from_slice(&body)?;
    let response = hook.respond(&review["request"].take()).await?;
    Ok(json!({ "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response }))
}
