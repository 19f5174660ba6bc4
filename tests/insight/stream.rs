//! A client of `/debug/stream`.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use kube_gc_testkit::Collector;

/// The time limit of each wait.
const DEADLINE: Duration = Duration::from_secs(60);

/// The events of a stream.
#[derive(Debug)]
pub struct Events {
    lines: tokio::io::Lines<BufReader<TcpStream>>,
}

impl Events {
    /// Opens a stream of a collector.
    pub async fn of(collector: &Collector, path: &str) -> Result<Self> {
        let address = collector.debug_address();
        let mut connection = TcpStream::connect(address).await?;
        // In HTTP/1.0 there are no chunks.
        let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        connection.write_all(request.as_bytes()).await?;
        let mut lines = BufReader::new(connection).lines();
        let status = lines.next_line().await?.context("no answer")?;
        ensure!(status.contains(" 200 "), "{status}");
        Ok(Self { lines })
    }

    /// Reads until an event of this name is as expected.
    pub async fn until(&mut self, name: &str, expected: impl Fn(&Value) -> bool) -> Result<()> {
        let mut last = String::new();
        let search = async {
            let mut event = String::new();
            while let Some(line) = self.lines.next_line().await? {
                if let Some(name) = line.strip_prefix("event: ") {
                    event = name.to_owned();
                } else if let Some(data) = line.strip_prefix("data: ")
                    && event == name
                {
                    data.clone_into(&mut last);
                    if expected(&serde_json::from_str(data)?) {
                        return Ok(());
                    }
                }
            }
            anyhow::bail!("the stream has ended")
        };
        let found = timeout(DEADLINE, search).await.context("nothing expected came").flatten();
        found.with_context(|| format!("the last {name} was {last}"))
    }

    /// Reads to the end.
    pub async fn end(mut self) -> Result<()> {
        let rest = async {
            while self.lines.next_line().await?.is_some() {}
            Ok(())
        };
        timeout(DEADLINE, rest).await.context("the stream does not end")?
    }
}
