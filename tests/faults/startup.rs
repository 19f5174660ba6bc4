//! What the workers wait for before they begin.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::faults::stage::{Stage, never};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::proxy::{Fault, Matcher, Reply, Verb};
use kube_gc_testkit::{Collector, Options, Scope};

kube_gc_testkit::scenarios! {
    a_type_that_cannot_be_listed_from_the_start_delays_no_other,
    the_workers_wait_until_every_type_is_listed,
}

const WIDGETS: &str = "widgets.example.com";
/// Start-up gives up soon, and lists are retried soon.
const SOON: &str = "[startup]\nsync_timeout = \"300ms\"\n\
    [watch]\nmin_backoff = \"100ms\"\nmax_backoff = \"300ms\"\n\
    [retry]\nmax = \"300ms\"\n";

/// The monitor of widgets on the debug page.
async fn monitor_of_widgets(collector: &Collector) -> Result<Value> {
    let monitors = collector.get_debug("/debug/monitors").await?.json()?;
    let monitors = monitors.as_array().context("no list")?;
    let of_widgets = |monitor: &&Value| monitor["group"] == "example.com" && monitor["resource"] == "widgets";
    monitors.iter().find(of_widgets).cloned().context("there is no monitor of widgets")
}

/// The metric of the same type.
async fn unsynced(collector: &Collector) -> Result<f64> {
    let metrics = collector.metrics().await?;
    let of_widgets = metrics.iter().filter(|(series, _)| {
        series.starts_with("kube_gc_resource_unsynced{")
            && series.contains("group=\"example.com\"")
            && series.contains("resource=\"widgets\"")
    });
    Ok(of_widgets.map(|(_, value)| value).sum())
}

/// A type that cannot be listed from the start delays others for at most the start-up timeout
/// (rules 2.14 and 2.16). It is reported with the server's words, and its garbage is collected once
/// it can be listed. Fails if the workers wait for it forever, or if nothing retries the list.
async fn a_type_that_cannot_be_listed_from_the_start_delays_no_other() -> Result<()> {
    let stage = Stage::set().await?;
    let (cluster, ns) = (&stage.cluster, &stage.ns);
    let widgets = cluster.crd(WIDGETS, Scope::Namespaced, &["v1"]).await?;
    let live = ns.object(widgets.resource(), "live").create().await?;
    let garbage = ns.object(widgets.resource(), "garbage").owner_reference(never()).create().await?;
    let below = ns.object(widgets.resource(), "below").owned_by(&garbage).create().await?;
    let missing = serde_json::json!({
        "apiVersion": live.resource.api_version, "kind": live.resource.kind, "name": "missing",
        "uid": "00000000-0000-4000-8000-000000000001",
    });
    let of_live = ns.configmap("of-live").owned_by(&live).create().await?;
    let of_missing = ns.configmap("of-missing").owner_reference(missing).create().await?;
    let other = ns.secret("other").owner_reference(never()).create().await?;
    let refused = stage.proxy.always(Matcher::verb(Verb::List).of(WIDGETS), Fault::Instead(Reply::broken()));
    // The collector cannot see a marker of this type.
    cluster.forget(widgets.resource());

    let collector = Collector::start_with(stage.proxy.kubeconfig(), Options::config(SOON)).await?;
    let begun = collector.log_line("\"reason\":\"timeout\"").await?;
    ensure!(begun.contains(WIDGETS), "the unsynced type is not named: {begun}");
    collector.ready().await?;
    cluster.settled_with_parked(&collector).await?;
    cluster.assert_gone([&of_missing, &other]).await?;
    cluster.assert_kept([&of_live]).await?;
    // The collector retries the list although it has begun to collect others.
    refused.hit(refused.hits() + 2).await?;
    let ready = collector.get("/readyz?verbose").await?;
    ensure!(ready.status == 200, "{}", ready.body);
    let line = ready.body.lines().find(|line| line.contains(WIDGETS)).context("not in /readyz")?;
    ensure!(line.contains("an error made by the test") && line.contains("not been synced since"), "{line}");
    let monitor = monitor_of_widgets(&collector).await?;
    let error = monitor["last_error"].as_str().unwrap_or_default();
    ensure!(monitor["synced"] == false && error.contains("an error made by the test"), "{monitor}");
    poll("the metric to tell", async || Ok(unsynced(&collector).await? == 1.0)).await?;
    let errors = collector.metric("garbagecollector_controller_resources_sync_error_total").await?;
    ensure!(errors >= 2.0, "{errors} errors were counted");
    cluster.assert_kept([&live, &garbage, &below]).await?;

    refused.remove();
    stage.gone(&garbage).await?;
    stage.gone(&below).await?;
    cluster.settled(&collector).await?;
    cluster.assert_kept([&live, &of_live]).await?;
    let ready = collector.get("/readyz?verbose").await?;
    ensure!(!ready.body.contains(WIDGETS), "{}", ready.body);
    let monitor = monitor_of_widgets(&collector).await?;
    ensure!(monitor["synced"] == true && monitor["last_error"].is_null(), "{monitor}");
    poll("the metric to be silent", async || Ok(unsynced(&collector).await? == 0.0)).await?;
    // Its dependents are removed, too: without the type, nothing shows whether they are garbage.
    widgets.remove().await?;
    cluster.settled(&collector).await?;
    collector.stop().await
}

/// The workers wait until every type was listed (rule 2.16). Fails if they begin while a type is
/// still being listed: each of its objects that owns something would be looked up.
async fn the_workers_wait_until_every_type_is_listed() -> Result<()> {
    let stage = Stage::set().await?;
    let (cluster, ns) = (&stage.cluster, &stage.ns);
    let widgets = cluster.crd(WIDGETS, Scope::Namespaced, &["v1"]).await?;
    let live = ns.object(widgets.resource(), "live").create().await?;
    let of_live = ns.configmap("of-live").owned_by(&live).create().await?;
    let garbage = ns.configmap("garbage").owner_reference(never()).create().await?;
    let mut lists = stage.proxy.hold(Matcher::verb(Verb::List).of(WIDGETS));

    let collector = Collector::start_with(stage.proxy.kubeconfig(), Options::default()).await?;
    let list = lists.next().await?;
    stage.seen(&collector, &garbage).await?;
    poll("all else to be synced", async || {
        let monitors = collector.get_debug("/debug/monitors").await?.json()?;
        let unsynced = monitors.as_array().context("no list")?.iter().filter(|m| m["synced"] == false);
        Ok(unsynced.count() == 1)
    })
    .await?;
    let ready = collector.get("/readyz").await?;
    ensure!(ready.status != 200, "it calls itself ready: {}", ready.body);
    for verb in [Verb::Get, Verb::Delete, Verb::Patch] {
        let here = stage.proxy.all(&stage.here(verb));
        ensure!(here.is_empty(), "{here:#?}");
    }

    list.pass();
    drop(lists);
    collector.ready().await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&garbage]).await?;
    stage.assert_owners(&of_live, &[&live]).await?;
    let looked_up = stage.of(Verb::Get, &live);
    ensure!(looked_up.is_empty(), "{looked_up:#?}");
    // Its dependents are removed, too: without the type, nothing shows whether they are garbage.
    widgets.remove().await?;
    cluster.settled(&collector).await?;
    collector.stop().await
}
