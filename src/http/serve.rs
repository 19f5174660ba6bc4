//! Listening and serving, with limits.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::access::Guard;
use super::front::Front;
use super::patience::Patient;
use super::tls::Certificates;
use crate::config::Listener;
use crate::telemetry::record::{HttpRefusal, http_refused};

/// Connections at a time; further ones wait to be accepted. Probes, a scraper
/// and some people: a hundred is a mistake or an attack.
pub(super) const MAX_CONNECTIONS: usize = 100;

/// For the head of a request, from the moment it may begin: also how long an
/// idle connection is kept.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The head of a request, which may name many objects (`/debug/idle`) and has a token:
/// its first line and headers, in bytes.
pub(super) const MAX_HEAD: usize = 64 << 10;

/// Headers of a request.
const MAX_HEADERS: usize = 64;

/// For the handshake of TLS: a connection that never begins one takes another's place.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long the other side may take nothing of an answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// For requests that are under way when the process ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// After a failed accept (out of file descriptors, most likely).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const fn purpose(listener: Listener) -> &'static str {
    match listener {
        Listener::Health => "health and metrics",
        Listener::Debug => "the debug pages",
    }
}

const fn flag(listener: Listener) -> &'static str {
    match listener {
        Listener::Health => "--listen",
        Listener::Debug => "--debug-listen",
    }
}

/// An address cannot be listened on.
#[derive(Debug)]
pub struct BindError {
    listener: Listener,
    address: SocketAddr,
    error: io::Error,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { listener, address, error } = self;
        let flag = flag(*listener);
        write!(f, "cannot listen on {address} for {}: ", purpose(*listener))?;
        match error.kind() {
            io::ErrorKind::AddrInUse => {
                write!(
                    f,
                    "another process uses this address; choose one with {flag} ADDRESS:PORT (port 0: any free one)"
                )
            }
            io::ErrorKind::AddrNotAvailable => {
                write!(f, "this machine does not have this address; choose one with {flag} ADDRESS:PORT")
            }
            io::ErrorKind::PermissionDenied => {
                write!(
                    f,
                    "not allowed; ports below 1024 need a privilege, choose another with {flag} ADDRESS:PORT"
                )
            }
            _ => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// What keeps people out of a listener.
#[derive(Clone, Debug, Default)]
pub struct Protection {
    /// TLS with this certificate; else everything is in the clear.
    pub certificates: Option<Arc<Certificates>>,
    /// Asks who may see a page; else everybody may.
    pub guard: Option<Arc<Guard>>,
}

/// A bound address, not served yet.
#[derive(Debug)]
pub struct Listening {
    purpose: Listener,
    listener: TcpListener,
    address: SocketAddr,
    protection: Protection,
}

/// Binds, and says so in the log: the only way to learn the port when 0 was asked for.
///
/// # Errors
/// When the address cannot be had; the message is for people.
pub async fn bind(listener: Listener, address: SocketAddr) -> Result<Listening, BindError> {
    let failed = |error| BindError { listener, address, error };
    let socket = TcpListener::bind(address).await.map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    tracing::info!(listener = listener.name(), %address, "listening");
    Ok(Listening { purpose: listener, listener: socket, address, protection: Protection::default() })
}

impl Listening {
    /// The address, with its real port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Not everybody, and not in the clear.
    #[must_use]
    pub fn protected(self, protection: Protection) -> Self {
        Self { protection, ..self }
    }

    /// Serves until the token is cancelled and requests under way are answered.
    pub async fn serve(self, router: Router, shutdown: CancellationToken) {
        let Self { purpose, listener, address, protection } = self;
        let entrance = Entrance {
            listener: purpose,
            tls: protection.certificates.map(|certificates| certificates.acceptor()),
            pages: Front::new(purpose, protection.guard).before(router),
        };
        let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let connections = TaskTracker::new();
        let accept = async {
            loop {
                // Never closed, so never an error.
                let permit = Arc::clone(&free).acquire_owned().await;
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let connection = entrance.clone().connection(stream, shutdown.clone());
                        connections.spawn(async move {
                            connection.await;
                            drop(permit);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, %address, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = accept => {}
        }
        connections.close();
        if tokio::time::timeout(SHUTDOWN_TIMEOUT, connections.wait()).await.is_err() {
            tracing::debug!(%address, "some answers were not fetched in time");
        }
    }
}

/// What every connection of a listener meets.
#[derive(Clone)]
struct Entrance {
    listener: Listener,
    tls: Option<TlsAcceptor>,
    pages: Router,
}

impl Entrance {
    async fn connection(self, stream: TcpStream, shutdown: CancellationToken) {
        // Answers are small, and nobody waits for more of them.
        let _ = stream.set_nodelay(true);
        let stream = Patient::new(stream, WRITE_TIMEOUT);
        let Some(tls) = &self.tls else { return self.talk(stream, shutdown).await };
        let handshake = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
        let problem = match shutdown.run_until_cancelled(handshake).await {
            None => return,
            Some(Ok(Ok(stream))) => return self.talk(stream, shutdown).await,
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(_)) => format!("not within {} s", HANDSHAKE_TIMEOUT.as_secs()),
        };
        http_refused(self.listener.name(), HttpRefusal::Handshake);
        tracing::debug!(listener = self.listener.name(), problem, "no TLS was agreed upon");
    }

    async fn talk(&self, stream: impl AsyncRead + AsyncWrite + Unpin, shutdown: CancellationToken) {
        let service = TowerToHyperService::new(self.pages.clone());
        let mut connection = std::pin::pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_header_size(MAX_HEAD)
                .max_buf_size(MAX_HEAD)
                .max_headers(MAX_HEADERS)
                .serve_connection(TokioIo::new(stream), service)
        );
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = shutdown.cancelled() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = served {
            if error.is_parse_too_large() {
                http_refused(self.listener.name(), HttpRefusal::Head);
            }
            // Clients that go away in the middle are none of our business.
            tracing::trace!(%error, "connection ended");
        }
    }
}
