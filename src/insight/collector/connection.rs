//! Requests to the debug pages of a collector.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::endpoint::Endpoint;
use kube_gc_core::text::bounded;

/// The timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of an answer. The collector gives up after 30 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);
/// The most bytes of an answer.
const MOST_BYTES: usize = 64 << 20;

/// Why a collector has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CollectorError {
    /// There is no connection, or no answer.
    #[error("the collector at {at} cannot be reached: {why}; check the address and that kube-gc runs")]
    Unreachable {
        /// Its URL.
        at: String,
        /// What failed.
        why: String,
    },
    /// It does not know the token, or wants one.
    #[error("the collector at {at} wants a token that its cluster knows (401): use --collector-token-file")]
    Unauthenticated {
        /// Its URL.
        at: String,
    },
    /// The user may not read its pages.
    #[error("the collector at {at} forbids this (403): {why}")]
    Forbidden {
        /// Its URL.
        at: String,
        /// Its own message.
        why: String,
    },
    /// Something else answers.
    #[error("{at} is not the debug listener of kube-gc: {why}; it is on port 8081 by default")]
    NotKubeGc {
        /// The URL.
        at: String,
        /// What is wrong.
        why: String,
    },
    /// It is kube-gc, and does not have the page or an answer that this version understands.
    #[error(
        "the collector at {at} is of another version ({why}): use a kube-gc of the same version, or --from lists"
    )]
    OtherVersion {
        /// Its URL.
        at: String,
        /// What is missing.
        why: String,
    },
    /// It answers with an error.
    #[error("the collector at {at} answers {code}: {why}")]
    Failed {
        /// Its URL.
        at: String,
        /// The HTTP status.
        code: u16,
        /// Its own message.
        why: String,
    },
}

impl Endpoint {
    /// Sends a request. The answer's status is not looked at.
    async fn send(&self, path: &str) -> Result<Response<Incoming>, CollectorError> {
        let answer = timeout(ANSWER_TIMEOUT, async {
            let mut sender = self.open().await?;
            let mut request = Request::get(format!("{}{path}", self.prefix))
                .header(HOST, &self.authority)
                .header(ACCEPT, "application/json, text/event-stream")
                .header(USER_AGENT, concat!("kube-gc/", env!("CARGO_PKG_VERSION")));
            if let Some(token) = &self.token {
                request = request.header(AUTHORIZATION, format!("Bearer {token}"));
            }
            let request = request.body(Empty::<Bytes>::new()).map_err(|error| self.unreachable(&error))?;
            sender.send_request(request).await.map_err(|error| self.unreachable(&error))
        });
        answer.await.unwrap_or_else(|_| Err(self.unreachable(&"it does not answer")))
    }

    /// An answer with status 200; `None` for 404.
    pub(super) async fn ask(&self, path: &str) -> Result<Option<Response<Incoming>>, CollectorError> {
        let answer = self.send(path).await?;
        let at = self.to_string();
        match answer.status() {
            StatusCode::OK => Ok(Some(answer)),
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::UNAUTHORIZED => Err(CollectorError::Unauthenticated { at }),
            StatusCode::FORBIDDEN => Err(CollectorError::Forbidden { at, why: self.message(answer).await }),
            code => Err(CollectorError::Failed { at, code: code.as_u16(), why: self.message(answer).await }),
        }
    }

    /// The whole answer; `None` for 404.
    pub(super) async fn get(&self, path: &str) -> Result<Option<Bytes>, CollectorError> {
        let Some(answer) = self.ask(path).await? else { return Ok(None) };
        self.body(answer).await.map(Some)
    }

    async fn body(&self, answer: Response<Incoming>) -> Result<Bytes, CollectorError> {
        let body = Limited::new(answer.into_body(), MOST_BYTES).collect();
        match timeout(ANSWER_TIMEOUT, body).await {
            Ok(Ok(body)) => Ok(body.to_bytes()),
            Ok(Err(error)) => Err(self.unreachable(&error)),
            Err(_) => Err(self.unreachable(&"its answer does not end")),
        }
    }

    async fn message(&self, answer: Response<Incoming>) -> String {
        let body = self.body(answer).await.unwrap_or_default();
        bounded(String::from_utf8_lossy(&body).trim())
    }

    pub(super) fn unreachable(&self, why: &dyn std::fmt::Display) -> CollectorError {
        CollectorError::Unreachable { at: self.to_string(), why: bounded(why) }
    }

    async fn open(&self) -> Result<SendRequest<Empty<Bytes>>, CollectorError> {
        let connect = TcpStream::connect((self.host.as_str(), self.port));
        let stream = match timeout(CONNECT_TIMEOUT, connect).await {
            Ok(stream) => stream.map_err(|error| self.unreachable(&error))?,
            Err(_) => return Err(self.unreachable(&"the connection is not made in time")),
        };
        match &self.tls {
            None => self.speak(stream).await,
            Some((tls, name)) => {
                let secured = timeout(CONNECT_TIMEOUT, tls.connect(name.clone(), stream)).await;
                let secured = secured.map_err(|_| self.unreachable(&"no TLS handshake in time"))?;
                self.speak(secured.map_err(|error| self.unreachable(&error))?).await
            }
        }
    }

    async fn speak(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> Result<SendRequest<Empty<Bytes>>, CollectorError> {
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| self.unreachable(&error))?;
        // It ends with its only request, and whoever reads the answer learns of errors.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }
}
