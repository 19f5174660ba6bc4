//! Limits of requests and connections.

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Collector, Options, Turn};

kube_gc_testkit::scenarios! {
    an_overloaded_listener_rejects_requests_and_continues,
}

/// The maximum number of connections of a listener.
const CONNECTIONS: usize = 256;

const REQUEST: &[u8] = b"GET /debug/queues HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// The first bytes of the answer to a request.
async fn status(address: &str, request: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut status = [0; 12];
    stream.read_exact(&mut status).await?;
    Ok(String::from_utf8(status.to_vec())?)
}

async fn an_overloaded_listener_rejects_requests_and_continues() -> Result<()> {
    let turn = Turn::take().await?;
    let plane = turn.plane();
    let collector = Collector::start(plane, Options::default()).await?;
    let address = collector.debug_address();
    let long = format!("GET / HTTP/1.1\r\nHost: localhost\r\nA: {}\r\n\r\n", "x".repeat(64 << 10));
    ensure!(status(address, &long).await? == "HTTP/1.1 431");
    // With Host, one more than allowed.
    let many = format!("GET / HTTP/1.1\r\nHost: localhost\r\n{}\r\n", "A: b\r\n".repeat(64));
    ensure!(status(address, &many).await? == "HTTP/1.1 431");
    let body = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n";
    ensure!(status(address, body).await? == "HTTP/1.1 405");
    ensure!(status(address, &body.replace("POST", "GET")).await? == "HTTP/1.1 413");

    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(REQUEST).await?;
        ensure!(stream.read(&mut [0; 4096]).await? > 0);
        connections.push(stream);
    }
    let mut further = TcpStream::connect(address).await?;
    further.write_all(REQUEST).await?;
    ensure!(further.read(&mut [0; 4096]).await? > 0, "it takes the place of another one");
    let first = connections.first_mut().context("there are some")?;
    // The rest of its answer, and the end.
    first.read_to_end(&mut Vec::new()).await?;
    for (reason, times) in [("head", 2.0), ("method", 1.0), ("body", 1.0)] {
        let series = format!("kube_gc_http_refusals_total{{listener=\"debug\",reason=\"{reason}\"}}");
        // A request with too long a head is counted when its connection has ended, after the
        // answer.
        poll(&series, async || Ok(collector.metrics().await?.get(&series) == Some(&times))).await?;
    }
    collector.stop().await
}
