//! A connector that accepts only HTTP/2.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::Connection;
use tower::{BoxError, Service};

/// Whether the server is known not to offer HTTP/2. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct Http2Refusal(Arc<AtomicBool>);

impl Http2Refusal {
    /// Whether the server chose another protocol in a TLS handshake.
    pub fn is_known(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Notes a refusal; true for the first one.
    fn note(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// The server, or a proxy before it, chose HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOffered;

impl fmt::Display for NotOffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server does not offer HTTP/2")
    }
}

impl std::error::Error for NotOffered {}

/// A connector whose connections have negotiated HTTP/2. After a server has refused HTTP/2, it
/// fails without another handshake.
#[derive(Clone, Debug)]
pub struct OnlyHttp2<C> {
    inner: C,
    refusal: Http2Refusal,
}

impl<C> OnlyHttp2<C> {
    pub const fn new(inner: C, refusal: Http2Refusal) -> Self {
        Self { inner, refusal }
    }
}

impl<C> Service<Uri> for OnlyHttp2<C>
where
    C: Service<Uri, Error = BoxError>,
    C::Response: Connection + Send,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<C::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let refusal = self.refusal.clone();
        if refusal.is_known() {
            return Box::pin(async { Err(NotOffered.into()) });
        }
        let authority = server.authority().map(ToString::to_string).unwrap_or_default();
        let connecting = self.inner.call(server);
        Box::pin(async move {
            let connection = connecting.await?;
            if connection.connected().is_negotiated_h2() {
                return Ok(connection);
            }
            if refusal.note() {
                tracing::debug!(
                    server = authority,
                    "each watch has its own connection with HTTP/1.1: {NotOffered}"
                );
            }
            Err(NotOffered.into())
        })
    }
}
