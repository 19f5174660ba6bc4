//! The output in docs/tree.md, docs/explain.md and docs/plan.md is real.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use serde_json::json;

use super::{kube_gc, words};
use crate::conformance::stage::Stage;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Ns, Policy};

kube_gc_testkit::scenarios! {
    the_output_in_the_documentation_is_real,
}

/// Read before anything is deleted, and after.
const BEFORE: [&str; 1] = [include_str!("../../docs/plan.md")];
const AFTER: [&str; 2] = [include_str!("../../docs/tree.md"), include_str!("../../docs/explain.md")];

/// The samples of a page: each command, and what it prints.
fn samples(page: &str) -> Vec<(&str, &str)> {
    let blocks = page.split("```console\n$ ").skip(1);
    blocks.filter_map(|block| block.split_once("```")?.0.split_once('\n')).collect()
}

/// Each page has one sample, which is printed now.
async fn are_real(stage: &Stage, ns: &Ns, pages: &[&'static str]) -> Result<()> {
    let mut count = 0;
    for (command, printed) in pages.iter().flat_map(|page| samples(page)) {
        let line = command.strip_prefix("kube-gc ").context("another command")?.replace("shop", ns.name());
        let ran = kube_gc(stage.plane.kubeconfig(), &line).await?;
        ensure!(ran.code == 0, "{ran:?}");
        ensure!(words(&ran.out) == words(printed), "{command}: {}\nis documented as\n{printed}", ran.out);
        count += 1;
    }
    ensure!(count == pages.len(), "{count} samples");
    Ok(())
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
    are_real(&stage, &ns, &BEFORE).await?;
    let collector = stage.collector().await?;
    cluster.delete(&web, Policy::Foreground).await?;
    poll("the pod to be deleted", async || Ok(cluster.fresh(&pod).await?.is_terminating())).await?;
    are_real(&stage, &ns, &AFTER).await?;
    cluster.set_finalizers(&pod, &[]).await?;
    cluster.settled(&collector).await?;
    collector.stop().await?;
    stage.clear().await
}
