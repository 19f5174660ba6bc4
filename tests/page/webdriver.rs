//! The part of the WebDriver protocol that these tests need: JSON over HTTP on loopback. A library
//! for it would bring forty crates, among them Unicode tables twice.

use std::process::Stdio;

use anyhow::{Context as _, Result, bail};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

/// A session with a browser. The driver ends, and with it the browser, when this is dropped.
#[derive(Debug)]
pub struct Session {
    http: Client<HttpConnector, Full<Bytes>>,
    /// The URL of the session.
    url: String,
    driver: Driver,
}

/// The process that drives the browser, and the directory for their files.
#[derive(Debug)]
struct Driver {
    child: Child,
    _directory: TempDir,
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
    pub async fn start(capabilities: &Value) -> Result<Option<Self>> {
        let directory = TempDir::new()?;
        let spawned = Command::new("chromedriver")
            .arg("--port=0")
            .envs([("HOME", directory.path()), ("TMPDIR", directory.path())])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = spawned else { return Ok(None) };
        let mut lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let driver = Driver { child, _directory: directory };
        let port: u16 = loop {
            let line = lines.next_line().await?.context("chromedriver has ended")?;
            if let Some((_, port)) = line.split_once("successfully on port ") {
                break port.trim_end_matches('.').parse()?;
            }
        };
        // The driver must not wait for a reader.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let http = Client::builder(TokioExecutor::new()).build_http();
        let mut session = Self { http, url: format!("http://127.0.0.1:{port}/session"), driver };
        let body = json!({ "capabilities": { "alwaysMatch": capabilities } });
        let answer = session.post("", &body).await.context("chromedriver cannot start Chromium")?;
        let id = answer["sessionId"].as_str().context("no session")?;
        session.url = format!("{}/{id}", session.url);
        Ok(Some(session))
    }

    /// Sends a command with parameters.
    pub async fn post(&self, command: &str, body: &Value) -> Result<Value> {
        self.send("POST", command, serde_json::to_vec(body)?).await
    }

    /// Asks for something.
    pub async fn get(&self, command: &str) -> Result<Value> {
        self.send("GET", command, Vec::new()).await
    }

    /// Ends the session.
    pub async fn end(self) -> Result<()> {
        self.send("DELETE", "", Vec::new()).await?;
        drop(self.driver);
        Ok(())
    }

    async fn send(&self, method: &str, command: &str, body: Vec<u8>) -> Result<Value> {
        let request = Request::builder().method(method).uri(format!("{}{command}", self.url));
        let response = self.http.request(request.body(Full::from(body))?).await?;
        let body = response.into_body().collect().await?.to_bytes();
        let mut answer: Value = serde_json::from_slice(&body)?;
        let value = answer["value"].take();
        if let Some(error) = value["error"].as_str() {
            bail!("{command}: {error}: {}", value["message"].as_str().unwrap_or_default());
        }
        Ok(value)
    }
}
