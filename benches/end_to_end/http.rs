//! A client that keeps its connections open and does nothing more than the benchmark needs.

use std::cell::Cell;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube_gc_testkit::Info;
use serde_json::Value;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The content type of all bodies except patches.
pub const JSON: &str = "application/json";

/// A request.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// The content type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Bytes,
}

impl Call {
    /// A request without a body.
    pub fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), content_type: JSON, body: Bytes::new() }
    }

    /// A request with a JSON body.
    pub fn with(method: Method, path: impl Into<String>, body: &Value) -> Self {
        Self { method, path: path.into(), content_type: JSON, body: body.to_string().into() }
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// The body if the request succeeded.
    pub fn success(self) -> Result<Bytes> {
        ensure!(self.status.is_success(), "{}: {}", self.status, String::from_utf8_lossy(&self.body));
        Ok(self.body)
    }

    /// The body as JSON if the request succeeded.
    pub fn json(self) -> Result<Value> {
        Ok(serde_json::from_slice(&self.success()?)?)
    }
}

/// Connections to one API server. There are as many as are used at the same time.
pub struct Client {
    url: String,
    /// The Authorization header.
    token: HeaderValue,
    inner: legacy::Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    sent: Cell<u64>,
}

impl Client {
    /// A client with this token.
    pub fn new(plane: &Info, token: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_file_iter(plane.dir.join("ca.crt"))? {
            roots.add(root?)?;
        }
        let tls = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let mut tcp = HttpConnector::new();
        tcp.set_nodelay(true);
        tcp.enforce_http(false);
        let connector = HttpsConnectorBuilder::new().with_tls_config(tls).https_only().enable_http1();
        let inner = legacy::Client::builder(TokioExecutor::new()).build(connector.wrap_connector(tcp));
        let token = HeaderValue::try_from(format!("Bearer {token}"))?;
        Ok(Self { url: plane.url.clone(), token, inner, sent: Cell::new(0) })
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(&self, call: Call) -> Result<Answer> {
        self.sent.set(self.sent.get() + 1);
        let what = format!("{} {}", call.method, call.path);
        let exchange = async {
            let answer = self.begin(call).await?;
            let status = answer.status();
            anyhow::Ok(Answer { status, body: answer.into_body().collect().await?.to_bytes() })
        };
        exchange.await.context(what)
    }

    /// Creates an object and returns the answer.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let answer = self.send(Call::with(Method::POST, path, body)).await?.json();
        answer.with_context(|| format!("POST {path}"))
    }

    /// Sends a request and returns the answer as a stream.
    pub async fn stream(&self, call: Call) -> Result<Incoming> {
        let path = call.path.clone();
        let answer = self.begin(call).await?;
        if !answer.status().is_success() {
            let status = answer.status();
            let body = answer.into_body().collect().await?.to_bytes();
            bail!("{path}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(answer.into_body())
    }

    /// Opens connections in advance, by requests that are under way at the same time.
    pub async fn warm_up(&self, connections: usize) -> Result<()> {
        let calls = (0..connections).map(|_| self.send(Call::get("/readyz")));
        futures::future::try_join_all(calls).await.map(drop)
    }

    /// The number of requests sent, without streams.
    pub fn sent(&self) -> u64 {
        self.sent.get()
    }

    async fn begin(&self, call: Call) -> Result<Response<Incoming>> {
        let request = Request::builder()
            .method(call.method)
            .uri(format!("{}{}", self.url, call.path))
            .header(header::AUTHORIZATION, self.token.clone())
            .header(header::ACCEPT, JSON)
            .header(header::CONTENT_TYPE, call.content_type)
            .body(Full::new(call.body))?;
        Ok(self.inner.request(request).await?)
    }
}
