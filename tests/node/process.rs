//! The binary.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use kube_gc_cri::Endpoint;
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, Command};
use tokio::time::timeout;

use crate::PATIENCE;

/// A node to collect: where everything is.
pub struct Place {
    directory: TempDir,
    endpoint: String,
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Fails unless it ended with this code and said all of this on standard error.
    pub fn expect(&self, code: i32, said: &[&str]) -> Result<()> {
        let Self { code: found, stdout, stderr } = self;
        ensure!(*found == Some(code), "ended with {found:?}, not {code}:\n{stdout}\n{stderr}");
        for said in said {
            ensure!(stderr.contains(said), "does not say {said:?}:\n{stderr}");
        }
        ensure!(!stderr.contains("panicked"), "{stderr}");
        Ok(())
    }

    /// Standard output as JSON.
    pub fn json(&self) -> Result<Value> {
        self.expect(0, &[])?;
        serde_json::from_str(&self.stdout).with_context(|| self.stdout.clone())
    }
}

impl Place {
    /// A node without an API server, with directories for logs.
    pub fn new(endpoint: &Endpoint) -> Result<Self> {
        Self::at(&endpoint.to_string())
    }

    /// The same with any endpoint.
    pub fn at(endpoint: &str) -> Result<Self> {
        let place = Self { directory: tempfile::tempdir()?, endpoint: endpoint.to_owned() };
        std::fs::create_dir(place.path("pods"))?;
        std::fs::create_dir(place.path("containers"))?;
        place.configure("")?;
        Ok(place)
    }

    /// A path of this node.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The state file.
    pub fn state(&self) -> PathBuf {
        self.path("state.json")
    }

    /// Writes the configuration, with further lines; keys of `[node]` first.
    pub fn configure(&self, more: &str) -> Result<()> {
        self.configure_with_logs(&self.path("pods"), more)
    }

    /// The same with another directory of logs.
    pub fn configure_with_logs(&self, pods: &Path, more: &str) -> Result<()> {
        let config = format!(
            "[node.roots]\npods = {pods:?}\ncontainers = {:?}\n[node]\npods = \"none\"\nbeside_kubelet = \"all\"\n\
             state = {:?}\nruntime_endpoint = {:?}\n{more}\n",
            self.path("containers"),
            self.state(),
            self.endpoint,
        );
        Ok(std::fs::write(self.path("config.toml"), config)?)
    }

    /// The command, with arguments after `kube-gc node`.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kube-gc"));
        command.arg("node").args(arguments).arg("--config").arg(self.path("config.toml"));
        command
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("RUST_LOG")
            .env("HOME", self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs it to its end.
    pub async fn run(&self, arguments: &[&str]) -> Result<Ended> {
        ended(self.command(arguments)).await
    }

    /// Starts it, and reads its log.
    pub fn start(&self, arguments: &[&str]) -> Result<Running> {
        let mut child =
            self.command(arguments).args(["--log-format", "json"]).stdout(Stdio::null()).spawn()?;
        let log = BufReader::new(child.stderr.take().context("no standard error")?).lines();
        Ok(Running { child, log, seen: Vec::new() })
    }
}

/// Runs a command to its end.
pub async fn ended(mut command: Command) -> Result<Ended> {
    let output = timeout(PATIENCE, command.output()).await.context("it does not end")??;
    Ok(Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout)?,
        stderr: String::from_utf8(output.stderr)?,
    })
}

/// A running process and its log.
pub struct Running {
    pub child: Child,
    log: Lines<BufReader<ChildStderr>>,
    seen: Vec<String>,
}

impl Running {
    /// Waits for a line with this message, and returns it; `None` if the log ends before.
    pub async fn line(&mut self, is_it: impl Fn(&Value) -> bool) -> Result<Option<Value>> {
        loop {
            let line = timeout(PATIENCE, self.log.next_line()).await;
            let Some(line) = line.with_context(|| self.seen.join("\n"))?? else { return Ok(None) };
            let entry = serde_json::from_str(&line).unwrap_or_default();
            self.seen.push(line);
            if is_it(&entry) {
                return Ok(Some(entry));
            }
        }
    }

    /// What the log has so far.
    pub fn log(&self) -> String {
        self.seen.join("\n")
    }

    /// The address of a listener.
    pub async fn address(&mut self, listener: &str) -> Result<String> {
        let line = self.line(|line| line["message"] == "listening" && line["listener"] == listener).await?;
        let line = line.with_context(|| self.seen.join("\n"))?;
        Ok(line["address"].as_str().context("no address")?.to_owned())
    }

    /// Asks it to end, and waits. Fails unless it ends well.
    pub async fn stop(mut self) -> Result<()> {
        let id =
            self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        rustix::process::kill_process(id.context("it has ended")?, rustix::process::Signal::TERM)?;
        self.line(|_| false).await?;
        let status = timeout(PATIENCE, self.child.wait()).await??;
        ensure!(status.success(), "{status}\n{}", self.seen.join("\n"));
        Ok(())
    }
}

/// A page: status code and body.
pub async fn get(address: &str, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    timeout(PATIENCE, stream.read_to_string(&mut answer)).await??;
    let (head, body) = answer.split_once("\r\n\r\n").context("no head")?;
    let code = head.split(' ').nth(1).context("no code")?.parse()?;
    // A body in chunks is not read by this; these pages have a length.
    ensure!(!head.to_lowercase().contains("chunked"), "{head}");
    Ok((code, body.to_owned()))
}
