//! Binds the listeners and serves their pages, with limits.

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

use super::access::Authorizer;
use super::connections::{ConnectionSlot, Connections, MAX_CONNECTIONS};
use super::host::Hosts;
use super::middleware::Middleware;
use super::stream::Closing;
use super::tls::Certificates;
use super::write_timeout::WriteTimeout;
use crate::config::Listener;
use crate::telemetry::record::{HttpRefusal, http_refused};

/// The most evicted connections that are not closed yet. A listener may have these open in
/// addition to [`MAX_CONNECTIONS`].
const MAX_CLOSING: usize = 32;

/// The number of connections to accept before yielding to the accepted ones.
const ACCEPT_BATCH: usize = 16;

/// The timeout for all headers of the first request.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The timeout for all headers of each further request, from the end of the previous
/// response. It is also the idle timeout of a connection.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// The most bytes of request line and headers. They include a token, and on the debug
/// pages the query may name many objects (`/debug/idle`).
pub(super) const fn max_header_size(listener: Listener) -> usize {
    match listener {
        Listener::Health => 16 << 10,
        Listener::Debug => 64 << 10,
    }
}

/// The most headers of a request.
const MAX_HEADERS: usize = 64;

/// The timeout of the TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a response may make too little progress.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How long requests in flight may take when the process ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The pause after a failed accept, most likely for lack of file descriptors.
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

/// The error if a listener cannot bind its address.
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
                    "another process uses this address; choose another one with {flag} ADDRESS:PORT (port 0: any free one)"
                )
            }
            io::ErrorKind::AddrNotAvailable => {
                write!(
                    f,
                    "this machine does not have this address; choose another one with {flag} ADDRESS:PORT"
                )
            }
            io::ErrorKind::PermissionDenied => {
                write!(
                    f,
                    "permission denied; ports below 1024 need a privilege: choose another one with {flag} ADDRESS:PORT"
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

/// TLS, authorization and names of a listener.
#[derive(Clone, Debug, Default)]
pub struct Protection {
    /// The certificates for TLS; without them, connections are not encrypted.
    pub certificates: Option<Arc<Certificates>>,
    /// Authorizes requests; without it, all are allowed.
    pub authorizer: Option<Arc<Authorizer>>,
    /// The names by which the listener may be asked.
    pub hosts: Hosts,
}

/// A bound address that is not served yet.
#[derive(Debug)]
pub struct Listening {
    purpose: Listener,
    listener: TcpListener,
    address: SocketAddr,
    protection: Protection,
}

/// Binds the address and logs it, which shows the port if the setting is port 0.
///
/// # Errors
/// If the address cannot be bound. The message is for people.
pub async fn bind(listener: Listener, address: SocketAddr) -> Result<Listening, BindError> {
    let failed = |error| BindError { listener, address, error };
    let socket = TcpListener::bind(address).await.map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    tracing::info!(listener = listener.name(), %address, "listening");
    Ok(Listening { purpose: listener, listener: socket, address, protection: Protection::default() })
}

impl Listening {
    /// The address with its actual port.
    #[cfg_attr(not(feature = "demo"), allow(dead_code, reason = "the demo and tests ask for it"))]
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Adds TLS and authorization.
    #[must_use]
    pub fn protected(self, protection: Protection) -> Self {
        Self { protection, ..self }
    }

    /// Serves until the token is cancelled and requests in flight are answered.
    pub async fn serve(self, router: Router, shutdown: CancellationToken) {
        let Self { purpose, listener, address, protection } = self;
        let handler = ConnectionHandler {
            listener: purpose,
            tls: protection.certificates.map(|certificates| certificates.acceptor()),
            pages: Middleware::new(purpose, protection.authorizer, protection.hosts).wrap(router),
        };
        let open = Connections::new(purpose);
        // Includes evicted connections, which hold their file descriptors until they are closed.
        let files = Arc::new(Semaphore::new(MAX_CONNECTIONS + MAX_CLOSING));
        let connections = TaskTracker::new();
        let accept = async {
            let (mut accepted, mut failing) = (0, false);
            loop {
                // The semaphore is never closed, so this cannot fail.
                let file = Arc::clone(&files).acquire_owned().await;
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        failing = false;
                        let slot = open.admit(peer.ip().into());
                        let connection = handler.clone().connection(stream, slot, shutdown.clone());
                        connections.spawn(async move {
                            connection.await;
                            drop(file);
                        });
                    }
                    Err(error) => {
                        open.make_room();
                        if !std::mem::replace(&mut failing, true) {
                            tracing::warn!(%error, %address, "cannot accept connections; kube-gc tries again and closes connections that wait");
                        }
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
                accepted += 1;
                if accepted % ACCEPT_BATCH == 0 {
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
            tracing::debug!(%address, "some clients did not read their responses in time");
        }
    }
}

/// Serves each connection of a listener.
#[derive(Clone)]
struct ConnectionHandler {
    listener: Listener,
    tls: Option<TlsAcceptor>,
    pages: Router,
}

impl ConnectionHandler {
    async fn connection(self, stream: TcpStream, slot: Arc<ConnectionSlot>, shutdown: CancellationToken) {
        // Responses are small, so delaying packets gains nothing.
        let _ = stream.set_nodelay(true);
        tokio::select! {
            biased;
            () = slot.evicted() => {}
            () = self.serve(stream, &slot, shutdown) => {}
        }
    }

    async fn serve(&self, stream: TcpStream, slot: &Arc<ConnectionSlot>, shutdown: CancellationToken) {
        let handed_over = Arc::clone(slot);
        let stream = WriteTimeout::new(stream, WRITE_TIMEOUT, move || handed_over.flushed());
        let Some(tls) = &self.tls else { return self.serve_http(stream, slot, shutdown).await };
        let handshake = timeout(HANDSHAKE_TIMEOUT, tls.accept(stream));
        let error = match shutdown.run_until_cancelled(handshake).await {
            None => return,
            Some(Ok(Ok(stream))) => return self.serve_http(stream, slot, shutdown).await,
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(_)) => format!("no handshake within {} s", HANDSHAKE_TIMEOUT.as_secs()),
        };
        http_refused(self.listener.name(), HttpRefusal::Handshake);
        tracing::debug!(listener = self.listener.name(), error, "the TLS handshake failed");
    }

    async fn serve_http(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin,
        slot: &Arc<ConnectionSlot>,
        shutdown: CancellationToken,
    ) {
        let closing = Closing(shutdown.clone());
        let service = service_fn(|mut request: Request<Incoming>| {
            slot.request_begins();
            request.extensions_mut().insert(Arc::clone(slot));
            request.extensions_mut().insert(closing.clone());
            let (answer, slot) = (self.pages.clone().oneshot(request), Arc::clone(slot));
            async move { Ok::<_, Infallible>(answer.await?.map(|body| TrackedBody { body, slot })) }
        });
        let mut connection = std::pin::pin!(
            http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_header_size(max_header_size(self.listener))
                .max_buf_size(max_header_size(self.listener))
                .max_headers(MAX_HEADERS)
                .serve_connection(TokioIo::new(stream), service)
        );
        let served = tokio::select! {
            // In this order: a request that came while this process got no processor is answered.
            biased;
            served = connection.as_mut() => served,
            () = slot.stays_silent(FIRST_REQUEST_TIMEOUT) => {
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
            // A client may close its connection at any time.
            tracing::trace!(%error, "connection ended");
        }
    }
}

/// A response body that records when it is complete.
struct TrackedBody {
    body: Body,
    slot: Arc<ConnectionSlot>,
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.slot.answer_ends();
    }
}

impl HttpBody for TrackedBody {
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

/// Serves one connection, for tests without a network.
#[cfg(test)]
pub(super) async fn serve_http(
    listener: Listener,
    pages: Router,
    stream: impl AsyncRead + AsyncWrite + Unpin,
    slot: Arc<ConnectionSlot>,
) {
    ConnectionHandler { listener, tls: None, pages }
        .serve_http(stream, &slot, CancellationToken::new())
        .await;
}
