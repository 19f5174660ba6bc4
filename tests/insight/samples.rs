//! The output in README.md and in docs/tree.md, explain.md, check.md, plan.md and stuck.md is real.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use serde_json::json;

use super::{kube_gc, words};
use crate::conformance::stage::Stage;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Obj, Policy};

kube_gc_testkit::scenarios! {
    the_output_in_the_documentation_is_real,
    the_findings_in_the_documentation_are_real,
}

const TREE: &str = include_str!("../../docs/tree.md");
const EXPLAIN: &str = include_str!("../../docs/explain.md");
const CHECK: &str = include_str!("../../docs/check.md");
const PLAN: &str = include_str!("../../docs/plan.md");
const README: &str = include_str!("../../README.md");
const STUCK: &str = include_str!("../../docs/stuck.md");

/// The samples of a page: each command, and what it prints.
fn samples(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("```console\n$ ").skip(1);
    blocks.filter_map(|block| block.split_once("```")?.0.split_once('\n')).collect()
}

async fn the_output_in_the_documentation_is_real() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let shop = ns.configmap("shop").create().await?;
    let labels = json!({ "app": "web" });
    let container = json!({ "name": "web", "image": "example.com/web" });
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } });
    let spec = |replicas: u32| json!({ "replicas": replicas, "selector": { "matchLabels": labels }, "template": template });
    let web = ns.of::<Deployment>("web").owned_by(&shop).field("spec", spec(3)).create().await?;
    let set = ns.of::<ReplicaSet>("web-7d9").owned_by(&web).controlled().blocking().field("spec", spec(3));
    let set = set.create().await?;
    let pod = ns.pod("web-7d9-x").owned_by(&set).controlled().blocking().finalizer("example.com/drain");
    let pod = pod.create().await?;
    is_real(&stage, PLAN, ns.name(), 0).await?;
    let collector = stage.collector().await?;
    cluster.delete(&web, Policy::Foreground).await?;
    poll("the pod to be deleted", async || Ok(cluster.fresh(&pod).await?.is_terminating())).await?;
    // The times of the server have no fractions of a second.
    let old = format!("stuck -n {} --older 0s -o json", ns.name());
    poll("the second of the deletion to pass", async || {
        Ok(kube_gc(stage.plane.kubeconfig(), &old).await?.json()?["stuck"] == 3)
    })
    .await?;
    for (page, code) in [(TREE, 0), (EXPLAIN, 0), (STUCK, 1)] {
        is_real(&stage, page, ns.name(), code).await?;
    }
    // The README leaves out some lines.
    let (command, printed) = samples(README)[0];
    let (_, of_page) = samples(EXPLAIN)[0];
    ensure!(samples(EXPLAIN)[0].0 == command, "{command}");
    let lines = words(of_page);
    for line in words(printed).iter().filter(|line| *line != "…") {
        ensure!(lines.contains(line), "docs/explain.md does not have {line:?} of the README");
    }
    cluster.set_finalizers(&pod, &[]).await?;
    cluster.settled(&collector).await?;
    collector.stop().await?;
    stage.clear().await
}

/// Fails unless the sample of a page is what the command prints.
async fn is_real(stage: &Stage, page: &str, namespace: &str, code: i32) -> Result<()> {
    let &(command, printed) = samples(page).first().context("no sample")?;
    let line = command.strip_prefix("kube-gc ").context("another command")?.replace("shop", namespace);
    let ran = kube_gc(stage.plane.kubeconfig(), &line).await?;
    ensure!(ran.code == code, "{ran:?}");
    let (is, documented) = (without_uids(&words(&ran.out)), without_uids(&words(printed)));
    ensure!(is == documented, "{command}: {}\nis documented as\n{printed}", ran.out);
    Ok(())
}

/// Replaces the beginnings of uids, which a table ends with `…`.
fn without_uids(lines: &[String]) -> Vec<String> {
    let shown = |word: &str| if word.contains('…') { "UID".to_owned() } else { word.to_owned() };
    lines.iter().map(|line| line.split(' ').map(shown).collect::<Vec<_>>().join(" ")).collect()
}

async fn the_findings_in_the_documentation_are_real() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let labels = json!({ "app": "api" });
    let container = json!({ "name": "api", "image": "example.com/api" });
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } });
    let spec = json!({ "selector": { "matchLabels": labels }, "template": template });
    let deployment = async || ns.of::<Deployment>("api").field("spec", spec.clone()).create().await;
    let old: Obj = deployment().await?;
    cluster.delete(&old, Policy::Background).await?;
    let new = deployment().await?;
    ns.configmap("prices").owned_by(&old).create().await?;
    let moved =
        json!({ "apiVersion": "extensions/v1beta1", "kind": "ReplicaSet", "name": "web", "uid": "moved" });
    let leaks = ns.secret("tls").owner_reference(moved).create().await?;
    for name in ["a", "b", "c", "d", "e"] {
        ns.configmap(name).owned_by(&new).create().await?;
    }
    is_real(&stage, CHECK, ns.name(), 1).await?;
    cluster.delete(&leaks, Policy::Background).await?;
    stage.clear().await
}
