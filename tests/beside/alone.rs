//! Disagreements: work that no other collector does is found, logged and listed.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::{Comparisons, alarms, onlooker};
use crate::conformance::stage::{FOREGROUND, ORPHAN, Stage, own, terminating_with};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Collector, ControllerManager, Obj, Policy};

kube_gc_testkit::scenarios! {
    an_action_that_nobody_takes_is_reported_and_counted_once,
    an_object_on_which_the_other_collector_hangs_is_a_disagreement,
}

/// The listed disagreements: exactly these, with the current state of each object.
async fn lists(collector: &Collector, expected: &[(&Obj, &str)]) -> Result<Vec<Value>> {
    let page = collector.get_debug("/debug/decisions").await?.json()?;
    let listed = page["disagreements"].as_array().cloned().unwrap_or_default();
    ensure!(listed.len() == expected.len(), "{listed:?}");
    let mut found = Vec::new();
    for (object, now) in expected {
        let entry = listed.iter().find(|entry| entry["object"]["uid"] == object.uid.as_str());
        let entry = entry.with_context(|| format!("{object} is not in {listed:?}"))?;
        let state = entry["now"].as_str().unwrap_or_default();
        ensure!(state.starts_with(now) && entry["predicted"].as_str() <= entry["found"].as_str(), "{entry}");
        found.push(entry.clone());
    }
    Ok(found)
}

/// Waits until this many disagreements are found, and fails unless each is logged once, with these
/// words about each of these objects.
async fn disputes(collector: &Collector, expected: &[(&Obj, &str)]) -> Result<()> {
    let count = expected.len();
    poll("disagreements", async || {
        let compared = Comparisons::of(collector).await?;
        Ok(compared.pending == 0.0 && compared.disagreed > 0.0)
    })
    .await?;
    // Repeated decisions add nothing.
    collector.idle(&[]).await?;
    let compared = Comparisons::of(collector).await?;
    ensure!(compared.disagreed == f64::from(u32::try_from(count)?), "{count} expected: {compared:?}");
    // The log arrives through a pipe and may be later than the page.
    poll("the alarms", async || Ok(alarms(collector).len() >= count)).await?;
    let alarms = alarms(collector);
    ensure!(alarms.len() == count, "{count} alarms expected:\n{}", alarms.join("\n"));
    for (object, words) in expected {
        let about = |line: &&String| line.contains(&object.uid) && line.contains(words);
        ensure!(alarms.iter().filter(about).count() == 1, "{object}, {words}:\n{}", alarms.join("\n"));
    }
    let readiness = collector.get("/readyz?verbose").await?;
    let line = format!("[!]dry-run warning: {} agreed, {count} disagreed", compared.agreed);
    ensure!(readiness.status == 200 && readiness.body.contains(&line), "no {line}: {}", readiness.body);
    Ok(())
}

/// Without another collector, everything that has to be done is a disagreement.
async fn an_action_that_nobody_takes_is_reported_and_counted_once() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let [owner, keeper, in_foreground, orphaned] = [
        ns.configmap("owner").create().await?,
        ns.configmap("keeper").create().await?,
        ns.configmap("in-foreground").create().await?,
        ns.configmap("orphaned").create().await?,
    ];
    let dependent = ns.secret("dependent").owned_by(&owner).create().await?;
    let shared = ns.secret("shared").owned_by(&owner).owned_by(&keeper).create().await?;
    let of_orphaned = ns.secret("of-orphaned").owned_by(&orphaned).create().await?;
    let suspended = ControllerManager::on(stage.plane)?.freeze()?;
    let collector = onlooker(&stage, "1s").await?;
    cluster.delete(&owner, Policy::Background).await?;
    cluster.delete(&in_foreground, Policy::Foreground).await?;
    cluster.delete(&orphaned, Policy::Orphan).await?;
    let expected = [
        (&dependent, r#""action":"delete","policy":"Background""#),
        (&shared, r#""action":"remove_references""#),
        (&in_foreground, "without foregroundDeletion"),
        (&of_orphaned, r#""action":"orphan""#),
        (&orphaned, "without orphan"),
    ];
    // All five, so that none is pending when they are counted.
    poll("five disagreements", async || Ok(Comparisons::of(&collector).await?.disagreed >= 5.0)).await?;
    disputes(&collector, &expected).await?;
    for (object, _) in &expected {
        let lines = collector.logged(r#""outcome":"dry_run""#);
        let lines = lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let of_object = lines.filter(|line| line["uid"] == object.uid.as_str()).count();
        ensure!(of_object == 1, "{of_object} decisions about {object} are logged");
    }
    terminating_with(cluster, &in_foreground, &[FOREGROUND]).await?;
    terminating_with(cluster, &orphaned, &[ORPHAN]).await?;
    let states = [
        (&dependent, "lives, owned by v1/ConfigMap, name: owner"),
        (&shared, "lives, owned by v1/ConfigMap, name: owner"),
        (&in_foreground, "is being deleted, with the finalizer foregroundDeletion"),
        (&of_orphaned, "lives, owned by v1/ConfigMap, name: orphaned"),
        (&orphaned, "is being deleted, with the finalizer orphan"),
    ];
    let listed = lists(&collector, &states).await?;
    ensure!(listed[0]["action"] == "delete" && listed[0]["policy"] == "Background", "{}", listed[0]);
    let evidence = json!([{
        "api_version": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner.uid, "blocking": false,
        "controller": false, "class": "absent", "evidence": "graph", "error": null,
    }]);
    ensure!(listed[0]["owners"] == evidence, "{}", listed[0]);
    ensure!(listed[1]["owners"].as_array().is_some_and(|owners| owners.len() == 2), "{}", listed[1]);
    ensure!(listed[1]["detail"].as_str().is_some_and(|detail| detail.contains(&owner.uid)), "{}", listed[1]);

    // Another client does it in the end. It stays counted as late.
    drop(suspended);
    cluster.gone(&dependent).await?;
    disputes(&collector, &expected).await?;
    poll("the page to show how it has ended", async || {
        let ended = [
            (&dependent, "gone"),
            (&shared, "lives, owned by v1/ConfigMap, name: keeper"),
            (&in_foreground, "gone"),
            (&of_orphaned, "lives, without owners"),
            (&orphaned, "gone"),
        ];
        Ok(lists(&collector, &ended).await.is_ok())
    })
    .await?;
    collector.stop().await
}

/// A case that Kubernetes' own collector never finishes: an object that is deleted in the foreground and
/// waits for itself.
async fn an_object_on_which_the_other_collector_hangs_is_a_disagreement() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    ControllerManager::on(stage.plane)?;
    let ns = cluster.namespace().await?;
    let selfish = ns.configmap("selfish").create().await?;
    let selfish = own(cluster, &selfish, &selfish, true).await?;
    cluster.delete(&selfish, Policy::Foreground).await?;
    let collector = onlooker(&stage, "1s").await?;
    disputes(&collector, &[(&selfish, "without foregroundDeletion")]).await?;
    terminating_with(cluster, &selfish, &[FOREGROUND]).await?;
    collector.stop().await
}
