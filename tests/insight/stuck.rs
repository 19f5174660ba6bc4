//! `kube-gc stuck`: causes, ages and exit codes.

use anyhow::{Context as _, Result, ensure};
use serde_json::json;

use super::{kube_gc, words};
use crate::conformance::stage::{HOLD, Stage, own};
use crate::conformance::user::User;
use kube_gc_testkit::Policy;
use kube_gc_testkit::cluster::{create_all, poll};

kube_gc_testkit::scenarios! {
    what_waits_is_grouped_by_what_holds_it,
    a_collector_that_does_not_run_is_a_cause,
    each_cause_is_named,
    a_selector_says_what_is_reported,
    who_may_not_read_what_is_deleted_is_told,
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
        Ok(kube_gc(stage.plane.kubeconfig(), &line).await?.out.contains("\nSTUCK") && {
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
    let verdict = "5 of 5 objects that are being deleted are stuck: deleted more than ago.";
    ensure!(lines[0] == verdict && lines[1].is_empty(), "{lines:?}");
    ensure!(lines[2] == "STUCK OLDEST CAUSE", "{lines:?}");
    ensure!(lines[3] == format!("3 2 objects wait for Secret/held (finalizer {HOLD})"), "{lines:?}");
    ensure!(lines[4] == "2 2 objects wait for finalizer example.com/backup", "{lines:?}");
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

/// What is left for a collector to do, and what it cannot do.
async fn each_cause_is_named() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let spec = json!({
        "nodeName": "nowhere",
        "terminationGracePeriodSeconds": 1,
        "containers": [{ "name": "main", "image": "none" }],
    });
    let pod = ns.pod("grace-period").field("spec", spec).create().await?;
    let orphaning = ns.configmap("orphaning").create().await?;
    let other = ns.configmap("other").create().await?;
    let roots = ["unblocked", "releases", "undecided", "circle-a", "circle-b"].map(|name| ns.configmap(name));
    let roots = create_all(roots).await?;
    ns.secret("to-be-released").owned_by(&roots[1]).blocking().owned_by(&other).create().await?;
    let unserved = json!({ "apiVersion": "gone.example.com/v1", "kind": "Gone", "name": "x", "uid": "x" });
    let undecided =
        ns.secret("undecided").owned_by(&roots[2]).blocking().owner_reference(unserved).create().await?;
    own(cluster, &roots[3], &roots[4], true).await?;
    own(cluster, &roots[4], &roots[3], true).await?;
    cluster.delete(&pod, Policy::Background).await?;
    cluster.delete(&orphaning, Policy::Orphan).await?;
    cluster.delete_all(&roots, Policy::Foreground).await?;
    let line = format!("stuck -n {} --older 0s -o json", ns.name());
    let all = ["circle", "gracePeriod", "orphaning", "toBeReleased", "unblocked", "undecided"];
    poll("the second of the deletions to pass", async || {
        let json = kube_gc(stage.plane.kubeconfig(), &line).await?.json()?;
        let groups = json["groups"].as_array().context("no groups")?;
        let mut causes: Vec<&str> = groups.iter().filter_map(|group| group["cause"].as_str()).collect();
        causes.sort_unstable();
        Ok(causes == all)
    })
    .await?;
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("stuck -n {} --older 0s", ns.name())).await?;
    for sentence in [
        "Pod/grace-period waits for the end of its grace period",
        "ConfigMap/orphaning waits for the collector to release its dependents",
        "ConfigMap/unblocked waits for the collector to remove its finalizer",
        "1 object waits for Secret/to-be-released (the collector to remove its owner reference)",
        "1 object waits for Secret/undecided (an owner that cannot be resolved)",
        "2 objects wait for a circle of objects that block each other",
    ] {
        ensure!(ran.code == 1 && ran.out.contains(sentence), "{sentence}: {ran:?}");
    }

    // The collector does what is left to it.
    let collector = stage.collector().await?;
    cluster.settled_with_parked(&collector).await?;
    let json = kube_gc(stage.plane.kubeconfig(), &line).await?.json()?;
    let mut causes: Vec<&str> =
        json["groups"].as_array().into_iter().flatten().filter_map(|group| group["cause"].as_str()).collect();
    causes.sort_unstable();
    ensure!(causes == ["gracePeriod", "undecided"], "{json}");
    cluster.set_owner_references(&undecided, &[]).await?;
    cluster.delete_with(&pod, &json!({ "gracePeriodSeconds": 0 })).await?;
    cluster.settled(&collector).await?;
    ensure!(kube_gc(stage.plane.kubeconfig(), &line).await?.code == 0);
    collector.stop().await?;
    stage.clear().await
}

async fn a_selector_says_what_is_reported() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let root = ns.configmap("root").label("app", "web").create().await?;
    let held = ns.secret("held").owned_by(&root).blocking().finalizer(HOLD).create().await?;
    cluster.delete(&root, Policy::Foreground).await?;
    cluster.delete(&held, Policy::Background).await?;
    let line = format!("stuck -n {} --older 0s -o json", ns.name());
    poll("the second of the deletion to pass", async || {
        Ok(kube_gc(stage.plane.kubeconfig(), &line).await?.json()?["stuck"] == 2)
    })
    .await?;
    let json = kube_gc(stage.plane.kubeconfig(), &format!("{line} -l app=web")).await?.json()?;
    ensure!(json["stuck"] == 1 && json["beingDeleted"] == 1, "{json}");
    // What holds it has no such label.
    let sentence = format!("1 object waits for Secret/held (finalizer {HOLD})");
    ensure!(json["groups"][0]["sentence"] == sentence, "{json}");
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("{line} -l app!=web,app")).await?;
    ensure!(ran.code == 0 && ran.json()?["beingDeleted"] == 0, "{ran:?}");
    for (flags, says) in [
        ("-l =x", "the server does not understand the selector"),
        ("-l app=web --from collector", "--selector needs --from lists"),
    ] {
        let ran = kube_gc(stage.plane.kubeconfig(), &format!("{line} {flags}")).await?;
        ensure!(ran.code == 2 && ran.err.contains(says), "{flags}: {ran:?}");
    }
    cluster.set_finalizers(&held, &[]).await?;
    let collector = stage.collector().await?;
    cluster.settled(&collector).await?;
    collector.stop().await?;
    stage.clear().await
}

/// Asks as a user who may list Secrets and get none, and may read ConfigMaps.
async fn who_may_not_read_what_is_deleted_is_told() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let rules = json!([
        { "apiGroups": [""], "resources": ["secrets"], "verbs": ["list"] },
        { "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"] },
    ]);
    let user = User::create(stage.plane, cluster, &ns, rules).await?;
    let held = ns.secret("held").finalizer(HOLD).create().await?;
    cluster.delete(&held, Policy::Background).await?;
    let line = format!("stuck -n {} --older 0s --kinds secrets", ns.name());
    let ran = kube_gc(user.kubeconfig(), &line).await?;
    ensure!(ran.code == 7 && ran.out.contains("Not looked at: Secret/held"), "{ran:?}");
    ensure!(ran.out.contains("0 of 1 object that is being deleted is stuck"), "{ran:?}");

    // The cause of what waits for it is not known.
    let root = ns.configmap("root").create().await?;
    own(cluster, &root, &held, true).await?;
    cluster.delete(&root, Policy::Foreground).await?;
    let line = format!("stuck -n {} --older 0s --kinds secrets,configmaps -o json", ns.name());
    poll("the second of the deletion to pass", async || {
        Ok(kube_gc(user.kubeconfig(), &line).await?.json()?["stuck"] == 1)
    })
    .await?;
    let json = kube_gc(user.kubeconfig(), &line).await?.json()?;
    ensure!(json["groups"][0]["cause"] == "unknown", "{json}");
    cluster.set_finalizers(&held, &[]).await?;
    let collector = stage.collector().await?;
    cluster.settled(&collector).await?;
    collector.stop().await?;
    stage.clear().await
}
