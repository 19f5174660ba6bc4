//! A watch with its own connection, with HTTP/1.1.
//!
//! The task that reads the body drives the connection, too. With a second task for the
//! connection, each event would switch between the two.

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

/// The body of a response, and its connection.
pub struct Http1Body<I: Read + Write + Unpin> {
    body: Incoming,
    /// `None` once it has ended.
    connection: Option<Connection<I, Body>>,
}

/// Sends a request on a new connection. Dropping the body closes it.
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
    use_origin_form(&mut request)?;
    let answer = pin!(sender.send_request(request));
    // Without a sender, the connection closes after this response.
    drop(sender);
    match select(answer, connection).await {
        Either::Left((answer, connection)) => {
            Ok(answer?.map(|body| Http1Body { body, connection: Some(connection) }))
        }
        // The response tells how the connection ended.
        Either::Right((_, answer)) => Ok(answer.await?.map(|body| Http1Body { body, connection: None })),
    }
}

/// Converts a request to HTTP/1.1's origin form: the host in a header, and only the path in the
/// request line.
fn use_origin_form(request: &mut Request<Body>) -> Result<(), BoxError> {
    let uri = request.uri();
    let default_port = if uri.scheme() == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let host = match (uri.host(), uri.port_u16()) {
        (None, _) => return Err("the request names no host".into()),
        (Some(host), Some(port)) if port != default_port => format!("{host}:{port}"),
        (Some(host), _) => host.to_owned(),
    };
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::from(path);
    request.headers_mut().entry(HOST).or_insert(HeaderValue::try_from(host)?);
    Ok(())
}

impl<I: Read + Write + Unpin + Send + 'static> Http1Body<I> {
    /// The next frame of the body.
    pub fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let mut body = Pin::new(&mut self.body);
        let frame = http_body::Body::poll_frame(body.as_mut(), context);
        let Some(connection) = self.connection.as_mut().filter(|_| frame.is_pending()) else { return frame };
        if Pin::new(connection).poll(context).is_ready() {
            // The body tells how the connection ended.
            self.connection = None;
        }
        http_body::Body::poll_frame(body, context)
    }
}
