//! A watch that has a connection of its own, by HTTP/1.1.
//!
//! The connection is driven by whoever reads the answer, not by a task next to it: each
//! event is a chunk of its own, and two tasks would take turns for each.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::{Either, select};
use http::header::HOST;
use http::uri::{PathAndQuery, Scheme, Uri};
use http::{HeaderValue, Request, Response};
use http_body::Frame;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, handshake};
use hyper::rt::{Read, Write};
use kube::client::Body;
use tower::{BoxError, Service, ServiceExt as _};

/// The answer to a request, and the connection that it comes on.
pub struct Http1Body<I: Read + Write + Unpin> {
    body: Incoming,
    /// Gone once it has ended.
    connection: Option<Connection<I, Body>>,
}

/// Sends a request on a new connection. Dropping the answer closes it.
///
/// # Errors
///
/// The server cannot be reached, or does not answer in HTTP.
pub async fn send<C>(
    connector: C,
    mut request: Request<Body>,
) -> Result<Response<Http1Body<C::Response>>, BoxError>
where
    C: Service<Uri, Error = BoxError>,
    C::Response: Read + Write + Unpin + Send + 'static,
{
    let io = connector.oneshot(request.uri().clone()).await?;
    let (mut sender, connection) = handshake(io).await?;
    to_the_origin(&mut request)?;
    let answer = pin!(sender.send_request(request));
    // Without a sender it is closed after this answer.
    drop(sender);
    match select(answer, connection).await {
        Either::Left((answer, connection)) => {
            Ok(answer?.map(|body| Http1Body { body, connection: Some(connection) }))
        }
        // It says itself how it has ended.
        Either::Right((_, answer)) => Ok(answer.await?.map(|body| Http1Body { body, connection: None })),
    }
}

/// What HTTP/1.1 wants of a request that goes to the server itself: the server's name
/// in a header, and nothing of it in the first line.
fn to_the_origin(request: &mut Request<Body>) -> Result<(), BoxError> {
    let uri = request.uri();
    let default_port = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let host = match (uri.host(), uri.port_u16()) {
        (None, _) => return Err("there is no host to send the request to".into()),
        (Some(host), Some(port)) if port != default_port => format!("{host}:{port}"),
        (Some(host), _) => host.to_owned(),
    };
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    request.headers_mut().entry(HOST).or_insert(HeaderValue::try_from(host)?);
    Ok(())
}

impl<I: Read + Write + Unpin + Send + 'static> Http1Body<I> {
    /// The next part of the answer.
    pub fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut body = Pin::new(&mut self.body);
        let frame = http_body::Body::poll_frame(body.as_mut(), context);
        let Some(connection) = self.connection.as_mut().filter(|_| frame.is_pending()) else { return frame };
        if Pin::new(connection).poll(context).is_ready() {
            // The answer says what became of it.
            self.connection = None;
        }
        http_body::Body::poll_frame(body, context)
    }
}
