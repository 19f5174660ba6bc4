//! A real Prometheus: Debian's, with the rules as a plain file.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::repository;
use kube_gc_testkit::cluster::poll;

/// Every second, since the rules' minutes are seconds here.
const CONFIG: &str = "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [kube-gc.rules.yaml]
scrape_configs:
  - job_name: kube-gc
    file_sd_configs: [{files: [targets.json]}]
";

/// Ends with the pipe that is its standard input, so that it outlives no test, however
/// that ends.
const RUN: &str = r#""$@" & server=$!; trap '' TERM; read -r _; kill "$server"; wait "$server""#;

/// The path of one of its programs.
pub fn program(name: &str) -> Result<PathBuf> {
    static DIRECTORY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let directory = DIRECTORY.get_or_init(|| found().map_err(|error| format!("{error:#}")));
    Ok(directory.as_ref().map_err(|error| anyhow!("no Prometheus: {error}"))?.join(name))
}

fn found() -> Result<PathBuf> {
    let script = repository("tests/monitoring/ensure.sh");
    let output = Command::new(script).stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "tests/monitoring/ensure.sh failed");
    Ok(String::from_utf8(output.stdout)?.trim_end().into())
}

/// What is scraped, with the labels that the operator's ServiceMonitor gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The namespace of the installation.
    pub namespace: &'static str,
    /// The pod.
    pub pod: &'static str,
    /// Where its metrics are.
    pub address: String,
}

/// Samples, in their order, of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Times, in seconds since 1970, and values.
    pub samples: Vec<(f64, f64)>,
}

impl Series {
    /// A label's value, or nothing.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map(String::as_str).unwrap_or_default()
    }
}

/// A running Prometheus.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    address: String,
    directory: TempDir,
}

impl Prometheus {
    /// Starts one with these rules, that scrapes nothing yet.
    pub async fn start(rules: &str) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("kube-gc-prometheus-").tempdir()?;
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("prometheus.yaml"), CONFIG)?;
        std::fs::write(path("kube-gc.rules.yaml"), rules)?;
        std::fs::write(path("targets.json"), "[]")?;
        // It cannot be asked for any free port, and takes its time until it listens: so it has an
        // address where nobody else looks for one.
        let address = TcpListener::bind("127.0.0.2:0")?.local_addr()?.to_string();
        let log = File::create(path("log"))?;
        let child = Command::new("sh")
            .args(["-c", RUN, "sh"])
            .arg(program("prometheus")?)
            .args(["--config.file=prometheus.yaml", "--storage.tsdb.path=data", "--log.level=warn"])
            .arg(format!("--web.listen-address={address}"))
            .current_dir(directory.path())
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot run sh")?;
        let prometheus = Self { child, address, directory };
        poll("Prometheus to be ready", async || Ok(prometheus.get("/-/ready").await.is_ok()))
            .await
            .with_context(|| prometheus.log())?;
        Ok(prometheus)
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Scrapes these from now on.
    pub fn scrape(&self, targets: &[Target]) -> Result<()> {
        let groups = targets.iter().map(|Target { namespace, pod, address }| {
            // A pod keeps its name when it comes back with another port.
            let labels = json!({ "namespace": namespace, "pod": pod, "instance": pod });
            json!({ "targets": [address], "labels": labels })
        });
        let next = self.directory.path().join("targets.next");
        std::fs::write(&next, Value::Array(groups.collect()).to_string())?;
        Ok(std::fs::rename(next, self.directory.path().join("targets.json"))?)
    }

    /// What a query says now.
    pub async fn now(&self, query: &str) -> Result<Vec<Series>> {
        let answer = self.api(&format!("query?query={}", encoded(query))).await.context(query.to_owned())?;
        series(&answer)
    }

    /// What a query says from one time to another, in seconds since 1970.
    pub async fn between(&self, query: &str, from: f64, to: f64, step: f64) -> Result<Vec<Series>> {
        let path = format!("query_range?query={}&start={from}&end={to}&step={step}", encoded(query));
        series(&self.api(&path).await.context(query.to_owned())?)
    }

    /// All groups of rules, as it has understood them.
    pub async fn rules(&self) -> Result<Value> {
        Ok(self.api("rules").await?["groups"].take())
    }

    /// The alerts that are pending or firing.
    pub async fn alerts(&self) -> Result<Value> {
        Ok(self.api("alerts").await?["alerts"].take())
    }

    async fn api(&self, path: &str) -> Result<Value> {
        let mut answer: Value = serde_json::from_str(&self.get(&format!("/api/v1/{path}")).await?)?;
        ensure!(answer["status"] == "success", "{answer}");
        Ok(answer["data"].take())
    }

    /// GET by HTTP/1.0: the answer is all that comes until the connection closes.
    async fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("cut off")?;
        // What is wrong with a query comes with a body that says so.
        let understood = ["200", "400", "422"].contains(&head.split(' ').nth(1).unwrap_or_default());
        ensure!(understood, "{path}: {answer}");
        Ok(body.to_owned())
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn series(data: &Value) -> Result<Vec<Series>> {
    let result = data["result"].as_array().context("no result")?;
    let series = result.iter().map(|one| {
        let labels = one["metric"].as_object().into_iter().flatten();
        let labels =
            labels.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()));
        let samples = one["values"].as_array().cloned().unwrap_or_else(|| vec![one["value"].clone()]);
        let samples = samples.iter().map(|sample| {
            let value = sample[1].as_str().and_then(|text| text.parse().ok());
            Ok((sample[0].as_f64().context("no time")?, value.context("no number")?))
        });
        Ok(Series { labels: labels.collect(), samples: samples.collect::<Result<_>>()? })
    });
    series.collect()
}

fn encoded(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    escaped.collect()
}
