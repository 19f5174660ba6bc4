//! Idle connections from any client that can reach a listener.

use anyhow::{Context as _, Result, ensure};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::http::client::{Client, Files, Pair};
use kube_gc_testkit::{Collector, Options, Turn};

kube_gc_testkit::scenarios! {
    probes_are_answered_despite_many_idle_connections,
    a_tls_listener_answers_despite_many_idle_connections,
}

/// More connections than a listener keeps, and fewer than a process may have open files.
const CONNECTIONS: usize = 400;
/// The limit of open connections of one listener, with those that are being opened or closed.
const PLACES: usize = 256 + 32;

/// Opens connections to a listener, which become idle in turn after each of these texts, and keeps them.
async fn idle(address: &str, texts: &[&[u8]]) -> Result<Vec<TcpStream>> {
    let mut held = Vec::new();
    for number in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(address).await.context("cannot connect")?;
        // The listener may have closed the connection by now.
        let _ = stream.write_all(texts[number % texts.len()]).await;
        held.push(stream);
    }
    Ok(held)
}

/// Fails unless the probe is answered, and connections were closed to make room.
async fn is_alive(collector: &Collector) -> Result<()> {
    let answer = collector.get("/livez").await?;
    ensure!(answer.status == 200, "{answer:?}");
    let evicted = collector.metric("kube_gc_http_connections_evicted_total").await?;
    ensure!(evicted >= (CONNECTIONS - PLACES) as f64, "{evicted} of {CONNECTIONS} were evicted");
    Ok(())
}

/// Any pod that reaches the health port could make the kubelet kill every replica by its own liveness probe,
/// because 100 idle connections used up the limit. Fails if the listener waits for a free slot before it
/// accepts, and if it accepts without a limit.
async fn probes_are_answered_despite_many_idle_connections() -> Result<()> {
    let turn = Turn::take().await?;
    let collector = Collector::start(turn.plane(), Options::default()).await?;
    collector.ready().await?;
    let texts: [&[u8]; 3] = [b"", b"GET /livez HTTP/1.1\r\nA: ", b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"];
    let _held = idle(collector.health_address(), &texts).await?;
    is_alive(&collector).await?;
    collector.stop().await
}

/// The same at a listener with TLS, where a connection is idle until its first request, in the middle of a
/// handshake, too.
async fn a_tls_listener_answers_despite_many_idle_connections() -> Result<()> {
    let turn = Turn::take().await?;
    let pair = Pair::new()?;
    let (files, client) = (Files::new(&pair)?, Client::trusting(&[&pair])?);
    let collector = Collector::start(turn.plane(), Options::config(files.config("debug"))).await?;
    collector.ready().await?;
    // The beginning of a handshake of 512 bytes.
    let texts: [&[u8]; 2] = [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"];
    let _held = idle(collector.debug_address(), &texts).await?;
    let answer = client.get(collector.debug_address(), "/debug/queues", None).await?;
    ensure!(answer.status == 200, "{answer:?}");
    is_alive(&collector).await?;
    collector.stop().await
}
