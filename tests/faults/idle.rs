//! Idle connections from any client that can reach a listener.

use std::any::Any;
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::http::client::{Client, Files, Pair};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Collector, Options, Turn};

kube_gc_testkit::scenarios! {
    probes_are_answered_despite_many_idle_connections,
    a_tls_listener_answers_despite_many_idle_connections,
}

/// The number of connections, if the limit of open files allows it.
const CONNECTIONS: usize = 10_000;
/// The minimum for a meaningful test.
const FEWEST: usize = 1_000;
/// The number of connections that are opened between two probes.
const BATCH: usize = 500;
/// The number of probes while all connections are open and more come.
const PROBES: usize = 20;
/// The time within which a probe must be answered: the kubelet's default timeout.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Files that the collector itself may open meanwhile: connections to the API server.
const OWN_FILES: usize = 64;
/// The limit of open files of one listener, including connections that are being opened or closed.
const FILES_OF_A_LISTENER: usize = 256 + 32;

/// Raises the limit of open files to the maximum, and returns how many connections this process may
/// open. The collector inherits the limit.
fn connections() -> Result<usize> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    let files = getrlimit(Resource::Nofile).current.map_or(usize::MAX, |files| files as usize);
    // Other tests of this process have open files, too.
    let connections = CONNECTIONS.min(files.saturating_sub(files / 4));
    ensure!(connections >= FEWEST, "the limit of open files is {files}; raise it with `ulimit -n`");
    if connections < CONNECTIONS {
        eprintln!("{connections} connections, because the limit of open files is {files}");
    }
    Ok(connections)
}

/// The number of open files of a process.
fn open_files(pid: u32) -> Result<usize> {
    Ok(std::fs::read_dir(format!("/proc/{pid}/fd"))?.count())
}

/// What clients have sent before they become idle.
#[derive(Clone, Copy, Debug)]
enum Sent {
    Nothing,
    OneByte,
    HalfARequest,
    /// One request, whose answer they have read.
    ARequest,
}

/// A connection that is closed when it is dropped.
type Held = Box<dyn Any>;

const ALL: [Sent; 4] = [Sent::Nothing, Sent::OneByte, Sent::HalfARequest, Sent::ARequest];

/// An idle connection from an address of this machine.
async fn silent(from: Ipv4Addr, to: &str, sent: Sent) -> Result<Held> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((from, 0).into())?;
    let mut stream = socket.connect(to.parse()?).await.context("cannot connect")?;
    let text: &[u8] = match sent {
        Sent::Nothing => b"",
        Sent::OneByte => b"G",
        Sent::HalfARequest => b"GET /livez HTTP/1.1\r\nHost: localhost\r\nA: ",
        Sent::ARequest => b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    };
    // The listener may have closed the connection by now.
    if stream.write_all(text).await.is_ok() && matches!(sent, Sent::ARequest) {
        let _ = stream.read(&mut [0; 1024]).await;
    }
    Ok(Box::new(stream))
}

/// The same with TLS.
async fn silent_with_tls(client: &Client, to: &str, sent: Sent) -> Result<Held> {
    let mut stream = TcpStream::connect(to).await.context("cannot connect")?;
    // The beginning of a handshake of 512 bytes.
    let part: &[u8] = match sent {
        Sent::Nothing => b"",
        Sent::OneByte => b"\x16",
        Sent::HalfARequest => b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        Sent::ARequest => return Ok(Box::new(client.connect(to).await)),
    };
    let _ = stream.write_all(part).await;
    Ok(Box::new(stream))
}

/// Opens connections and keeps them. Fails unless every `probe` is answered and the listener closes
/// connections before it has too many. `address` is that of the listener.
async fn hold(
    collector: &Collector,
    address: &str,
    open: impl AsyncFn(usize, Sent) -> Result<Held>,
    probe: impl AsyncFn() -> Result<()>,
) -> Result<()> {
    let before = open_files(collector.pid())?;
    let bound = before + FILES_OF_A_LISTENER + OWN_FILES;
    let (count, mut held, connected) = (connections()?, Vec::new(), Cell::new(0));
    let check = async |held: usize| {
        let answered = timeout(PROBE_TIMEOUT, probe()).await;
        answered
            .with_context(|| format!("no answer within {PROBE_TIMEOUT:?}"))
            .flatten()
            .with_context(|| format!("with {held} idle connections"))?;
        let files = open_files(collector.pid())?;
        ensure!(files <= bound, "{files} open files, {before} of them before, with {held} connections");
        Ok(())
    };
    for number in 0..count {
        held.push(open(number, ALL[number % ALL.len()]).await?);
        if number % BATCH == 0 {
            check(held.len()).await?;
        }
    }
    // More come while the probes are sent, each in the place of an older one.
    let flood = async {
        for number in 0.. {
            let from = Ipv4Addr::new(127, 0, 0, 2 + (number % 250) as u8);
            held[number % count] = silent(from, address, ALL[number % ALL.len()]).await?;
            connected.set(number);
        }
        anyhow::Ok(())
    };
    let probes = async {
        for _ in 0..PROBES {
            let before = connected.get();
            check(count).await?;
            poll("more connections", async || Ok(connected.get() > before)).await?;
        }
        anyhow::Ok(())
    };
    tokio::select! {
        flooded = flood => flooded?,
        probed = probes => probed?,
    }
    let evicted = collector.metric("kube_gc_http_connections_evicted_total").await?;
    ensure!(evicted >= (count - FILES_OF_A_LISTENER) as f64, "{evicted} of {count} were evicted");
    drop(held);
    poll("the connections to be closed", async || {
        Ok(collector.metric("kube_gc_http_connections").await? < 10.0)
    })
    .await
}

async fn livez(collector: &Collector) -> Result<()> {
    let answer = collector.get("/livez").await?;
    ensure!(answer.status == 200, "{answer:?}");
    Ok(())
}

/// Any pod that reaches the health port, from one address or a thousand, could make the kubelet kill every
/// replica by its own liveness probe, because 100 idle connections used up the limit. Fails if the listener
/// waits for a free slot before it accepts, and if it accepts without a limit.
async fn probes_are_answered_despite_many_idle_connections() -> Result<()> {
    for addresses in [1, 1000] {
        let turn = Turn::take().await?;
        let collector = Collector::start(turn.plane(), Options::default()).await?;
        collector.ready().await?;
        let open = async |number: usize, sent| {
            let [high, low] = ((number % addresses) as u16).to_be_bytes();
            silent(Ipv4Addr::new(127, 1, high, low), collector.health_address(), sent).await
        };
        hold(&collector, collector.health_address(), open, async || livez(&collector).await).await?;
        collector.stop().await?;
    }
    Ok(())
}

/// The same at a listener with TLS, where a connection is idle until its first request, with or
/// without a handshake.
async fn a_tls_listener_answers_despite_many_idle_connections() -> Result<()> {
    let turn = Turn::take().await?;
    let pair = Pair::new()?;
    let (files, client) = (Files::new(&pair)?, Client::trusting(&[&pair])?);
    let collector = Collector::start(turn.plane(), Options::config(files.config("debug"))).await?;
    collector.ready().await?;
    let probe = async || {
        let answer = client.get(collector.debug_address(), "/debug/queues", None).await?;
        ensure!(answer.status == 200, "{answer:?}");
        livez(&collector).await
    };
    let open = async |_, sent| silent_with_tls(&client, collector.debug_address(), sent).await;
    hold(&collector, collector.debug_address(), open, probe).await?;
    collector.stop().await
}
