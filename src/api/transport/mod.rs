//! The connections to the API server.
//!
//! Requests that are answered in one piece use HTTP/1.1: on a shared connection, one lost packet would
//! delay all of them. There may be thousands a second. So their client is kube's own without the layers
//! that they do not need: each request has an overall time limit, and the caller logs and counts it.
//!
//! Watches share connections through HTTP/2. A watch with its own connection costs a handshake, a
//! socket, and buffers at both ends. A plain cluster has sixty watches, and one with many custom
//! resources has hundreds. Sharing must not have two effects:
//!
//! - A stream that is not read must not block the others. So a connection's flow-control
//!   window is as large as those of all its streams together.
//! - A dead connection must not go unnoticed. HTTP/2 pings check it.
//!
//! kube's client speaks only HTTP/1.1. The clients here have the same layers around their own transport,
//! and those of [`Connection`]. If a server does not choose HTTP/2 in the TLS handshake, each watch has
//! its own connection with HTTP/1.1.

mod connection_pool;

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::uri::{Authority, Scheme, Uri};
use http::{Request, Response};
use http_body::Frame;
use hyper::body::Incoming;
use hyper_rustls::builderstates::WantsProtocols1;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connection as _, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use tower::util::{BoxCloneSyncService, option_layer};
use tower::{BoxError, Layer as _, Service, ServiceExt as _, service_fn};
use tower_http::decompression::DecompressionLayer;

use super::connection::{Authorized, Carrier, ConnectError, Connection, Credentials, Dial, dial};
use super::settings::{ApiSettings, WatchProtocol};
use super::write_gate::{WriteGate, WriteGateLayer};
use connection_pool::{ConnectionPool, StreamSlot};

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

/// A connection for single requests that was idle for this long is not used again. kube-apiserver
/// closes it after 90 s. A request that is sent at that moment is lost, which looks like an outage.
const IDLE_FOR: Duration = Duration::from_secs(60);

/// Why a watch has its own connection after the TLS handshake.
const NOT_OFFERED: &str = "the server does not offer HTTP/2";

type Connector = HttpsConnector<Dial>;

/// A connector with conditions of its own.
type BoxedConnector = BoxCloneSyncService<Uri, MaybeHttpsStream<Carrier>, BoxError>;
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

/// A client for short answers, which are not compressed.
///
/// # Errors
///
/// An address or a header that cannot be used.
pub(super) fn unary(connection: &Connection, gate: Option<WriteGate>) -> Result<kube::Client, BoxError> {
    with_layers(connection, Transport::unary(connection)?, gate)
}

/// A client for lists, which may be compressed.
///
/// # Errors
///
/// An address or a header that cannot be used.
pub(super) fn lists(connection: &Connection, gate: WriteGate) -> Result<kube::Client, BoxError> {
    let transport = DecompressionLayer::new().layer(Transport::unary(connection)?);
    with_layers(connection, transport, Some(gate))
}

/// A client for watches, which share connections if the server offers HTTP/2.
///
/// # Errors
///
/// An address or a header that cannot be used.
pub(super) fn watches(
    connection: &Connection,
    settings: &ApiSettings,
    gate: WriteGate,
) -> Result<kube::Client, BoxError> {
    with_layers(connection, Transport::shared(connection, settings, PINGS)?, Some(gate))
}

impl Connection {
    /// A client of its own, for requests that need no write gate.
    ///
    /// # Errors
    ///
    /// An address or a header that cannot be used.
    pub fn client(&self) -> Result<kube::Client, ConnectError> {
        unary(self, None).map_err(|error| self.unusable(&*error))
    }
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

/// Sends requests.
#[derive(Clone)]
struct Transport(Arc<Inner>);

struct Inner {
    http1: Renewing<Pooled>,
    /// `None` if HTTP/2 is not used.
    http2: Option<Http2>,
}

/// For requests without a body.
struct Http2 {
    connections: Renewing<ConnectionPool<Pooled>>,
    /// Whether the server is known not to offer HTTP/2.
    is_refused: Arc<AtomicBool>,
}

impl Transport {
    /// Sends requests with HTTP/1.1, on connections that are used again.
    fn unary(connection: &Connection) -> Result<Self, BoxError> {
        Ok(Self(Arc::new(Inner { http1: http1(connection)?, http2: None })))
    }

    /// Sends watches.
    fn shared(connection: &Connection, settings: &ApiSettings, pings: Pings) -> Result<Self, BoxError> {
        let config = connection.config();
        let http2 = match http1_reason(config, settings.watch_protocol) {
            None => Some(Http2::new(connection, settings.request_timeout / 2, pings)?),
            Some(why) => {
                let server = config.cluster_url.to_string();
                tracing::debug!(server, "each watch has its own connection with HTTP/1.1: {why}");
                None
            }
        };
        Ok(Self(Arc::new(Inner { http1: http1(connection)?, http2 })))
    }
}

fn http1(connection: &Connection) -> Result<Renewing<Pooled>, BoxError> {
    let (connector, dial) = tls(connection)?;
    let connector = connector.enable_http1().wrap_connector(dial);
    let limit = connection.config().connect_timeout;
    let connector =
        BoxedConnector::new(service_fn(move |server: Uri| timely(connector.clone().oneshot(server), limit)));
    let make =
        move || Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_FOR).build(connector.clone());
    Ok(Renewing::new(connection, make))
}

impl Http2 {
    fn new(connection: &Connection, patience: Duration, pings: Pings) -> Result<Self, BoxError> {
        let is_refused = Arc::new(AtomicBool::new(false));
        let (connector, dial) = tls(connection)?;
        let connector = connector.enable_all_versions().wrap_connector(dial);
        let connector = only_http2(connector, Arc::clone(&is_refused));
        let pool = move || {
            let connector = connector.clone();
            ConnectionPool::new(STREAMS as usize, patience, move || http2(connector.clone(), pings))
        };
        Ok(Self { connections: Renewing::new(connection, pool), is_refused })
    }
}

fn http2(connector: BoxedConnector, pings: Pings) -> Pooled {
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
        .build(connector)
}

/// Waits for a connection. The time limit includes the TLS handshake, and also applies when nobody
/// waits for the connection any more.
async fn timely<T>(
    connecting: impl Future<Output = Result<T, BoxError>>,
    limit: Option<Duration>,
) -> Result<T, BoxError> {
    let Some(limit) = limit else { return connecting.await };
    let connected = tokio::time::timeout(limit, connecting).await;
    connected.unwrap_or_else(|_| Err(format!("no connection within {limit:?}").into()))
}

/// A connector whose connections have negotiated HTTP/2. After a server has refused HTTP/2, it
/// fails without another handshake.
fn only_http2(connector: Connector, is_refused: Arc<AtomicBool>) -> BoxedConnector {
    BoxedConnector::new(service_fn(move |server: Uri| {
        let (connector, is_refused) = (connector.clone(), Arc::clone(&is_refused));
        async move {
            if is_refused.load(Ordering::Acquire) {
                return Err(BoxError::from(NOT_OFFERED));
            }
            let authority = server.authority().map_or("", Authority::as_str).to_owned();
            let connection = connector.oneshot(server).await?;
            if connection.connected().is_negotiated_h2() {
                return Ok(connection);
            }
            if !is_refused.swap(true, Ordering::AcqRel) {
                tracing::debug!(
                    server = authority,
                    "each watch has its own connection with HTTP/1.1: {NOT_OFFERED}"
                );
            }
            Err(BoxError::from(NOT_OFFERED))
        }
    }))
}

impl Inner {
    async fn send(&self, request: Request<Body>) -> Result<Response<Stream>, BoxError> {
        let Some(http2) = self.http2.as_ref().filter(|http2| !http2.is_refused.load(Ordering::Acquire))
        else {
            return self.send_by_http1(request).await;
        };
        let (head, _) = request.into_parts();
        let bodiless = |head| Request::from_parts(head, Body::empty());
        let (client, mut slot) = http2.connections.latest().slot();
        match client.request(bodiless(head.clone())).await {
            Ok(response) => {
                slot.answered();
                Ok(response.map(|body| Stream { body, _slot: Some(slot) }))
            }
            Err(error) => {
                slot.failed();
                if error.is_connect() && http2.is_refused.load(Ordering::Acquire) {
                    return self.send_by_http1(bodiless(head)).await;
                }
                Err(error.into())
            }
        }
    }

    async fn send_by_http1(&self, request: Request<Body>) -> Result<Response<Stream>, BoxError> {
        let response = self.http1.latest().request(request).await?;
        Ok(response.map(|body| Stream { body, _slot: None }))
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

/// The body of a response. It keeps its slot on a shared connection until it is dropped.
struct Stream {
    body: Incoming,
    _slot: Option<StreamSlot<Pooled>>,
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }
}

#[cfg(test)]
mod tests;
