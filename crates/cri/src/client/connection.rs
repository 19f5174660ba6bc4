//! The connection to the socket: made when a call needs it, and again after it has ended.
//!
//! tonic's own `Channel` is for servers on a network: it resolves names, balances, buffers and limits.
//! None of that is of use on a unix socket, and it would add a second HTTP client to the program.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::sync::Mutex;
use tonic::body::Body;
use tower::Service;

use super::probe;
use crate::error::with_causes;
use crate::{Error, Rpc};

/// How much of a list may be under way; with HTTP/2's own 64 KiB, a list of megabytes would wait
/// for hundreds of acknowledgements.
const WINDOW: u32 = 1024 * 1024;
const NAME: HeaderValue = HeaderValue::from_static(concat!("kube-gc/", env!("CARGO_PKG_VERSION")));

/// A socket, and the connection to it if there is one.
pub(super) struct Connection {
    path: PathBuf,
    sender: Mutex<Option<SendRequest<Body>>>,
}

impl Connection {
    /// Does not connect yet.
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), sender: Mutex::new(None) }
    }

    /// What sends the request of a call. Connects first if there is no connection, or if it has ended.
    ///
    /// # Errors
    ///
    /// Nothing can be connected to, or the connection ends at once.
    pub(super) async fn sender(&self, rpc: Rpc) -> Result<Sender, Error> {
        let mut current = self.sender.lock().await;
        if let Some(sender) = current.as_ref().filter(|sender| !sender.is_closed()) {
            return Ok(Sender(sender.clone()));
        }
        let sender = connect(&self.path, rpc).await?;
        *current = Some(sender.clone());
        Ok(Sender(sender))
    }
}

/// Connects, and leaves the connection to a task that ends with it.
async fn connect(path: &Path, rpc: Rpc) -> Result<SendRequest<Body>, Error> {
    let stream = UnixStream::connect(path).await.map_err(|error| probe::explain(path, &error))?;
    let (sender, connection) = Builder::new(Spawn)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(|error| Error::Disconnected { rpc, detail: with_causes(&error) })?;
    // Why it ends is what the calls on it fail with.
    Spawn.execute(async { drop(connection.await) });
    Ok(sender)
}

/// Spawns tasks in boxes: the program has the code for a task once, and not once for each future.
#[derive(Clone, Copy)]
struct Spawn;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Spawn {
    fn execute(&self, future: F) {
        let boxed: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(future);
        tokio::spawn(boxed);
    }
}

/// Sends requests over one connection.
pub(super) struct Sender(SendRequest<Body>);

impl Service<Request<Body>> for Sender {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.headers_mut().insert(USER_AGENT, NAME);
        Box::pin(self.0.send_request(request))
    }
}
