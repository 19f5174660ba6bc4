//! A real Prometheus (Debian's package), with the rules as a plain file.

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

/// The job of node collection, whose targets also have the name of their node.
pub const NODES: &str = "kube-gc-node";

/// Scrapes every second, because the minutes of the rules are seconds here.
const CONFIG: &str = "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: ['*.rules.yaml']
scrape_configs:
  - job_name: kube-gc
    file_sd_configs: [{files: [targets.json]}]
";

/// Ends when its standard input is closed, so that it never outlives its test.
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

/// A target, with the labels that the operator's ServiceMonitor and PodMonitor set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The job.
    pub job: &'static str,
    /// The namespace of the installation.
    pub namespace: &'static str,
    /// The pod.
    pub pod: &'static str,
    /// The address of its metrics.
    pub address: String,
}

/// The samples of one series, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Times, in seconds since 1970, and values.
    pub samples: Vec<(f64, f64)>,
}

impl Series {
    /// The value of a label, or an empty string.
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
    /// Starts Prometheus with these files of rules and without targets.
    pub async fn start(rules: &BTreeMap<String, String>) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("kube-gc-prometheus-").tempdir()?;
        let path = |name: &str| directory.path().join(name);
        std::fs::write(path("prometheus.yaml"), CONFIG)?;
        for (name, text) in rules {
            std::fs::write(path(name), text)?;
        }
        std::fs::write(path("targets.json"), "[]")?;
        // Prometheus cannot choose a free port and takes a while to listen, so it gets a port on
        // an address that no other test uses.
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

    /// Its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Sets the targets.
    pub fn scrape(&self, targets: &[Target]) -> Result<()> {
        let groups = targets.iter().map(|Target { job, namespace, pod, address }| {
            // A pod keeps its name when it returns with another port.
            let mut labels = json!({ "job": job, "namespace": namespace, "pod": pod, "instance": pod });
            if *job == NODES {
                labels["node"] = json!(pod);
            }
            json!({ "targets": [address], "labels": labels })
        });
        let next = self.directory.path().join("targets.next");
        std::fs::write(&next, Value::Array(groups.collect()).to_string())?;
        Ok(std::fs::rename(next, self.directory.path().join("targets.json"))?)
    }

    /// The present result of a query.
    pub async fn now(&self, query: &str) -> Result<Vec<Series>> {
        let answer = self.api(&format!("query?query={}", encoded(query))).await.context(query.to_owned())?;
        series(&answer)
    }

    /// The result of a query over a period, in seconds since 1970.
    pub async fn between(&self, query: &str, from: f64, to: f64, step: f64) -> Result<Vec<Series>> {
        let path = format!("query_range?query={}&start={from}&end={to}&step={step}", encoded(query));
        series(&self.api(&path).await.context(query.to_owned())?)
    }

    /// All groups of rules, as Prometheus has parsed them.
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

    /// A GET by HTTP/1.0, whose answer ends when the connection closes.
    async fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let request = format!("GET {path} HTTP/1.0\r\nHost: {}\r\n\r\n", self.address);
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let (head, body) = answer.split_once("\r\n\r\n").context("cut off")?;
        // An error in a query is described in the body.
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
