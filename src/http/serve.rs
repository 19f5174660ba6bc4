//! Listening and serving, with limits.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::access::Guard;
use super::connections::{Connections, MAX_CONNECTIONS, Place};
use super::front::Front;
use super::patience::Patient;
use super::tls::Certificates;
use crate::config::Listener;
use crate::telemetry::record::{HttpRefusal, http_refused};

/// Connections that were evicted and are not closed yet, at most: what a listener may
/// have open beyond [`MAX_CONNECTIONS`].
const MAX_CLOSING: usize = 32;

/// Connections that are accepted before those accepted get their turn.
const ACCEPTED_AT_A_TIME: usize = 16;

/// For the whole head of the first request, from the moment it may begin.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// For the whole head of each further one, from the end of the answer before: also how
/// long an idle connection is kept.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The head of a request in bytes: its first line and headers. There is a token in it,
/// and on the debug pages it may name many objects (`/debug/idle`).
pub(super) const fn max_head(listener: Listener) -> usize {
    match listener {
        Listener::Health => 16 << 10,
        Listener::Debug => 64 << 10,
    }
}

/// Headers of a request.
const MAX_HEADERS: usize = 64;

/// For the handshake of TLS, before the first request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the other side may take next to nothing of an answer.
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
        let open = Connections::new(purpose);
        // Those that are being closed included: their files are not free before.
        let files = Arc::new(Semaphore::new(MAX_CONNECTIONS + MAX_CLOSING));
        let connections = TaskTracker::new();
        let accept = async {
            let (mut accepted, mut failing) = (0, false);
            loop {
                // Never closed, so never an error.
                let file = Arc::clone(&files).acquire_owned().await;
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        failing = false;
                        let place = open.admit(peer.ip().into());
                        let connection = entrance.clone().connection(stream, place, shutdown.clone());
                        connections.spawn(async move {
                            connection.await;
                            drop(file);
                        });
                    }
                    Err(error) => {
                        open.make_room();
                        if !std::mem::replace(&mut failing, true) {
                            tracing::warn!(%error, %address, "cannot accept connections");
                        }
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
                accepted += 1;
                if accepted % ACCEPTED_AT_A_TIME == 0 {
                    tokio::task::yield_now().await;
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
    async fn connection(self, stream: TcpStream, place: Arc<Place>, shutdown: CancellationToken) {
        // Answers are small, and nobody waits for more of them.
        let _ = stream.set_nodelay(true);
        tokio::select! {
            biased;
            () = place.evicted() => {}
            () = self.serve(stream, &place, shutdown) => {}
        }
    }

    async fn serve(&self, stream: TcpStream, place: &Arc<Place>, shutdown: CancellationToken) {
        let handed_over = Arc::clone(place);
        let stream = Patient::new(stream, WRITE_TIMEOUT, move || handed_over.flushed());
        let Some(tls) = &self.tls else { return self.talk(stream, place, shutdown).await };
        let handshake = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
        let problem = match shutdown.run_until_cancelled(handshake).await {
            None => return,
            Some(Ok(Ok(stream))) => return self.talk(stream, place, shutdown).await,
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(_)) => format!("not within {} s", HANDSHAKE_TIMEOUT.as_secs()),
        };
        http_refused(self.listener.name(), HttpRefusal::Handshake);
        tracing::debug!(listener = self.listener.name(), problem, "no TLS was agreed upon");
    }

    async fn talk(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        place: &Arc<Place>,
        shutdown: CancellationToken,
    ) {
        let service = service_fn(|mut request: Request<Incoming>| {
            place.request_begins();
            request.extensions_mut().insert(Arc::clone(place));
            let (answer, place) = (self.pages.clone().oneshot(request), Arc::clone(place));
            async move { Ok::<_, Infallible>(answer.await?.map(|body| Answer { body, place })) }
        });
        let mut connection = std::pin::pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_header_size(max_head(self.listener))
                .max_buf_size(max_head(self.listener))
                .max_headers(MAX_HEADERS)
                .serve_connection(TokioIo::new(stream), service)
        );
        let served = tokio::select! {
            served = connection.as_mut() => served,
            () = place.stays_silent(FIRST_REQUEST_TIMEOUT) => {
                http_refused(self.listener.name(), HttpRefusal::Silent);
                return;
            }
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

/// An answer that says when all of it is made.
struct Answer {
    body: Body,
    place: Arc<Place>,
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.place.answer_ends();
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// One connection, for tests without a network.
#[cfg(test)]
pub(super) async fn talk(
    listener: Listener,
    pages: Router,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    place: Arc<Place>,
) {
    Entrance { listener, tls: None, pages }.talk(stream, &place, CancellationToken::new()).await;
}
