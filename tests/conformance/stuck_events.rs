//! Warning events tell people that an object is stuck, and on what.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use crate::conformance::denials::is_asked;
use crate::conformance::stage::{HOLD, Stage};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Cluster, Collector, Obj, Options, Policy, Webhook, WebhookBehavior};

kube_gc_testkit::scenarios! {
    an_object_that_stays_stuck_gets_one_warning_event,
    a_dry_run_creates_no_events_about_stuck_objects,
}

const MESSAGE: &str = "not before the audit";
/// The label of objects whose writes are denied.
const LABEL: &str = "kube-gc-test/stuck-event";
/// The shortest time that can be set.
const SOON: &str = "[events]\nstuck_after = \"1s\"\n[retry]\nmax = \"300ms\"\n";

/// Waits for an event about an object, and returns its message.
async fn warned(cluster: &Cluster, object: &Obj, reason: &str) -> Result<String> {
    let mut found: Vec<Event> = Vec::new();
    poll(&format!("an event {reason} about {object}"), async || {
        found = cluster.events(object).await?;
        Ok(!found.is_empty())
    })
    .await?;
    ensure!(found.len() == 1 && found[0].reason.as_deref() == Some(reason), "{found:?}");
    ensure!(found[0].type_.as_deref() == Some("Warning"), "{found:?}");
    Ok(found[0].message.clone().unwrap_or_default())
}

/// Waits until an object has been stuck for this long.
async fn has_been_stuck(collector: &Collector, object: &Obj, seconds: f64) -> Result<()> {
    poll(&format!("{object} to have been stuck for {seconds} s"), async || {
        let page = collector.get_debug("/debug/stuck").await?.json()?;
        let all = page["stuck"].as_array().cloned().unwrap_or_default();
        let waited = all.iter().find(|item| item["object"]["uid"] == object.uid.as_str());
        Ok(waited.and_then(|item| item["waiting_seconds"].as_f64()) > Some(seconds))
    })
    .await
}

/// A reference to an owner of a kind that is not served.
fn reference() -> Value {
    json!({ "apiVersion": "nowhere.example.com/v1", "kind": "Nothing", "name": "x", "uid": "x" })
}

async fn blocked_owner(stage: &Stage, ns: &kube_gc_testkit::Ns) -> Result<(Obj, Obj)> {
    let owner = ns.configmap("waiting").create().await?;
    let dependent = ns.configmap("blocking").owned_by(&owner).blocking().finalizer(HOLD).create().await?;
    stage.cluster.delete(&owner, Policy::Foreground).await?;
    Ok((owner, dependent))
}

/// A blocked foreground deletion, a finalizer that may not be removed, and an owner of a kind that
/// is not served (rule 9.10).
async fn an_object_that_stays_stuck_gets_one_warning_event() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let webhook = Webhook::start(stage.plane).await?;
    let denied = ns.secret("denied").label(LABEL, "yes").create().await?;
    cluster.delete(&denied, Policy::Orphan).await?;
    webhook.set_behavior(WebhookBehavior::Reject(MESSAGE, Some(403)));
    let guard = webhook.guard_secrets(cluster, &ns, LABEL).await?;
    is_asked(cluster, &denied).await?;
    let (waiting, blocking) = blocked_owner(&stage, &ns).await?;
    let unresolved = ns.configmap("unresolved").owner_reference(reference()).create().await?;
    let collector = stage.collector_with(Options::config(SOON)).await?;

    let message = warned(cluster, &waiting, "ForegroundDeletionBlocked").await?;
    ensure!(message.contains("blocking") && message.contains(&blocking.uid), "{message}");
    let message = warned(cluster, &unresolved, "OwnerRefUnresolved").await?;
    ensure!(message.contains("nowhere.example.com/v1"), "{message}");
    let message = warned(cluster, &denied, "GarbageCollectionDenied").await?;
    ensure!(message.contains(MESSAGE), "{message}");

    // Three more looks send nothing more.
    has_been_stuck(&collector, &waiting, 6.0).await?;
    for object in [&waiting, &unresolved, &denied] {
        let events = cluster.events(object).await?;
        ensure!(events.len() == 1 && events[0].count == Some(1), "{events:?}");
    }

    webhook.set_behavior(WebhookBehavior::Accept);
    cluster.set_finalizers(&blocking, &[]).await?;
    cluster.set_owner_references(&unresolved, &[]).await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&waiting, &blocking, &denied]).await?;
    cluster.delete(&guard, Policy::Background).await?;
    collector.stop().await?;
    stage.clear().await
}

async fn a_dry_run_creates_no_events_about_stuck_objects() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = stage.cluster.namespace().await?;
    let collector = stage.collector_with(Options::config(format!("dry_run = true\n{SOON}"))).await?;
    let (waiting, blocking) = blocked_owner(&stage, &ns).await?;
    has_been_stuck(&collector, &waiting, 4.0).await?;
    let events = stage.cluster.events(&waiting).await?;
    ensure!(events.is_empty(), "{events:?}");
    stage.cluster.set_finalizers(&blocking, &[]).await?;
    collector.stop().await?;
    stage.clear().await
}
