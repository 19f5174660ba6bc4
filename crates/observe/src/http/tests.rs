use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt as _;

use super::*;
use crate::readiness::Readiness;
use crate::telemetry::Exporter;

/// Status, content type, body.
type Answer = (StatusCode, String, String);

async fn get(router: Router, path: &str) -> Answer {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let status = response.status();
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, content_type, String::from_utf8(body.to_vec()).unwrap())
}

fn health(readiness: Readiness) -> Router {
    let (_, exporter) = Exporter::local();
    health_router(move || readiness.clone(), exporter)
}

#[tokio::test]
async fn a_page_cannot_control_the_terminal_that_shows_it() {
    let harmful = "\u{7f}\u{9b}31m\u{1b}[2J\u{202e}\u{2028}\r\n";
    let page = crate::http::page::json(StatusCode::OK, &json!({ "message": harmful }));
    let body = axum::body::to_bytes(page.into_body(), usize::MAX).await.unwrap();
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert_eq!(body.lines().count(), 3, "{body:?}");
    assert!(body.chars().all(|c| c == '\n' || kube_gc_core::text::escape::is_printable(c)), "{body:?}");
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["message"], harmful);
}

#[tokio::test]
async fn liveness_does_not_depend_on_readiness() {
    for (path, status, expected) in [
        ("/livez", 200, "ok"),
        ("/healthz", 200, "ok"),
        ("/livez?verbose", 200, "[+]ping ok\nlivez check passed\n"),
        ("/readyz", 503, "readyz check failed\n"),
    ] {
        let (found, _, body) = get(health(Readiness::default()), path).await;
        assert_eq!((found.as_u16(), body.as_str()), (status, expected), "{path}");
    }
    let (_, content_type, body) = get(health(Readiness::default()), "/metrics").await;
    assert_eq!(content_type, "text/plain; version=0.0.4; charset=utf-8");
    assert!(body.contains("kube_gc_build_info"));
}

// Tests over real sockets, which also cover the listeners.

async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_listener_serves_until_it_is_stopped() {
    let any = "127.0.0.1:0".parse().unwrap();
    let listening = bind(Listener::Health, any, Protection::default()).await.unwrap();
    let address = listening.address();
    assert_ne!(address.port(), 0);
    let shutdown = CancellationToken::new();
    let server = tokio::spawn(listening.serve(health(Readiness::default()), shutdown.clone()));
    for version in ["1.0", "1.1"] {
        let request = format!("GET /livez HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let answer = exchange(address, &request).await;
        assert!(answer.starts_with(&format!("HTTP/{version} 200 OK\r\n")), "{answer}");
        assert!(answer.ends_with("\r\n\r\nok"), "{answer}");
    }
    // An idle connection does not delay shutdown.
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    idle.readable().await.unwrap();
    // The paused clock advances only when no task can run, so a shutdown without waits takes no time.
    tokio::time::pause();
    shutdown.cancel();
    tokio::time::timeout(Duration::from_secs(2), server).await.unwrap().unwrap();
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_taken_address_is_explained() {
    let bound = async |listener, address| bind(listener, address, Protection::default()).await;
    let first = bound(Listener::Health, "127.0.0.1:0".parse().unwrap()).await.unwrap();
    let error = bound(Listener::Debug, first.address()).await.err().unwrap().to_string();
    assert_eq!(
        error,
        format!(
            "cannot listen on {} for the debug pages: another process uses this address; choose another one with \
             --debug-listen ADDRESS:PORT (port 0: any free one)",
            first.address()
        )
    );
}
