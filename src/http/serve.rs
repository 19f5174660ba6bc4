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
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections at a time; further ones wait to be accepted. Probes, a scraper
/// and some people: a hundred is a mistake or an attack.
const MAX_CONNECTIONS: usize = 100;

/// For the head of a request, from the moment it may begin: also how long an
/// idle connection is kept.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// For requests that are under way when the process ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// After a failed accept (out of file descriptors, most likely).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Which of the two listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// Health and metrics.
    Health,
    /// The debug pages.
    Debug,
}

impl Listener {
    /// The name in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Debug => "debug",
        }
    }

    const fn purpose(self) -> &'static str {
        match self {
            Self::Health => "health and metrics",
            Self::Debug => "the debug pages",
        }
    }

    const fn flag(self) -> &'static str {
        match self {
            Self::Health => "--listen",
            Self::Debug => "--debug-listen",
        }
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
        let flag = listener.flag();
        write!(f, "cannot listen on {address} for {}: ", listener.purpose())?;
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

/// A bound address, not served yet.
#[derive(Debug)]
pub struct Listening {
    listener: TcpListener,
    address: SocketAddr,
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
    Ok(Listening { listener: socket, address })
}

impl Listening {
    /// The address, with its real port.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the token is cancelled and requests under way are answered.
    pub async fn serve(self, router: Router, shutdown: CancellationToken) {
        let free = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let connections = TaskTracker::new();
        let accept = async {
            loop {
                // Never closed, so never an error.
                let permit = Arc::clone(&free).acquire_owned().await;
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        let connection = serve_connection(stream, router.clone(), shutdown.clone());
                        connections.spawn(async move {
                            connection.await;
                            drop(permit);
                        });
                    }
                    Err(error) => {
                        tracing::warn!(%error, address = %self.address, "cannot accept a connection");
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
            tracing::debug!(address = %self.address, "some answers were not fetched in time");
        }
    }
}

async fn serve_connection(stream: TcpStream, router: Router, shutdown: CancellationToken) {
    let service = TowerToHyperService::new(router);
    let mut connection = std::pin::pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
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
        // Clients that go away in the middle are none of our business.
        tracing::trace!(%error, "connection ended");
    }
}
