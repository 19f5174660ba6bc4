//! A type whose conversion webhook fails and recovers, so that it cannot be read for some time.

use anyhow::{Context as _, Result, ensure};
use kube::api::ApiResource;
use serde_json::{Value, json};

use crate::conformance::outcome::{Outcome, Rest, reference, uids, unused_uid};
use crate::conformance::stage::{MERGE_PATCH, Stage, impatient};
use kube_gc_testkit::cluster::{key, poll};
use kube_gc_testkit::{Cluster, Collector, Crd, Ns, Obj, Policy, Scope, Webhook, WebhookBehavior};

kube_gc_testkit::scenarios! {
    a_type_whose_conversion_fails_from_the_start_delays_no_other,
    a_type_whose_conversion_begins_to_fail_delays_no_other,
}

/// The error of the webhook.
const WORDS: &str = "no conversion today";

/// A type whose storage version is not the watched one, with a conversion webhook that the scenario
/// controls.
struct Converted {
    cluster: Cluster,
    widgets: Crd,
    webhook: Webhook,
}

impl Converted {
    async fn create(stage: &Stage) -> Result<Self> {
        let cluster = &stage.cluster;
        let widgets = cluster.crd("widgets.example.com", Scope::Namespaced, &["v1beta1", "v1"]).await?;
        let webhook = Webhook::start(stage.plane).await?;
        let conversion = json!({
            "strategy": "Webhook",
            "webhook": { "clientConfig": webhook.client_config(), "conversionReviewVersions": ["v1"] },
        });
        let patch = json!({ "spec": { "conversion": conversion } });
        cluster.send("PATCH", &widgets.definition().path(), MERGE_PATCH, Some(&patch)).await?;
        Ok(Self { cluster: cluster.clone(), widgets, webhook })
    }

    /// Breaks or repairs it, and returns when the API server shows that.
    async fn set(&self, works: bool) -> Result<()> {
        if works {
            self.webhook.set_behavior(WebhookBehavior::Accept);
        } else {
            self.webhook.set_behavior(WebhookBehavior::Reject(WORDS, None));
            self.webhook.ends_watches(self.widgets.resource());
        }
        let watched = self.widgets.resource_at("v1");
        poll("the API server to ask the webhook", async || {
            Ok(self.cluster.list(&watched, None).await.is_ok() == works)
        })
        .await
    }
}

/// Objects of the type and of others, and their dependents.
struct Family {
    widget: Obj,
    owner: Obj,
    /// Widgets that are garbage, have garbage as owner, or depend on the owner.
    widgets: Vec<Obj>,
    /// Owned by the garbage widget, which is unknown until the type can be read.
    of_garbage: Obj,
    of_widget: Obj,
    /// Garbage without widgets.
    others: Vec<Obj>,
}

impl Family {
    async fn make(ns: &Ns, widgets: &ApiResource) -> Result<Self> {
        let owner = ns.secret("owner").create().await?;
        let widget = ns.object(widgets, "live").create().await?;
        let never = reference("v1", "ConfigMap", "never", &unused_uid());
        let garbage = ns.object(widgets, "garbage").owner_reference(never).create().await?;
        let of_owner = ns.object(widgets, "of-owner").owned_by(&owner).create().await?;
        let of_garbage = ns.configmap("of-garbage").owned_by(&garbage).create().await?;
        let of_widget = ns.configmap("of-widget").owned_by(&widget).create().await?;
        let sole = ns.configmap("sole").owned_by(&owner).blocking().create().await?;
        let below = ns.pod("below").owned_by(&sole).create().await?;
        Ok(Self {
            widget,
            widgets: vec![garbage, of_owner],
            of_garbage,
            of_widget,
            others: vec![owner.clone(), sole, below],
            owner,
        })
    }
}

/// The reports about the type: readiness, the metric, the debug page.
async fn is_named(collector: &Collector, key: &str) -> Result<bool> {
    let ready = collector.get("/readyz?verbose").await?;
    ensure!(ready.status == 200, "not ready: {}", ready.body);
    let in_readiness = ready.body.lines().any(|line| line.contains(key) && line.contains(WORDS));
    let metrics = collector.metrics().await?;
    let (plural, group) = key.split_once('.').context("no group")?;
    let in_metrics = metrics.iter().any(|(series, value)| {
        series.starts_with("kube_gc_resource_unsynced{")
            && series.contains(&format!("group=\"{group}\""))
            && series.contains(&format!("resource=\"{plural}\""))
            && *value == 1.0
    });
    let monitors = collector.get_debug("/debug/monitors").await?.json()?;
    let is_failing = |monitor: &Value| {
        let error = monitor["last_error"].as_str().unwrap_or_default();
        monitor["group"] == group && monitor["resource"] == plural && error.contains(WORDS)
    };
    let in_debug = monitors.as_array().into_iter().flatten().any(is_failing);
    Ok(in_readiness && in_metrics && in_debug)
}

/// Runs the scenario with a webhook that fails before or after the collector starts.
async fn play(broken_first: bool) -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let converted = Converted::create(&stage).await?;
    let widgets = converted.widgets.resource();
    let key = key(widgets);
    let mut collector = None;
    if !broken_first {
        // Needs an object to read.
        ns.object(widgets, "any").create().await?;
        let early = stage.collector_with(impatient()).await?;
        cluster.settled(&early).await?;
        collector = Some(early);
    }
    let early = ns.object(widgets, "early").create().await?;
    if let Some(collector) = &collector {
        cluster.settled(collector).await?;
    }
    converted.set(false).await?;
    // Stored objects need no conversion.
    let family = Family::make(&ns, widgets).await?;
    cluster.forget(widgets);
    let collector = match collector {
        Some(collector) => collector,
        None => stage.collector_with(impatient()).await?,
    };

    cluster.delete(&family.owner, Policy::Foreground).await?;
    poll("the type to be named", async || is_named(&collector, &key).await).await?;
    stage.settled(&collector, Rest::Parked).await?;
    cluster.assert_gone(&family.others).await?;
    let untouched = [&early, &family.widget].into_iter().chain(&family.widgets).cloned().collect();
    Outcome { untouched, ..Outcome::default() }.check(cluster).await?;
    let kept = [&family.of_widget, &family.of_garbage].map(|object| (object.clone(), object.owner_uids()));
    for (object, owners) in &kept {
        ensure!(cluster.fresh(object).await?.owner_uids() == *owners);
    }
    // No watch shows a marker of the type.
    cluster.forget(widgets);
    stage.prove_alive(&collector, Rest::Parked).await?;

    converted.set(true).await?;
    let garbage: Vec<&Obj> = family.widgets.iter().chain([&family.of_garbage]).collect();
    poll("the garbage of the type to go", async || {
        Ok(cluster.assert_gone(garbage.iter().copied()).await.is_ok())
    })
    .await?;
    cluster.settled(&collector).await?;
    cluster.assert_kept([&early, &family.widget]).await?;
    let outcome = Outcome {
        kept: vec![(family.of_widget.clone(), uids([&family.widget]))],
        untouched: vec![family.of_widget, family.widget, early],
        ..Outcome::default()
    };
    outcome.check(cluster).await?;
    poll("the type to be fine again", async || {
        let ready = collector.get("/readyz?verbose").await?;
        Ok(!ready.body.contains(&key))
    })
    .await?;
    ensure!(!is_named(&collector, &key).await?, "the type is still named");
    collector.stop().await?;
    converted.widgets.remove().await?;
    stage.clear().await
}

/// The conversion webhook of a type fails when the collector starts (rule 2.14).
async fn a_type_whose_conversion_fails_from_the_start_delays_no_other() -> Result<()> {
    play(true).await
}

/// The conversion webhook of a type fails while the collector runs (rule 2.14). Nothing
/// but the webhook changes, so no event tells the collector when it works again.
async fn a_type_whose_conversion_begins_to_fail_delays_no_other() -> Result<()> {
    play(false).await
}
