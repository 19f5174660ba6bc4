//! Pages of a collector, and what the page for browsers asks of it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::common::cluster::Number;
use crate::common::report::Row;
use crate::common::subject::Subject;
use crate::{quantile, uid};

/// How many pages the quantile is of.
const PAGES: usize = 1000;
/// How many plans are made.
const PLANS: usize = 5;
/// How many objects change.
const TIMES: usize = 20;
/// How many searches are made.
const SEARCHES: usize = 50;
/// The time limit of an event.
const DEADLINE: Duration = Duration::from_secs(30);
/// How the page asks for an object, as `REACH` of `crates/observe/src/http/ui/live.js`.
const REACH: &str = "max=140&limit=140";
/// The time within which a collector notices that a stream was closed.
const NOTICED: Duration = Duration::from_secs(10);
/// How often a full collector is asked for a stream.
const AGAIN: Duration = Duration::from_millis(10);
/// The milliseconds that a person waits for.
const SECOND: Option<f64> = Some(1000.0);

/// The time of a request, and its answer.
async fn get(subject: &Subject, path: &str) -> Result<(Duration, Value)> {
    let began = Instant::now();
    let answer = subject.collector.get_debug(path).await?;
    let took = began.elapsed();
    ensure!(answer.status == 200, "{path}: {answer:?}");
    Ok((took, answer.json()?))
}

/// The 99th percentile of pages of 200 nodes.
pub async fn neighbourhoods(subject: &Subject, roots: &[String], objects: u64) -> Result<Row> {
    let mut times = Vec::new();
    let mut nodes = 0;
    for uid in roots.iter().cycle().take(PAGES) {
        let (took, page) = get(subject, &format!("/debug/neighbourhood?uid={uid}&limit=200")).await?;
        nodes = nodes.max(page["nodes"].as_array().map_or(0, Vec::len));
        times.push(took);
    }
    let what = format!("`/debug/neighbourhood` of {nodes} nodes, {objects} objects, 99th percentile");
    Ok(Row::milliseconds(what, quantile(&mut times, 0.99), Some(50.0)))
}

/// The time of the plan of an object with many dependents.
pub async fn plan(subject: &Subject, uid: &str, dependents: u64) -> Result<Row> {
    let mut times = Vec::new();
    for _ in 0..PLANS {
        let (took, plan) = get(subject, &format!("/debug/plan?uid={uid}&policy=foreground&limit=1")).await?;
        ensure!(plan["deletes"].as_u64() > Some(dependents), "{plan}");
        times.push(took);
    }
    let what = format!("`/debug/plan` of an object with {dependents} dependents, median");
    Ok(Row::milliseconds(what, quantile(&mut times, 0.5), SECOND))
}

/// The 99th percentile of searches.
pub async fn searches(subject: &Subject, objects: u64) -> Result<Row> {
    let mut times = Vec::new();
    for number in 0..SEARCHES {
        // Nothing has this name, so everything is looked at.
        times.push(get(subject, &format!("/debug/search?q=pod/nothing-{number}")).await?.0);
    }
    let what = format!("`/debug/search` that finds nothing, {objects} objects, 99th percentile");
    Ok(Row::milliseconds(what, quantile(&mut times, 0.99), SECOND))
}

/// The time from a change in the cluster to the event that shows it.
pub async fn changed(subject: &Subject, objects: u64) -> Result<Row> {
    let cluster = &subject.feeder.cluster;
    let mut times = Vec::new();
    for number in (cluster.end().0..).map(Number).take(TIMES) {
        let owner = cluster.owner(number).context("a pod has an owner")?;
        let mut stream = Stream::begin(subject, &format!("{}&{REACH}", uid(cluster, owner))).await?;
        stream.until("event: neighbourhood").await?;
        let began = Instant::now();
        subject.feeder.create().await;
        stream.until(&uid(cluster, number)).await?;
        times.push(began.elapsed());
    }
    let what = format!("a new pod on the stream of its owner, {objects} objects, slowest of {TIMES}");
    Ok(Row::milliseconds(what, quantile(&mut times, 1.0), SECOND))
}

/// A stream, of which the end is kept.
pub struct Stream {
    stream: TcpStream,
    text: String,
}

impl Stream {
    pub async fn begin(subject: &Subject, uid: &str) -> Result<Self> {
        Ok(Self { stream: connect(subject, uid).await?, text: String::new() })
    }

    /// Reads until an event has this text, and forgets what came before.
    pub async fn until(&mut self, wanted: &str) -> Result<()> {
        let read = async {
            while !self.text.contains(wanted) {
                ensure!(self.read().await? > 0, "the stream has ended before {wanted}");
            }
            self.text.clear();
            Ok(())
        };
        timeout(DEADLINE, read).await.with_context(|| format!("{wanted} does not come"))?
    }

    async fn read(&mut self) -> Result<usize> {
        let mut bytes = vec![0; 64 << 10];
        let length = self.stream.read(&mut bytes).await?;
        self.text.push_str(&String::from_utf8_lossy(&bytes[..length]));
        Ok(length)
    }
}

/// Begins a stream about an object. A stream that was just closed counts until the collector notices, so
/// a place may be free only a moment later.
async fn connect(subject: &Subject, uid: &str) -> Result<TcpStream> {
    let address = subject.collector.debug_address();
    let deadline = Instant::now() + NOTICED;
    loop {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET /debug/stream?uid={uid} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.context("no answer")?;
        match &head[9..] {
            b"200" => return Ok(stream),
            b"503" => ensure!(Instant::now() < deadline, "the collector admits no stream"),
            _ => bail!("{}", String::from_utf8_lossy(&head)),
        }
        sleep(AGAIN).await;
    }
}
