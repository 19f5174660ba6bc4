//! The brake: what is deleted by mistake is not deleted all at once.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ApiResource;
use serde_json::{Value, json};

use crate::conformance::outcome::Rest;
use crate::conformance::stage::{MERGE_PATCH, Stage, configmaps, seen, terminating_with};
use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Cluster, Collector, Ns, Obj, Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    the_brake_limits_deletions_of_dependents_of_a_removed_type,
    the_brake_limits_the_share_of_a_type_and_a_restart_resumes,
}

/// The number of objects of the removed type, and of the dependents of each.
const OBJECTS: usize = 300;
const OWNED: usize = 2;
/// The limit of deletions per minute.
const LIMIT: usize = 300;

/// Everything that shows the state of the brake: the page, the metrics, the Lease, the events.
struct Signs<'a> {
    cluster: &'a Cluster,
    collector: &'a Collector,
    ns: &'a Ns,
    /// The number of times that the brake had engaged when this collector became the leader.
    inherited: usize,
}

impl Signs<'_> {
    /// Waits until the brake has engaged this many times and holds this many deletions.
    async fn engaged(&self, times: usize, held: usize) -> Result<()> {
        let held_line = format!("; {held} objects held; ");
        let expected = (1.0, as_f64(times), as_f64(held));
        let mut now = None;
        let engaged = poll(&format!("the brake to hold {held}"), async || {
            let page = self.collector.get("/readyz?verbose").await?;
            ensure!(page.status == 200, "it is ready all the same: {}", page.body);
            let line = page
                .body
                .lines()
                .find(|line| line.starts_with("[!]brake warning: deletion is paused since "));
            // Waiting keys are counted once a second, and the page may be ahead of the metrics.
            let metrics = self.collector.metrics().await?;
            let value = |series: &str| metrics.get(series).copied().unwrap_or_default();
            let engagements = value("kube_gc_brake_engagements_total{limit=\"deletions_per_minute\"}")
                + value("kube_gc_brake_engagements_total{limit=\"percent\"}");
            now = Some((value("kube_gc_brake_engaged"), engagements, value("kube_gc_brake_held_objects")));
            Ok(now == Some(expected) && line.is_some_and(|line| line.contains(&held_line)))
        })
        .await;
        engaged.with_context(|| format!("{now:?}"))?;
        let warnings = || self.collector.logged("the brake has engaged");
        // The log arrives through a pipe.
        poll("the warnings", async || Ok(warnings().len() >= self.inherited + times)).await?;
        let warnings = warnings();
        ensure!(warnings.len() == self.inherited + times, "one line each time: {warnings:?}");
        let others = self.collector.logged("held by the brake");
        ensure!(others.is_empty(), "a line for each object: {}", others.len());
        Ok(())
    }

    /// The number of deletions of these that took effect, according to the collector.
    async fn deleted(&self, resource: &str) -> Result<f64> {
        let series = format!(
            "kube_gc_decisions_total{{action=\"delete\",outcome=\"deleted\",resource=\"{resource}\"}}"
        );
        Ok(self.collector.metrics().await?.get(&series).copied().unwrap_or_default())
    }

    fn lease(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/kube-gc", self.ns.name())
    }

    /// An annotation of the Lease.
    async fn annotation(&self, key: &str) -> Result<Value> {
        let lease = self.cluster.send("GET", &self.lease(), None, None).await?;
        Ok(lease["metadata"]["annotations"][key].clone())
    }

    /// Waits until the Lease and an event, which are written asynchronously, report the pause and
    /// its beginning. Returns the text in the Lease.
    async fn told(&self) -> Result<String> {
        let mut note = String::new();
        poll("the Lease and an event to say so", async || {
            let on_the_lease = self.annotation("kube-gc.io/brake-engaged").await?;
            on_the_lease.as_str().unwrap_or_default().clone_into(&mut note);
            let Some((since, _)) = note.split_once(' ') else { return Ok(false) };
            let events = self.events(self.ns.name(), "DeletionPaused").await?;
            Ok(events
                .iter()
                .any(|event| event["message"].as_str().is_some_and(|message| message.contains(since))))
        })
        .await?;
        Ok(note)
    }

    /// The events with a reason in a namespace.
    async fn events(&self, namespace: &str, reason: &str) -> Result<Vec<Value>> {
        let path = format!("/api/v1/namespaces/{namespace}/events");
        let events = self.cluster.send("GET", &path, None, None).await?;
        let events = events["items"].as_array().cloned().unwrap_or_default();
        Ok(events.into_iter().filter(|event| event["reason"] == reason).collect())
    }
}

#[allow(clippy::cast_precision_loss)]
fn as_f64(count: usize) -> f64 {
    count as f64
}

/// Options of a collector with a Lease in this namespace.
fn options(ns: &Ns, brake: &str) -> Options {
    let mut config = format!("[leader]\nenabled = true\nnamespace = \"{}\"\n", ns.name());
    // Long enough that no collector loses the Lease only because it waits for the processor.
    let times = "lease_duration = \"15s\"\nrenew_deadline = \"12s\"\nretry_period = \"300ms\"\n";
    let _ = write!(config, "{times}{brake}");
    Options::config(config)
}

async fn leads(collector: &Collector) -> Result<()> {
    poll("it to lead", async || Ok(collector.metric("kube_gc_leader").await? == 1.0)).await
}

/// A CRD is deleted whose objects own many. As many of these are deleted as the limit allows, and
/// the rest waits for a person. Nothing is lost, and all other work continues.
async fn the_brake_limits_deletions_of_dependents_of_a_removed_type() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let (ns, aside) = (cluster.namespace().await?, cluster.namespace().await?);
    let brake = format!("[brake]\ndeletions_per_minute = {LIMIT}\n");
    let first = stage.collector_with(options(&ns, &brake)).await?;
    leads(&first).await?;
    let standby = stage.collector_with(options(&ns, &brake)).await?;
    let signs = Signs { cluster, collector: &first, ns: &ns, inherited: 0 };

    let widgets = cluster.crd("widgets.example.com", Scope::Namespaced, &["v1"]).await?;
    let owners = create_all((0..OBJECTS).map(|n| ns.object(widgets.resource(), format!("w-{n}")))).await?;
    let others = configmaps(cluster, &ns).await?;
    let owned = owners
        .iter()
        .flat_map(|owner| (0..OWNED).map(|n| ns.configmap(format!("{}-{n}", owner.name)).owned_by(owner)));
    create_all(owned).await?;
    let kept = ns.configmap("kept").create().await?;
    let shared = ns.secret("shared").owned_by(&owners[0]).owned_by(&kept).create().await?;
    cluster.settled(&first).await?;
    // It must have seen all of them, because the deletion of an unseen object proves nothing.
    for resource in [widgets.resource(), &kept.resource, &shared.resource] {
        seen(cluster, &standby, resource).await?;
    }

    widgets.remove().await?;
    let left = async |collector: &Collector, left: usize| -> Result<()> {
        cluster.settled_with_parked(collector).await?;
        let now = configmaps(cluster, &ns).await? - others - 1;
        ensure!(now == left, "{now} are left, and not {left}");
        Ok(())
    };
    let all = OBJECTS * OWNED;
    // First, because no marker shows that the end of the type was seen.
    signs.engaged(1, all - LIMIT).await?;
    left(&first, all - LIMIT).await?;
    ensure!(signs.deleted("configmaps").await? == as_f64(LIMIT));
    let note = signs.told().await?;
    ensure!(note.ends_with("as many as deletions_per_minute allows"), "{note}");
    let events = signs.events(ns.name(), "DeletionPaused").await?;
    ensure!(events.len() == 1 && events[0]["involvedObject"]["kind"] == "Lease", "{events:?}");
    ensure!(events[0]["type"] == "Warning", "{events:?}");
    ensure!(events[0]["source"]["component"] == "garbage-collector-controller", "{events:?}");

    // References are removed, dependents are orphaned, finalizers are removed. Work that needs a
    // deletion waits.
    ensure!(cluster.fresh(&shared).await?.owner_uids() == [kept.uid.as_str()]);
    goes_on(cluster, &first, &aside).await?;
    let held = all - LIMIT + 1;
    signs.engaged(1, held).await?;

    // If the collector is killed, the next one inherits the engaged brake.
    first.kill()?;
    let collector = standby;
    leads(&collector).await?;
    let signs = Signs { cluster, collector: &collector, ns: &ns, inherited: 1 };
    left(&collector, all - LIMIT).await?;
    signs.engaged(0, held).await?;
    ensure!(signs.annotation("kube-gc.io/brake-engaged").await? == note, "since the same time");

    // After each release, the same number of deletions is allowed.
    let resume = json!({ "metadata": { "annotations": { "kube-gc.io/resume-deletion": "now" } } });
    for (time, left) in [(1, Some(held - LIMIT)), (2, None)] {
        cluster.send("PATCH", &signs.lease(), MERGE_PATCH, Some(&resume)).await?;
        poll("what was resumed to be taken away", async || {
            Ok(signs.annotation("kube-gc.io/resume-deletion").await?.is_null())
        })
        .await?;
        let Some(left) = left else { continue };
        cluster.settled_with_parked(&collector).await?;
        signs.engaged(time, left).await?;
        ensure!(signs.deleted("configmaps").await? == as_f64(time * LIMIT));
        // A pause that ended before it was reported is not reported.
        signs.told().await?;
    }
    cluster.settled(&collector).await?;
    ensure!(configmaps(cluster, &ns).await? == others + 1, "something was lost");
    cluster.assert_kept([&kept]).await?;
    ensure!(configmaps(cluster, &aside).await? == 1 + others, "what was held aside, or the orphan");
    ensure!(signs.annotation("kube-gc.io/brake-engaged").await?.is_null());
    ensure!(collector.metric("kube_gc_brake_engaged").await? == 0.0);
    poll("the last event", async || Ok(signs.events(ns.name(), "DeletionResumed").await?.len() == 2)).await?;
    collector.stop().await
}

/// While the brake is engaged, an owner is orphaned, an owner that blocks no other object is
/// removed, and one whose dependent would have to be deleted waits.
async fn goes_on(cluster: &Cluster, collector: &Collector, ns: &Ns) -> Result<()> {
    let own = async |name: &str| -> Result<(Obj, Obj)> {
        let owner = ns.configmap(format!("{name}-owner")).create().await?;
        let dependent = ns.configmap(name).owned_by(&owner).blocking().create().await?;
        Ok((owner, dependent))
    };
    let (orphaned, orphan) = own("orphan").await?;
    let (waiting, waited_for) = own("waited-for").await?;
    let alone = ns.configmap("alone").create().await?;
    cluster.delete(&orphaned, Policy::Orphan).await?;
    cluster.delete(&waiting, Policy::Foreground).await?;
    cluster.delete(&alone, Policy::Foreground).await?;
    cluster.settled_with_parked(collector).await?;
    cluster.assert_gone([&orphaned, &alone]).await?;
    ensure!(cluster.fresh(&orphan).await?.owner_uids().is_empty());
    terminating_with(cluster, &waiting, &["foregroundDeletion"]).await?;
    ensure!(!cluster.fresh(&waited_for).await?.is_terminating());
    Ok(())
}

/// The share of a type's objects.
async fn the_brake_limits_the_share_of_a_type_and_a_restart_resumes() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let brake = "[brake]\npercent = 30\npercent_floor = 2\n";
    let owner = ns.configmap("owner").create().await?;
    create_all((0..40).map(|n| ns.secret(format!("s-{n}")).owned_by(&owner))).await?;
    let collector = stage.collector_with(Options::config(brake)).await?;
    cluster.settled(&collector).await?;
    let secrets =
        async || -> Result<usize> { Ok(cluster.list(&ApiResource::erase::<Secret>(&()), None).await?.len()) };
    // Including the objects of other namespaces and the marker.
    let before = secrets().await?;
    cluster.delete(&owner, Policy::Background).await?;
    stage.settled(&collector, Rest::Parked).await?;
    let allowed = (before * 30).div_ceil(100);
    let left = secrets().await?;
    ensure!(left == before - allowed, "{left} are left of {before}, and not all but {allowed}");
    let signs = Signs { cluster, collector: &collector, ns: &ns, inherited: 0 };
    signs.engaged(1, 40 - allowed).await?;
    // Without a Lease, the event is about a namespace that always exists.
    let paused = async || signs.events("default", "DeletionPaused").await;
    let ours = format!("of {before} secrets");
    poll("the event", async || {
        let events = paused().await?;
        Ok(events.iter().any(|event| event["message"].as_str().is_some_and(|text| text.contains(&ours))))
    })
    .await?;

    // After a restart, the share refers to the remaining objects.
    collector.stop().await?;
    let collector = stage.collector_with(Options::config(brake)).await?;
    stage.settled(&collector, Rest::Parked).await?;
    let allowed = (left * 30).div_ceil(100);
    ensure!(secrets().await? == left - allowed, "{} are left of {left}", secrets().await?);
    collector.stop().await?;
    let collector = stage.collector().await?;
    stage.settled(&collector, Rest::Empty).await?;
    ensure!(secrets().await? == before - 40);
    collector.stop().await
}
