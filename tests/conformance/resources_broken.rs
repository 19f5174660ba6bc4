//! Types that cannot be read for a while.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::outcome::{Outcome, Rest, reference, uids, unused_uid};
use crate::stage::{MERGE_PATCH, Stage, impatient};
use crate::support::cluster::{key, poll};
use crate::support::{Cluster, Collector, Crd, Ns, Obj, Policy, Scope, Verdict, Webhook};

/// What the webhook says.
const WORDS: &str = "no conversion today";

/// A type whose objects are stored in one version and watched in another, with
/// a webhook between the two.
struct Converted {
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
        Ok(Self { widgets, webhook })
    }

    /// Whether the API server asks the webhook, shown by an object.
    async fn works(&self, cluster: &Cluster) -> Result<bool> {
        Ok(cluster.list(&self.widgets.resource_at("v1"), None).await.is_ok())
    }

    async fn say(&self, cluster: &Cluster, verdict: Verdict) -> Result<()> {
        let works = verdict == Verdict::Fine;
        self.webhook.say(verdict);
        poll("the API server to ask the webhook", async || Ok(self.works(cluster).await? == works)).await
    }

    fn key(&self) -> String {
        key(self.widgets.resource())
    }
}

/// Objects of the type, of others, and what they own of each other.
struct Family {
    widget: Obj,
    owner: Obj,
    /// Widgets that are garbage, or owned by such, or of the owner.
    widgets: Vec<Obj>,
    /// Owned by the widget that is garbage: nobody can tell before that is read.
    of_garbage: Obj,
    of_widget: Obj,
    /// Garbage without widgets.
    others: Vec<Obj>,
}

impl Family {
    async fn make(ns: &Ns, widgets: &Crd) -> Result<Self> {
        let owner = ns.secret("owner").create().await?;
        let widget = ns.object(widgets.resource(), "live").create().await?;
        let never = reference("v1", "ConfigMap", "never", &unused_uid());
        let garbage = ns.object(widgets.resource(), "garbage").owner_reference(never).create().await?;
        let of_owner = ns.object(widgets.resource(), "of-owner").owned_by(&owner).create().await?;
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

/// What each place says of the type: readiness, the metric, the debug page.
async fn is_named(collector: &Collector, key: &str, words: &str) -> Result<bool> {
    let ready = collector.get("/readyz?verbose").await?;
    ensure!(ready.status == 200, "not ready: {}", ready.body);
    let in_readiness = ready.body.lines().any(|line| line.contains(key) && line.contains(words));
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
        monitor["group"] == group && monitor["resource"] == plural && error.contains(words)
    };
    let in_debug = monitors.as_array().into_iter().flatten().any(is_failing);
    Ok(in_readiness && in_metrics && in_debug)
}

/// Plays it with a webhook that fails before or after the collector has come.
async fn play(verdict: Verdict, words: &str, broken_first: bool) -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let converted = Converted::create(&stage).await?;
    let widgets = &converted.widgets;
    let mut collector = None;
    if !broken_first {
        // Needs an object to read.
        ns.object(widgets.resource(), "any").create().await?;
        let early = stage.collector_with(impatient()).await?;
        cluster.settled(&early).await?;
        collector = Some(early);
    }
    let early = ns.object(widgets.resource(), "early").create().await?;
    if let Some(collector) = &collector {
        cluster.settled(collector).await?;
    }
    converted.say(cluster, verdict).await?;
    // What is stored needs no conversion.
    let family = Family::make(&ns, widgets).await?;
    cluster.forget(widgets.resource());
    let collector = match collector {
        Some(collector) => collector,
        None => stage.collector_with(impatient()).await?,
    };

    cluster.delete(&family.owner, Policy::Foreground).await?;
    poll("the type to be named", async || is_named(&collector, &converted.key(), words).await).await?;
    stage.settled(&collector, Rest::Parked).await?;
    cluster.assert_gone(&family.others).await?;
    let untouched = [&early, &family.widget].into_iter().chain(&family.widgets).cloned().collect();
    Outcome { untouched, ..Outcome::default() }.check(cluster).await?;
    let kept = [&family.of_widget, &family.of_garbage].map(|object| (object.clone(), object.owner_uids()));
    for (object, owners) in &kept {
        ensure!(cluster.fresh(object).await?.owner_uids() == *owners);
    }
    // No watch shows a marker of it.
    cluster.forget(widgets.resource());
    stage.prove_alive(&collector, Rest::Parked).await?;

    converted.say(cluster, Verdict::Fine).await?;
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
        Ok(!ready.body.contains(&converted.key()))
    })
    .await?;
    ensure!(!is_named(&collector, &converted.key(), words).await?, "the type is still named");
    collector.stop().await?;
    widgets.remove().await?;
    stage.clear().await
}

/// 24: the conversion webhook of a type fails from before the collector comes.
#[tokio::test]
async fn a_type_that_cannot_be_converted_from_the_start_holds_up_nobody() -> Result<()> {
    play(Verdict::No(WORDS, None), WORDS, true).await
}

/// 24: it fails under the collector's eyes. Nothing but the webhook changes, so
/// nobody tells the collector when it works again.
#[tokio::test]
async fn a_type_that_can_no_longer_be_converted_holds_up_nobody() -> Result<()> {
    play(Verdict::No(WORDS, None), WORDS, false).await
}

/// 24: the webhook itself is broken.
#[tokio::test]
async fn a_type_whose_webhook_is_broken_holds_up_nobody() -> Result<()> {
    play(Verdict::Broken, "conversion webhook", true).await
}
