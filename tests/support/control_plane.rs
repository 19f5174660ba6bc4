//! A real control plane: etcd and kube-apiserver, started by
//! `tests/control-plane/serve.sh`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::Deserialize;

/// What `serve.sh` says of itself.
#[derive(Clone, Debug, Deserialize)]
pub struct Info {
    /// The kubeconfig of a user in `system:masters`.
    pub kubeconfig: PathBuf,
    /// The API server.
    pub url: String,
    /// etcd.
    pub etcd: String,
    /// Data, keys and the servers' logs.
    pub dir: PathBuf,
    /// The directory of the binaries.
    pub bin: PathBuf,
    /// `None` while it is down.
    pub apiserver_pid: Option<u32>,
    /// `None` while it is down.
    pub etcd_pid: Option<u32>,
    /// The API server's `gitVersion`.
    pub version: String,
}

/// One of the plane's servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// The store.
    Etcd,
    /// The API server.
    KubeApiserver,
}

impl Server {
    fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::KubeApiserver => "kube-apiserver",
        }
    }
}

/// A running control plane. It ends with this value, and also with this
/// process, however that ends: the script stops the servers when the pipe that
/// is its standard input closes.
#[derive(Debug)]
pub struct ControlPlane {
    script: Mutex<Script>,
    info: Info,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Script {
    child: Child,
    // `None` once it was told to end.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    errors: Arc<Mutex<String>>,
}

impl ControlPlane {
    /// Starts one of its own, in a directory that goes with it.
    ///
    /// The first start on a machine may build the API server, which takes
    /// minutes; after that it takes about five seconds.
    pub fn start() -> Result<Self> {
        Self::start_with(None, &[])
    }

    /// Starts one with further flags for kube-apiserver. A directory that is
    /// given is kept, and used again with the same data, keys and ports.
    pub fn start_with(dir: Option<&Path>, apiserver_flags: &[&str]) -> Result<Self> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control-plane/serve.sh");
        let mut command = Command::new(&script);
        if let Some(dir) = dir {
            command.arg("--dir").arg(dir);
        }
        command.arg("--").args(apiserver_flags);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // Not in our process group: a test runner that kills the group of
            // a test would kill the script before it can clean up.
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot run {}", script.display()))?;

        let errors = Arc::new(Mutex::new(String::new()));
        if let Some(stderr) = child.stderr.take() {
            let errors = Arc::clone(&errors);
            thread::spawn(move || {
                for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                    // Straight to the terminal, past the test's captured
                    // output: it may be the progress of a long build.
                    let _ = writeln!(std::io::stderr(), "{line}");
                    let mut errors = lock(&errors);
                    errors.push_str(&line);
                    errors.push('\n');
                }
            });
        }
        let commands = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("no pipe from the script")?);
        let mut script = Script { child, commands, answers, errors };
        let info = script.answer()?;
        Ok(Self { script: Mutex::new(script), info, turn: tokio::sync::Mutex::new(()) })
    }

    /// The plane that all tests of this binary share, started by the first
    /// that asks. Scenarios take turns on it: see [`exclusive`](Self::exclusive).
    pub fn shared() -> Result<&'static Self> {
        static SHARED: OnceLock<Result<ControlPlane, String>> = OnceLock::new();
        SHARED
            .get_or_init(|| ControlPlane::start().map_err(|error| format!("{error:#}")))
            .as_ref()
            .map_err(|error| anyhow!("no control plane: {error}"))
    }

    /// Waits for this scenario's turn. The turn ends with the guard; a test
    /// that panics passes it on like any other.
    pub async fn exclusive(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// A client as a user in `system:masters`. It belongs to the current
    /// runtime, and so to one test.
    pub async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig())?;
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        // A test wants to see every answer.
        config.default_retry = false;
        Ok(Client::try_from(config)?)
    }

    /// The kubeconfig of a user in `system:masters`.
    pub fn kubeconfig(&self) -> &Path {
        &self.info.kubeconfig
    }

    /// The URL of etcd.
    pub fn etcd(&self) -> &str {
        &self.info.etcd
    }

    /// All there is to know of it. The pids are those of its start.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Kills a server with SIGKILL; the rest goes on.
    pub fn kill(&self, server: Server) -> Result<Info> {
        self.command("kill", server)
    }

    /// Starts a server that was killed, with the same address and data, and
    /// returns when it is ready.
    pub fn restart(&self, server: Server) -> Result<Info> {
        self.command("start", server)
    }

    /// Stops both servers and waits until they are gone. Dropping does the
    /// same.
    pub fn stop(self) {}

    fn command(&self, verb: &str, server: Server) -> Result<Info> {
        let mut script = lock(&self.script);
        let commands = script.commands.as_mut().context("the control plane was stopped")?;
        writeln!(commands, "{verb} {}", server.name()).context("the control plane has ended")?;
        script.answer()
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        lock(&self.script).end();
    }
}

impl Script {
    /// Reads one line of JSON, or says why none came.
    fn answer(&mut self) -> Result<Info> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        if line.is_empty() {
            let status = self.end();
            bail!("the control plane ended ({status}):\n{}", lock(&self.errors));
        }
        serde_json::from_str(&line).with_context(|| format!("not what serve.sh should say: {line}"))
    }

    /// Closes the pipe and waits for the script, which waits for the servers.
    fn end(&mut self) -> String {
        self.commands = None;
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.to_string(),
                Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(10)),
                // The servers die with the script.
                Ok(None) | Err(_) => {
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    return "killed, as it did not end by itself".to_owned();
                }
            }
        }
    }
}

// A panic of another test says nothing about what the lock guards.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
