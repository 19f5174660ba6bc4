//! What the workers wait for before they begin.

use anyhow::{Context as _, Result, ensure};

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

/// Waits until readiness, the metric and the debug page say that widgets cannot be listed, in the words of the
/// server, or that they can.
async fn widgets_are_listed(collector: &Collector, listed: bool) -> Result<()> {
    const WORDS: &str = "an error made by the test";
    let mut told = String::new();
    let all_say_so = poll("it to be told of widgets", async || {
        let ready = collector.get("/readyz?verbose").await?;
        ensure!(ready.status == 200, "{}", ready.body);
        let line = ready.body.lines().find(|line| line.contains(WIDGETS));
        let is_named =
            line.is_some_and(|line| line.contains(WORDS) && line.contains("not been synced since"));
        let mut monitors = collector.monitors().await?.into_iter();
        let of_widgets = monitors.find(|it| it["group"] == "example.com" && it["resource"] == "widgets");
        let monitor = of_widgets.context("there is no monitor of widgets")?;
        let says_words = monitor["last_error"].as_str().is_some_and(|error| error.contains(WORDS));
        let unsynced = collector.metric_of("kube_gc_resource_unsynced", &["resource=\"widgets\""]).await?;
        told = format!("{line:?}, {monitor}, {unsynced}");
        Ok(if listed {
            line.is_none() && monitor["synced"] == true && monitor["last_error"].is_null() && unsynced == 0.0
        } else {
            is_named && monitor["synced"] == false && says_words && unsynced == 1.0
        })
    });
    all_say_so.await.with_context(|| told)
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
    widgets_are_listed(&collector, false).await?;
    let errors = collector.metric("garbagecollector_controller_resources_sync_error_total").await?;
    ensure!(errors >= 2.0, "{errors} errors were counted");
    cluster.assert_kept([&live, &garbage, &below]).await?;

    refused.remove();
    stage.gone(&garbage).await?;
    stage.gone(&below).await?;
    cluster.settled(&collector).await?;
    cluster.assert_kept([&live, &of_live]).await?;
    widgets_are_listed(&collector, true).await?;
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
        let monitors = collector.monitors().await?;
        Ok(monitors.iter().filter(|monitor| monitor["synced"] == false).count() == 1)
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
