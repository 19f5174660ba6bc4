//! `kube-gc tree`, `explain`, `check`, `plan` and `stuck` as people run them.

mod check;
mod collector;
mod errors;
mod explain;
mod fixtures;
mod found;
mod krew;
mod kubectl;
mod plan;
pub mod proof;
mod samples;
mod sources;
pub mod stream;
mod stuck;
mod tree;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use kube_gc_testkit::harness::Module;
use kube_gc_testkit::{schema, target};

const TREE: &str = include_str!("../../docs/schemas/tree.json");
const EXPLANATION: &str = include_str!("../../docs/schemas/explanation.json");
const PLAN: &str = include_str!("../../docs/schemas/plan.json");
const CHECK: &str = include_str!("../../docs/schemas/check.json");
const STUCK: &str = include_str!("../../docs/schemas/stuck.json");

/// All scenarios.
pub const ALL: &[Module] = &[
    check::SCENARIOS,
    collector::SCENARIOS,
    errors::SCENARIOS,
    explain::SCENARIOS,
    found::SCENARIOS,
    plan::SCENARIOS,
    proof::SCENARIOS,
    krew::SCENARIOS,
    kubectl::SCENARIOS,
    samples::SCENARIOS,
    sources::SCENARIOS,
    stuck::SCENARIOS,
    tree::SCENARIOS,
];

/// A command that has ended.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// The output as JSON. Fails unless it is one line and fits its schema.
    pub fn json(&self) -> Result<Value> {
        ensure!(self.out.lines().count() == 1, "not one line: {self:?}");
        let value: Value = serde_json::from_str(&self.out).with_context(|| format!("{self:?}"))?;
        fits_schema(&value)?;
        Ok(value)
    }
}

/// Fails unless an answer fits the schema of its kind.
pub fn fits_schema(answer: &Value) -> Result<()> {
    let schema = match answer["kind"].as_str() {
        Some("Tree") => TREE,
        Some("Plan") => PLAN,
        Some("Check") => CHECK,
        Some("Stuck") => STUCK,
        _ => EXPLANATION,
    };
    schema::check(&serde_json::from_str(schema)?, answer).map_err(anyhow::Error::msg)
}

/// Runs the binary as the user of a kubeconfig.
pub async fn kube_gc(kubeconfig: &Path, line: &str) -> Result<Ran> {
    let output = tokio::process::Command::new(target::binary())
        .args(line.split_whitespace())
        .env("KUBECONFIG", kubeconfig)
        .output()
        .await?;
    let text = |bytes| String::from_utf8(bytes).context("not UTF-8");
    Ok(Ran {
        code: output.status.code().context("killed")?,
        out: text(output.stdout)?,
        err: text(output.stderr)?,
    })
}

/// The words of each line, without those that depend on time.
pub fn words(text: &str) -> Vec<String> {
    let is_age =
        |word: &str| word.strip_suffix(['s', 'm', 'd']).is_some_and(|number| number.parse::<u32>().is_ok());
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().filter(|word| !is_age(word)).collect();
        words.join(" ")
    };
    text.lines().map(line).collect()
}
