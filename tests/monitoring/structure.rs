//! The dashboard and the rules are consistent: they query existing metrics and explain what they
//! show.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use kube_gc_observe::telemetry::names::{ALL, Kind as Moves, Metric};

use crate::dashboard::{Panel, source};
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
fn series() -> BTreeMap<String, &'static Metric> {
    let mut series = BTreeMap::new();
    for metric in ALL {
        let suffixes: &[&str] = match metric.kind {
            Moves::Histogram(_) => &["_bucket", "_sum", "_count"],
            Moves::Counter | Moves::Gauge => &[""],
        };
        series.extend(suffixes.iter().map(|suffix| (format!("{}{suffix}", metric.name), metric)));
    }
    series
}

/// Each series in a query, and what is between its braces.
pub fn selectors(query: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    query.split('{').zip(query.split('{').skip(1)).map(move |(before, behind)| {
        let name = before.rsplit(|c| !is_name(c)).next().unwrap_or_default();
        (name, behind.split('}').next().unwrap_or_default())
    })
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
        let names: BTreeSet<&str> = selectors(&query).map(|(name, _)| name).collect();
        ensure!(!names.is_empty(), "{place}: no series in {query}");
        for name in names {
            if recorded.contains(name) {
                *repeated.entry(name.to_owned()).or_default() += 1;
            } else if let Some(metric) = series.get(name) {
                used.insert(metric.name);
            } else {
                ensure!(OTHERS.contains(&name), "{place}: there is no {name}");
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

/// Labels that Prometheus and the operator add.
const ADDED: [&str; 5] = ["job", "namespace", "pod", "node", "alertname"];

/// Without such a label or value, a query has no data and an alert never fires.
#[test]
fn selectors_name_labels_and_values_that_there_are() -> Result<()> {
    let series = series();
    for (place, query) in queries()? {
        for (name, matchers) in selectors(&query) {
            let Some(metric) = series.get(name) else { continue };
            let matchers = matchers.split(',').map(str::trim);
            for (label, value) in matchers.filter_map(|matcher| matcher.split_once('=')) {
                let label = label.trim_end_matches('!');
                if ADDED.contains(&label) || label == "le" {
                    continue;
                }
                ensure!(metric.labels.contains(&label), "{place}: {} has no label {label}", metric.name);
                let known = metric.values(label).unwrap_or_default();
                for value in value.trim_matches(['~', '"']).split('|').filter(|_| !known.is_empty()) {
                    let is_known = known.contains(&value) || value.contains(['.', '*', '+', '$']);
                    ensure!(is_known || value.is_empty(), "{place}: {label} is never {value:?}");
                }
            }
        }
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
fn every_panel_has_a_description_a_unit_and_a_legend() -> Result<()> {
    let source = source()?;
    for panel in source.panels() {
        let Panel { title, unit, description, .. } = panel;
        ensure!(description.ends_with('.') && description.len() > 40, "{title}: not described");
        ensure!(UNITS.contains(&unit.as_str()), "{title}: the unit {unit:?}");
        ensure!(panel.queries().count() > 0, "{title}: no queries");
        for (legend, query) in panel.queries() {
            ensure!(!legend.is_empty(), "{title}: no legend");
            labels_of_the_legend_are_those_of_the_query(title, legend, &query)?;
        }
    }
    // An operator's first questions, in this order.
    let rows: Vec<&str> = source.row.iter().map(|row| row.title.as_str()).collect();
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
