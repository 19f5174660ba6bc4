//! A certificate for the collector, and a client that trusts it.

// Each test target uses a part of this module.
#![allow(dead_code)]

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
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
    /// Status line and headers.
    pub head: String,
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
        Ok(Connection(handshake.context("no handshake")?.context("no TLS")?))
    }

    /// Sends a GET with a token on a new connection.
    pub async fn get(&self, address: &str, path: &str, token: Option<&str>) -> Result<Answer> {
        let answer = self.connect(address).await?.get(path, token).await;
        answer.with_context(|| format!("GET {path} from {address}"))
    }
}

/// A connection that stays open.
pub struct Connection(TlsStream<TcpStream>);

impl Connection {
    /// Whether the server presented this certificate.
    pub fn showed(&self, pair: &Pair) -> bool {
        let shown = self.0.get_ref().1.peer_certificates();
        shown.is_some_and(|chain| chain.first() == Some(&pair.certificate))
    }

    /// Sends a GET.
    pub async fn get(&mut self, path: &str, token: Option<&str>) -> Result<Answer> {
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{token}\r\n");
        self.0.write_all(request.as_bytes()).await?;
        timeout(DEADLINE, read_answer(&mut self.0)).await.context("no answer")?
    }
}

/// Reads one answer, which has a length or comes in chunks.
async fn read_answer(stream: &mut TlsStream<TcpStream>) -> Result<Answer> {
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let header = |name: &str| {
                let lines = head.lines().filter_map(|line| line.split_once(": "));
                lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
            };
            let whole = match header("content-length") {
                Some(length) => body.len() >= length.parse()?,
                None => body.ends_with("0\r\n\r\n"),
            };
            if whole {
                let status = head.split(' ').nth(1).context("no status")?.parse()?;
                return Ok(Answer { status, head: head.to_owned(), body: body.to_owned() });
            }
        }
        let mut part = vec![0; 16 << 10];
        let length = stream.read(&mut part).await?;
        ensure!(length > 0, "cut off: {}", String::from_utf8_lossy(&read));
        read.extend_from_slice(&part[..length]);
    }
}
