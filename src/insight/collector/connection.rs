//! Requests to the debug pages of a collector.

use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::{ACCEPT, AUTHORIZATION, HOST, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::endpoint::{Endpoint, Route};
use crate::api::{ApiError, ErrorClass};
use kube_gc_core::text::bounded;

/// The timeout of a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of an answer. The collector gives up after 30 s.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(35);
/// The most bytes of an answer.
const MOST_BYTES: usize = 64 << 20;

/// The bytes of a connection of any kind. A client of HTTP for each kind would be 30 KB of code.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A connection, and why it failed, if something between here and the collector knows that.
struct Open {
    sender: SendRequest<Empty<Bytes>>,
    failure: BoxFuture<'static, Option<String>>,
}

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
    /// None was found.
    #[error("no collector was found: {why}; name its address by --collector, or use --from lists")]
    NotFound {
        /// Where it was looked for.
        why: String,
    },
    /// The user may not look for one.
    #[error(
        "no collector can be looked for: {0}; you need the right to list pods in its namespace \
         (--collector-namespace), or its address (--collector)"
    )]
    PodsForbidden(String),
    /// The user may not connect to its pod.
    #[error(
        "the collector cannot be reached: {0}; you need the right to get and create pods/portforward there, \
         or its address (--collector)"
    )]
    ForwardForbidden(String),
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

impl CollectorError {
    /// Whether there is something that a person may take for a collector.
    #[must_use]
    pub const fn is_of_a_collector(&self) -> bool {
        match self {
            // Who may not list pods does not know of any.
            Self::NotFound { .. } | Self::PodsForbidden(_) => false,
            _ => true,
        }
    }
}

impl Endpoint {
    /// Sends a request. The answer's status is not looked at.
    async fn send(&self, path: &str) -> Result<Response<Incoming>, CollectorError> {
        let answer = timeout(ANSWER_TIMEOUT, async {
            let Open { mut sender, failure } = self.open().await?;
            let mut request = Request::get(format!("{}{path}", self.prefix))
                .header(HOST, &self.authority)
                .header(ACCEPT, "application/json, text/event-stream")
                .header(USER_AGENT, concat!("kube-gc/", env!("CARGO_PKG_VERSION")));
            if let Some(token) = &self.token {
                request = request.header(AUTHORIZATION, format!("Bearer {token}"));
            }
            let request = request.body(Empty::<Bytes>::new()).map_err(|error| self.unreachable(&error))?;
            match sender.send_request(request).await {
                Ok(answer) => Ok(answer),
                Err(error) => {
                    // The kubelet knows better why a forwarded port has no answer.
                    let failure = timeout(CONNECT_TIMEOUT, failure).await.ok().flatten();
                    Err(failure.map_or_else(|| self.unreachable(&error), |why| self.unreachable(&why)))
                }
            }
        });
        answer.await.unwrap_or_else(|_| Err(self.unreachable(&"it does not answer")))
    }

    /// An answer with status 200; `None` for 404.
    pub(super) async fn ask(&self, path: &str) -> Result<Option<Response<Incoming>>, CollectorError> {
        // Boxed, because it is large.
        let answer = Box::pin(self.send(path)).await?;
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

    async fn open(&self) -> Result<Open, CollectorError> {
        let too_late = |_| self.unreachable(&"the connection is not made in time");
        match &self.route {
            Route::Tcp { host, port } => {
                let connect = TcpStream::connect((host.as_str(), *port));
                let stream = timeout(CONNECT_TIMEOUT, connect).await.map_err(too_late)?;
                let stream = stream.map_err(|error| self.unreachable(&error))?;
                let sender = self.secure(Box::new(stream)).await?;
                Ok(Open { sender, failure: std::future::ready(None).boxed() })
            }
            Route::Pod { api, namespace, name, port } => {
                let connect = Box::pin(api.forward_port(namespace, name, *port));
                let forwarded = timeout(CONNECT_TIMEOUT, connect).await.map_err(too_late)?;
                let forwarded = forwarded.map_err(|error| self.not_forwarded(&error))?;
                let sender = self.secure(Box::new(forwarded.stream)).await?;
                Ok(Open { sender, failure: forwarded.failure })
            }
        }
    }

    fn not_forwarded(&self, error: &ApiError) -> CollectorError {
        if error.class == ErrorClass::Denied {
            CollectorError::ForwardForbidden(bounded(error))
        } else {
            self.unreachable(error)
        }
    }

    async fn secure(&self, stream: Box<dyn Stream>) -> Result<SendRequest<Empty<Bytes>>, CollectorError> {
        let stream: Box<dyn Stream> = match &self.tls {
            None => stream,
            Some((tls, name)) => {
                let secured = timeout(CONNECT_TIMEOUT, tls.connect(name.clone(), stream)).await;
                let secured = secured.map_err(|_| self.unreachable(&"no TLS handshake in time"))?;
                Box::new(secured.map_err(|error| self.unreachable(&error))?)
            }
        };
        let (sender, connection) =
            handshake(TokioIo::new(stream)).await.map_err(|error| self.unreachable(&error))?;
        // It ends with its only request, and whoever reads the answer learns of errors.
        tokio::spawn(async move { drop(connection.await) });
        Ok(sender)
    }
}
