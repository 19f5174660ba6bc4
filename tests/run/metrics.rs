//! The metrics of a working collector: Kubernetes' own names, so that existing alerts work, and
//! others.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use kube_gc_observe::telemetry::names::{self, ALL, Kind, Metric};
use serde_json::json;

use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Cluster, Collector, Options, Policy, Turn};

kube_gc_testkit::scenarios! {
    the_metrics_count_what_happens,
}

type Page = BTreeMap<String, f64>;

/// The number of dependents of an owner.
const DEPENDENTS: usize = 10;

/// Rule 9.3.
async fn the_metrics_count_what_happens() -> Result<()> {
    let turn = Turn::take().await?;
    let plane = turn.plane();
    let cluster = Cluster::new(plane.client().await?);
    let collector = Collector::start(plane, Options::default()).await?;
    collector.ready().await?;
    // The sizes are sampled one after another.
    poll("the size of the graph", async || Ok(collector.metric("kube_gc_graph_nodes").await? > 0.0)).await?;
    let there = poll("all that needs no event", async || {
        Ok(all_that_needs_no_event_is_there(&collector.metrics().await?).is_ok())
    })
    .await;
    let before = collector.metrics().await?;
    all_that_needs_no_event_is_there(&before)?;
    there?;

    one_namespace_after_the_other(&cluster, &collector, 1).await?;
    let first = collector.metrics().await?;
    it_was_counted(&before, &first)?;

    one_namespace_after_the_other(&cluster, &collector, 4).await?;
    let many = collector.metrics().await?;
    nothing_is_labelled_by_object(&first, &many)?;

    let ns = cluster.namespace().await?;
    let strange = json!({"apiVersion": "nowhere.example.com/v1", "kind": "Thing", "name": "t", "uid": "u"});
    let strange = ns.secret("strange").owner_reference(strange).create().await?;
    poll("the unresolved reference", async || {
        Ok(collector.metric(names::UNRESOLVED_REFERENCES.name).await? == 1.0)
    })
    .await?;
    // Others wait until nothing is queued.
    cluster.delete(&strange, Policy::Background).await?;
    collector.stop().await
}

/// Owners with dependents that are deleted with them.
async fn one_namespace_after_the_other(cluster: &Cluster, collector: &Collector, count: usize) -> Result<()> {
    for _ in 0..count {
        let ns = cluster.namespace().await?;
        let owner = ns.configmap("owner").create().await?;
        let dependents =
            (0..DEPENDENTS).map(|number| ns.secret(format!("dependent-{number}")).owned_by(&owner));
        let dependents = create_all(dependents).await?;
        // The dependents are observed before the owner is deleted, so that the lag of the owner's
        // deletion is measured.
        cluster.settled(collector).await?;
        cluster.delete(&owner, Policy::Background).await?;
        cluster.settled(collector).await?;
        cluster.assert_gone(&dependents).await?;
    }
    Ok(())
}

/// Whether a metric exists from the start. Metrics whose label values depend on events in the
/// cluster do not.
fn is_always_there(metric: &Metric) -> bool {
    // Metrics of dry runs or replicas exist only there, because zeros would suggest one.
    let of_a_kind = [names::COMPARISONS.name, names::COMPARISONS_PENDING.name, names::LEADER.name];
    // Those of node collection exist only in `kube-gc node run`.
    let of_a_node = metric.name.starts_with("kube_gc_node_") || metric.name.starts_with("kubelet_");
    if of_a_kind.contains(&metric.name) || of_a_node {
        return false;
    }
    let sampled = |label: &str| label == "partition" || metric.name == names::BUILD_INFO.name;
    let mut labels = metric.labels.iter();
    labels.all(|label| sampled(label) || metric.values(label).is_some())
}

fn all_that_needs_no_event_is_there(page: &Page) -> Result<()> {
    for metric in ALL.iter().filter(|metric| is_always_there(metric)) {
        let name = match metric.kind {
            Kind::Histogram(_) => format!("{}_bucket", metric.name),
            Kind::Counter | Kind::Gauge => metric.name.to_owned(),
        };
        let found = page.keys().any(|series| series.split('{').next() == Some(&name));
        ensure!(found, "no {name}: {:?}", page.keys());
    }
    for queue in ["graph_changes", "attempt_to_delete", "attempt_to_orphan"] {
        for family in [
            "depth",
            "adds_total",
            "retries_total",
            "unfinished_work_seconds",
            "longest_running_processor_seconds",
            "queue_duration_seconds_count",
            "work_duration_seconds_count",
        ] {
            let series = format!("workqueue_{family}{{name=\"garbage_collector_{queue}\"}}");
            ensure!(page.contains_key(&series), "no {series}: {:?}", page.keys());
        }
    }
    for name in
        ["cpu_seconds_total", "resident_memory_bytes", "open_fds", "max_fds", "threads", "start_time_seconds"]
    {
        let value = page.get(&format!("process_{name}")).with_context(|| format!("no process_{name}"))?;
        ensure!(*value > 0.0 || name == "cpu_seconds_total", "process_{name} is {value}");
    }
    Ok(())
}

fn it_was_counted(before: &Page, after: &Page) -> Result<()> {
    let more = |series: &str| after.get(series).unwrap_or(&0.0) - before.get(series).unwrap_or(&0.0);
    let at_least = |series: &str, count: usize| {
        #[allow(clippy::cast_precision_loss)]
        let enough = more(series) >= count as f64;
        ensure!(enough, "{series}: only {} more; {after:?}", more(series));
        Ok(())
    };
    at_least(r#"workqueue_adds_total{name="garbage_collector_attempt_to_delete"}"#, DEPENDENTS)?;
    at_least(
        r#"workqueue_queue_duration_seconds_count{name="garbage_collector_attempt_to_delete"}"#,
        DEPENDENTS,
    )?;
    at_least(
        r#"workqueue_work_duration_seconds_count{name="garbage_collector_graph_changes"}"#,
        2 * DEPENDENTS,
    )?;
    at_least(r#"kube_gc_events_total{resource="secrets",kind="added"}"#, DEPENDENTS)?;
    at_least(r#"kube_gc_events_total{resource="secrets",kind="deleted"}"#, DEPENDENTS)?;
    at_least(r#"kube_gc_decisions_total{action="delete",outcome="deleted",resource="secrets"}"#, DEPENDENTS)?;
    at_least("kube_gc_event_lag_seconds_count", 2 * DEPENDENTS)?;
    // Each once, by the client in use with all its layers.
    at_least("kube_gc_deletion_lag_seconds_count", DEPENDENTS)?;
    let deletions = more(r#"kube_gc_requests_total{verb="delete",resource="secrets",code="200"}"#);
    ensure!(more("kube_gc_deletion_lag_seconds_count") <= deletions, "{deletions} deletions: {after:?}");
    let depth = after[r#"workqueue_depth{name="garbage_collector_attempt_to_delete"}"#];
    ensure!(depth == 0.0, "{depth}");
    Ok(())
}

/// `name="value"` pairs of a series.
fn labels(series: &str) -> impl Iterator<Item = (&str, &str)> {
    let inside = series.split_once('{').map_or("", |(_, labels)| labels.trim_end_matches('}'));
    inside.split("\",").filter_map(|pair| {
        let (name, value) = pair.split_once("=\"")?;
        Some((name, value.trim_end_matches('"')))
    })
}

/// Four times as many objects in as many more namespaces add no label values, apart from answers of
/// the server.
fn nothing_is_labelled_by_object(first: &Page, many: &Page) -> Result<()> {
    let all = |page: &Page| -> BTreeSet<(String, String)> {
        let pairs = page.keys().flat_map(|series| labels(series));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let bounded = ["code", "outcome", "next", "verb"];
    let (first, many) = (all(first), all(many));
    // New namespaces have Events and the like, whose types may be new to a metric.
    let grown: Vec<_> =
        many.difference(&first).filter(|(name, _)| !bounded.contains(&name.as_str())).collect();
    ensure!(grown.is_empty(), "{grown:?}");
    Ok(())
}
