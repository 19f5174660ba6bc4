//! Binds the listeners and serves their pages, with limits.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use http_body_util::BodyExt as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::connections::{ConnectionSlot, Connections, MAX_CONNECTIONS};
use crate::access::Authorizer;
use crate::telemetry::record::{HttpRefusal, http_refused};
use kube_gc_config::Listener;

use super::middleware::{Closing, Hosts, Middleware};
use super::tls::Certificates;

/// The most evicted connections that are not closed yet. A listener may have these open in
/// addition to [`MAX_CONNECTIONS`].
const MAX_CLOSING: usize = 32;

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

/// What a listener is for, and the flag that sets its address.
const fn words(listener: Listener) -> (&'static str, &'static str) {
    match listener {
        Listener::Health => ("health and metrics", "--listen"),
        Listener::Debug => ("the debug pages", "--debug-listen"),
    }
}

/// The error if a listener cannot bind its address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} for {}: {}", words(*.listener).0, advice(*.listener, .error))]
pub struct BindError {
    listener: Listener,
    address: SocketAddr,
    #[source]
    error: io::Error,
}

fn advice(listener: Listener, error: &io::Error) -> String {
    let (problem, port) = match error.kind() {
        io::ErrorKind::AddrInUse => ("another process uses this address;", " (port 0: any free one)"),
        io::ErrorKind::AddrNotAvailable => ("this machine does not have this address;", ""),
        io::ErrorKind::PermissionDenied => ("permission denied; ports below 1024 need a privilege:", ""),
        _ => return error.to_string(),
    };
    format!("{problem} choose another one with {} ADDRESS:PORT{port}", words(listener).1)
}

/// TLS, authorization and names of a listener.
#[derive(Clone, Default)]
pub struct Protection {
    /// The certificates for TLS; without them, connections are not encrypted.
    pub certificates: Option<Arc<Certificates>>,
    /// Authorizes requests; without it, all are allowed.
    pub authorizer: Option<Arc<Authorizer>>,
    /// The names by which the listener may be asked.
    pub hosts: Hosts,
}

/// A bound address that is not served yet.
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
pub async fn bind(
    listener: Listener,
    address: SocketAddr,
    protection: Protection,
) -> Result<Listening, BindError> {
    let failed = |error| BindError { listener, address, error };
    let socket = TcpListener::bind(address).await.map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    tracing::info!(listener = listener.name(), %address, "listening");
    Ok(Listening { purpose: listener, listener: socket, address, protection })
}

impl Listening {
    /// The address with its actual port.
    pub const fn address(&self) -> SocketAddr {
        self.address
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
            let mut failing = false;
            // tokio's budget for a task leaves time for the connections that were accepted.
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
pub(super) struct ConnectionHandler {
    pub(super) listener: Listener,
    pub(super) tls: Option<TlsAcceptor>,
    pub(super) pages: Router,
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

    pub(super) async fn serve_http(
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
            let (answer, end) = (self.pages.clone().oneshot(request), AnswerEnd(Arc::clone(slot)));
            async move {
                let answer = answer.await?;
                // The body owns the value, and ends with it.
                Ok::<_, Infallible>(answer.map(|body| {
                    body.map_frame(move |frame| {
                        let _ = &end;
                        frame
                    })
                }))
            }
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

/// Records, when it is dropped, that a response is complete.
struct AnswerEnd(Arc<ConnectionSlot>);

impl Drop for AnswerEnd {
    fn drop(&mut self) {
        self.0.answer_ends();
    }
}

/// The bytes of a response that the peer must read within the timeout. Without a minimum, a
/// peer that reads one byte now and then could hold a connection slot forever.
const MIN_PROGRESS: usize = 64 << 10;

/// Fails if the peer reads too little within the timeout. A response may take any time in
/// total, as long as it makes progress.
pub(super) struct WriteTimeout<S, F> {
    inner: S,
    timeout: Duration,
    /// The bytes written since a write first blocked; `None` if no write blocks.
    progress: Option<usize>,
    timer: Pin<Box<Sleep>>,
    /// Called after each complete flush.
    flushed: F,
}

impl<S: AsyncWrite + Unpin, F: FnMut() + Unpin> WriteTimeout<S, F> {
    pub(super) fn new(inner: S, timeout: Duration, flushed: F) -> Self {
        Self { inner, timeout, progress: None, timer: Box::pin(sleep(timeout)), flushed }
    }

    /// Polls the connection; `written` returns the bytes that a result stands for.
    fn poll<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
        written: impl FnOnce(&T) -> usize,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = poll(Pin::new(&mut self.inner), context) {
            let written = done.as_ref().map_or(0, written);
            self.progress =
                self.progress.map(|sum| sum.saturating_add(written)).filter(|sum| *sum < MIN_PROGRESS);
            return Poll::Ready(done);
        }
        if self.progress.is_none() {
            self.progress = Some(0);
            self.timer.as_mut().reset(Instant::now() + self.timeout);
        }
        ready!(self.timer.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the peer does not read the response")))
    }
}

impl<S: AsyncRead + Unpin, F: Unpin> AsyncRead for WriteTimeout<S, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin, F: FnMut() + Unpin> AsyncWrite for WriteTimeout<S, F> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &[u8]) -> Poll<io::Result<usize>> {
        self.get_mut().poll(context, |inner, context| inner.poll_write(context, buffer), |written| *written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().poll(
            context,
            |inner, context| inner.poll_write_vectored(context, buffers),
            |written| *written,
        )
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let done = this.poll(context, |inner, context| inner.poll_flush(context), |()| MIN_PROGRESS);
        if let Poll::Ready(Ok(())) = done {
            (this.flushed)();
        }
        done
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().poll(context, |inner, context| inner.poll_shutdown(context), |()| MIN_PROGRESS)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    /// Writes a response to a peer that reads at this rate; returns the result and the duration.
    async fn taken(part: usize, pause: Duration) -> (io::Result<()>, Duration) {
        let (ours, mut theirs) = duplex(MIN_PROGRESS);
        let mut ours = WriteTimeout::new(ours, TIMEOUT, || ());
        let start = Instant::now();
        let takes = async {
            let mut part = vec![0; part];
            loop {
                sleep(pause).await;
                if theirs.read_exact(&mut part).await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            sent = ours.write_all(&[b'x'; 10 * MIN_PROGRESS]) => (sent, start.elapsed()),
            () = takes => unreachable!(),
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_read_too_slowly_is_cancelled() {
        tokio::time::pause();
        for (part, pause) in [(1, 10 * TIMEOUT), (1, TIMEOUT / 10), (MIN_PROGRESS / 20, TIMEOUT / 10)] {
            let (sent, after) = taken(part, pause).await;
            assert_eq!((sent.unwrap_err().kind(), after.as_secs()), (io::ErrorKind::TimedOut, 30));
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_read_slowly_is_not_cancelled() {
        tokio::time::pause();
        let (sent, after) = taken(MIN_PROGRESS, TIMEOUT - Duration::from_secs(1)).await;
        sent.unwrap();
        assert!(after > 8 * TIMEOUT, "{after:?}");
    }
}
