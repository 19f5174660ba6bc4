//! The dashboard and the rules are consistent: they query existing metrics and explain what they
//! show.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use kube_gc::internals::telemetry::names::{ALL, Kind as Moves};
use serde_json::Value;

use crate::dashboard::{DASHBOARD, source};
use crate::read;
use crate::rules::{Rule, rules};

/// The jobs of the rules: the collector of a cluster, and node collection.
const JOBS: [&str; 2] = ["kube-gc", "kube-gc-node"];

/// Metrics recorded by others: those of the process by a crate, the rest by Prometheus.
const OTHERS: [&str; 8] = [
    "up",
    "ALERTS",
    "process_start_time_seconds",
    "process_resident_memory_bytes",
    "process_cpu_seconds_total",
    "process_threads",
    "process_open_fds",
    "process_virtual_memory_bytes",
];

/// The metric of each scraped series. A histogram has three series.
fn series() -> BTreeMap<String, &'static str> {
    let mut series = BTreeMap::new();
    for metric in ALL {
        let suffixes: &[&str] = match metric.kind {
            Moves::Histogram(_) => &["_bucket", "_sum", "_count"],
            Moves::Counter | Moves::Gauge => &[""],
        };
        series.extend(suffixes.iter().map(|suffix| (format!("{}{suffix}", metric.name), metric.name)));
    }
    series
}

/// The names of series in a query: the words right before a `{` or in the parentheses of a
/// function that are not functions, labels or keywords. An operator follows a label, a
/// parenthesis follows a function, and a keyword precedes a list of labels.
fn series_in(query: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let mut rest = query;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphabetic() || c == '"') {
        if rest[start..].starts_with('"') {
            let text = &rest[start + 1..];
            rest = &text[text.find('"').map_or(text.len(), |end| end + 1)..];
            continue;
        }
        let word = &rest[start..];
        let word = &word[..word.find(|c: char| !is_name(c)).unwrap_or(word.len())];
        rest = &rest[start + word.len()..];
        if rest.starts_with('{') {
            found.insert(word.to_owned());
        }
    }
    found
}

#[test]
fn series_are_distinguished_from_labels_functions_and_strings() {
    let query = r#"sum by (le, name) (rate(a_bucket{job="b{", c=~"d"}[5m])) / sum(x:y:z{e!="f"}) > 1"#;
    assert_eq!(series_in(query), ["a_bucket", "x:y:z"].map(str::to_owned).into());
}

/// Every query of the dashboard and the rules, with its place.
fn queries() -> Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for panel in source()?.panels() {
        all.extend(panel.queries().map(|(_, query)| (format!("panel {:?}", panel.title), query)));
    }
    all.extend(rules()?.into_iter().map(|rule| (rule.name().to_owned(), rule.expr)));
    Ok(all)
}

#[test]
fn dashboard_and_rules_use_existing_metrics_and_every_metric() -> Result<()> {
    let series = series();
    let recorded: BTreeSet<String> = rules()?.iter().filter_map(|rule| rule.record.clone()).collect();
    let mut used = BTreeSet::new();
    let mut repeated: BTreeMap<String, usize> = BTreeMap::new();
    for (place, query) in queries()? {
        let names = series_in(&query);
        ensure!(!names.is_empty(), "{place}: no series in {query}");
        for name in names {
            if recorded.contains(&name) {
                *repeated.entry(name).or_default() += 1;
            } else if let Some(metric) = series.get(&name) {
                used.insert(*metric);
            } else {
                ensure!(OTHERS.contains(&name.as_str()), "{place}: there is no {name}");
            }
        }
    }
    for name in recorded {
        ensure!(repeated.get(&name).is_some_and(|times| *times > 1), "{name} is not worth recording");
    }
    for metric in ALL {
        ensure!(used.contains(metric.name), "no panel or rule uses {}", metric.name);
    }
    Ok(())
}

/// Other programs have metrics with the same names, and there may be several clusters.
#[test]
fn every_query_selects_a_job() -> Result<()> {
    for panel in source()?.panels() {
        for (_, query) in panel.queries() {
            let all = query.matches('{').count();
            // The row of node collection has a job of its own, and the variables do not apply to it.
            let own = [r#"job=~"$job""#, r#"{job="kube-gc-node""#, r#"alertname=~"KubeGc.+""#];
            let own: usize = own.iter().map(|selector| query.matches(selector).count()).sum();
            ensure!(all == own, "{}: {query}", panel.title);
        }
    }
    for Rule { expr, .. } in rules()? {
        let all = expr.matches('{').count();
        let selects = |job: &str| expr.matches(&format!("{{job=\"{job}\"")).count() == all;
        ensure!(JOBS.into_iter().any(selects), "of any job, or of several: {expr}");
    }
    Ok(())
}

/// The units of panels. Grafana shows an unknown unit as plain text.
const UNITS: [&str; 8] = ["none", "short", "s", "bytes", "ops", "reqps", "percentunit", "dateTimeAsIso"];

#[test]
fn every_panel_has_a_description_and_overlaps_no_other() -> Result<()> {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)?)?;
    let schema = dashboard["schemaVersion"].as_u64().context("no schema")?;
    ensure!((39..=41).contains(&schema), "not of Grafana 11 or 12: {schema}");
    let variables = dashboard["templating"]["list"].as_array().context("no variables")?;
    let variables: Vec<&str> = variables.iter().filter_map(|variable| variable["name"].as_str()).collect();
    ensure!(variables == ["datasource", "job", "namespace", "pod"], "{variables:?}");

    let panels = dashboard["panels"].as_array().context("no panels")?;
    let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels {
        let title = panel["title"].as_str().filter(|title| !title.is_empty()).context("no title")?;
        ensure!(ids.insert(panel["id"].as_u64().context("no id")?), "{title}: an id twice");
        let number = |field: &str| panel["gridPos"][field].as_u64().context("no place");
        let (x, y, w, h) = (number("x")?, number("y")?, number("w")?, number("h")?);
        ensure!(x + w <= 24 && w > 0 && h > 0, "{title}: not on the dashboard");
        for cell in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            ensure!(taken.insert(cell), "{title}: lies over another");
        }
        if panel["type"] == "row" {
            continue;
        }
        let kind = panel["type"].as_str().unwrap_or_default();
        ensure!(["stat", "timeseries", "state-timeline", "table"].contains(&kind), "{title}: {kind}");
        let text = panel["description"].as_str().unwrap_or_default();
        ensure!(text.ends_with('.') && text.len() > 40, "{title}: not described");
        let unit = panel["fieldConfig"]["defaults"]["unit"].as_str().unwrap_or_default();
        ensure!(UNITS.contains(&unit), "{title}: the unit {unit:?}");
        ensure!(panel["datasource"]["uid"] == "${datasource}", "{title}: a fixed datasource");
        let targets = panel["targets"].as_array().filter(|targets| !targets.is_empty());
        for target in targets.context("no queries")? {
            ensure!(target["datasource"]["uid"] == "${datasource}", "{title}: a fixed datasource");
            let legend = target["legendFormat"].as_str().unwrap_or_default();
            ensure!(!legend.is_empty(), "{title}: no legend");
            labels_of_the_legend_are_those_of_the_query(
                title,
                legend,
                target["expr"].as_str().unwrap_or_default(),
            )?;
        }
        let legend = &panel["options"]["legend"];
        // The types of both Grafana releases require this field to say what is computed.
        ensure!(
            kind == "stat" || kind == "table" || (legend["showLegend"] == true && legend["calcs"].is_array()),
            "{title}"
        );
    }
    // An operator's first questions, in this order.
    let rows = panels.iter().filter(|panel| panel["type"] == "row").filter_map(|row| row["title"].as_str());
    let rows: Vec<&str> = rows.collect();
    ensure!(
        rows[..2] == ["Is it healthy, and who leads?", "Is anything stuck, since when, and why?"],
        "{rows:?}"
    );
    Ok(())
}

fn labels_of_the_legend_are_those_of_the_query(title: &str, legend: &str, query: &str) -> Result<()> {
    let lists = query.split(" by (").skip(1).filter_map(|rest| rest.split(')').next());
    let mut kept: BTreeSet<&str> = lists.flat_map(|list| list.split(", ")).collect();
    // The label of a quantile's buckets, and labels that are summed over, are not kept.
    kept.remove("le");
    for label in legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()) {
        ensure!(kept.contains(label), "{title}: {query} has no {label}");
    }
    Ok(())
}
