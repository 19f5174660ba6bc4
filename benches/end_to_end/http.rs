//! A minimal client: HTTP/1.1 with TLS on connections that stay open, and bodies as bytes.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto};

use kube_gc_testkit::Info;

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
    address: SocketAddr,
    tls: TlsConnector,
    /// The Authorization header.
    token: HeaderValue,
    idle: RefCell<Vec<Sender>>,
    sent: Cell<u64>,
}

type Sender = SendRequest<Full<Bytes>>;

impl Client {
    /// A client with this token.
    pub fn new(plane: &Info, token: &str) -> Result<Self> {
        let address = plane.url.strip_prefix("https://").context("not by HTTPS")?.parse()?;
        let mut roots = RootCertStore::empty();
        for root in CertificateDer::pem_file_iter(plane.dir.join("ca.crt"))? {
            roots.add(root?)?;
        }
        let provider = Arc::new(crypto::aws_lc_rs::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let token = HeaderValue::try_from(format!("Bearer {token}"))?;
        let tls = TlsConnector::from(Arc::new(tls));
        Ok(Self { address, tls, token, idle: RefCell::default(), sent: Cell::new(0) })
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(&self, call: Call) -> Result<Answer> {
        self.sent.set(self.sent.get() + 1);
        let what = (call.method.clone(), call.path.clone());
        let exchange = async {
            let (mut sender, answer) = self.begin(call).await?;
            let status = answer.status();
            let body = answer.into_body().collect().await?.to_bytes();
            // The end of the body may be read before the connection is ready for the next
            // request.
            if sender.ready().await.is_ok() {
                self.idle.borrow_mut().push(sender);
            }
            anyhow::Ok(Answer { status, body })
        };
        exchange.await.with_context(|| format!("{} {}", what.0, what.1))
    }

    /// Creates an object and returns the answer.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let answer = self.send(Call::with(Method::POST, path, body)).await?.json();
        answer.with_context(|| format!("POST {path}"))
    }

    /// Sends a request and returns the answer as a stream.
    pub async fn stream(&self, call: Call) -> Result<Incoming> {
        let path = call.path.clone();
        let (_, answer) = self.begin(call).await?;
        if !answer.status().is_success() {
            let status = answer.status();
            let body = answer.into_body().collect().await?.to_bytes();
            bail!("{path}: {status}: {}", String::from_utf8_lossy(&body));
        }
        Ok(answer.into_body())
    }

    /// Opens connections in advance.
    pub async fn warm_up(&self, connections: usize) -> Result<()> {
        while self.idle.borrow().len() < connections {
            let sender = self.connect().await?;
            self.idle.borrow_mut().push(sender);
        }
        Ok(())
    }

    /// The number of requests sent, without streams.
    pub fn sent(&self) -> u64 {
        self.sent.get()
    }

    async fn begin(&self, call: Call) -> Result<(Sender, http::Response<Incoming>)> {
        let request = Request::builder()
            .method(call.method)
            .uri(call.path)
            .header(header::HOST, self.address.to_string())
            .header(header::AUTHORIZATION, self.token.clone())
            .header(header::ACCEPT, JSON)
            .header(header::CONTENT_TYPE, call.content_type)
            .body(Full::new(call.body))?;
        let mut sender = self.connection().await?;
        let answer = sender.send_request(request).await?;
        Ok((sender, answer))
    }

    async fn connection(&self) -> Result<Sender> {
        loop {
            let idle = self.idle.borrow_mut().pop();
            match idle {
                Some(sender) if sender.is_ready() => return Ok(sender),
                Some(_) => {}
                None => return self.connect().await,
            }
        }
    }

    async fn connect(&self) -> Result<Sender> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::IpAddress(self.address.ip().into());
        let stream = self.tls.connect(name, stream).await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends when the sender is dropped. The request reports errors.
        tokio::spawn(connection);
        Ok(sender)
    }
}
