//! When the listeners close connections.

use std::sync::Arc;
use std::time::Duration;

use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tokio::net::TcpStream;

use super::server::{Server, is};
use crate::http::connections::{ConnectionSlot, Connections, MAX_CONNECTIONS};
use crate::http::middleware::*;
use crate::http::serve::ConnectionHandler;
use crate::http::{Certificates, Protection, TlsFiles};

/// Serves one connection without a network.
async fn serve_http(pages: Router, stream: DuplexStream, slot: Arc<ConnectionSlot>) {
    let handler = ConnectionHandler { listener: Listener::Health, tls: None, pages };
    handler.serve_http(stream, &slot, CancellationToken::new()).await;
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
    let request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    last.write_all(request).await.unwrap();
    assert!(last.read(&mut [0; 1024]).await.unwrap() > 0, "the last one is not evicted");
}

/// Pipelined requests whose responses the client does not read are neither idle nor in flight.
#[tokio::test]
async fn connections_whose_answers_are_not_read_are_closed_for_others() {
    let server = Server::start(Listener::Health, Protection::default()).await;
    let many = "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
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
        () = serve_http(Router::new(), ours, slot) => {}
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
            theirs.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
            let length = theirs.read(&mut answer).await.unwrap();
            assert!(is(std::str::from_utf8(&answer[..length]).unwrap(), "200 "), "request {number}");
        }
        let answered = tokio::time::Instant::now();
        assert_eq!(theirs.read(&mut answer).await.unwrap(), 0);
        answered.elapsed()
    };
    tokio::join!(serve_http(pages, ours, slot), client).1
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_closed_when_it_was_idle_for_30_seconds() {
    assert_eq!(idle_time(1, Duration::ZERO).await.as_secs(), 30);
    assert_eq!(idle_time(3, Duration::from_secs(29)).await.as_secs(), 30, "each request begins a new time");
}

#[tokio::test]
async fn a_connection_without_a_handshake_is_closed() {
    let (certificate, key) = crate::http::tls::tests::pair();
    let directory = tempfile::tempdir().unwrap();
    let files =
        TlsFiles { certificate: directory.path().join("tls.crt"), key: directory.path().join("tls.key") };
    std::fs::write(&files.certificate, certificate).unwrap();
    std::fs::write(&files.key, key).unwrap();
    let certificates = Some(Arc::new(Certificates::load(files).unwrap()));
    let server = Server::start(Listener::Debug, Protection { certificates, ..Protection::default() }).await;
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
