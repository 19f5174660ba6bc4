//! The rules: checks with Prometheus' own tool, and against the pages in deploy/.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

use crate::prometheus::program;
use crate::{read, repository};

/// The page that explains how to use the rules without the operator.
const README: &str = "deploy/README.md";
/// The page that explains the alerts.
const RUNBOOKS: &str = "deploy/alerts.md";
/// How the names of plain files with rules end. The unit tests refer to these names.
pub const PLAIN: &str = ".rules.yaml";

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    /// The name of the alert, if it is one.
    pub alert: Option<String>,
    /// The recorded series, if it is a recording rule.
    pub record: Option<String>,
    /// The query.
    pub expr: String,
    /// How long the condition must hold.
    pub wait: Option<String>,
    /// The names and texts of the annotations, and the severity.
    fields: Vec<(String, String)>,
}

impl Rule {
    /// The name of the alert or of the recorded series.
    pub fn name(&self) -> &str {
        self.alert.as_deref().or(self.record.as_deref()).unwrap_or_default()
    }

    fn field(&self, name: &str) -> Result<&str> {
        let field = self.fields.iter().find(|(key, _)| key == name);
        field.map(|(_, text)| text.as_str()).with_context(|| format!("{} has no {name}", self.name()))
    }
}

/// The rules as plain files, by their names, generated as deploy/README.md says.
pub fn plain() -> Result<BTreeMap<String, String>> {
    let readme = read(README)?;
    // The directory of an operator's overlay, with this repository next to it.
    let overlay = tempfile::tempdir()?;
    std::os::unix::fs::symlink(repository(""), overlay.path().join("kube-gc"))?;
    let commands =
        readme.lines().filter(|line| line.starts_with("sed ") && line.contains("prometheus-rule.yaml"));
    for command in commands {
        let output = Command::new("sh").arg("-c").arg(command).current_dir(overlay.path()).output()?;
        ensure!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(overlay.path())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.ends_with(PLAIN) {
            files.insert(name.clone(), std::fs::read_to_string(overlay.path().join(name))?);
        }
    }
    let sources = ["", "node-"].map(|of| format!("deploy/components/{of}prometheus-operator"));
    ensure!(
        files.len() == sources.len(),
        "{README} does not say how to have the rules of {sources:?} without the operator: {:?}",
        files.keys()
    );
    Ok(files)
}

/// All rules, in order. promtool does not check that each value is on the line of its key; this
/// does.
pub fn rules() -> Result<Vec<Rule>> {
    let mut rules: Vec<Rule> = Vec::new();
    let files = plain()?;
    for line in files.values().flat_map(|text| text.lines()) {
        let line = line.trim();
        let (begins, line) = line.strip_prefix("- ").map_or((false, line), |line| (true, line));
        let Some((key, value)) = line.split_once(": ") else { continue };
        if begins && matches!(key, "alert" | "record") {
            rules.push(Rule::default());
        }
        let Some(rule) = rules.last_mut() else { continue };
        let value = value.trim().to_owned();
        match key {
            "alert" => rule.alert = Some(value),
            "record" => rule.record = Some(value),
            "expr" => rule.expr = value,
            "for" => rule.wait = Some(value),
            _ => rule.fields.push((key.to_owned(), value)),
        }
    }
    Ok(rules)
}

/// The names of the alerts.
pub fn alerts() -> Result<BTreeSet<String>> {
    Ok(rules()?.into_iter().filter_map(|rule| rule.alert).collect())
}

fn promtool(arguments: &[&str], directory: &Path) -> Result<String> {
    let mut command = Command::new(program("promtool")?);
    let output = command.args(arguments).current_dir(directory).output()?;
    let text =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    ensure!(output.status.success(), "promtool {arguments:?}: {text}");
    Ok(text)
}

/// A directory with the rules and their unit tests.
fn laid_out() -> Result<(TempDir, Vec<String>)> {
    let directory = tempfile::Builder::new().prefix("kube-gc-rules-").tempdir()?;
    for (name, text) in plain()? {
        std::fs::write(directory.path().join(name), text)?;
    }
    let mut tests = Vec::new();
    for entry in std::fs::read_dir(repository("tests/monitoring/rules"))? {
        let path = entry?.path();
        let name = path.file_name().context("no name")?.to_string_lossy().into_owned();
        std::fs::copy(&path, directory.path().join(&name))?;
        tests.push(name);
    }
    tests.sort();
    Ok((directory, tests))
}

#[test]
fn prometheus_understands_the_rules() -> Result<()> {
    let (directory, _) = laid_out()?;
    let files = plain()?;
    let arguments: Vec<&str> =
        ["check", "rules"].into_iter().chain(files.keys().map(String::as_str)).collect();
    let text = promtool(&arguments, directory.path())?;
    let found =
        text.split("SUCCESS: ").skip(1).filter_map(|rest| rest.split(' ').next()?.parse::<usize>().ok());
    let (found, count) = (found.sum::<usize>(), rules()?.len());
    ensure!(count > 0 && found == count, "{count} rules, and promtool found {found}: {text}");
    Ok(())
}

/// To the minute, without waiting.
#[test]
fn each_alert_fires_when_it_should_and_not_before() -> Result<()> {
    let (directory, tests) = laid_out()?;
    let mut arguments = vec!["test", "rules"];
    arguments.extend(tests.iter().map(String::as_str));
    let text = promtool(&arguments, directory.path())?;
    ensure!(!text.contains("FAILED"), "{text}");
    Ok(())
}

/// Checks that each alert has a test. promtool checks what the tests say.
#[test]
fn each_alert_has_a_unit_test_in_which_it_fires_and_one_in_which_it_does_not() -> Result<()> {
    let (directory, tests) = laid_out()?;
    let mut texts = String::new();
    for test in tests {
        texts += &std::fs::read_to_string(directory.path().join(test))?;
    }
    for alert in alerts()? {
        let cases =
            texts.split("- eval_time:").filter(|case| case.contains(&format!("alertname: {alert}\n")));
        let (fires, not): (Vec<&str>, Vec<&str>) = cases.partition(|case| case.contains("exp_labels:"));
        ensure!(!fires.is_empty(), "{alert} fires in no test");
        ensure!(!not.is_empty(), "{alert} stays quiet in no test");
    }
    Ok(())
}

#[test]
fn each_alert_has_a_runbook_and_each_runbook_an_alert() -> Result<()> {
    let explained: BTreeSet<String> =
        read(RUNBOOKS)?.lines().filter_map(|line| line.strip_prefix("## ")).map(str::to_owned).collect();
    ensure!(explained == alerts()?, "explained are {explained:?}");
    for rule in rules()?.iter().filter(|rule| rule.alert.is_some()) {
        let anchor = format!("{RUNBOOKS}#{}", rule.name().to_lowercase());
        ensure!(rule.field("runbook_url")? == anchor, "{}: no {anchor}", rule.name());
        ensure!(rule.field("summary")?.ends_with('.'), "{}", rule.name());
        ensure!(rule.field("description")?.len() > 20, "{}", rule.name());
        let severity = rule.field("labels")?;
        ensure!(["{severity: critical}", "{severity: warning}"].contains(&severity), "{severity}");
    }
    Ok(())
}
