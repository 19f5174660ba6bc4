//! The connections of watches: by HTTP/2, several share one. (Those of requests that are
//! answered in one piece are in [`unary`].)
//!
//! A watch that has a connection of its own costs a handshake, a socket, and buffers at
//! both ends; there are sixty on a plain cluster, and hundreds with many custom
//! resources. Here some share one, as streams. Two things must not come of that:
//!
//! - That a stream nobody reads from holds up the others. A connection's window is as
//!   large as those of all its streams together.
//! - That a connection is dead and nobody notices. It is asked, by HTTP/2's own pings.
//!
//! kube's client speaks HTTP/1.1 only. This is made of the same layers around a
//! transport of its own; a server that does not choose HTTP/2 in the TLS handshake is
//! spoken to in HTTP/1.1, with a connection for each watch (`http1`).

mod connection_pool;
mod connector;
mod http1;
pub(super) mod unary;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::uri::{Scheme, Uri};
use http::{Request, Response};
use http_body::Frame;
use hyper::body::Incoming;
use hyper_rustls::builderstates::WantsProtocols1;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use tower::{BoxError, Layer as _, Service};

use super::settings::{ApiSettings, WatchProtocol};
use super::write_gate::{WriteGate, WriteGateLayer};
use connection_pool::{ConnectionPool, StreamSlot};
use connector::{Http2Refusal, OnlyHttp2};
use http1::Http1Body;

/// Streams on one connection, at most. The least that is usual as a server's limit is
/// 100: kube-apiserver's own, and that of many proxies.
const STREAMS: u32 = 80;

/// What a server may send on a stream before any of it is read: a few hundred events.
const STREAM_WINDOW: u32 = 256 << 10;

/// All streams of a connection at once, so that none waits for another.
const CONNECTION_WINDOW: u32 = STREAMS * STREAM_WINDOW;

/// When a connection of HTTP/2 is asked whether it lives, and when it is dead.
#[derive(Clone, Copy, Debug)]
struct Pings {
    /// It is asked when nothing has come for this long.
    interval: Duration,
    /// It is dead when no answer has come for this long.
    timeout: Duration,
}

/// Whatever is between the two ends: 45 s.
const PINGS: Pings = Pings { interval: Duration::from_secs(30), timeout: Duration::from_secs(15) };

/// A connection of any kind is probed by the kernel when nothing has come for this long, …
const KEEPALIVE_AFTER: Duration = Duration::from_secs(15);

/// … again after each time that this has passed, …
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// … and is dead when so many probes, or anything else for so long, are not acknowledged.
const KEEPALIVE_PROBES: u32 = 3;
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

type Connector = HttpsConnector<HttpConnector>;
type Http2 = Client<OnlyHttp2<Connector>, Body>;

/// Why watches cannot share connections to this server.
fn hindrance(config: &kube::Config, protocol: WatchProtocol) -> Option<&'static str> {
    if protocol == WatchProtocol::Http1 {
        Some("it is set so")
    } else if config.cluster_url.scheme() != Some(&Scheme::HTTPS) {
        Some("the server is reached without TLS, in which HTTP/2 would be agreed on")
    } else {
        None
    }
}

/// A client for watches, for a server without a proxy before it. Watches share
/// connections if nothing stands against it and the server speaks HTTP/2.
///
/// # Errors
///
/// Certificates or credentials that cannot be used; what the reason is, for people.
pub(super) fn client(
    config: &kube::Config,
    settings: &ApiSettings,
    gate: WriteGate,
) -> Result<kube::Client, BoxError> {
    with_layers(config, Transport::new(config, settings, PINGS)?, gate)
}

/// A client that sends through this what kube's own would send.
fn with_layers<S, B>(config: &kube::Config, transport: S, gate: WriteGate) -> Result<kube::Client, BoxError>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError, Future: Send>
        + Clone
        + Send
        + 'static,
    B: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    // In kube's own order. One layer for all connections: getting credentials may mean
    // to run a program, and a token that changes is read once.
    let service = config.extra_headers_layer()?.layer(transport);
    let service = tower::util::option_layer(config.auth_layer()?).layer(service);
    let service = config.base_uri_layer().layer(service);
    Ok(ClientBuilder::new(service, config.default_namespace.clone())
        .with_layer(&WriteGateLayer(gate))
        .build())
}

/// What opens sockets. Small frames must not wait for each other's acknowledgement. That the
/// other end has vanished without a word is noticed within 45 s.
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

/// What makes TLS of it, in the protocols that are still to be chosen.
fn tls(config: &kube::Config) -> Result<HttpsConnectorBuilder<WantsProtocols1>, BoxError> {
    let builder =
        HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_or_http();
    Ok(match &config.tls_server_name {
        Some(name) => {
            builder.with_server_name_resolver(FixedServerNameResolver::new(name.clone().try_into()?))
        }
        None => builder,
    })
}

/// Sends requests that have no body.
#[derive(Clone)]
struct Transport(Arc<Inner>);

struct Inner {
    /// Unless something stands against it.
    http2: Option<(ConnectionPool<Http2>, Http2Refusal)>,
    http1: Connector,
}

impl Transport {
    fn new(config: &kube::Config, settings: &ApiSettings, pings: Pings) -> Result<Self, BoxError> {
        let http1 = tls(config)?.enable_http1().wrap_connector(tcp(config));
        let both = tls(config)?.enable_all_versions().wrap_connector(tcp(config));
        let shared = || {
            let refusal = Http2Refusal::default();
            let connector = OnlyHttp2::new(both, refusal.clone());
            let patience = settings.request_timeout / 2;
            (
                ConnectionPool::new(STREAMS as usize, patience, move || http2(connector.clone(), pings)),
                refusal,
            )
        };
        let http2 = match hindrance(config, settings.watch_protocol) {
            None => Some(shared()),
            Some(why) => {
                let server = config.cluster_url.to_string();
                tracing::debug!(server, "watches go over HTTP/1.1, each on a connection of its own: {why}");
                None
            }
        };
        Ok(Self(Arc::new(Inner { http2, http1 })))
    }
}

fn http2(connector: OnlyHttp2<Connector>, pings: Pings) -> Http2 {
    Client::builder(TokioExecutor::new())
        // The connector has made sure of it. So there is one handshake at a time, and
        // whoever comes meanwhile waits for that connection.
        .http2_only(true)
        // One that has been quiet for long is no worse: there are watches on it.
        .pool_idle_timeout(None)
        .timer(TokioTimer::new())
        .http2_initial_stream_window_size(STREAM_WINDOW)
        .http2_initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(pings.interval)
        .http2_keep_alive_timeout(pings.timeout)
        .build(connector)
}

impl Inner {
    async fn send(&self, request: Request<Body>) -> Result<Response<Stream>, BoxError> {
        let (head, _) = request.into_parts();
        let bodiless = |head| Request::from_parts(head, Body::empty());
        if let Some((connections, refusal)) = self.http2.as_ref().filter(|(_, refusal)| !refusal.is_known()) {
            let (client, mut slot) = connections.slot();
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

/// An answer.
enum Stream {
    /// One of several on a connection, which keeps its slot there until it is dropped.
    Http2 { body: Incoming, _slot: StreamSlot<Http2> },
    /// One with a connection of its own.
    Http1(Box<Http1Body<<Connector as Service<Uri>>::Response>>),
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
