//! The connections of requests that are answered in one piece, with HTTP/1.1.
//!
//! There may be thousands of such requests a second. So this is kube's own client without the
//! layers that they do not need: each request has an overall time limit, and the caller logs and
//! counts it.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use kube::client::Body;
use tower::{BoxError, Layer as _, Service};
use tower_http::decompression::DecompressionLayer;

use super::{BoxedConnector, Pooled, Renewing, tls, with_layers};
use crate::api::connection::{ConnectError, Connection};
use crate::api::write_gate::WriteGate;

/// A connection that was idle for this long is not used again. kube-apiserver closes it after
/// 90 s. A request that is sent at that moment is lost, which looks like an outage.
const IDLE_FOR: Duration = Duration::from_secs(60);

/// A client for short answers, which are not compressed.
///
/// # Errors
///
/// An address or a header that cannot be used.
pub(in super::super) fn client(
    connection: &Connection,
    gate: Option<WriteGate>,
) -> Result<kube::Client, BoxError> {
    with_layers(connection, Transport::new(connection)?, gate)
}

/// A client for lists, which may be compressed.
///
/// # Errors
///
/// An address or a header that cannot be used.
pub(in super::super) fn lists(connection: &Connection, gate: WriteGate) -> Result<kube::Client, BoxError> {
    let transport = DecompressionLayer::new().layer(Transport::new(connection)?);
    with_layers(connection, transport, Some(gate))
}

impl Connection {
    /// A client of its own, for requests that need no write gate.
    ///
    /// # Errors
    ///
    /// An address or a header that cannot be used.
    pub fn client(&self) -> Result<kube::Client, ConnectError> {
        client(self, None).map_err(|error| self.unusable(&*error))
    }
}

/// Sends requests on connections that are used again.
#[derive(Clone)]
struct Transport(Arc<Renewing<Pooled>>);

impl Transport {
    fn new(connection: &Connection) -> Result<Self, BoxError> {
        let (connector, dial) = tls(connection)?;
        let inner = connector.enable_http1().wrap_connector(dial);
        let timely = Timely { inner, limit: connection.config().connect_timeout };
        let connector = BoxedConnector::new(timely);
        let make = move || {
            Client::builder(TokioExecutor::new()).pool_idle_timeout(IDLE_FOR).build(connector.clone())
        };
        Ok(Self(Arc::new(Renewing::new(connection, make))))
    }
}

impl Service<Request<Body>> for Transport {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Incoming>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let answer = self.0.latest().request(request);
        Box::pin(async move { answer.await.map_err(BoxError::from) })
    }
}

/// A connector with a time limit that includes the TLS handshake and also applies when nobody
/// waits for the connection any more.
#[derive(Clone, Debug)]
struct Timely<C> {
    inner: C,
    limit: Option<Duration>,
}

impl<C> Service<Uri> for Timely<C>
where
    C: Service<Uri, Error = BoxError>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<C::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let (connecting, limit) = (self.inner.call(server), self.limit);
        Box::pin(async move {
            let Some(limit) = limit else { return connecting.await };
            let connected = tokio::time::timeout(limit, connecting).await;
            connected.unwrap_or_else(|_| Err(format!("no connection within {limit:?}").into()))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tower::{ServiceExt as _, service_fn};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_hanging_handshake_is_cancelled() {
        let hanging = service_fn(|_: Uri| pending::<Result<(), BoxError>>());
        let connector = Timely { inner: hanging, limit: Some(Duration::from_secs(30)) };
        let error = connector.oneshot(Uri::from_static("https://localhost")).await.unwrap_err();
        assert_eq!(error.to_string(), "no connection within 30s");
    }

    #[tokio::test]
    async fn a_timely_connection_is_returned() {
        let connecting = service_fn(|_: Uri| async { Ok::<_, BoxError>("connection") });
        for limit in [None, Some(Duration::from_secs(30))] {
            let connector = Timely { inner: connecting, limit };
            assert_eq!(connector.oneshot(Uri::from_static("https://localhost")).await.unwrap(), "connection");
        }
    }
}
