//! The connections of watches, shared through HTTP/2. ([`unary`] has the connections of
//! requests that are answered in one piece.)
//!
//! A watch with its own connection costs a handshake, a socket, and buffers at both ends. A
//! plain cluster has sixty watches, and one with many custom resources has hundreds. Here
//! several watches share a connection, as streams. This must not have two effects:
//!
//! - A stream that is not read must not block the others. So a connection's flow-control
//!   window is as large as those of all its streams together.
//! - A dead connection must not go unnoticed. HTTP/2 pings check it.
//!
//! kube's client speaks only HTTP/1.1. This client has the same layers around its own
//! transport, and those of [`Connection`]. If a server does not choose HTTP/2 in the TLS handshake,
//! each watch has its own connection with HTTP/1.1 (`http1`).

mod connection_pool;
mod connector;
mod http1;
pub(super) mod unary;

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::uri::{Scheme, Uri};
use http::{Request, Response};
use http_body::Frame;
use hyper::body::Incoming;
use hyper_rustls::builderstates::WantsProtocols1;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use tower::util::{BoxCloneSyncService, option_layer};
use tower::{BoxError, Layer as _, Service};

use super::connection::{Authorized, Carrier, Connection, Credentials, Dial, dial};
use super::settings::{ApiSettings, WatchProtocol};
use super::write_gate::{WriteGate, WriteGateLayer};
use connection_pool::{ConnectionPool, StreamSlot};
use connector::{Http2Refusal, OnlyHttp2};
use http1::Http1Body;

/// The greatest number of streams on one connection. The usual limit of servers is at least
/// 100: that of kube-apiserver and of many proxies.
const STREAMS: u32 = 80;

/// How much a server may send on a stream before it is read: thousands of usual events, or one
/// of nearly every object that etcd accepts. With a smaller window, an API server that is busy
/// sends a large event in several turns, and all later events of the type wait for it.
const STREAM_WINDOW: u32 = 1 << 20;

/// Enough for all streams of a connection, so that none waits for another.
const CONNECTION_WINDOW: u32 = STREAMS * STREAM_WINDOW;

/// The timing of the pings that check an HTTP/2 connection.
#[derive(Clone, Copy, Debug)]
struct Pings {
    /// The time without incoming data before a ping is sent.
    interval: Duration,
    /// The time without an answer after which the connection is dead.
    timeout: Duration,
}

/// A dead connection is noticed within 45 s.
const PINGS: Pings = Pings { interval: Duration::from_secs(30), timeout: Duration::from_secs(15) };

/// The time without incoming data before the kernel probes a connection.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);

/// The time between two such probes.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// How many unacknowledged probes end a connection.
const KEEPALIVE_PROBES: u32 = 3;
/// How long other data may be unacknowledged.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

type Connector = HttpsConnector<Dial>;
type Io = MaybeHttpsStream<Carrier>;

/// A connector with conditions of its own.
type BoxedConnector = BoxCloneSyncService<Uri, Io, BoxError>;
type Pooled = Client<BoxedConnector, Body>;

/// Why watches cannot use HTTP/2.
fn http1_reason(config: &kube::Config, protocol: WatchProtocol) -> Option<&'static str> {
    if protocol == WatchProtocol::Http1 {
        Some("the configuration says so")
    } else if config.cluster_url.scheme() != Some(&Scheme::HTTPS) {
        Some("the connection has no TLS, which negotiates HTTP/2")
    } else {
        None
    }
}

/// A client for watches, which share connections if the server offers HTTP/2.
///
/// # Errors
///
/// An address or a header that cannot be used.
pub(super) fn client(
    connection: &Connection,
    settings: &ApiSettings,
    gate: WriteGate,
) -> Result<kube::Client, BoxError> {
    with_layers(connection, Transport::new(connection, settings, PINGS)?, Some(gate))
}

/// A client with this transport and the layers of kube's own client. The gate is the last to be asked.
fn with_layers<S, B>(
    connection: &Connection,
    transport: S,
    gate: Option<WriteGate>,
) -> Result<kube::Client, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError, Future: Send>
        + Clone
        + Send
        + 'static,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let config = connection.config();
    let repeats_writes = gate.is_none();
    let service = option_layer(gate.map(WriteGateLayer)).layer(transport);
    let service = config.extra_headers_layer()?.layer(service);
    let service = config.base_uri_layer().layer(service);
    let service = Authorized::new(service, Arc::clone(connection.credentials()), repeats_writes);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}

/// What has connections. They are made anew after the client certificate has changed: those that are open
/// belong to the former one.
struct Renewing<T> {
    credentials: Arc<Credentials>,
    make: Box<dyn Fn() -> T + Send + Sync>,
    latest: Mutex<(u64, T)>,
}

impl<T: Clone> Renewing<T> {
    fn new(connection: &Connection, make: impl Fn() -> T + Send + Sync + 'static) -> Self {
        let credentials = Arc::clone(connection.credentials());
        let latest = Mutex::new((credentials.generation(), make()));
        Self { credentials, make: Box::new(make), latest }
    }

    fn latest(&self) -> T {
        let generation = self.credentials.generation();
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.0 != generation {
            *latest = (generation, (self.make)());
        }
        latest.1.clone()
    }
}

/// Opens sockets. Small frames do not wait for acknowledgements (no delay). A peer that
/// vanished is noticed within 45 s.
fn tcp(config: &kube::Config) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(config.connect_timeout);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(KEEPALIVE_AFTER));
    tcp.set_keepalive_interval(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_retries(Some(KEEPALIVE_PROBES));
    #[cfg(target_os = "linux")]
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    tcp
}

/// Opens connections, through a proxy if there is one, with TLS. The caller chooses the HTTP versions.
fn tls(connection: &Connection) -> Result<(HttpsConnectorBuilder<WantsProtocols1>, Dial), BoxError> {
    let config = connection.config();
    let dial = dial(config.proxy_url.as_ref(), tcp(config), connection.tls().clone())?;
    let builder = HttpsConnectorBuilder::new().with_tls_config(connection.tls().clone()).https_or_http();
    Ok(match &config.tls_server_name {
        Some(name) => {
            let name = FixedServerNameResolver::new(name.clone().try_into()?);
            (builder.with_server_name_resolver(name), dial)
        }
        None => (builder, dial),
    })
}

/// Sends requests without a body.
#[derive(Clone)]
struct Transport(Arc<Inner>);

struct Inner {
    /// `None` if watches cannot use HTTP/2.
    http2: Option<(Renewing<ConnectionPool<Pooled>>, Http2Refusal)>,
    http1: Connector,
}

impl Transport {
    fn new(connection: &Connection, settings: &ApiSettings, pings: Pings) -> Result<Self, BoxError> {
        let config = connection.config();
        let (http1, dial) = tls(connection)?;
        let http1 = http1.enable_http1().wrap_connector(dial);
        let (both, dial) = tls(connection)?;
        let both = both.enable_all_versions().wrap_connector(dial);
        let shared = || {
            let refusal = Http2Refusal::default();
            let connector = OnlyHttp2::new(both, refusal.clone());
            let patience = settings.request_timeout / 2;
            let pool = move || {
                let connector = connector.clone();
                ConnectionPool::new(STREAMS as usize, patience, move || http2(connector.clone(), pings))
            };
            (Renewing::new(connection, pool), refusal)
        };
        let http2 = match http1_reason(config, settings.watch_protocol) {
            None => Some(shared()),
            Some(why) => {
                let server = config.cluster_url.to_string();
                tracing::debug!(server, "each watch has its own connection with HTTP/1.1: {why}");
                None
            }
        };
        Ok(Self(Arc::new(Inner { http2, http1 })))
    }
}

fn http2(connector: OnlyHttp2<Connector>, pings: Pings) -> Pooled {
    Client::builder(TokioExecutor::new())
        // The connector ensures HTTP/2. With this option, concurrent requests wait for one
        // handshake instead of each opening a connection.
        .http2_only(true)
        // An idle connection stays open: quiet watches are still on it.
        .pool_idle_timeout(None)
        .timer(TokioTimer::new())
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(pings.interval)
        .http2_keep_alive_timeout(pings.timeout)
        .build(BoxedConnector::new(connector))
}

impl Inner {
    async fn send(&self, request: Request<Body>) -> Result<Response<Stream>, BoxError> {
        let (head, _) = request.into_parts();
        let bodiless = |head| Request::from_parts(head, Body::empty());
        if let Some((connections, refusal)) = self.http2.as_ref().filter(|(_, refusal)| !refusal.is_known()) {
            let (client, mut slot) = connections.latest().slot();
            match client.request(bodiless(head.clone())).await {
                Ok(response) => {
                    slot.answered();
                    return Ok(response.map(|body| Stream::Http2 { body, _slot: slot }));
                }
                Err(error) => {
                    slot.failed();
                    if !(error.is_connect() && refusal.is_known()) {
                        return Err(error.into());
                    }
                }
            }
        }
        let response = http1::send(self.http1.clone(), bodiless(head)).await?;
        Ok(response.map(|answer| Stream::Http1(Box::new(answer))))
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<Stream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Stream>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.send(request).await })
    }
}

/// The body of a response.
enum Stream {
    /// A stream on a shared connection. It keeps its slot there until it is dropped.
    Http2 { body: Incoming, _slot: StreamSlot<Pooled> },
    /// A body with its own connection.
    Http1(Box<Http1Body<Io>>),
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        match self.get_mut() {
            Self::Http2 { body, .. } => Pin::new(body).poll_frame(context),
            Self::Http1(answer) => answer.poll_frame(context),
        }
    }
}

#[cfg(test)]
mod tests;
