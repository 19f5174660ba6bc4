//! A client that keeps its connections open and does nothing more than the benchmark needs.

use std::cell::Cell;

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;

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
    inner: kube::Client,
    sent: Cell<u64>,
}

impl Client {
    pub async fn of(kubeconfig: &Path) -> Result<Self> {
        let config = kube_gc_testkit::config_of(kubeconfig).await?;
        Ok(Self { inner: kube::Client::try_from(config)?, sent: Cell::new(0) })
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
    pub async fn stream(&self, call: Call) -> Result<Body> {
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

    async fn begin(&self, call: Call) -> Result<Response<Body>> {
        let request = Request::builder()
            .method(call.method)
            .uri(call.path)
            .header(header::ACCEPT, JSON)
            .header(header::CONTENT_TYPE, call.content_type)
            .body(Body::from(call.body.to_vec()))?;
        Ok(self.inner.send(request).await?)
    }
}
