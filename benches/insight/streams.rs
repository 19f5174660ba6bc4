//! Streams, while the cluster changes.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::common::progress;
use crate::common::report::Row;
use crate::common::subject::Subject;
use crate::median;
use crate::pages::Stream;

/// The streams at a time.
const STREAMS: usize = 8;
/// How often each state is measured. The machine's speed changes by some percent, so many short pairs say
/// more than a few long ones.
const ROUNDS: usize = 20;
/// The time within which a collector notices that a stream was closed.
const NOTICED: Duration = Duration::from_secs(10);
/// How often a full collector is asked for a stream.
const AGAIN: Duration = Duration::from_millis(10);

/// What streams add to a collector that reads ten thousand events a second. Each follows another
/// object. The events are the same with streams and without: updates of any object, the few that are
/// shown among them.
pub async fn cost(subject: &Subject, roots: &[String], lasting: Duration) -> Result<[Row; 2]> {
    let (mut more_cpu, mut more_memory) = (Vec::new(), Vec::new());
    // The first round warms up.
    for round in 0..=ROUNDS {
        let (mut cores, mut resident) = ([0.0; 2], [0.0; 2]);
        // Neither is always first.
        for with_streams in [round % 2 == 1, round % 2 == 0] {
            let mut open = JoinSet::new();
            if with_streams {
                for uid in roots.iter().cycle().take(STREAMS) {
                    // The first state is the cost of a page, not of a stream.
                    let mut stream = Stream::begin(subject, uid).await?;
                    stream.until("event: neighbourhood").await?;
                    open.spawn(stream.end());
                }
            }
            let measured = subject.updates(lasting).await?;
            let state = usize::from(with_streams);
            cores[state] = measured.cpu / measured.seconds;
            resident[state] = subject.memory()?.resident;
            progress(&format!(
                "{} streams: {:.3} cores for {} events",
                if with_streams { STREAMS } else { 0 },
                cores[state],
                measured.count
            ));
            ensure!(open.try_join_next().is_none(), "a stream has ended");
        }
        if round > 0 {
            more_cpu.push((cores[1] / cores[0] - 1.0) * 100.0);
            more_memory.push(resident[1] - resident[0]);
        }
    }
    let what = |of: &str| {
        format!("{STREAMS} streams during 10,000 events a second: more {of}, median of {ROUNDS} pairs")
    };
    Ok([
        Row::new(what("CPU time"), median(&mut more_cpu), "%", Some(3.0)),
        Row::new(what("memory"), median(&mut more_memory), "MiB", Some(1.0)),
    ])
}

/// Begins a stream about an object. A stream that was just closed counts until the collector notices, so
/// a place may be free only a moment later.
pub async fn connect(subject: &Subject, uid: &str) -> Result<TcpStream> {
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
            b"503" => ensure!(Instant::now() < deadline, "there are more than {STREAMS} streams"),
            _ => bail!("{}", String::from_utf8_lossy(&head)),
        }
        sleep(AGAIN).await;
    }
}
