//! The process that drives a browser, and sessions with it.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
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
    /// Starts a driver, and gives the port that it listens on. `None` if there is no such program.
    ///
    /// The driver takes a port that is free for IPv6, and ends if another process has the same one
    /// for IPv4. So it is started again, a few times.
    async fn start(program: &Path) -> Result<Option<(Self, u16)>> {
        const STARTS: usize = 10;
        let mut printed = String::new();
        for _ in 0..STARTS {
            let directory = TempDir::new()?;
            let spawned = Command::new(program)
                .arg("--port=0")
                .envs([("HOME", directory.path()), ("TMPDIR", directory.path())])
                .process_group(0)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn();
            let mut child = match spawned {
                Ok(child) => child,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error).with_context(|| program.display().to_string()),
            };
            let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
            let driver = Self { child, _directory: directory };
            printed.clear();
            while let Some(line) = lines.next_line().await? {
                if let Some((_, port)) = line.split_once("successfully on port ") {
                    let port = port.trim_end_matches('.').parse()?;
                    // The driver must not wait for a reader.
                    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                    return Ok(Some((driver, port)));
                }
                printed.push_str(&line);
                printed.push('\n');
            }
        }
        bail!("{} ended {STARTS} times before it listened:\n{printed}", program.display())
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
    /// Starts a driver and a browser. `None` if there is no driver on this machine.
    pub async fn start(capabilities: Capabilities) -> Result<Option<Self>> {
        let Some((driver, port)) = Driver::start("chromedriver".as_ref()).await? else { return Ok(None) };
        let url = format!("http://127.0.0.1:{port}");
        let mut builder = ClientBuilder::new(HttpConnector::new());
        let client = builder.capabilities(capabilities).connect(&url).await;
        let client = client.context("chromedriver cannot start Chromium")?;
        Ok(Some(Self { client, driver }))
    }

    /// Ends the session.
    pub async fn end(self) -> Result<()> {
        self.client.close().await?;
        drop(self.driver);
        Ok(())
    }
}

/// A program that does as a driver whose port is taken, until it has been started `times` times.
fn fake_driver(directory: &Path, times: usize) -> Result<PathBuf> {
    let program = directory.join("driver");
    let script = format!(
        "#!/bin/sh\ncd \"${{0%/*}}\"\necho start >>starts\n\
         [ \"$(wc -l <starts)\" -ge {times} ] || {{ echo 'IPv4 port not available. Exiting...'; exit 1; }}\n\
         echo 'ChromeDriver was started successfully on port 4711.'\nexec sleep 60\n"
    );
    fs::write(&program, script)?;
    fs::set_permissions(&program, Permissions::from_mode(0o755))?;
    Ok(program)
}

#[tokio::test]
async fn a_driver_whose_port_is_taken_is_started_again() -> Result<()> {
    let directory = TempDir::new()?;
    let program = fake_driver(directory.path(), 3)?;
    let (_driver, port) = Driver::start(&program).await?.context("no driver")?;
    assert_eq!(port, 4711);
    assert_eq!(fs::read_to_string(directory.path().join("starts"))?.lines().count(), 3);
    Ok(())
}

#[tokio::test]
async fn a_driver_that_never_listens_is_given_up_with_what_it_said() -> Result<()> {
    let directory = TempDir::new()?;
    let program = fake_driver(directory.path(), usize::MAX)?;
    let error = Driver::start(&program).await.map(drop).expect_err("it never listens");
    assert!(error.to_string().contains("IPv4 port not available"), "{error}");
    Ok(())
}

#[tokio::test]
async fn a_missing_driver_is_no_error() -> Result<()> {
    let directory = TempDir::new()?;
    assert!(Driver::start(&directory.path().join("driver")).await?.is_none());
    Ok(())
}
