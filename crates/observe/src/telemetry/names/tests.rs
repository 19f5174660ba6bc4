//! The names, and `docs/metrics.md`, which is made from the declarations of the metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::PathBuf;

use super::super::Exporter;
use super::super::names;
use super::*;

/// The sections, each with its first metric. The metrics declared after it belong to the
/// same section, up to the first metric of the next one.
const SECTIONS: &[(&str, &Metric)] = &[
    ("Queues, by Kubernetes' names", &names::WORKQUEUE_DEPTH),
    ("Queues, in addition", &names::QUEUE_PROCESSING),
    ("Graph", &names::GRAPH_NODES),
    ("Resource types", &names::EVENTS),
    ("Requests and decisions", &names::REQUESTS),
    ("Stuck objects", &names::STUCK_OBJECTS),
    ("Dry run", &names::COMPARISONS),
    ("Brake", &names::BRAKE_ENGAGED),
    ("Leadership", &names::LEADER),
    ("Namespaces", &names::NAMESPACES_TERMINATING),
    ("Node collection", &names::IMAGE_GARBAGE_COLLECTED),
    ("Listeners", &names::HTTP_REFUSALS),
    ("Process", &names::THREAD_CPU),
];

const HEAD: &str = "\
# Metrics

`/metrics` on the health listener (`http.listen`) serves all of these in Prometheus' text format. `make docs-metrics` \
generates this page from the declarations in `crates/observe/src/telemetry/names.rs`; a test fails if the page is out of date.

The number of resource types bounds the number of series; objects and namespaces never add one. The label `resource` \
has the form `resource.group` (`deployments.apps`, `pods`). The series of a removed type end after about ten minutes, \
so that `/metrics` stays small in a cluster whose tests create and remove thousands of CRDs. All other series stay. \
Series that alerts use start at zero.
";

/// The page, in Markdown.
fn markdown() -> String {
    let mut page = HEAD.to_owned();
    for metric in ALL {
        if let Some((title, _)) = SECTIONS.iter().find(|(_, first)| first.name == metric.name) {
            begin(&mut page, title);
        }
        // Writing to a string cannot fail, here and below.
        let Metric { name, kind, unit, help, .. } = metric;
        let (kind, labels) = (written(kind), labels(metric));
        let _ = writeln!(page, "| `{name}` | {kind} | {} | {labels} | {} |", unit_of(*unit), cell(help));
    }
    begin(&mut page, "Process, by Prometheus' conventions");
    for (name, kind, help) in process_metrics() {
        let unit = match name.as_str() {
            name if name.contains("_seconds") => "seconds",
            name if name.contains("_bytes") => "bytes",
            _ => "",
        };
        let _ = writeln!(page, "| `{name}` | {kind} | {unit} | | {} |", cell(&help));
    }
    page
}

fn begin(page: &mut String, title: &str) {
    let _ =
        write!(page, "\n## {title}\n\n| name | type | unit | labels | meaning |\n|---|---|---|---|---|\n");
}

const fn written(kind: &Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram(_) => "histogram",
    }
}

fn unit_of(unit: Unit) -> &'static str {
    match unit {
        Unit::Count => "",
        other => other.as_str(),
    }
}

fn labels(metric: &Metric) -> String {
    let each = metric.labels.iter().map(|label| match metric.values(label) {
        None => format!("`{label}`"),
        Some(values) => {
            let values: Vec<_> = values.iter().map(|value| format!("`{value}`")).collect();
            format!("`{label}`: {}", values.join(", "))
        }
    });
    each.collect::<Vec<_>>().join("; ")
}

fn cell(text: &str) -> String {
    text.replace('|', r"\|")
}

/// The metrics of the process: name, type and meaning, as they are exported.
fn process_metrics() -> Vec<(String, String, String)> {
    let (recorder, exporter) = Exporter::local();
    let page = metrics::with_local_recorder(&recorder, || exporter.render());
    let described = |what: &'static str| {
        let lines = page.lines().filter_map(move |line| line.strip_prefix(what)?.split_once(' '));
        lines.filter(|(name, _)| name.starts_with("process_")).collect::<BTreeMap<_, _>>()
    };
    let (kinds, helps) = (described("# TYPE "), described("# HELP "));
    let each =
        kinds.into_iter().map(|(name, kind)| (name.to_owned(), kind.to_owned(), helps[name].to_owned()));
    each.collect()
}

/// Writes the page first if `KUBE_GC_WRITE_DOCS` is set (`make docs-metrics`).
#[test]
fn the_page_is_up_to_date() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    if std::env::var_os("KUBE_GC_WRITE_DOCS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, markdown()).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == markdown(), "docs/metrics.md is not up to date: run `make docs-metrics`");
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    let unique: BTreeSet<_> = ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(unique.len(), ALL.len());
    for Metric { name, kind, unit, labels, help, .. } in ALL {
        assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
        assert_eq!(name.trim_end_matches("_total").ends_with("_seconds"), *unit == Unit::Seconds, "{name}");
        assert!(help.ends_with('.') || help.ends_with("_total."), "{name}: {help}");
        assert!(!help.starts_with(' '), "{name}: {help}");
        // Labelling by object would grow without bound.
        for label in *labels {
            assert!(!["uid", "namespace", "object"].contains(label), "{name}");
        }
        if let Kind::Histogram(buckets) = kind {
            assert!(buckets.is_sorted());
        }
    }
}
