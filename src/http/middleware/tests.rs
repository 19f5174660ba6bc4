use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::routing::get;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use rcgen::{CertificateParams, KeyPair};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Notify;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::*;
use crate::api::{Access, Bearer, ReviewError, User};
use crate::http::access::Reviewer;
use crate::http::connections::{Connections, MAX_CONNECTIONS, MAX_REQUESTS_PER_SOURCE};
use crate::http::serve::max_header_size;
use crate::http::{Certificates, Protection, TlsFiles, bind};

/// A page that is larger than the buffers of both sockets.
static LONG: [u8; 16 << 20] = [b'x'; 16 << 20];

/// Knows the token `good`, whose user may read all pages.
struct Fake;

impl Reviewer for Fake {
    fn identify(&self, token: Token) -> BoxFuture<'static, Result<Bearer, ReviewError>> {
        let good = token.reveal() == "good";
        async move {
            Ok(if good { Bearer::Known(Arc::new(User::default())) } else { Bearer::Unknown(String::new()) })
        }
        .boxed()
    }

    fn may_get(&self, _: Arc<User>, _: String) -> BoxFuture<'static, Result<Access, ReviewError>> {
        async { Ok(Access::Allowed) }.boxed()
    }
}

/// Serves pages on a free port until it is dropped.
struct Server {
    address: SocketAddr,
    /// The number of requests to `/wait`.
    waiting: Arc<Semaphore>,
    /// Lets requests to `/wait` finish.
    go_on: Arc<Notify>,
    _end: DropGuard,
}

impl Server {
    async fn start(listener: Listener, protection: Protection) -> Self {
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
            .route(
                "/stream",
                get(async || {
                    let first = futures::stream::once(async { Ok::<_, std::io::Error>("first") });
                    Body::from_stream(first.chain(futures::stream::pending()))
                }),
            )
            .route("/long", get(async || LONG.as_slice()))
            .route(
                "/wait",
                get(async move || {
                    came.add_permits(1);
                    wait.notified().await;
                    "done"
                }),
            );
        let listening = bind(listener, "127.0.0.1:0".parse().unwrap()).await.unwrap().protected(protection);
        let (address, shutdown) = (listening.address(), CancellationToken::new());
        tokio::spawn(listening.serve(pages, shutdown.clone()));
        Self { address, waiting, go_on, _end: shutdown.drop_guard() }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// Connects from one of this machine's addresses.
    async fn connect_from(&self, host: u8) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 0, host], 0).into()).unwrap();
        socket.connect(self.address).await.unwrap()
    }

    /// Sends a request and returns all data until the connection is closed, as text.
    async fn send(&self, request: &str) -> String {
        exchange(self.connect().await, request).await
    }

    async fn get(&self, path: &str, headers: &str) -> String {
        self.send(&format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n")).await
    }
}

async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8(answer).unwrap()
}

fn guarded() -> Protection {
    Protection { authorizer: Some(Arc::new(Authorizer::new(Fake))), ..Protection::default() }
}

fn is(answer: &str, status: &str) -> bool {
    answer.starts_with(&format!("HTTP/1.1 {status}"))
}

#[tokio::test]
async fn only_a_token_opens_a_guarded_page() {
    let server = Server::start(Listener::Health, guarded()).await;
    for headers in [
        "",
        "Authorization: Bearer bad\r\n",
        "Authorization: Bearer\r\n",
        "Authorization: Bearer \r\n",
        "Authorization: Basic good\r\n",
        "Authorization: good\r\n",
        "Authorization: Bearer good good\r\n",
        "Authorization: Bearer good\r\nAuthorization: Bearer good\r\n",
    ] {
        for path in ["/metrics", "/nothing", "/livez/", "//livez", "/livez/../metrics", "/metrics?token=good"]
        {
            let answer = server.get(path, headers).await;
            assert!(is(&answer, "401 "), "{path} {headers}: {answer}");
            assert!(answer.contains("www-authenticate: Bearer realm=\"kube-gc\"\r\n"), "{answer}");
        }
        assert!(is(&server.get("/livez", headers).await, "200 "), "the kubelet has no token");
    }
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let answer = server.get("/metrics", &format!("Authorization: {scheme} good\r\n")).await;
        assert!(is(&answer, "200 ") && answer.ends_with("numbers"), "{answer}");
    }
    assert!(is(&server.get("/nothing", "Authorization: Bearer good\r\n").await, "404 "));
}

#[tokio::test]
async fn no_debug_page_is_open_without_a_token() {
    let server = Server::start(Listener::Debug, guarded()).await;
    assert!(is(&server.get("/livez", "").await, "401 "));
}

#[tokio::test]
async fn pages_without_access_control_ignore_tokens() {
    let server = Server::start(Listener::Health, Protection::default()).await;
    assert!(server.get("/metrics", "Authorization: Bearer good\r\n").await.ends_with("numbers"));
}

#[tokio::test]
async fn other_methods_and_bodies_are_rejected_unread() {
    let server = Server::start(Listener::Health, guarded()).await;
    let close = "Host: x\r\nConnection: close\r\n";
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "FOO"] {
        let answer = server.send(&format!("{method} /livez HTTP/1.1\r\n{close}\r\n")).await;
        assert!(is(&answer, "405 ") && answer.contains("allow: GET, HEAD\r\n"), "{answer}");
    }
    let head = server.send(&format!("HEAD /livez HTTP/1.1\r\n{close}\r\n")).await;
    assert!(is(&head, "200 ") && head.ends_with("\r\n\r\n"), "{head}");
    // The headers announce a body that never arrives. The listener does not wait for it, and
    // does not parse later data on this connection as a request.
    for announced in ["Content-Length: 1000000000", "Transfer-Encoding: chunked"] {
        let request = format!("GET /livez HTTP/1.1\r\nHost: x\r\n{announced}\r\n\r\n");
        assert!(is(&server.send(&request).await, "413 "));
        let request = format!("POST /livez HTTP/1.1\r\nHost: x\r\n{announced}\r\n\r\n");
        assert!(is(&server.send(&request).await, "405 "));
    }
    let empty = server.get("/livez", "Content-Length: 0\r\n").await;
    assert!(is(&empty, "200 "), "{empty}");
}

/// Request smuggling: data that a proxy may parse as one request is not parsed as two.
#[tokio::test]
async fn an_ambiguous_request_is_rejected_and_its_connection_closed() {
    let server = Server::start(Listener::Health, Protection::default()).await;
    let next = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    for headers in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
        "Content-Length: +0\r\n\r\n",
        "Content-Length : 0\r\n\r\n",
        "A: b\r\n Content-Length: 5\r\n\r\n",
        "A: b\0c\r\n\r\n",
    ] {
        let answer = server.send(&format!("GET /livez HTTP/1.1\r\nHost: x\r\n{headers}{next}")).await;
        assert!(is(&answer, "400 ") || is(&answer, "413 "), "{headers:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{headers:?}: {answer}");
    }
}

#[tokio::test]
async fn no_other_protocol_is_spoken() {
    let server = Server::start(Listener::Health, guarded()).await;
    let upgrade =
        "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nConnection: close, Upgrade, HTTP2-Settings\r\n";
    let answer = server.send(&format!("GET /livez HTTP/1.1\r\nHost: x\r\n{upgrade}\r\n")).await;
    assert!(is(&answer, "200 ") && answer.ends_with("alive"), "{answer}");
    let answer = server.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(!answer.contains("200"), "{answer}");
    let close = "Host: x\r\nConnection: close\r\n\r\n";
    assert!(is(&server.send(&format!("CONNECT x:1 HTTP/1.1\r\n{close}")).await, "405 "));
    let answer = server.send(&format!("GET http://livez/metrics HTTP/1.1\r\n{close}")).await;
    assert!(is(&answer, "401 "), "the path counts, whatever the host: {answer}");
    // Each request of a pipeline is checked separately.
    let pipeline = format!("GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\n{close}");
    let answer = server.send(&pipeline).await;
    assert!(is(&answer, "200 ") && answer.contains("HTTP/1.1 401 "), "{answer}");
}

#[tokio::test]
async fn long_heads_are_rejected() {
    for listener in [Listener::Health, Listener::Debug] {
        let (server, most) =
            (Server::start(listener, Protection::default()).await, max_header_size(listener));
        assert_eq!(most >> 10, if listener == Listener::Health { 16 } else { 64 }, "the documented limit");
        let within = "x".repeat(most - 1000);
        assert!(is(&server.get(&format!("/livez?{within}"), "").await, "200 "));
        assert!(is(&server.get("/livez", &format!("A: {within}\r\n")).await, "200 "));
        // Only a few bytes too many, so that all are read before the response.
        let beyond = "x".repeat(most);
        assert!(is(&server.get("/livez", &format!("A: {beyond}\r\n")).await, "431 "));
        // `get` sends two more headers.
        assert!(is(&server.get("/livez", &"A: b\r\n".repeat(62)).await, "200 "));
        assert!(is(&server.get("/livez", &"A: b\r\n".repeat(63)).await, "431 "));
        let long = server.get(&format!("/livez?{beyond}"), "").await;
        assert!(is(&long, "414 ") || is(&long, "431 "), "{long}");
    }
}

const METRICS: &str = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn too_many_concurrent_requests_get_retry_after_and_probes_do_not() {
    assert_eq!((MAX_REQUESTS, MAX_REQUESTS_PER_SOURCE), (32, 16), "the documented limits");
    let server = Server::start(Listener::Health, Protection::default()).await;
    let wait = "GET /wait HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let from = |number: usize| server.connect_from(1 + (number / MAX_REQUESTS_PER_SOURCE) as u8);
    let waiting = (0..MAX_REQUESTS).map(async |number| exchange(from(number).await, wait).await);
    let waiting = futures::future::join_all(waiting);
    let checks = async {
        let _ = server.waiting.acquire_many(MAX_REQUESTS as u32).await.unwrap();
        let answer = exchange(server.connect_from(200).await, METRICS).await;
        assert!(is(&answer, "503 ") && answer.contains("retry-after: 1\r\n"), "{answer}");
        assert!(is(&server.get("/livez", "").await, "200 "));
        server.go_on.notify_waiters();
    };
    let (answers, ()) = tokio::join!(waiting, checks);
    assert!(answers.iter().all(|answer| is(answer, "200 ")), "{answers:?}");
    assert!(is(&server.get("/metrics", "").await, "200 "), "their slots are free again");
}

#[tokio::test]
async fn one_source_cannot_use_all_request_slots() {
    let server = Server::start(Listener::Health, Protection::default()).await;
    let waiting = futures::future::join_all((0..MAX_REQUESTS_PER_SOURCE).map(|_| server.get("/wait", "")));
    let checks = async {
        let _ = server.waiting.acquire_many(MAX_REQUESTS_PER_SOURCE as u32).await.unwrap();
        assert!(is(&server.get("/metrics", "").await, "503 "));
        assert!(is(&exchange(server.connect_from(2).await, METRICS).await, "200 "));
        server.go_on.notify_waiters();
    };
    let (answers, ()) = tokio::join!(waiting, checks);
    assert!(answers.iter().all(|answer| is(answer, "200 ")), "{answers:?}");
}

/// The page is complete at once, and larger than what the system buffers without a reader.
/// Fails if its slot is freed while the response is in memory for a client that does not read.
#[tokio::test]
async fn a_page_that_is_not_fetched_counts() {
    let server = Server::start(Listener::Debug, Protection::default()).await;
    let mut readers = Vec::new();
    for _ in 0..MAX_REQUESTS_PER_SOURCE {
        let mut stream = server.connect().await;
        stream.write_all(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
        readers.push(stream);
    }
    assert!(is(&server.get("/metrics", "").await, "503 "));
    let mut first = readers.swap_remove(0);
    let mut left = LONG.len();
    while left > 1024 {
        left -= first.read(&mut vec![0; 1 << 20]).await.unwrap();
    }
    while !is(&server.get("/metrics", "").await, "200 ") {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_answer_that_is_still_being_sent_counts() {
    let server = Server::start(Listener::Debug, Protection::default()).await;
    let mut readers = Vec::new();
    for _ in 0..MAX_REQUESTS_PER_SOURCE {
        let mut stream = server.connect().await;
        stream.write_all(b"GET /stream HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = [0; 1024];
        let length = stream.read(&mut answer).await.unwrap();
        assert!(is(std::str::from_utf8(&answer[..length]).unwrap(), "200 "));
        readers.push(stream);
    }
    assert!(is(&server.get("/metrics", "").await, "503 "));
    drop(readers);
    // Waits until the server notices that the client is gone.
    while !is(&server.get("/metrics", "").await, "200 ") {
        tokio::task::yield_now().await;
    }
}

/// Whether the server has closed the connection.
async fn is_closed(stream: &mut TcpStream) -> bool {
    !matches!(
        tokio::time::timeout(Duration::from_secs(60), stream.read(&mut [0; 1])).await,
        Ok(Ok(1..)) | Err(_)
    )
}

#[tokio::test]
async fn idle_connections_are_closed_for_others() {
    let server = Server::start(Listener::Health, Protection::default()).await;
    let mut silent = Vec::new();
    for _ in 0..2 * MAX_CONNECTIONS {
        silent.push(server.connect_from(2).await);
    }
    assert!(is(&server.get("/livez", "").await, "200 "));
    // The remaining connections stay open for longer than this test takes.
    assert!(is_closed(&mut silent[0]).await && is_closed(&mut silent[MAX_CONNECTIONS - 1]).await);
    let mut last = silent.pop().unwrap();
    let request = b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    last.write_all(request).await.unwrap();
    assert!(last.read(&mut [0; 1024]).await.unwrap() > 0, "the last one is not evicted");
}

/// Pipelined requests whose responses the client does not read are neither idle nor in flight.
#[tokio::test]
async fn connections_whose_answers_are_not_read_are_closed_for_others() {
    let server = Server::start(Listener::Health, Protection::default()).await;
    let many = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n".repeat(1000);
    let mut clogged = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        let stream = server.connect_from(2).await;
        // Writes as much as the server reads: it stops reading when it cannot write.
        let _ = stream.try_write(many.as_bytes());
        clogged.push(stream);
    }
    for _ in 0..10 {
        assert!(is(&server.get("/livez", "").await, "200 "));
    }
}

/// A byte now and then is not a request. Real time would take too long, and the paused clock
/// does not wait for the network, so a pipe replaces the connection.
#[tokio::test]
async fn a_request_head_that_arrives_too_slowly_is_cancelled() {
    tokio::time::pause();
    let (ours, mut theirs) = tokio::io::duplex(1024);
    let slot = Connections::new(Listener::Health).admit(std::net::IpAddr::from([127, 0, 0, 1]).into());
    let start = tokio::time::Instant::now();
    let drops = async {
        let _ = theirs.write_all(b"GET /livez HTTP/1.1\r\nA: ").await;
        while theirs.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = crate::http::serve::serve_http(Listener::Health, Router::new(), ours, slot) => {}
        () = drops => unreachable!(),
    }
    assert_eq!(start.elapsed().as_secs(), 5);
}

/// Sends requests at intervals over a pipe, and returns how long after the last answer the
/// connection is closed.
async fn idle_time(requests: usize, interval: Duration) -> Duration {
    let (ours, mut theirs) = tokio::io::duplex(1024);
    let slot = Connections::new(Listener::Health).admit(std::net::IpAddr::from([127, 0, 0, 1]).into());
    let pages = Router::new().route("/livez", get(|| async { "alive" }));
    let client = async {
        let mut answer = [0; 1024];
        for number in 0..requests {
            if number > 0 {
                tokio::time::sleep(interval).await;
            }
            theirs.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
            let length = theirs.read(&mut answer).await.unwrap();
            assert!(is(std::str::from_utf8(&answer[..length]).unwrap(), "200 "), "request {number}");
        }
        let answered = tokio::time::Instant::now();
        assert_eq!(theirs.read(&mut answer).await.unwrap(), 0);
        answered.elapsed()
    };
    tokio::join!(crate::http::serve::serve_http(Listener::Health, pages, ours, slot), client).1
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_closed_when_it_was_idle_for_30_seconds() {
    assert_eq!(idle_time(1, Duration::ZERO).await.as_secs(), 30);
    assert_eq!(idle_time(3, Duration::from_secs(29)).await.as_secs(), 30, "each request begins a new time");
}

/// A self-signed certificate, and a client that trusts it.
fn tls() -> (Protection, TlsConnector) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("tls.crt"), certificate.pem()).unwrap();
    std::fs::write(path("tls.key"), key.serialize_pem()).unwrap();
    let files = TlsFiles { certificate: path("tls.crt"), key: path("tls.key") };
    let certificates = Some(Arc::new(Certificates::load(files).unwrap()));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(certificate.der().to_vec())).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    (Protection { certificates, ..Protection::default() }, TlsConnector::from(Arc::new(client)))
}

#[tokio::test]
async fn with_tls_nothing_is_served_unencrypted() {
    let (protection, connector) = tls();
    let server = Server::start(Listener::Debug, protection).await;
    let name = ServerName::try_from("localhost").unwrap();
    let stream = connector.connect(name, server.connect().await).await.unwrap();
    let answer = exchange(stream, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
    assert!(is(&answer, "200 ") && answer.ends_with("numbers"), "{answer}");
    let mut stream = server.connect().await;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[tokio::test]
async fn a_connection_without_a_handshake_is_closed() {
    let (protection, _) = tls();
    let server = Server::start(Listener::Debug, protection).await;
    let mut stream = server.connect().await.into_std().unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    // The paused clock advances when no task can run, and does not wait for the network. A
    // timeout here might expire before the server has seen the connection, so another thread
    // waits for the end in real time.
    let start = tokio::time::Instant::now();
    tokio::time::pause();
    let (end, ended) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || end.send(std::io::Read::read(&mut stream, &mut [0; 1])));
    assert_eq!(ended.await.unwrap().unwrap(), 0);
    assert_eq!(start.elapsed().as_secs(), 5);
}

#[tokio::test]
async fn a_page_that_hangs_does_not_hold_its_slot() {
    tokio::time::pause();
    let pages = Router::new().route("/", get(std::future::pending::<&str>));
    let pages = Middleware::new(Listener::Debug, None).wrap(pages);
    let slot = Connections::new(Listener::Debug).admit(std::net::IpAddr::from([127, 0, 0, 1]).into());
    let request = Request::get("/").extension(slot).body(Body::empty()).unwrap();
    let answer = tower::ServiceExt::oneshot(pages, request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
}
