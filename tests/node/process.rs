//! The binary.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};
use kube_gc_cri::Endpoint;
use kube_gc_testkit::Collector;
use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;
use tokio::time::timeout;

use crate::PATIENCE;

/// The binary.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_kube-gc");

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

    /// The state file of the runtime.
    pub fn state(&self) -> PathBuf {
        let socket = self.endpoint.trim_start_matches("unix:").trim_start_matches('/');
        self.path(&format!("state.json.{}", socket.replace('-', r"\x2d").replace('/', "-")))
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
            self.path("state.json"),
            self.endpoint,
        );
        Ok(std::fs::write(self.path("config.toml"), config)?)
    }

    /// The command, with arguments after `kube-gc node`.
    pub fn command(&self, arguments: &[&str]) -> Command {
        self.command_by(Command::new(PROGRAM), arguments)
    }

    /// The same, started by another program.
    pub fn command_by(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.arg("node").args(arguments).arg("--config").arg(self.path("config.toml"));
        command
            .env_remove("KUBECONFIG")
            .env_remove("KUBERNETES_SERVICE_HOST")
            .env_remove("RUST_LOG")
            .env("HOME", self.directory.path())
            .env("RUNTIME_DIRECTORY", self.path("run"))
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

    /// Starts `run`, until it listens.
    pub async fn run_on(&self) -> Result<Collector> {
        let listeners = ["--listen", "127.0.0.1:0", "--debug-listen", "127.0.0.1:0", "--log-format", "json"];
        let arguments = [&["run"][..], &listeners].concat();
        Collector::spawn(self.command(&arguments).into_std(), None).await
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
