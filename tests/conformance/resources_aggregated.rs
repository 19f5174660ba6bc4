//! Aggregated APIs without a backend.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::{Value, json};

use crate::conformance::outcome::{Order, Outcome, Rest, reference, reported_as_failing, unused_uid};
use crate::conformance::stage::Stage;
use kube_gc_testkit::cluster::{is_status, poll};
use kube_gc_testkit::{Cluster, Collector, Ns, Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    an_aggregated_api_that_is_down_from_the_start_delays_no_other_type,
    an_aggregated_api_that_is_added_while_down_delays_no_other_type,
}

const GROUP: &str = "down.example.com";
const PATH: &str = "/apis/down.example.com/v1";
/// Discovery runs frequently.
const ALWAYS: &str = "[discovery]\ninterval = \"100ms\"\n";

/// Registers an API with a service without endpoints, and waits until the API server reports that.
async fn register(cluster: &Cluster, ns: &Ns) -> Result<Obj> {
    let service = ns.of::<Service>("nobody").field("spec", json!({ "ports": [{ "port": 443 }] }));
    let service = service.create().await?;
    // Only one such service can exist, because it has a fixed address.
    cluster.forget(&service.resource);
    let spec = json!({
        "group": GROUP,
        "version": "v1",
        "groupPriorityMinimum": 1000,
        "versionPriority": 10,
        "insecureSkipTLSVerify": true,
        "service": { "namespace": ns.name(), "name": service.name, "port": 443 },
    });
    let api = cluster.of::<APIService>(format!("v1.{GROUP}")).field("spec", spec).create().await?;
    poll("the API to be unavailable", async || {
        let answer = cluster.send("GET", PATH, None, None).await;
        Ok(matches!(answer, Err(error) if is_status(&error, 503)))
    })
    .await?;
    Ok(api)
}

/// Whether readiness, a metric and a debug page name the group.
pub async fn named(collector: &Collector, group: &str) -> Result<[bool; 3]> {
    let ready = collector.get("/readyz?verbose").await?;
    ensure!(ready.status == 200, "not ready: {}", ready.body);
    let in_readiness = ready.body.lines().any(|line| line.contains(group) && line.contains("503"));
    let failing = format!("kube_gc_undiscovered{{group=\"{group}\",version=\"v1\"}}");
    let in_metrics = collector.metrics().await?.get(&failing).is_some_and(|value| *value == 1.0);
    let debug = collector.get_debug("/debug/discovery").await?.json()?;
    let is_it = |part: &Value| part["group"] == group && part["version"] == "v1" && part["since"].is_string();
    let in_debug = debug.as_array().into_iter().flatten().any(is_it);
    Ok([in_readiness, in_metrics, in_debug])
}

/// Every list and watch that the collector has started, by type, when every type is watched.
pub async fn watched_by_now(collector: &Collector) -> Result<BTreeMap<String, f64>> {
    poll("every type to be watched", async || {
        let monitors = collector.get_debug("/debug/monitors").await?.json()?;
        let begun = begun(collector).await?;
        // A list that the API server refuses to stream is a watch that was refused.
        let is_watch =
            |series: &&String| series.contains("verb=\"watch\"") && series.contains("code=\"200\"");
        let watches = begun.keys().filter(is_watch);
        Ok(monitors.as_array().is_some_and(|monitors| monitors.len() == watches.count()))
    })
    .await?;
    begun(collector).await
}

/// See [`watched_by_now`].
pub async fn begun(collector: &Collector) -> Result<BTreeMap<String, f64>> {
    let mut metrics = collector.metrics().await?;
    metrics.retain(|series, _| {
        series.starts_with("kube_gc_requests_total{")
            && (series.contains("verb=\"list\"") || series.contains("verb=\"watch\""))
    });
    Ok(metrics)
}

async fn play(order: Order) -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let mut collector = None;
    if order == Order::CollectorFirst {
        let first = stage.collector_with(Options::config(ALWAYS)).await?;
        ns.secret("any").create().await?;
        cluster.settled(&first).await?;
        collector = Some((watched_by_now(&first).await?, first));
    }
    let owner = ns.configmap("owner").create().await?;
    let dependent = ns.secret("dependent").owned_by(&owner).blocking().create().await?;
    let unknown = reference(&format!("{GROUP}/v1"), "Thing", "thing", &unused_uid());
    let of_unknown = ns.secret("of-unknown").owner_reference(unknown).create().await?;
    let api = register(cluster, &ns).await?;

    let (before, collector) = match collector {
        Some((before, collector)) => (Some(before), collector),
        None => (None, stage.collector_with(Options::config(ALWAYS)).await?),
    };
    poll("the group to be named", async || Ok(named(&collector, GROUP).await? == [true; 3])).await?;
    let before = match before {
        Some(before) => before,
        None => watched_by_now(&collector).await?,
    };
    let looks = collector.metric("kube_gc_discovery_errors_total").await?;
    cluster.delete(&owner, Policy::Foreground).await?;
    stage.settled(&collector, Rest::Parked).await?;
    poll("discovery to look again and again", async || {
        Ok(collector.metric("kube_gc_discovery_errors_total").await? >= looks + 5.0)
    })
    .await?;
    let gone = vec![owner, dependent];
    Outcome { gone, untouched: vec![of_unknown.clone()], ..Outcome::default() }.check(cluster).await?;
    reported_as_failing(&collector, &[&of_unknown], GROUP).await?;
    stage.prove_alive(&collector, Rest::Parked).await?;
    let after = begun(&collector).await?;
    ensure!(before == after, "monitors have begun again: {before:#?}, then {after:#?}");

    cluster.delete(&api, Policy::Background).await?;
    poll("the group to be forgotten", async || Ok(named(&collector, GROUP).await? == [false; 3])).await?;
    Outcome { untouched: vec![of_unknown], ..Outcome::default() }.check(cluster).await?;
    collector.stop().await?;
    stage.clear().await
}

/// An API that is down from the start delays no other. Its group is named with the
/// server's words (rule 2.14).
async fn an_aggregated_api_that_is_down_from_the_start_delays_no_other_type() -> Result<()> {
    play(Order::ObjectsFirst).await
}

/// An API that is down is added while the collector runs. No other type is watched anew
/// (rule 2.6).
async fn an_aggregated_api_that_is_added_while_down_delays_no_other_type() -> Result<()> {
    play(Order::CollectorFirst).await
}
