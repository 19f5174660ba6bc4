//! A server with pages that answer at once, late, or at length.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::routing::get;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::access::{ReviewError, Reviewer, User};
use crate::http::middleware::*;
use crate::http::{Protection, bind};

/// A page that is larger than the buffers of both sockets.
pub static LONG: [u8; 16 << 20] = [b'x'; 16 << 20];

/// Knows the token `good`, whose user may read all pages.
struct Fake;

impl Reviewer for Fake {
    fn identify<'a>(&'a self, token: &'a Token) -> BoxFuture<'a, Result<Arc<User>, ReviewError>> {
        let is_known = token.reveal() == "good";
        async move { is_known.then(Arc::default).ok_or_else(|| ReviewError::Denied(String::new())) }.boxed()
    }

    fn may_get<'a>(&'a self, _: &'a User, _: &'a str) -> BoxFuture<'a, Result<(), ReviewError>> {
        async { Ok(()) }.boxed()
    }
}

/// A response that begins and does not end.
async fn endless() -> Body {
    let first = futures::stream::once(async { Ok::<_, std::io::Error>("first") });
    Body::from_stream(first.chain(futures::stream::pending()))
}

/// Serves pages on a free port until it is dropped.
pub struct Server {
    pub address: SocketAddr,
    /// The number of requests to `/wait`.
    pub waiting: Arc<Semaphore>,
    /// Lets requests to `/wait` finish.
    pub go_on: Arc<Notify>,
    _end: DropGuard,
}

impl Server {
    pub async fn start(listener: Listener, protection: Protection) -> Self {
        let go_on = Arc::new(Notify::new());
        let waiting = Arc::new(Semaphore::new(0));
        let (wait, came) = (Arc::clone(&go_on), Arc::clone(&waiting));
        let pages = Router::new()
            .route("/livez", get(async || "alive"))
            .route(
                "/metrics",
                get(async |request: Request| {
                    let shown = request.headers().contains_key(AUTHORIZATION);
                    if shown { "a token came here" } else { "numbers" }
                }),
            )
            .route("/stream", get(endless))
            .route(STREAM, get(endless))
            .route("/long", get(async || LONG.as_slice()))
            .route(
                "/wait",
                get(async move || {
                    came.add_permits(1);
                    wait.notified().await;
                    "done"
                }),
            );
        let listening = bind(listener, "127.0.0.1:0".parse().unwrap(), protection).await.unwrap();
        let (address, shutdown) = (listening.address(), CancellationToken::new());
        tokio::spawn(listening.serve(pages, shutdown.clone()));
        Self { address, waiting, go_on, _end: shutdown.drop_guard() }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Connects from one of this machine's addresses.
    pub async fn connect_from(&self, host: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, host], 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// Sends a request and returns all data until the connection is closed, as text.
    pub async fn send(&self, request: &str) -> String {
        exchange(self.connect().await, request).await
    }

    pub async fn get(&self, path: &str, headers: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n"))
            .await
    }
}

pub async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

pub fn guarded() -> Protection {
    Protection { authorizer: Some(Arc::new(Authorizer::new(Fake))), ..Protection::default() }
}

pub fn is(answer: &str, status: &str) -> bool {
    answer.starts_with(&format!("HTTP/1.1 {status}"))
}
