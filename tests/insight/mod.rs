//! `kube-gc tree`, `explain`, `check`, `plan` and `stuck` as people run them.

mod check;
mod collector;
mod denied;
mod errors;
mod explain;
mod fixtures;
mod krew;
mod kubectl;
mod plan;
pub mod proof;
mod samples;
mod sources;
pub mod stream;
mod stuck;
mod tree;
mod truth;
mod truth_advice;
mod truth_causes;
mod truth_kept;
mod truth_left;
mod truth_named;

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;

use kube_gc_testkit::harness::Module;
use kube_gc_testkit::{schema, target};

/// All scenarios.
pub const ALL: &[Module] = &[
    check::SCENARIOS,
    collector::SCENARIOS,
    denied::SCENARIOS,
    errors::SCENARIOS,
    explain::SCENARIOS,
    plan::SCENARIOS,
    proof::SCENARIOS,
    krew::SCENARIOS,
    kubectl::SCENARIOS,
    samples::SCENARIOS,
    sources::SCENARIOS,
    stuck::SCENARIOS,
    tree::SCENARIOS,
    truth::SCENARIOS,
    truth_advice::SCENARIOS,
    truth_causes::SCENARIOS,
    truth_kept::SCENARIOS,
    truth_left::SCENARIOS,
    truth_named::SCENARIOS,
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
    let kind = answer["kind"].as_str().unwrap_or("Explanation").to_lowercase();
    schema::check(&schema_of(&kind)?, answer).map_err(anyhow::Error::msg)
}

fn schema_of(kind: &str) -> Result<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("docs/schemas/{kind}.json"));
    Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
}

/// All values of an enum, by the schema of an answer.
pub fn values<T: DeserializeOwned>(kind: &str, of: &str) -> Result<Vec<T>> {
    let schema = schema_of(kind)?;
    let values = schema["$defs"][of]["oneOf"].as_array().context("no enum")?.iter();
    Ok(values.map(|value| serde_json::from_value(value["const"].clone())).collect::<Result<_, _>>()?)
}

/// Runs the binary as the user of a kubeconfig.
pub async fn kube_gc(kubeconfig: &Path, line: &str) -> Result<Ran> {
    let output = tokio::process::Command::new(target::binary())
        .args(line.split_whitespace())
        .env("KUBECONFIG", kubeconfig)
        .env("LC_ALL", "C.UTF-8")
        .output()
        .await?;
    let text = |bytes| String::from_utf8(bytes).context("not UTF-8");
    Ok(Ran {
        code: output.status.code().context("killed")?,
        out: text(output.stdout)?,
        err: text(output.stderr)?,
    })
}

/// Somebody who asks about a namespace.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    pub kubeconfig: &'a Path,
    pub namespace: &'a str,
}

impl Caller<'_> {
    /// What a command answers about the namespace.
    pub async fn ask(&self, line: &str) -> Result<Ran> {
        kube_gc(self.kubeconfig, &format!("{line} -n {}", self.namespace)).await
    }

    /// The same as JSON.
    pub async fn json(&self, line: &str) -> Result<Value> {
        self.ask(&format!("{line} -o json")).await?.json()
    }

    /// Fails unless a command ends with this exit code and says all of this, with the words of each line
    /// as [`words`] has them. What begins with `!` must not be said. Only an answer is on standard output, and
    /// beside it at most why it fails, or what names cannot say.
    pub async fn says(&self, line: &str, code: i32, said: &[&str]) -> Result<()> {
        let ran = self.ask(line).await?;
        ensure!(ran.code == code, "{line}: {ran:?}");
        ensure!(
            code == 1 || line.contains("-o name") || ran.out.is_empty() || ran.err.is_empty(),
            "{line}: {ran:?}"
        );
        let text = words(&ran.out).join("\n") + "\n" + &words(&ran.err).join("\n");
        for said in said {
            let is_said = match said.strip_prefix('!') {
                Some(not) => !text.contains(not),
                None => text.contains(said),
            };
            ensure!(is_said, "{line}: not {said:?} in\n{text}");
        }
        Ok(())
    }
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
