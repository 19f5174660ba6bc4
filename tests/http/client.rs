//! A certificate for the collector, and a client that trusts it.

// Each test target uses a part of this module.
#![allow(dead_code)]

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::Request;
use http::header::{AUTHORIZATION, HOST, HeaderMap};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The time limit of each step.
const DEADLINE: Duration = Duration::from_secs(60);

/// A self-signed certificate for 127.0.0.1.
pub struct Pair {
    certificate: CertificateDer<'static>,
    pem: String,
    key: String,
}

impl Pair {
    /// A new certificate.
    pub fn new() -> Result<Self> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(["127.0.0.1".to_owned()])?.self_signed(&key)?;
        Ok(Self {
            certificate: CertificateDer::from(certificate.der().to_vec()),
            pem: certificate.pem(),
            key: key.serialize_pem(),
        })
    }

    /// The Secret with this name.
    pub fn secret(&self, name: &str) -> Value {
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": { "name": name },
            "stringData": { "tls.crt": self.pem, "tls.key": self.key },
        })
    }
}

/// The files from which the collector reads its certificate.
pub struct Files(TempDir);

impl Files {
    /// Files with this pair.
    pub fn new(pair: &Pair) -> Result<Self> {
        let files = Self(tempfile::Builder::new().prefix("kube-gc-tls-").tempdir()?);
        files.set(pair)?;
        Ok(files)
    }

    /// Writes another pair, one file after the other.
    pub fn set(&self, pair: &Pair) -> Result<()> {
        std::fs::write(self.0.path().join("tls.crt"), &pair.pem)?;
        self.set_key(pair)
    }

    /// Replaces the key only.
    pub fn set_key(&self, pair: &Pair) -> Result<()> {
        Ok(std::fs::write(self.0.path().join("tls.key"), &pair.key)?)
    }

    /// The section of the configuration for these listeners.
    pub fn config(&self, listeners: &str) -> String {
        let directory = self.0.path().display();
        format!(
            "[tls]\nlisteners = \"{listeners}\"\ncertificate = \"{directory}/tls.crt\"\nkey = \"{directory}/tls.key\"\n"
        )
    }
}

/// An HTTPS client that trusts only the given certificates.
pub struct Client(TlsConnector);

/// An answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: String,
}

impl Client {
    /// A client that trusts these certificates.
    pub fn trusting(pairs: &[&Pair]) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for pair in pairs {
            roots.add(pair.certificate.clone())?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(TlsConnector::from(Arc::new(config))))
    }

    /// Opens a connection.
    pub async fn connect(&self, address: &str) -> Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("127.0.0.1")?;
        let handshake = timeout(DEADLINE, self.0.connect(name, stream)).await;
        let stream = handshake.context("no handshake")?.context("no TLS")?;
        let shown = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first().cloned());
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection { sender, shown })
    }

    /// Sends a GET with a token on a new connection.
    pub async fn get(&self, address: &str, path: &str, token: Option<&str>) -> Result<Answer> {
        let answer = self.connect(address).await?.get(path, token).await;
        answer.with_context(|| format!("GET {path} from {address}"))
    }
}

/// A connection that stays open.
pub struct Connection {
    sender: http1::SendRequest<Empty<Bytes>>,
    shown: Option<CertificateDer<'static>>,
}

impl Connection {
    /// Whether the server presented this certificate.
    pub fn showed(&self, pair: &Pair) -> bool {
        self.shown.as_ref() == Some(&pair.certificate)
    }

    /// Sends a GET.
    pub async fn get(&mut self, path: &str, token: Option<&str>) -> Result<Answer> {
        let mut request = Request::get(path).header(HOST, "localhost");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let exchange = async {
            let (head, body) = self.sender.send_request(request.body(Empty::new())?).await?.into_parts();
            let body = String::from_utf8(body.collect().await?.to_bytes().into())?;
            anyhow::Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
        };
        timeout(DEADLINE, exchange).await.context("no answer")?
    }
}
