//! A real Prometheus (Debian's package), with the rules as a plain file.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::Value;
use tempfile::TempDir;

use crate::repository;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::collector::get;

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
        let is_ready = async || {
            let answer = get(&prometheus.address, "/-/ready").await;
            Ok(answer.is_ok_and(|answer| answer.status == 200))
        };
        poll("Prometheus to be ready", is_ready).await.with_context(|| prometheus.log())?;
        Ok(prometheus)
    }

    /// Its log.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default()
    }

    /// Sets the targets.
    pub fn scrape(&self, targets: &Value) -> Result<()> {
        let next = self.directory.path().join("targets.next");
        std::fs::write(&next, targets.to_string())?;
        Ok(std::fs::rename(next, self.directory.path().join("targets.json"))?)
    }

    /// Whether a query has had a number since a time, in seconds since 1970.
    pub async fn has_data(&self, query: &str, since: f64) -> Result<bool> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64();
        let path = format!("/api/v1/query_range?query={}&start={since}&end={now}&step=1", encoded(query));
        // An error in a query is described in the body.
        let answer = get(&self.address, &path).await?.json()?;
        ensure!(answer["status"] == "success", "{query}: {answer}");
        let series = answer["data"]["result"].as_array().into_iter().flatten();
        let samples = series.filter_map(|one| one["values"].as_array()).flatten();
        let mut values = samples.filter_map(|sample| sample[1].as_str()?.parse::<f64>().ok());
        Ok(values.any(f64::is_finite))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn encoded(text: &str) -> String {
    let escaped = text.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    escaped.collect()
}
