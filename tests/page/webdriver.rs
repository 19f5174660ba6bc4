//! The process that drives a browser, and sessions with it.

use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use fantoccini::wd::Capabilities;
use fantoccini::{Client, ClientBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// A session with a browser. The driver ends, and with it the browser, when this is dropped.
#[derive(Debug)]
pub struct Session {
    /// Sends commands to the browser.
    pub client: Client,
    driver: Driver,
}

/// The process that drives the browser, and the directory for their files.
#[derive(Debug)]
struct Driver {
    child: Child,
    _directory: TempDir,
}

impl Driver {
    /// Starts a driver, and gives the port that it listens on.
    ///
    /// The driver takes a port that is free for IPv6, and ends if another process has the same one
    /// for IPv4. So it is started again, a few times.
    async fn start() -> Result<(Self, u16)> {
        const STARTS: usize = 10;
        let mut printed = String::new();
        for _ in 0..STARTS {
            let directory = TempDir::new()?;
            let mut child = Command::new("chromedriver")
                .arg("--port=0")
                .envs([("HOME", directory.path()), ("TMPDIR", directory.path())])
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .context("cannot run chromedriver: install it by tests/prerequisites.sh browser")?;
            let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
            let driver = Self { child, _directory: directory };
            printed.clear();
            while let Some(line) = lines.next_line().await? {
                if let Some((_, port)) = line.split_once("successfully on port ") {
                    let port = port.trim_end_matches('.').parse()?;
                    // The driver must not wait for a reader.
                    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                    return Ok((driver, port));
                }
                printed.push_str(&line);
                printed.push('\n');
            }
        }
        bail!("chromedriver ended {STARTS} times before it listened:\n{printed}")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // The browser is in the same group. The driver alone would leave it running.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Session {
    /// Starts a driver and a browser.
    pub async fn start(capabilities: Capabilities) -> Result<Self> {
        let (driver, port) = Driver::start().await?;
        let url = format!("http://127.0.0.1:{port}");
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let client = builder.capabilities(capabilities).connect(&url).await;
        let client = client.context("chromedriver cannot start Chromium")?;
        Ok(Self { client, driver })
    }

    /// Ends the session.
    pub async fn end(self) -> Result<()> {
        self.client.close().await?;
        drop(self.driver);
        Ok(())
    }
}
