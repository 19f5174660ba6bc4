//! A dry run next to Kubernetes' own garbage collector: it would have done exactly what that one does.

mod agreement;
mod alone;

use anyhow::Result;
use serde_json::Value;

use crate::conformance::stage::Stage;
use kube_gc_testkit::harness::Module;
use kube_gc_testkit::{Collector, Options};

/// All scenarios.
pub const ALL: &[Module] = &[agreement::SCENARIOS, alone::SCENARIOS];

/// Starts a dry run that gives the other collector this time.
async fn onlooker(stage: &Stage, grace: &str) -> Result<Collector> {
    let config = format!("[comparison]\ngrace = \"{grace}\"\n");
    stage.collector_with(Options::config(config).arg("--dry-run")).await
}

/// The results of the comparison of a dry run.
#[derive(Debug)]
struct Comparisons {
    /// Another client did it.
    agreed: f64,
    /// No client did it.
    disagreed: f64,
    /// Not compared.
    dropped: f64,
    /// Not decided yet.
    pending: f64,
}

impl Comparisons {
    async fn of(collector: &Collector) -> Result<Self> {
        let of = async |result: &str| {
            collector.metric_of("kube_gc_comparisons_total", &[&format!("result=\"{result}\"")]).await
        };
        Ok(Self {
            agreed: of("agreed").await?,
            disagreed: of("disagreed").await?,
            dropped: of("dropped").await?,
            pending: collector.metric("kube_gc_comparisons_pending").await?,
        })
    }
}

/// The log lines that need attention.
fn alarms(collector: &Collector) -> Vec<String> {
    let is_alarm = |line: &String| {
        let entry: Value = serde_json::from_str(line).unwrap_or_default();
        !matches!(entry["level"].as_str(), Some("INFO" | "DEBUG" | "TRACE"))
    };
    let mut lines = collector.logged("");
    lines.retain(is_alarm);
    lines
}
