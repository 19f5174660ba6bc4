mod connections;
mod hosts;
mod server;

use axum::body::Body;
use axum::routing::get;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use self::server::{LONG, Server, exchange, guarded, is};
use super::*;
use crate::http::Protection;
use crate::http::connections::{Connections, MAX_REQUESTS_PER_SOURCE};
use crate::http::serve::max_header_size;

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

/// As in DNS rebinding: a browser takes the address of a listener for that of a website.
#[tokio::test]
async fn requests_for_other_hosts_are_rejected_even_with_a_token() {
    let protection = Protection { hosts: Hosts::new(&["gc.example.com".to_owned()]), ..guarded() };
    let server = Server::start(Listener::Health, protection).await;
    let ask = async |path: &str, host: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        server.send(&format!("{head}Authorization: Bearer good\r\n\r\n")).await
    };
    for path in ["/livez", "/metrics"] {
        for host in ["127.0.0.1", "[::1]:8080", "localhost", "gc.example.com:8080"] {
            assert!(is(&ask(path, host).await, "200 "), "{path} {host}");
        }
        let answer = ask(path, "evil.example.com").await;
        assert!(is(&answer, "421 ") && answer.contains("\"evil.example.com\""), "{answer}");
        assert!(answer.contains("add the name to http.hosts"), "{answer}");
        // The API server's proxy sends such headers, but so can the website.
        let forwarded = "X-Forwarded-Host: localhost\r\nX-Forwarded-Uri: /api/v1/namespaces/kube-gc/pods/a/proxy/\r\nForwarded: host=localhost";
        let answer = ask(path, &format!("api.example.com:6443\r\n{forwarded}")).await;
        assert!(is(&answer, "421 "), "{answer}");
    }
}

#[tokio::test]
async fn only_the_static_files_of_the_page_are_open_without_a_token() {
    let browser = "Accept: text/html\r\n";
    let server = Server::start(Listener::Debug, guarded()).await;
    for path in ["/", "/ui/main.js"] {
        // The server of these tests has other pages, so nothing is found; but nothing is refused.
        assert!(is(&server.get(path, browser).await, "404 "), "{path}");
    }
    for path in ["/debug", "/debug/summary", "/ui/nothing.js", "/ui/../debug/summary"] {
        assert!(is(&server.get(path, browser).await, "401 "), "{path}");
    }
    assert!(is(&server.get("/", "").await, "401 "), "the index for curl");
    assert!(is(&server.get("/livez", "").await, "401 "), "no page of this listener is open");
    let health = Server::start(Listener::Health, guarded()).await;
    assert!(is(&health.get("/ui/main.js", browser).await, "401 "), "this listener has no page");
}

#[tokio::test]
async fn other_methods_and_bodies_are_rejected_unread() {
    let server = Server::start(Listener::Health, guarded()).await;
    let close = "Host: localhost\r\nConnection: close\r\n";
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "FOO"] {
        let answer = server.send(&format!("{method} /livez HTTP/1.1\r\n{close}\r\n")).await;
        assert!(is(&answer, "405 ") && answer.contains("allow: GET, HEAD\r\n"), "{answer}");
    }
    let head = server.send(&format!("HEAD /livez HTTP/1.1\r\n{close}\r\n")).await;
    assert!(is(&head, "200 ") && head.ends_with("\r\n\r\n"), "{head}");
    // The headers announce a body that never arrives. The listener does not wait for it, and
    // does not parse later data on this connection as a request.
    for announced in ["Content-Length: 1000000000", "Transfer-Encoding: chunked"] {
        let request = format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n{announced}\r\n\r\n");
        assert!(is(&server.send(&request).await, "413 "));
        let request = format!("POST /livez HTTP/1.1\r\nHost: localhost\r\n{announced}\r\n\r\n");
        assert!(is(&server.send(&request).await, "405 "));
    }
    let empty = server.get("/livez", "Content-Length: 0\r\n").await;
    assert!(is(&empty, "200 "), "{empty}");
}

/// Request smuggling: data that a proxy may parse as one request is not parsed as two.
#[tokio::test]
async fn an_ambiguous_request_is_rejected_and_its_connection_closed() {
    let server = Server::start(Listener::Health, Protection::default()).await;
    let next = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
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
        let answer = server.send(&format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n{headers}{next}")).await;
        assert!(is(&answer, "400 ") || is(&answer, "413 "), "{headers:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{headers:?}: {answer}");
    }
}

#[tokio::test]
async fn no_other_protocol_is_spoken() {
    let server = Server::start(Listener::Health, guarded()).await;
    let upgrade =
        "Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nConnection: close, Upgrade, HTTP2-Settings\r\n";
    let answer = server.send(&format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n{upgrade}\r\n")).await;
    assert!(is(&answer, "200 ") && answer.ends_with("alive"), "{answer}");
    let answer = server.send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
    assert!(!answer.contains("200"), "{answer}");
    let close = "Host: localhost\r\nConnection: close\r\n\r\n";
    assert!(is(&server.send(&format!("CONNECT x:1 HTTP/1.1\r\n{close}")).await, "405 "));
    let answer = server.send(&format!("GET http://localhost/metrics HTTP/1.1\r\n{close}")).await;
    assert!(is(&answer, "401 "), "the path counts, not the whole target: {answer}");
    let answer = server.send(&format!("GET http://livez/metrics HTTP/1.1\r\n{close}")).await;
    assert!(is(&answer, "421 "), "no host can be taken for a path: {answer}");
    // Each request of a pipeline is checked separately.
    let pipeline = format!("GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\nGET /metrics HTTP/1.1\r\n{close}");
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

const METRICS: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn too_many_concurrent_requests_get_retry_after_and_probes_do_not() {
    assert_eq!((MAX_REQUESTS, MAX_REQUESTS_PER_SOURCE), (32, 16), "the documented limits");
    let server = Server::start(Listener::Health, Protection::default()).await;
    let wait = "GET /wait HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
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

/// `/long` is complete at once, and larger than what the system buffers without a reader; `/stream`
/// does not end. Fails if a slot is freed while the response waits for a client that does not read.
#[tokio::test]
async fn a_page_that_is_not_fetched_counts() {
    for path in ["/long", "/stream"] {
        let server = Server::start(Listener::Debug, Protection::default()).await;
        let mut readers = Vec::new();
        for _ in 0..MAX_REQUESTS_PER_SOURCE {
            let mut stream = server.connect().await;
            let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
            readers.push(stream);
        }
        assert!(is(&server.get("/metrics", "").await, "503 "), "{path}");
        let mut first = readers.swap_remove(0);
        let mut left = if path == "/long" { LONG.len() } else { 0 };
        while left > 1024 {
            left -= first.read(&mut vec![0; 1 << 20]).await.unwrap();
        }
        if path == "/stream" {
            drop(first);
        }
        // Waits until the server notices that one was fetched, or its client is gone.
        while !is(&server.get("/metrics", "").await, "200 ") {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn a_page_that_hangs_does_not_hold_its_slot() {
    tokio::time::pause();
    let pages = Router::new().route("/", get(std::future::pending::<&str>));
    let pages = Middleware::new(Listener::Debug, None, Hosts::default()).wrap(pages);
    let slot = Connections::new(Listener::Debug).admit(std::net::IpAddr::from([127, 0, 0, 1]).into());
    let request = Request::get("/").extension(slot).body(Body::empty()).unwrap();
    let answer = tower::ServiceExt::oneshot(pages, request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT);
}

#[tokio::test]
async fn streams_are_limited_and_do_not_count_as_requests() {
    assert_eq!(MAX_STREAMS, 8, "the documented limit");
    let server = Server::start(Listener::Debug, Protection::default()).await;
    let head = format!("GET {} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", STREAM);
    let mut streams = Vec::new();
    for _ in 0..MAX_STREAMS {
        let mut stream = server.connect_from(9).await;
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 1024];
        let length = stream.read(&mut answer).await.unwrap();
        assert!(is(std::str::from_utf8(&answer[..length]).unwrap(), "200 "));
        streams.push(stream);
    }
    assert!(is(&server.send(&head).await, "503 "));
    assert!(is(&server.send(METRICS).await, "200 "), "they are counted apart");
    drop(streams);
    // Waits until the server notices that the clients are gone.
    loop {
        let mut stream = server.connect().await;
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        if answer == *b"HTTP/1.1 200" {
            break;
        }
    }
}
