//! `kube-gc stuck`: causes, ages and exit codes.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{kube_gc, words};
use crate::conformance::stage::{HOLD, Stage};
use crate::conformance::user::User;
use kube_gc_testkit::Policy;
use kube_gc_testkit::cluster::poll;

kube_gc_testkit::scenarios! {
    what_waits_is_grouped_by_what_holds_it,
    a_collector_that_does_not_run_is_a_cause,
    who_may_not_read_what_is_deleted_is_told,
    a_failed_search_has_its_exit_code,
}

async fn what_waits_is_grouped_by_what_holds_it() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let line = format!("stuck -n {} --older 0s", ns.name());
    let ran = kube_gc(stage.plane.kubeconfig(), &line).await?;
    ensure!(ran.code == 0 && ran.out.starts_with("0 of 0 objects that are being deleted"), "{ran:?}");

    let root = ns.configmap("root").create().await?;
    let middle = ns.configmap("middle").owned_by(&root).blocking().create().await?;
    let held = ns.secret("held").owned_by(&middle).blocking().finalizer(HOLD).create().await?;
    let mut alone = Vec::new();
    for name in ["a", "b"] {
        alone.push(ns.configmap(name).finalizer("example.com/backup").create().await?);
    }
    cluster.delete_all(&alone, Policy::Background).await?;
    let collector = stage.collector().await?;
    cluster.delete(&root, Policy::Foreground).await?;
    poll("the cascade to be held", async || Ok(cluster.fresh(&held).await?.is_terminating())).await?;
    // The times of the server have no fractions of a second.
    poll("the second of the deletion to pass", async || {
        Ok(kube_gc(stage.plane.kubeconfig(), &line).await?.out.starts_with("STUCK") && {
            let json = kube_gc(stage.plane.kubeconfig(), &format!("{line} -o json")).await?.json()?;
            json["stuck"] == 5
        })
    })
    .await?;
    let before = cluster.request_counts().await?;
    let ran = kube_gc(stage.plane.kubeconfig(), &line).await?;
    ensure!(cluster.request_counts().await?.since(&before).writes() == 0, "something was written");
    ensure!(ran.code == 1, "{ran:?}");
    let lines = words(&ran.out);
    ensure!(lines[0] == "STUCK OLDEST CAUSE", "{lines:?}");
    ensure!(lines[1] == format!("3 2 objects wait for Secret/held (finalizer {HOLD})"), "{lines:?}");
    ensure!(lines[2] == "2 2 objects wait for finalizer example.com/backup", "{lines:?}");
    ensure!(ran.out.contains(&format!("Finalizer {HOLD}: ")), "{ran:?}");

    let json = kube_gc(stage.plane.kubeconfig(), &format!("{line} -o json")).await?.json()?;
    ensure!(json["groups"][0]["cause"] == "finalizers" && json["beingDeleted"] == 5, "{json}");
    ensure!(json["groups"][0]["holders"][0]["uid"] == held.uid.as_str(), "{json}");
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("{line} -o name")).await?;
    ensure!(ran.out == "secret/held\nconfigmap/a\nconfigmap/b\n", "{ran:?}");
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("{line} -o wide")).await?;
    ensure!(ran.out.contains(&root.uid), "{ran:?}");
    let ran = kube_gc(stage.plane.kubeconfig(), "stuck -A --older 0s -o json").await?;
    let everywhere = ran.json()?["beingDeleted"].as_u64().context("no number")?;
    ensure!(ran.code == 1 && everywhere >= 5, "{ran:?}");

    // Nothing was deleted so long ago.
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("stuck -n {} --older 1d", ns.name())).await?;
    ensure!(ran.code == 0 && ran.out.starts_with("0 of 5 objects that are being deleted"), "{ran:?}");

    for object in alone.iter().chain([&held]) {
        cluster.set_finalizers(object, &[]).await?;
    }
    cluster.settled(&collector).await?;
    cluster.assert_gone([&root, &middle, &held]).await?;
    collector.stop().await?;
    stage.clear().await
}

async fn a_collector_that_does_not_run_is_a_cause() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let root = ns.configmap("root").create().await?;
    ns.secret("item").owned_by(&root).blocking().create().await?;
    cluster.delete(&root, Policy::Foreground).await?;
    let line = format!("stuck -n {} --older 0s -o json", ns.name());
    poll("the second of the deletion to pass", async || {
        Ok(kube_gc(stage.plane.kubeconfig(), &line).await?.json()?["stuck"] == 1)
    })
    .await?;
    let json = kube_gc(stage.plane.kubeconfig(), &line).await?.json()?;
    ensure!(json["groups"][0]["cause"] == "toBeDeleted", "{json}");
    let sentence = "1 object waits for Secret/item (the collector to delete it)";
    ensure!(json["groups"][0]["sentence"] == sentence, "{json}");
    let collector = stage.collector().await?;
    cluster.settled(&collector).await?;
    ensure!(kube_gc(stage.plane.kubeconfig(), &line).await?.code == 0);
    collector.stop().await?;
    stage.clear().await
}

/// Asks as a user who may list Secrets, and get none.
async fn who_may_not_read_what_is_deleted_is_told() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let rules = json!([{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["list"] }]);
    let user = User::create(stage.plane, cluster, &ns, rules).await?;
    let held = ns.secret("held").finalizer(HOLD).create().await?;
    cluster.delete(&held, Policy::Background).await?;
    let line = format!("stuck -n {} --older 0s --kinds secrets", ns.name());
    let ran = kube_gc(user.kubeconfig(), &line).await?;
    ensure!(ran.code == 7 && ran.out.contains("Not looked at: Secret/held"), "{ran:?}");
    ensure!(ran.out.contains("0 of 1 object that is being deleted are stuck"), "{ran:?}");
    cluster.set_finalizers(&held, &[]).await?;
    stage.clear().await
}

async fn a_failed_search_has_its_exit_code() -> Result<()> {
    let stage = Stage::set().await?;
    let ran = kube_gc(stage.plane.kubeconfig(), "stuck --older soon").await?;
    ensure!(ran.code == 2 && ran.err.contains("--older"), "{ran:?}");
    let ran = kube_gc(Path::new("/nowhere/config"), "stuck").await?;
    ensure!(ran.code == 3 && ran.out.is_empty(), "{ran:?}");
    stage.clear().await
}
