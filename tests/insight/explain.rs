//! `kube-gc explain`: the verdict, and what it rests on.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use super::fixtures::reader_of;
use super::{kube_gc, words};
use crate::conformance::stage::{HOLD, Stage};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Policy, Scope};

kube_gc_testkit::scenarios! {
    what_is_garbage_is_said_and_then_collected,
    what_blocks_a_foreground_deletion_is_found,
    who_may_not_read_the_owner_gets_no_verdict,
    a_finalizer_whose_api_is_gone_is_named,
    what_is_left_in_a_namespace_is_named,
}

/// The verdict is that of the collector, which carries it out.
async fn what_is_garbage_is_said_and_then_collected() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let owner = ns.configmap("owner").create().await?;
    let item = ns.secret("item").owned_by(&owner).create().await?;
    cluster.delete(&owner, Policy::Background).await?;
    let line = format!("explain secret/item -n {}", ns.name());
    let ran = kube_gc(stage.plane.kubeconfig(), &line).await?;
    let verdict = "Secret/item is garbage: its owner ConfigMap/owner does not exist. The collector deletes it with the \
                   policy Background.";
    ensure!(ran.code == 0 && ran.out.lines().next() == Some(verdict), "{ran:?}");
    let lines = words(&ran.out);
    let reference = "ConfigMap/owner absent - the server says that it does not exist";
    ensure!(lines.iter().any(|line| line == reference), "{lines:?}");
    let json = kube_gc(stage.plane.kubeconfig(), &(line + " -o json")).await?.json()?;
    ensure!(json["outcome"] == "goes" && json["references"][0]["evidence"]["kind"] == "notFound", "{json}");

    let collector = stage.collector().await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&item]).await?;
    let gone = kube_gc(stage.plane.kubeconfig(), &format!("explain secret/item -n {}", ns.name())).await?;
    ensure!(gone.code == 8 && gone.err.contains("there is no Secret/item"), "{gone:?}");
    collector.stop().await?;
    stage.clear().await
}

async fn what_blocks_a_foreground_deletion_is_found() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let root = ns.configmap("root").create().await?;
    let middle = ns.configmap("middle").owned_by(&root).blocking().create().await?;
    let held = ns.secret("held").owned_by(&middle).blocking().finalizer(HOLD).create().await?;
    let collector = stage.collector().await?;
    cluster.delete(&root, Policy::Foreground).await?;
    poll("the cascade to be held", async || Ok(cluster.fresh(&held).await?.is_terminating())).await?;
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("explain cm/root -n {}", ns.name())).await?;
    ensure!(ran.code == 0, "{ran:?}");
    let lines = words(&ran.out);
    ensure!(lines[0] == "ConfigMap/root is being deleted, and waits for 1 blocking dependent.", "{lines:?}");
    let leaf = format!("Secret/held finalizer {HOLD} ago ConfigMap/middle");
    ensure!(lines.contains(&leaf), "{lines:?}");
    ensure!(lines.iter().any(|line| line == "In between: ConfigMap/middle (waits for 1)"), "{lines:?}");
    ensure!(ran.out.lines().last().is_some_and(|last| last.contains(HOLD)), "{ran:?}");
    let names =
        kube_gc(stage.plane.kubeconfig(), &format!("explain cm/root -n {} -o name", ns.name())).await?;
    ensure!(names.out == "secret/held\n", "{names:?}");
    cluster.set_finalizers(&held, &[]).await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&root, &middle, &held]).await?;
    collector.stop().await?;
    stage.clear().await
}

/// Asks as a user who may read the object and not its owner.
async fn who_may_not_read_the_owner_gets_no_verdict() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = stage.cluster.namespace().await?;
    let user = reader_of(&stage, &ns, "secrets").await?;
    let owner = ns.configmap("owner").create().await?;
    ns.secret("item").owned_by(&owner).create().await?;
    let ran = kube_gc(user.kubeconfig(), &format!("explain secret/item -n {}", ns.name())).await?;
    ensure!(ran.code == 7 && ran.out.starts_with("Secret/item stays for now: 1 of its 1 owner"), "{ran:?}");
    ensure!(ran.out.contains("403") && ran.out.contains("Not looked at: ConfigMap/owner"), "{ran:?}");
    let ran = kube_gc(user.kubeconfig(), &format!("explain cm/owner -n {}", ns.name())).await?;
    ensure!(ran.code == 6 && ran.out.is_empty(), "{ran:?}");
    stage.clear().await
}

async fn a_finalizer_whose_api_is_gone_is_named() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let widgets = cluster.crd("widgets.insight.example.org", Scope::Namespaced, &["v1"]).await?;
    let configmaps = Api::<ConfigMap>::namespaced(stage.plane.client().await?, ns.name());
    let manager = PostParams { field_manager: Some("backup".to_owned()), ..PostParams::default() };
    for (name, finalizer, api) in
        [("served", "insight.example.org/backup", true), ("gone", "gone.example.net/backup", false)]
    {
        let metadata = json!({ "name": name, "finalizers": [finalizer] });
        configmaps.create(&manager, &serde_json::from_value(json!({ "metadata": metadata }))?).await?;
        configmaps.delete(name, &DeleteParams::background()).await?;
        let line = format!("explain cm/{name} -n {} -o json", ns.name());
        let json = kube_gc(stage.plane.kubeconfig(), &line).await?.json()?;
        ensure!(json["outcome"] == "waits" && json["finalizers"][0]["apiIsServed"] == api, "{json}");
        ensure!(
            json["finalizers"][0]["setBy"]["manager"] == "backup" || stage.plane.embedded().is_some(),
            "{json}"
        );
        let none = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        configmaps.patch(name, &PatchParams::default(), &none).await?;
    }
    widgets.remove().await?;
    stage.clear().await
}

async fn what_is_left_in_a_namespace_is_named() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let configmaps = Api::<ConfigMap>::namespaced(stage.plane.client().await?, ns.name());
    let manager = PostParams { field_manager: Some("backup".to_owned()), ..PostParams::default() };
    for name in ["a", "b"] {
        let metadata = json!({ "name": name, "finalizers": ["gone.example.net/backup"] });
        configmaps.create(&manager, &serde_json::from_value(json!({ "metadata": metadata }))?).await?;
        configmaps.delete(name, &DeleteParams::background()).await?;
    }
    cluster.delete(ns.as_object(), Policy::Background).await?;
    poll("the namespace to be deleted", async || Ok(cluster.fresh(ns.as_object()).await?.is_terminating()))
        .await?;
    let line = format!("explain ns/{}", ns.name());
    let ran = kube_gc(stage.plane.kubeconfig(), &line).await?;
    ensure!(ran.code == 0 && ran.out.contains("cannot go: "), "{ran:?}");
    let lines = words(&ran.out);
    // The embedded server does not say who has written.
    let (set_by, last, look) = if stage.plane.embedded().is_some() {
        (
            "-; its API is not served",
            "",
            "Finalizer gone.example.net/backup: the server has no API of its domain.",
        )
    } else {
        ("backup ago; its API is not served", ", and it has not written here for", "backup set it")
    };
    let row = format!("gone.example.net/backup 2 ConfigMap/a, ConfigMap/b {set_by}{last}");
    ensure!(lines.contains(&row) && ran.out.contains(look), "{lines:?}");
    let json = kube_gc(stage.plane.kubeconfig(), &(line + " -o json")).await?.json()?;
    ensure!(json["outcome"] == "waits" && json["namespace"]["held"][0]["count"] == 2, "{json}");
    let times = ["firstSet", "lastWrite"].map(|field| json["namespace"]["held"][0][field].is_string());
    ensure!(times == [stage.plane.embedded().is_none(); 2], "{json}");
    for name in ["a", "b"] {
        let none = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
        configmaps.patch(name, &PatchParams::default(), &none).await?;
    }
    ns.finalize().await?;
    stage.clear().await
}
