//! `kube-gc stuck`: causes, ages and exit codes.

use anyhow::{Result, ensure};
use serde_json::json;

use super::fixtures::{HeldCascade, World, stuck, unserved};
use crate::conformance::stage::{HOLD, own};
use kube_gc_testkit::Policy;
use kube_gc_testkit::cluster::create_all;

kube_gc_testkit::scenarios! {
    what_waits_is_grouped_by_what_holds_it,
    each_cause_is_named,
    a_selector_says_what_is_reported,
}

async fn what_waits_is_grouped_by_what_holds_it() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    caller.says("stuck --older 0s", 0, &["0 of 0 objects that are being deleted"]).await?;
    let alone = create_all(["a", "b"].map(|name| ns.configmap(name).finalizer("example.com/backup"))).await?;
    cluster.delete_all(&alone, Policy::Background).await?;
    let cascade = HeldCascade::begin(&world).await?;
    let before = cluster.request_counts().await?;
    let json = stuck(caller, "stuck --older 0s --from lists", 5).await?;
    ensure!(json["groups"][0]["cause"] == "finalizers" && json["beingDeleted"] == 5, "{json}");
    ensure!(json["groups"][0]["holders"][0]["uid"] == cascade.held.uid.as_str(), "{json}");
    let table = format!(
        "5 of 5 objects that are being deleted are stuck: deleted more than ago.\n\nSTUCK OLDEST CAUSE\n\
         3 2 objects wait for Secret/held (finalizer {HOLD})\n\
         2 2 objects wait for finalizer example.com/backup\n"
    );
    let advice = format!("Finalizer {HOLD}: ");
    for (flags, code, said) in [
        ("--older 0s", 1, &[table.as_str(), &advice][..]),
        ("--older 0s -o name", 1, &["secret/held\nconfigmap/a\nconfigmap/b\n"]),
        ("--older 0s -o wide", 1, &[&cascade.root.uid]),
        // Nothing was deleted so long ago.
        ("--older 1d", 0, &["0 of 5 objects that are being deleted"]),
    ] {
        caller.says(&format!("stuck {flags} --from lists"), code, said).await?;
    }
    let everywhere = super::kube_gc(caller.kubeconfig, "stuck -A --older 0s -o json").await?;
    ensure!(everywhere.code == 1 && everywhere.json()?["beingDeleted"].as_u64() >= Some(5), "{everywhere:?}");
    ensure!(cluster.request_counts().await?.since(&before).writes() == 0, "something was written");
    for object in &alone {
        cluster.set_finalizers(object, &[]).await?;
    }
    cascade.end(&world).await
}

/// What is left for a collector to do, and what it cannot do.
async fn each_cause_is_named() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let spec = json!({
        "nodeName": "nowhere",
        "terminationGracePeriodSeconds": 1,
        "containers": [{ "name": "main", "image": "none" }],
    });
    let pod = ns.pod("grace-period").field("spec", spec).create().await?;
    let orphaning = ns.configmap("orphaning").create().await?;
    let other = ns.configmap("other").create().await?;
    let roots = ["unblocked", "releases", "undecided", "deletes", "circle-a", "circle-b"];
    let roots = create_all(roots.map(|name| ns.configmap(name))).await?;
    ns.secret("to-be-released").owned_by(&roots[1]).blocking().owned_by(&other).create().await?;
    let undecided = ns.secret("undecided").owned_by(&roots[2]).blocking().owner_reference(unserved());
    let undecided = undecided.create().await?;
    ns.secret("to-be-deleted").owned_by(&roots[3]).blocking().create().await?;
    own(cluster, &roots[4], &roots[5], true).await?;
    own(cluster, &roots[5], &roots[4], true).await?;
    cluster.delete(&pod, Policy::Background).await?;
    cluster.delete(&orphaning, Policy::Orphan).await?;
    cluster.delete_all(&roots, Policy::Foreground).await?;
    let causes = async |count, expected: &[&str]| -> Result<()> {
        let json = stuck(caller, "stuck --older 0s", count).await?;
        let groups = json["groups"].as_array().into_iter().flatten();
        let mut causes: Vec<&str> = groups.filter_map(|group| group["cause"].as_str()).collect();
        causes.sort_unstable();
        ensure!(causes == expected, "{json}");
        Ok(())
    };
    let all = ["circle", "gracePeriod", "orphaning", "toBeDeleted", "toBeReleased", "unblocked", "undecided"];
    causes(8, &all).await?;
    let said = [
        "Pod/grace-period waits for the end of its grace period",
        "ConfigMap/orphaning waits for the collector to release its dependents",
        "ConfigMap/unblocked waits for the collector to remove its finalizer",
        "1 object waits for Secret/to-be-released (the collector to remove its owner reference)",
        "1 object waits for Secret/to-be-deleted (the collector to delete it)",
        "1 object waits for Secret/undecided (an owner that cannot be resolved)",
        "2 objects wait for a circle of objects that block each other",
    ];
    caller.says("stuck --older 0s", 1, &said).await?;

    // The collector does what is left to it.
    let collector = world.stage.collector().await?;
    cluster.settled_with_parked(&collector).await?;
    causes(2, &["gracePeriod", "undecided"]).await?;
    cluster.set_owner_references(&undecided, &[]).await?;
    cluster.delete_with(&pod, &json!({ "gracePeriodSeconds": 0 })).await?;
    cluster.settled(&collector).await?;
    caller.says("stuck --older 0s", 0, &[]).await?;
    collector.stop().await
}

async fn a_selector_says_what_is_reported() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let root = ns.configmap("root").label("app", "web").create().await?;
    let held = ns.secret("held").owned_by(&root).blocking().finalizer(HOLD).create().await?;
    cluster.delete(&root, Policy::Foreground).await?;
    cluster.delete(&held, Policy::Background).await?;
    stuck(caller, "stuck --older 0s", 2).await?;
    // What holds it has no such label.
    let sentence = format!("1 object waits for Secret/held (finalizer {HOLD})");
    for (selector, code, said) in [
        ("app=web", 1, &["1 of 1 object that is being deleted", &sentence][..]),
        ("app!=web,app", 0, &["0 of 0 objects that are being deleted"]),
        ("=x", 2, &["the server does not understand the selector"]),
        ("app=web --from collector", 2, &["--selector needs --from lists"]),
    ] {
        caller.says(&format!("stuck --older 0s -l {selector}"), code, said).await?;
    }
    Ok(())
}
