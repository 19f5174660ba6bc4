//! The collector: its binary as a child process.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::control_plane::ControlPlane;
use crate::cluster::poll;
use crate::{DEADLINE, POLL, environment, lock, target};

mod idle;
mod process;

pub use self::idle::Rest;
pub(crate) use self::process::signal;

/// The environment variable that selects the threads of the graph.
pub const GRAPH_THREADS: &str = "KUBE_GC__GRAPH__THREADS";
/// How many lines of the log a failure prints.
const TAIL: usize = 80;

/// The options of a collector.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The text of a configuration file.
    pub config: Option<String>,
    /// Further arguments of `kube-gc run`.
    pub args: Vec<String>,
    /// Further environment variables.
    pub env: Vec<(String, String)>,
}

impl Options {
    /// Options with a configuration file.
    pub fn config(text: impl Into<String>) -> Self {
        Self { config: Some(text.into()), ..Self::default() }
    }

    /// Adds an environment variable.
    pub fn env(name: &str, value: &str) -> Self {
        Self { env: vec![(name.to_owned(), value.to_owned())], ..Self::default() }
    }

    /// Adds an argument of `kube-gc run`.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }
}

/// A running collector. Dropping it kills it. Unless the test [stopped](Self::stop) or
/// [killed](Self::kill) it, the end of its log is printed, because the test has failed.
#[derive(Debug)]
pub struct Collector {
    pid: u32,
    child: Mutex<Child>,
    log: watch::Receiver<Log>,
    health: String,
    debug: String,
    ended: bool,
    _needs: Option<Needs>,
}

/// The files that must exist as long as a collector runs.
pub type Needs = Box<dyn Any + Send + Sync>;

/// The log, as read from standard error by a thread.
#[derive(Debug, Default)]
struct Log {
    lines: Vec<String>,
    health: Option<String>,
    debug: Option<String>,
    /// Whether standard error is closed, because the process has ended or is about to.
    closed: bool,
}

impl Log {
    fn add(&mut self, line: String) {
        if let Ok(entry) = serde_json::from_str::<Value>(&line)
            && entry["message"] == "listening"
            && let Some(address) = entry["address"].as_str()
        {
            match entry["listener"].as_str() {
                Some("health") => self.health = Some(address.to_owned()),
                Some("debug") => self.debug = Some(address.to_owned()),
                _ => {}
            }
        }
        self.lines.push(line);
    }

    fn tail(&self) -> String {
        let skipped = self.lines.len().saturating_sub(TAIL);
        let whose = environment::running().map(|running| format!(" of {}", running.scenario));
        let whose = whose.unwrap_or_default();
        let mut tail = format!("--- the collector's log{whose} ({skipped} earlier lines left out) ---\n");
        for line in &self.lines[skipped..] {
            tail.push_str(line);
            tail.push('\n');
        }
        tail + "--- end of the collector's log ---"
    }
}

/// An answer of a listener of the collector.
#[derive(Clone, Debug)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The body.
    pub body: String,
}

impl Response {
    /// The body as JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.body).with_context(|| format!("not JSON: {}", self.body))
    }
}

impl Collector {
    /// Starts a collector on a control plane, and returns when both its listeners are bound. On the
    /// embedded server its graph has its own threads, on a real one it has none, independent of the
    /// machine: scenarios that run on both test both.
    pub async fn start(plane: &ControlPlane, mut options: Options) -> Result<Self> {
        let threads = if plane.embedded().is_some() { "own" } else { "shared" };
        options.env.insert(0, (GRAPH_THREADS.to_owned(), threads.to_owned()));
        Self::start_with(plane.kubeconfig(), options).await
    }

    /// Starts a collector with any kubeconfig.
    pub async fn start_with(kubeconfig: &Path, options: Options) -> Result<Self> {
        let mut command = Command::new(target::binary());
        command.arg("run").arg("--kubeconfig").arg(kubeconfig);
        command.args(["--listen", "127.0.0.1:0", "--debug-listen", "127.0.0.1:0", "--log-format", "json"]);
        let config = match options.config {
            Some(text) => {
                let file = tempfile::Builder::new().prefix("kube-gc-").suffix(".toml").tempfile()?;
                std::fs::write(&file, text)?;
                command.arg("--config").arg(file.path());
                Some(Box::new(file) as Needs)
            }
            None => None,
        };
        command.args(options.args).envs(options.env);
        Self::spawn(command, config).await
    }

    /// Starts a collector by a command that executes it, with JSON logs and listeners on loopback.
    pub async fn spawn(mut command: Command, needs: Option<Needs>) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run the collector")?;

        let (sender, log) = watch::channel(Log::default());
        let stderr = child.stderr.take().context("no pipe from the collector")?;
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                sender.send_modify(|log| log.add(line));
            }
            sender.send_modify(|log| log.closed = true);
        });

        // Built before its addresses are known, so that it is killed, and its log printed, if they
        // never appear.
        let pid = child.id();
        let mut collector = Self {
            pid,
            child: Mutex::new(child),
            log,
            health: String::new(),
            debug: String::new(),
            ended: false,
            _needs: needs,
        };
        let bound = {
            let mut log = collector.log.clone();
            let ready = log.wait_for(|log| log.closed || (log.health.is_some() && log.debug.is_some()));
            match timeout(DEADLINE, ready).await {
                Ok(Ok(log)) => log.health.clone().zip(log.debug.clone()),
                Ok(Err(_)) => None,
                Err(_) => bail!("the collector's listeners are not bound after {DEADLINE:?}"),
            }
        };
        let Some((health, debug)) = bound else {
            let status = collector.wait().await?;
            bail!("the collector ended ({status}) before its listeners were bound");
        };
        collector.health = health;
        collector.debug = debug;
        Ok(collector)
    }

    /// The process id.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The address of the listener for probes and metrics.
    pub fn health_address(&self) -> &str {
        &self.health
    }

    /// The address of the listener for the debug API.
    pub fn debug_address(&self) -> &str {
        &self.debug
    }

    /// Sends a GET to the listener for probes and metrics.
    pub async fn get(&self, path: &str) -> Result<Response> {
        get(&self.health, path).await
    }

    /// Sends a GET to the listener for the debug API.
    pub async fn get_debug(&self, path: &str) -> Result<Response> {
        get(&self.debug, path).await
    }

    /// Waits until it reports to be ready.
    pub async fn ready(&self) -> Result<()> {
        self.poll_until_ok(&self.health, "/readyz", DEADLINE).await.context("the collector is not ready")?;
        Ok(())
    }

    /// The metrics: the value of each series, by its name with its labels as written, for example
    /// `kube_gc_requests_total{verb="delete"}`.
    pub async fn metrics(&self) -> Result<BTreeMap<String, f64>> {
        let answer = self.get("/metrics").await?;
        ensure!(answer.status == 200, "/metrics: {} {}", answer.status, answer.body);
        Ok(parse_metrics(&answer.body))
    }

    /// The sum of all series of a metric.
    pub async fn metric(&self, name: &str) -> Result<f64> {
        self.metric_of(name, &[]).await
    }

    /// The sum of those of its series that have these labels, as written.
    pub async fn metric_of(&self, name: &str, labels: &[&str]) -> Result<f64> {
        let is_of = |series: &str| {
            series.split('{').next() == Some(name) && labels.iter().all(|label| series.contains(label))
        };
        Ok(self.metrics().await?.iter().filter(|(series, _)| is_of(series)).map(|(_, value)| value).sum())
    }

    /// What it says about its monitors.
    pub async fn monitors(&self) -> Result<Vec<Value>> {
        Ok(serde_json::from_value(self.get_debug("/debug/monitors").await?.json()?)?)
    }

    /// The lines of the log so far that contain a text.
    pub fn logged(&self, text: &str) -> Vec<String> {
        self.log.borrow().lines.iter().filter(|line| line.contains(text)).cloned().collect()
    }

    /// Waits until the log is complete, because the process has ended.
    pub async fn log_ended(&self) -> Result<()> {
        let mut log = self.log.clone();
        let closed = timeout(DEADLINE, log.wait_for(|log| log.closed)).await;
        closed.is_ok().then_some(()).context("the collector's log did not end")
    }

    /// Waits until the log has a line that contains a text.
    pub async fn log_line(&self, text: &str) -> Result<String> {
        let mut log = self.log.clone();
        let find = |log: &Log| log.lines.iter().find(|line| line.contains(text)).cloned();
        let found = match timeout(DEADLINE, log.wait_for(|log| log.closed || find(log).is_some())).await {
            Ok(Ok(log)) => find(&log),
            Ok(Err(_)) | Err(_) => None,
        };
        found.with_context(|| format!("the collector did not log {text:?}"))
    }

    async fn poll_until_ok(&self, address: &str, path: &str, within: Duration) -> Result<Response> {
        let deadline = Instant::now() + within;
        loop {
            let answer = get(address, path).await;
            if let Ok(answer) = &answer
                && answer.status == 200
            {
                return Ok(answer.clone());
            }
            if let Some(status) = self.child().try_wait()? {
                bail!("the collector ended ({status})");
            }
            if Instant::now() >= deadline {
                let answer = answer.map(|answer| format!("{} {}", answer.status, answer.body));
                bail!("GET {path} after {within:?}: {}", answer.unwrap_or_else(|error| format!("{error:#}")));
            }
            sleep(POLL).await;
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let _ = self.child().kill();
        let _ = self.child().wait();
        // The last lines may still be in the pipe.
        let deadline = std::time::Instant::now() + Duration::from_secs(1);
        while !self.log.borrow().closed && std::time::Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        eprintln!("{}", self.log.borrow().tail());
    }
}

/// Sends a GET to an address.
pub async fn get(address: &str, path: &str) -> Result<Response> {
    exchange(address, "GET", path, "").await
}

/// A minimal client: an answer by HTTP/1.0 is never chunked and ends when the connection closes.
pub(crate) async fn exchange(address: &str, method: &str, path: &str, body: &str) -> Result<Response> {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.0\r\nHost: {address}\r\nContent-Length: {length}\r\n\r\n");
        stream.write_all((head + body).as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").with_context(|| format!("cut off: {answer}"))?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.with_context(|| format!("not HTTP: {head}"))?;
        anyhow::Ok(Response { status, body: body.to_owned() })
    };
    let answer = timeout(Duration::from_secs(10), exchange).await.map_err(anyhow::Error::from).flatten();
    answer.with_context(|| format!("{method} {path}"))
}

/// Parses the Prometheus text format. Label values may contain spaces, so the value follows the
/// last space.
pub fn parse_metrics(text: &str) -> BTreeMap<String, f64> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            Some((series.to_owned(), value.parse().ok()?))
        })
        .collect()
}
