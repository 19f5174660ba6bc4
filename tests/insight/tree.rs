//! `kube-gc tree`: lists, and what they cannot show.

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::fixtures::half_seen;
use super::{kube_gc, words};
use crate::conformance::stage::{HOLD, Stage};
use kube_gc_testkit::{Policy, Scope};

kube_gc_testkit::scenarios! {
    owners_are_above_and_dependents_below,
    a_cluster_scoped_object_shows_dependents_everywhere,
    who_may_not_list_a_type_sees_the_rest,
    the_worst_dependents_are_shown,
    an_object_is_found_by_its_uid,
    excluded_types_are_not_listed,
}

async fn owners_are_above_and_dependents_below() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let top = ns.configmap("top").create().await?;
    let root = ns.configmap("root").owned_by(&top).controlled().create().await?;
    let held = ns.secret("held").owned_by(&root).finalizer(HOLD).create().await?;
    ns.secret("below").owned_by(&held).create().await?;
    cluster.delete(&held, Policy::Background).await?;
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("tree cm/root -n {}", ns.name())).await?;
    ensure!(ran.code == 0, "{ran:?}");
    let lines = words(&ran.out);
    ensure!(lines[0] == "NAME STATE READY AGE", "{lines:?}");
    ensure!(lines[1] == "ConfigMap/top live owner", "{lines:?}");
    ensure!(lines[2] == "└─ ConfigMap/root live", "{lines:?}");
    ensure!(
        lines[3].starts_with(&format!("└─ Secret/held terminating finalizer {HOLD}, deleted")),
        "{lines:?}"
    );
    ensure!(lines[4] == "└─ Secret/below live" && lines.len() == 5, "{lines:?}");

    let json = kube_gc(stage.plane.kubeconfig(), &format!("tree cm root -n {} -o json", ns.name())).await?;
    let json = json.json()?;
    ensure!(json["apiVersion"] == "kube-gc.io/v1" && json["kind"] == "Tree", "{json}");
    ensure!(json["nodes"][0]["uid"] == root.uid.as_str() && json["incomplete"] == json!([]), "{json}");
    let names =
        kube_gc(stage.plane.kubeconfig(), &format!("tree configmaps root -n {} -o name", ns.name())).await?;
    ensure!(names.out == "configmap/root\nconfigmap/top\nsecret/held\nsecret/below\n", "{names:?}");
    let dot = kube_gc(stage.plane.kubeconfig(), &format!("tree cm/root -n {} -o dot", ns.name())).await?;
    ensure!(dot.out.starts_with("digraph") && dot.out.contains("n2 -> n3"), "{dot:?}");
    cluster.set_finalizers(&held, &[]).await?;
    stage.clear().await
}

async fn a_cluster_scoped_object_shows_dependents_everywhere() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let gadgets = cluster.crd("gadgets.example.com", Scope::Cluster, &["v1"]).await?;
    let root = cluster.object(gadgets.resource(), "root").create().await?;
    let mut expected = vec!["gadget.example.com/root".to_owned()];
    for name in ["a", "b"] {
        let ns = cluster.namespace().await?;
        let item = ns.configmap(name).owned_by(&root).create().await?;
        ns.secret(format!("below-{name}")).owned_by(&item).create().await?;
        expected.extend([format!("configmap/{name}"), format!("secret/below-{name}")]);
    }
    let ran = kube_gc(stage.plane.kubeconfig(), "tree gadgets.v1.example.com/root -o name").await?;
    let mut names: Vec<&str> = ran.out.lines().collect();
    names.sort_unstable();
    expected.sort();
    ensure!(ran.code == 0 && names == expected, "{ran:?}");
    cluster.delete(&root, Policy::Orphan).await?;
    stage.clear().await
}

/// Asks as a user who may not list Secrets.
async fn who_may_not_list_a_type_sees_the_rest() -> Result<()> {
    let stage = Stage::set().await?;
    let (ns, user) = half_seen(&stage).await?;
    let line = format!("tree cm/root -n {} --kinds configmaps,secrets", ns.name());
    let ran = kube_gc(user.kubeconfig(), &line).await?;
    ensure!(ran.code == 7, "{ran:?}");
    let lines = words(&ran.out);
    ensure!(lines[1..3] == ["ConfigMap/root live", "└─ ConfigMap/seen live"], "{lines:?}");
    ensure!(
        lines[3].starts_with("Not looked at: secrets (LIST secrets") && lines[3].contains("403"),
        "{lines:?}"
    );
    ensure!(!ran.out.contains("unseen"), "{ran:?}");
    let json = kube_gc(user.kubeconfig(), &(line + " -o json")).await?.json()?;
    ensure!(json["incomplete"][0]["what"] == "secrets", "{json}");
    stage.clear().await
}

async fn the_worst_dependents_are_shown() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let app = ns.configmap("app").create().await?;
    let (labels, container) = (json!({ "app": "web" }), json!({ "name": "web", "image": "example.com/web" }));
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } });
    // Nothing runs, so only those that want no replica are ready.
    for (name, replicas) in [("api", 0), ("cart", 0), ("mail", 0), ("search", 1), ("web", 0)] {
        let spec =
            json!({ "replicas": replicas, "selector": { "matchLabels": labels }, "template": template });
        let deployment = ns.of::<Deployment>(name).owned_by(&app).field("spec", spec);
        let deployment = if name == "mail" { deployment.finalizer("example.com/drain") } else { deployment };
        let deployment = deployment.create().await?;
        if name == "mail" {
            cluster.delete(&deployment, Policy::Background).await?;
        }
    }
    let collector = stage.collector().await?;
    cluster.settled(&collector).await?;
    for source in [String::new(), format!(" --collector http://{}", collector.debug_address())] {
        let two = format!("tree cm/app -n {} --max 2{source}", ns.name());
        let lines = words(&kube_gc(stage.plane.kubeconfig(), &two).await?.out);
        ensure!(lines[2].starts_with("├─ Deployment/mail terminating 0/0 finalizer"), "{lines:?}");
        ensure!(lines[3] == "├─ Deployment/search live 0/1", "{lines:?}");
        ensure!(lines[4] == "└─ 3 more Deployments live 3 --all shows them", "{lines:?}");
    }
    collector.stop().await?;
    let mail = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    let deployments = Api::<Deployment>::namespaced(stage.plane.client().await?, ns.name());
    deployments.patch("mail", &PatchParams::default(), &mail).await?;
    stage.clear().await
}

async fn an_object_is_found_by_its_uid() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = stage.cluster.namespace().await?;
    let root = ns.of::<ConfigMap>("root").create().await?;
    ns.of::<Secret>("below").owned_by(&root).create().await?;
    let ran = kube_gc(stage.plane.kubeconfig(), &format!("tree uid:{} -o name", root.uid)).await?;
    ensure!(ran.out == "configmap/root\nsecret/below\n", "{ran:?}");
    stage.clear().await
}

async fn excluded_types_are_not_listed() -> Result<()> {
    let stage = Stage::set().await?;
    let ns = stage.cluster.namespace().await?;
    let root = ns.configmap("root").create().await?;
    ns.secret("below").owned_by(&root).create().await?;
    let before = stage.cluster.request_counts().await?;
    let line = format!("tree cm/root -n {} --kinds configmaps,sec* --exclude s?crets", ns.name());
    let ran = kube_gc(stage.plane.kubeconfig(), &line).await?;
    ensure!(ran.code == 0 && !ran.out.contains("below"), "{ran:?}");
    ensure!(ran.out.contains("Left out on request: "), "{ran:?}");
    let sent = stage.cluster.request_counts().await?.since(&before);
    ensure!(sent.get("LIST", "secrets") == 0, "{sent:?}");
    ensure!(sent.writes() == 0, "something was written: {sent:?}");
    stage.clear().await
}
