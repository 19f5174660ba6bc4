//! The walk through an outage in docs/operations.md, held against the log of a collector that has
//! had one.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use kube_gc_testkit::Collector;
use serde_json::Value;

/// The lines of the log that the page shows.
pub struct Walk(Vec<Value>);

impl Walk {
    pub fn read() -> Result<Self> {
        let page = include_str!("../../docs/operations.md");
        let (_, page) = page.split_once("## An outage, step by step").context("no walk")?;
        let (page, _) = page.split_once("\n## ").context("no end of the walk")?;
        let blocks = page.split("```console\n").skip(1).filter_map(|block| block.split("```").next());
        let mut lines = Vec::new();
        for block in blocks {
            // Long lines are wrapped, with a space in front of the rest.
            for line in block.replace("\n ", "").lines() {
                lines.push(serde_json::from_str(line).with_context(|| line.to_owned())?);
            }
        }
        ensure!(lines.len() >= 2, "{} lines", lines.len());
        Ok(Self(lines))
    }

    /// Fails unless this collector logs such lines with the level, the target and the fields that
    /// the page shows, among them those whose messages contain these texts.
    pub fn is_real(&self, collector: &Collector, contained: &[&str]) -> Result<()> {
        let mut found = BTreeSet::new();
        for line in collector.logged("") {
            let line: Value = serde_json::from_str(&line)?;
            let of_message = self.0.iter().filter(|shown| is_same_event(shown, &line));
            let shown: Vec<_> = of_message.collect();
            if shown.is_empty() {
                continue;
            }
            ensure!(
                shown.iter().any(|shown| form(shown) == form(&line)),
                "{line}, but the page has {shown:?}"
            );
            found.insert(line["message"].as_str().unwrap_or_default().to_owned());
        }
        for text in contained {
            ensure!(found.iter().any(|message| message.contains(text)), "no line {text:?}: {found:?}");
        }
        Ok(())
    }
}

/// Whether two lines are about the same.
fn is_same_event(one: &Value, other: &Value) -> bool {
    one["message"] == other["message"]
}

/// What must be the same: level, target, and the names of all fields.
fn form(line: &Value) -> (String, String, BTreeSet<&str>) {
    let text = |field: &str| line[field].as_str().unwrap_or_default().to_owned();
    let names = line.as_object().into_iter().flat_map(|fields| fields.keys().map(String::as_str));
    (text("level"), text("target"), names.collect())
}
