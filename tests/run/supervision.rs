//! An object that cannot be processed delays no other, and is reported (rules 10.5 and 10.6).

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use serde_json::{Value, json};
use tempfile::NamedTempFile;
use tokio::time::Instant;

use crate::conformance::outcome::{reference, reported_as_failing, unused_uid};
use crate::conformance::stage::Stage;
use kube_gc_testkit::cluster::{create_all, is_status, poll};
use kube_gc_testkit::{Cluster, Collector, Ns, Obj, Options, Policy, Turn};

kube_gc_testkit::scenarios! {
    objects_that_must_not_be_deleted_delay_nothing_else,
    objects_that_admission_denies_delay_nothing_else,
}

/// The user of the collector, and its role.
const USER: &str = "kube-gc-test";
/// The number of objects to collect while others fail.
const OTHERS: usize = 50;
/// The time limit for that, in addition to [`SLOW`] times the time that their creation took,
/// because a slow machine is slow at both. Without failing objects it takes a fraction of this.
const NOT_DELAYED: Duration = Duration::from_secs(10);
/// See [`NOT_DELAYED`].
const SLOW: u32 = 5;
/// The label of objects that the webhook is called about.
const PROTECTED: &str = "kube-gc-test/protected";

fn never() -> Value {
    reference("v1", "ConfigMap", "never", &unused_uid())
}

/// The rules of a user who may do everything except deleting, apart from these types.
fn may_delete(resources: &[&str]) -> Value {
    json!([
        {
            "apiGroups": ["*"],
            "resources": ["*"],
            "verbs": ["get", "list", "watch", "create", "update", "patch"],
        },
        { "apiGroups": [""], "resources": resources, "verbs": ["delete"] },
    ])
}

/// The stage without the remains of a failed scenario of this file, whose webhook would prevent the
/// clean-up.
async fn set_stage() -> Result<Stage> {
    // Not during another scenario, which needs these objects.
    let turn = Turn::take().await?;
    let cluster = Cluster::new(turn.plane().client().await?);
    for path in [
        format!("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/{USER}"),
        format!("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{USER}"),
        format!("/apis/rbac.authorization.k8s.io/v1/clusterroles/{USER}"),
    ] {
        match cluster.send("DELETE", &path, None, None).await {
            Err(error) if !is_status(&error, 404) => return Err(error),
            _ => {}
        }
    }
    Stage::set_on(turn).await
}

/// Gives [`USER`] these rights, and returns its kubeconfig and role.
async fn restricted_user(stage: &Stage) -> Result<(NamedTempFile, Obj)> {
    let cluster = &stage.cluster;
    let role = cluster.of::<ClusterRole>(USER).field("rules", may_delete(&["configmaps", "pods"]));
    let role = role.create().await?;
    cluster
        .of::<ClusterRoleBinding>(USER)
        .field(
            "roleRef",
            json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER }),
        )
        .field("subjects", json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": USER }]))
        .create()
        .await?;
    let admin = std::fs::read_to_string(stage.plane.kubeconfig())?;
    let kubeconfig = tempfile::Builder::new().prefix("kube-gc-").tempfile()?;
    std::fs::write(
        kubeconfig.path(),
        admin.replace("    user:\n", &format!("    user:\n      as: {USER}\n")),
    )?;
    Ok((kubeconfig, role))
}

/// Creates garbage in these namespaces, and a cascade in the foreground. Fails unless all of it is
/// collected soon.
async fn nothing_else_is_delayed(cluster: &Cluster, namespaces: &[&Ns]) -> Result<()> {
    for ns in namespaces {
        let begun = Instant::now();
        let owner = ns.configmap("owner-in-foreground").create().await?;
        let garbage = (0..OTHERS).map(|n| ns.configmap(format!("garbage-{n}")).owner_reference(never()));
        let garbage = create_all(garbage).await?;
        let blocking = (0..OTHERS).map(|n| ns.pod(format!("blocking-{n}")).owned_by(&owner).blocking());
        let blocking = create_all(blocking).await?;
        let created = begun.elapsed();
        cluster.delete(&owner, Policy::Foreground).await?;
        poll("the other garbage to go", async || {
            let all = garbage.iter().chain(&blocking).chain([&owner]);
            Ok(cluster.assert_gone(all).await.is_ok())
        })
        .await?;
        let took = begun.elapsed().saturating_sub(created);
        ensure!(took < NOT_DELAYED + SLOW * created, "{took:?}, after {created:?}");
    }
    Ok(())
}

/// Waits until the debug API lists each of these as failing, in the words of the server, and until
/// the log has these words. The log arrives through a pipe and may be later.
async fn is_named(collector: &Collector, objects: &[&Obj], words: &str) -> Result<()> {
    poll("the failing objects to be named", async || {
        Ok(reported_as_failing(collector, objects, words).await.is_ok())
    })
    .await?;
    reported_as_failing(collector, objects, words).await?;
    for object in objects {
        let says = |line: &String| line.contains(words);
        poll(&format!("{words:?} in the log, about {object}"), async || {
            Ok(collector.logged(&object.name).iter().any(says))
        })
        .await?;
    }
    Ok(())
}

/// The number of keys that wait for their next try, according to the metrics.
async fn waiting(collector: &Collector) -> Result<f64> {
    Ok(collector.metric("kube_gc_queue_parked").await? + collector.metric("kube_gc_queue_delayed").await?)
}

/// The API server denies the deletion of some objects. They are retried, reported with the reason
/// of the server, and deleted when it is allowed. Meanwhile, all other objects are collected, in
/// the same namespace and elsewhere.
async fn objects_that_must_not_be_deleted_delay_nothing_else() -> Result<()> {
    let stage = set_stage().await?;
    let cluster = &stage.cluster;
    let (kubeconfig, role) = restricted_user(&stage).await?;
    let here = cluster.namespace().await?;
    let there = cluster.namespace().await?;
    let stuck =
        create_all((0..OTHERS).map(|n| here.secret(format!("stuck-{n}")).owner_reference(never()))).await?;
    let of_stuck = here.configmap("of-stuck").owned_by(&stuck[0]).create().await?;

    let collector = Collector::start_with(kubeconfig.path(), Options::default()).await?;
    collector.ready().await?;
    let all: Vec<&Obj> = stuck.iter().collect();
    is_named(&collector, &all, "cannot delete resource").await?;
    let late = there.secret("stuck-late").owner_reference(never()).create().await?;
    nothing_else_is_delayed(cluster, &[&here, &there]).await?;
    is_named(&collector, &[&late], "is forbidden").await?;
    cluster.assert_kept(stuck.iter().chain([&late, &of_stuck])).await?;

    let refused = collector.metrics().await?;
    let refused = refused.iter().filter(|(series, _)| {
        series.starts_with("kube_gc_requests_total{")
            && series.contains("code=\"403\"")
            && series.contains("secrets")
    });
    ensure!(refused.map(|(_, count)| count).sum::<f64>() > 0.0, "no 403 was counted");
    poll("the failing objects in the metrics", async || Ok(waiting(&collector).await? >= 51.0)).await?;

    cluster.patch(&role, &json!({ "rules": may_delete(&["configmaps", "pods", "secrets"]) })).await?;
    poll("what was forbidden to go", async || {
        Ok(cluster.assert_gone(stuck.iter().chain([&late, &of_stuck])).await.is_ok())
    })
    .await?;
    poll("the failing objects to be forgotten", async || Ok(waiting(&collector).await? == 0.0)).await?;
    collector.stop().await?;
    stage.clear().await
}

/// A webhook that does not answer keeps the API server from accepting writes of the collector:
/// neither deletions nor the removal of finalizers succeed. Only these objects wait for it.
async fn objects_that_admission_denies_delay_nothing_else() -> Result<()> {
    let stage = set_stage().await?;
    let cluster = &stage.cluster;
    let here = cluster.namespace().await?;
    let there = cluster.namespace().await?;
    let owner = here.configmap("owner").label(PROTECTED, "true").create().await?;
    let blocking =
        here.secret("blocking").owned_by(&owner).blocking().finalizer("example.com/hold").create().await?;
    let garbage = here.secret("garbage").label(PROTECTED, "true").owner_reference(never()).create().await?;
    let orphaned = here.pod("orphaned").label(PROTECTED, "true").create().await?;
    let of_orphaned =
        here.secret("of-orphaned").label(PROTECTED, "true").owned_by(&orphaned).create().await?;
    cluster.delete(&owner, Policy::Foreground).await?;
    cluster.delete(&orphaned, Policy::Orphan).await?;
    let webhook = json!([{
        "name": "nobody.example.com",
        // Nothing listens there.
        "clientConfig": { "url": "https://127.0.0.1:1/" },
        "rules": [{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE", "DELETE"], "resources": ["*"] }],
        "objectSelector": { "matchLabels": { PROTECTED: "true" } },
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    }]);
    let webhook =
        cluster.of::<ValidatingWebhookConfiguration>(USER).field("webhooks", webhook).create().await?;
    poll("the webhook to be asked", async || {
        Ok(cluster.set_label(&garbage, "changed", "true").await.is_err())
    })
    .await?;

    let collector = stage.collector().await?;
    cluster.set_finalizers(&blocking, &[]).await?;
    is_named(&collector, &[&owner, &garbage, &orphaned], "failed calling webhook").await?;
    nothing_else_is_delayed(cluster, &[&here, &there]).await?;
    cluster.assert_gone([&blocking]).await?;
    cluster.assert_kept([&owner, &garbage, &orphaned, &of_orphaned]).await?;

    cluster.delete(&webhook, Policy::Background).await?;
    poll("what was refused to go", async || {
        Ok(cluster.assert_gone([&owner, &garbage, &orphaned]).await.is_ok())
    })
    .await?;
    cluster.settled(&collector).await?;
    ensure!(cluster.fresh(&of_orphaned).await?.owner_uids().is_empty());
    collector.stop().await?;
    stage.clear().await
}
