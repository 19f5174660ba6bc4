//! Connections that speak HTTP/2, or are none.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::Connection;
use tower::{BoxError, Service};

/// What the server is known not to speak. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Http2Refusal(Arc<AtomicBool>);

impl Http2Refusal {
    /// Whether it has chosen another protocol when it was offered HTTP/2.
    pub fn is_known(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Whether this is news.
    fn is_news(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

/// The server, or what is before it, has chosen HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOffered;

impl fmt::Display for NotOffered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the server does not offer HTTP/2")
    }
}

impl std::error::Error for NotOffered {}

/// A connector whose connections have agreed on HTTP/2. It does not try again after a
/// server has chosen otherwise: whoever asks next is spared a handshake for nothing.
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
            if refusal.is_news() {
                tracing::debug!(
                    server = authority,
                    "watches go over HTTP/1.1, each on a connection of its own: {NotOffered}"
                );
            }
            Err(NotOffered.into())
        })
    }
}
