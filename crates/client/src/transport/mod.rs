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

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{Authority, Scheme, Uri};
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::{Connection as _, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use tokio::time::timeout;
use tower::util::{BoxCloneSyncService, option_layer};
use tower::{BoxError, Layer as _, Service, ServiceExt as _, service_fn};
#[cfg(feature = "gzip")]
use tower_http::decompression::DecompressionLayer;

use super::WatchProtocol;
use super::connection::{Carrier, ConnectError, Connection, Credentials, authorized, dial};
use super::settings::ApiSettings;
use super::write_gate::{WriteGate, gate_layer};

/// The greatest number of streams on one connection. The usual limit of servers is at least
/// 100: that of kube-apiserver and of many proxies. A request beyond the limit is not refused: it waits
/// silently until another stream ends.
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

/// How many connections for lists stay open when no list is read. At the start there is one for each type.
const IDLE_LISTS: usize = 2;

/// Why a watch has its own connection after the TLS handshake.
const NOT_OFFERED: &str = "the server does not offer HTTP/2";

type Connector = BoxCloneSyncService<Uri, MaybeHttpsStream<Carrier>, BoxError>;
type Pooled = Client<Connector, Body>;
type Answer = Response<UnsyncBoxBody<Bytes, hyper::Error>>;

/// A client for short answers, which are not compressed.
///
/// # Errors
///
/// An address or a header that cannot be used.
pub(super) fn unary(connection: &Connection, gate: Option<WriteGate>) -> Result<kube::Client, BoxError> {
    with_layers(connection, Transport::new(connection, None, usize::MAX)?.service(), gate)
}

/// A client for lists, which may be compressed.
///
/// # Errors
///
/// An address or a header that cannot be used.
pub(super) fn lists(connection: &Connection, gate: WriteGate) -> Result<kube::Client, BoxError> {
    let transport = Transport::new(connection, None, IDLE_LISTS)?.service();
    #[cfg(feature = "gzip")]
    let transport = DecompressionLayer::new().layer(transport);
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
    with_layers(connection, Transport::shared(connection, settings, PINGS)?.service(), Some(gate))
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
    let service = option_layer(gate.map(gate_layer)).layer(transport);
    let service = config.extra_headers_layer()?.layer(service);
    let service = config.base_uri_layer().layer(service);
    let credentials = Arc::clone(connection.credentials());
    let service = service_fn(move |request| {
        authorized(service.clone(), Arc::clone(&credentials), repeats_writes, request)
    });
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
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

/// Opens connections, through a proxy if there is one, with TLS.
fn connector(connection: &Connection, offers_http2: bool) -> Result<Connector, BoxError> {
    let config = connection.config();
    let dial = dial(config.proxy_url.as_ref(), tcp(config), connection.tls().clone())?;
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(connection.tls().clone()).https_or_http();
    if let Some(name) = &config.tls_server_name {
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name.clone().try_into()?));
    }
    let connector = if offers_http2 {
        builder.enable_all_versions().wrap_connector(dial)
    } else {
        builder.enable_http1().wrap_connector(dial)
    };
    let limit = config.connect_timeout;
    Ok(Connector::new(service_fn(move |server: Uri| timely(connector.clone().oneshot(server), limit))))
}

/// Waits for a connection. The time limit includes the TLS handshake, and also applies when nobody
/// waits for the connection any more.
async fn timely<T>(
    connecting: impl Future<Output = Result<T, BoxError>>,
    limit: Option<Duration>,
) -> Result<T, BoxError> {
    let Some(limit) = limit else { return connecting.await };
    let connected = timeout(limit, connecting).await;
    connected.unwrap_or_else(|_| Err(format!("no connection within {limit:?}").into()))
}

struct Transport {
    credentials: Arc<Credentials>,
    http1: Connector,
    /// How many connections may be idle.
    idle: usize,
    /// `None` if HTTP/2 is not used.
    http2: Option<Http2>,
    connections: Mutex<Connections>,
}

/// For requests without a body.
struct Http2 {
    connector: Connector,
    /// Whether the server is known not to offer HTTP/2.
    is_refused: Arc<AtomicBool>,
    pings: Pings,
    /// A request that gets no answer for this long may wait for the end of another stream.
    patience: Duration,
}

struct Connections {
    /// The client certificate to which they belong.
    generation: u64,
    http1: Pooled,
    /// The oldest first.
    http2: Vec<Shared>,
    /// The greatest number of streams on one connection, as far as known.
    streams: usize,
}

/// A connection that streams share. Each of them has a clone, and `waiting` until it is answered.
#[derive(Clone)]
struct Shared {
    client: Pooled,
    open: Arc<()>,
    waiting: Arc<()>,
}

impl Connections {
    fn new(generation: u64, http1: &Connector, idle: usize) -> Self {
        let mut client = Client::builder(TokioExecutor::new());
        let http1 = client.pool_idle_timeout(IDLE_FOR).pool_max_idle_per_host(idle).build(http1.clone());
        Self { generation, http1, http2: Vec::new(), streams: STREAMS as usize }
    }

    /// A place on the oldest connection that has one, to keep the number of connections small. Drops
    /// connections without streams.
    fn place(&mut self, http2: &Http2) -> Shared {
        let has_room = |shared: &&Shared| Arc::strong_count(&shared.open) <= self.streams;
        let place = match self.http2.iter().find(has_room) {
            Some(shared) => shared.clone(),
            None => {
                let shared = Shared { client: http2.client(), open: Arc::default(), waiting: Arc::default() };
                self.http2.push(shared.clone());
                shared
            }
        };
        self.http2.retain(|shared| Arc::strong_count(&shared.open) > 1);
        place
    }
}

impl Http2 {
    fn new(connection: &Connection, patience: Duration, pings: Pings) -> Result<Self, BoxError> {
        let is_refused = Arc::new(AtomicBool::new(false));
        let connector = only_http2(connector(connection, true)?, Arc::clone(&is_refused));
        Ok(Self { connector, is_refused, pings, patience })
    }

    /// A client with one connection, which is made anew if it breaks.
    fn client(&self) -> Pooled {
        Client::builder(TokioExecutor::new())
            // The connector ensures HTTP/2. With this option, concurrent requests wait for one
            // handshake instead of each opening a connection.
            .http2_only(true)
            // An idle connection stays open: quiet watches are still on it.
            .pool_idle_timeout(None)
            .timer(TokioTimer::new())
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .http2_keep_alive_interval(self.pings.interval)
            .http2_keep_alive_timeout(self.pings.timeout)
            .build(self.connector.clone())
    }
}

/// A connector whose connections have negotiated HTTP/2. After a server has refused HTTP/2, it
/// fails without another handshake.
fn only_http2(connector: Connector, is_refused: Arc<AtomicBool>) -> Connector {
    Connector::new(service_fn(move |server: Uri| {
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

impl Transport {
    fn new(connection: &Connection, http2: Option<Http2>, idle: usize) -> Result<Self, BoxError> {
        let credentials = Arc::clone(connection.credentials());
        let http1 = connector(connection, false)?;
        let connections = Mutex::new(Connections::new(credentials.generation(), &http1, idle));
        Ok(Self { credentials, http1, idle, http2, connections })
    }

    fn shared(connection: &Connection, settings: &ApiSettings, pings: Pings) -> Result<Self, BoxError> {
        let config = connection.config();
        // TLS negotiates it.
        let is_possible = settings.watch_protocol == WatchProtocol::Http2
            && config.cluster_url.scheme() == Some(&Scheme::HTTPS);
        let http2 = is_possible.then(|| Http2::new(connection, settings.request_timeout / 2, pings));
        let http2 = http2.transpose()?;
        Self::new(connection, http2, usize::MAX)
    }

    fn service(
        self,
    ) -> impl Service<Request<Body>, Response = Answer, Error = BoxError, Future: Send> + Clone + Send + 'static
    {
        let transport = Arc::new(self);
        service_fn(move |request| {
            let transport = Arc::clone(&transport);
            async move { transport.send(request).await }
        })
    }

    /// The connections in use. They are made anew after the client certificate has changed: those that
    /// are open belong to the former one.
    fn connections(&self) -> MutexGuard<'_, Connections> {
        let generation = self.credentials.generation();
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if connections.generation != generation {
            *connections = Connections::new(generation, &self.http1, self.idle);
        }
        connections
    }

    async fn send(&self, request: Request<Body>) -> Result<Answer, BoxError> {
        let is_offered = |http2: &&Http2| !http2.is_refused.load(Ordering::Acquire);
        let Some(http2) = self.http2.as_ref().filter(is_offered) else {
            return self.send_by_http1(request).await;
        };
        let (head, _) = request.into_parts();
        let bodiless = |head| Request::from_parts(head, Body::empty());
        let Shared { client, open, waiting } = self.connections().place(http2);
        let mut answer = client.request(bodiless(head.clone()));
        let answered = match timeout(http2.patience, &mut answer).await {
            Ok(answered) => answered,
            Err(_) => {
                // The number of those that were answered is the limit of the server, if there are any.
                let others = Arc::strong_count(&open) - Arc::strong_count(&waiting);
                if others > 0 {
                    let mut connections = self.connections();
                    connections.streams = connections.streams.min(others);
                }
                answer.await
            }
        };
        drop(waiting);
        match answered {
            // The stream keeps its place until its body is dropped.
            Ok(response) => Ok(response.map(|body| {
                let place = (client, open);
                let keep = move |frame| {
                    let _ = &place;
                    frame
                };
                body.map_frame(keep).boxed_unsync()
            })),
            Err(error) if error.is_connect() && http2.is_refused.load(Ordering::Acquire) => {
                self.send_by_http1(bodiless(head)).await
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn send_by_http1(&self, request: Request<Body>) -> Result<Answer, BoxError> {
        let client = self.connections().http1.clone();
        Ok(client.request(request).await?.map(|body| body.boxed_unsync()))
    }
}

#[cfg(test)]
mod tests;
