//! Stuck objects are listed until they are done, and so are the decisions about them. Warning events tell
//! people what they are stuck on.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Event;
use serde_json::Value;

use crate::conformance::outcome::{reference, unused_uid};
use crate::conformance::stage::{HOLD, Stage};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::webhook::{Asked, Decision, Denial, Hook};
use kube_gc_testkit::{Cluster, Collector, Ns, Obj, Options, Policy, Webhook};

kube_gc_testkit::scenarios! {
    stuck_objects_are_listed_until_they_are_finished,
    a_dry_run_creates_no_events_about_stuck_objects,
}

const MESSAGE: &str = "not before the audit";
/// The shortest time that can be set.
const SOON: &str = "[events]\nstuck_after = \"1s\"\n[retry]\nmax = \"300ms\"\n";

/// The entry of an object on the page, if any.
fn about<'a>(page: &'a Value, object: &Obj) -> Option<&'a Value> {
    let stuck = page["stuck"].as_array()?;
    stuck.iter().find(|item| item["object"]["uid"] == object.uid.as_str())
}

async fn page(collector: &Collector, query: &str) -> Result<Value> {
    let answer = collector.get_debug(&format!("/debug/stuck{query}")).await?;
    ensure!(answer.status == 200, "{query}: {answer:?}");
    answer.json()
}

/// Waits until an object is on the page for this reason.
async fn is_listed(collector: &Collector, object: &Obj, reason: &str) -> Result<Value> {
    let mut found = Value::Null;
    poll(&format!("{object} to be listed as {reason}"), async || {
        found = about(&page(collector, "?older=0").await?, object).cloned().unwrap_or_default();
        Ok(found["reason"] == reason)
    })
    .await?;
    Ok(found)
}

/// The number of objects that are stuck for a reason according to the metrics, and for how long.
async fn gauges(collector: &Collector, reason: &str) -> Result<(f64, f64)> {
    let metrics = collector.metrics().await?;
    let of = |name: &str| metrics.get(&format!("{name}{{reason=\"{reason}\"}}")).copied();
    of("kube_gc_stuck_objects")
        .zip(of("kube_gc_stuck_oldest_age_seconds"))
        .with_context(|| format!("no series for {reason}"))
}

/// The decisions about an object, newest first.
async fn decisions(collector: &Collector, object: &Obj) -> Result<Vec<Value>> {
    let page = collector.get_debug(&format!("/debug/decisions?uid={}", object.uid)).await?.json()?;
    Ok(page["decisions"].as_array().with_context(|| format!("no decisions: {page}"))?.clone())
}

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
        let page = page(collector, "?older=0").await?;
        Ok(about(&page, object).and_then(|item| item["waiting_seconds"].as_f64()) > Some(seconds))
    })
    .await
}

async fn blocked_owner(cluster: &Cluster, ns: &Ns) -> Result<(Obj, Obj)> {
    let owner = ns.configmap("waiting").create().await?;
    let dependent = ns.configmap("blocking").owned_by(&owner).blocking().finalizer(HOLD).create().await?;
    cluster.delete(&owner, Policy::Foreground).await?;
    Ok((owner, dependent))
}

/// A write that a webhook denies, an owner that somebody else's finalizer blocks, a kind that is not served,
/// and a reference that can never be valid: each is listed with its reason, in the words of whoever gave it,
/// until it is done (rules 9.6 and 10.6). The first three have one warning event each (rule 9.10).
async fn stuck_objects_are_listed_until_they_are_finished() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let webhook = Webhook::start(stage.plane).await?;
    let collector = stage.collector_with(Options::config(SOON)).await?;
    let owner = ns.configmap("owner").create().await?;
    let solid = ns.configmap("solid").create().await?;
    let denied = ns.secret("denied").owned_by(&owner).create().await?;
    let invalid = cluster.node(format!("{}-invalid", ns.name())).owned_by(&solid).create().await?;
    let is_allowed = Arc::new(AtomicBool::new(false));
    let allowed = Arc::clone(&is_allowed);
    let judge = move |asked: Asked| {
        let denial = Denial { code: Some(403), message: MESSAGE.to_owned(), ..Denial::default() };
        let is_free = asked.name() != "denied" || allowed.load(Ordering::SeqCst);
        std::future::ready(if is_free { Decision::Allow } else { Decision::Deny(denial) })
    };
    let hook = Hook { mutating: false, resource: &denied.resource, operations: &["UPDATE", "DELETE"] };
    let guard = webhook.review(cluster, &ns, hook, judge).await?;
    let (waiting, blocking) = blocked_owner(cluster, &ns).await?;
    let unserved = reference("nowhere.example.com/v1", "Nothing", "x", &unused_uid());
    let unresolved = ns.configmap("unresolved").owner_reference(unserved).create().await?;
    cluster.delete(&owner, Policy::Background).await?;

    let first = is_listed(&collector, &denied, "denied").await?;
    ensure!(first["message"].as_str().is_some_and(|message| message.contains(MESSAGE)), "{first}");
    let object = &first["object"];
    ensure!(object["resource"] == "secrets" && object["namespace"] == ns.name(), "{first}");
    ensure!(object["name"] == "denied" && first["attempts"].as_u64() >= Some(1), "{first}");
    ensure!(first["next_retry_seconds"].is_f64() && first["hint"].is_string(), "{first}");

    let blocked = is_listed(&collector, &waiting, "blocked").await?;
    ensure!(blocked["blocked_by"][0]["name"] == "blocking", "{blocked}");
    ensure!(blocked["message"].as_str().is_some_and(|message| message.contains(&blocking.uid)), "{blocked}");
    ensure!(blocked["next_retry_seconds"].is_null() && blocked["since"].is_string(), "{blocked}");

    poll("what blocks it to be held by its finalizer", async || {
        let held = page(&collector, "?reason=held&older=0").await?;
        Ok(about(&held, &blocking).is_some())
    })
    .await?;

    let scope = is_listed(&collector, &invalid, "invalid_scope").await?;
    ensure!(scope["message"].as_str().is_some_and(|message| message.contains("ConfigMap solid")), "{scope}");
    ensure!(scope["object"]["namespace"].is_null(), "{scope}");

    let here = page(&collector, &format!("?namespace={}&reason=denied&limit=1&older=0", ns.name())).await?;
    ensure!(here["stuck"].as_array().map(Vec::len) == Some(1), "{here}");
    let totals = &here["totals"];
    ensure!(totals["denied"] == 1 && totals["blocked"] == 1 && totals["invalid_scope"] == 0, "{here}");
    let nodes = page(&collector, "?resource=nodes").await?;
    ensure!(about(&nodes, &invalid).is_some() && about(&nodes, &waiting).is_none(), "{nodes}");

    // What is blocked for less than a minute is no news.
    for reason in ["denied", "invalid_scope"] {
        poll("the metrics to say so", async || {
            let (count, oldest) = gauges(&collector, reason).await?;
            Ok(count >= 1.0 && oldest > 0.0)
        })
        .await?;
    }
    let again = is_listed(&collector, &denied, "denied").await?;
    ensure!(again["waiting_seconds"].as_f64() > first["waiting_seconds"].as_f64(), "{again} after {first}");

    let decision = decisions(&collector, &denied).await?;
    let (decision, judged) = (&decision[0], &decision[0]["owners"][0]);
    ensure!(decision["action"] == "delete" && decision["outcome"] == "denied", "{decision}");
    ensure!(decision["error"].as_str().is_some_and(|error| error.contains(MESSAGE)), "{decision}");
    ensure!(judged["uid"] == owner.uid.as_str() && judged["class"] == "absent", "{decision}");
    ensure!(["graph", "live", "remembered"].map(Value::from).contains(&judged["evidence"]), "{decision}");

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

    is_allowed.store(true, Ordering::SeqCst);
    cluster.set_finalizers(&blocking, &[]).await?;
    cluster.set_owner_references(&unresolved, &[]).await?;
    cluster.delete(&invalid, Policy::Background).await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&owner, &denied, &waiting, &blocking, &invalid]).await?;
    let rest = page(&collector, "").await?;
    ensure!(rest["stuck"].as_array().is_some_and(Vec::is_empty), "{rest}");
    for reason in ["denied", "invalid_scope"] {
        poll("the metrics to be zero", async || Ok(gauges(&collector, reason).await? == (0.0, 0.0))).await?;
    }
    let last = decisions(&collector, &denied).await?;
    ensure!(last[0]["outcome"] == "deleted" && last[1]["outcome"] == "denied", "{last:?}");

    cluster.delete(&guard, Policy::Background).await?;
    collector.stop().await
}

async fn a_dry_run_creates_no_events_about_stuck_objects() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = stage.cluster.namespace().await?;
    let collector = stage.collector_with(Options::config(format!("dry_run = true\n{SOON}"))).await?;
    let (waiting, blocking) = blocked_owner(&stage.cluster, &ns).await?;
    has_been_stuck(&collector, &waiting, 4.0).await?;
    let events = stage.cluster.events(&waiting).await?;
    ensure!(events.is_empty(), "{events:?}");
    stage.cluster.set_finalizers(&blocking, &[]).await?;
    collector.stop().await
}
