//! The output in README.md and in docs/tree.md, explain.md, check.md, plan.md and stuck.md is real.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use serde_json::{Value, json};

use super::fixtures::{World, reference, stuck};
use super::{Caller, kube_gc, words};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Obj, Policy, Scope};

kube_gc_testkit::scenarios! {
    the_output_in_the_documentation_is_real,
    the_findings_in_the_documentation_are_real,
    the_output_in_the_readme_is_real,
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

/// What a Deployment or a ReplicaSet wants.
pub fn spec(app: &str, replicas: u32) -> Value {
    let labels = json!({ "app": app });
    let container = json!({ "name": app, "image": format!("example.com/{app}") });
    let template = json!({ "metadata": { "labels": labels }, "spec": { "containers": [container] } });
    json!({ "replicas": replicas, "selector": { "matchLabels": labels }, "template": template })
}

async fn the_output_in_the_documentation_is_real() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let shop = ns.configmap("shop").create().await?;
    let web = ns.of::<Deployment>("web").owned_by(&shop).field("spec", spec("web", 3)).create().await?;
    let set = ns.of::<ReplicaSet>("web-7d9").owned_by(&web).controlled().blocking();
    let set = set.field("spec", spec("web", 3)).create().await?;
    let pod = ns.pod("web-7d9-x").owned_by(&set).controlled().blocking().finalizer("example.com/drain");
    let pod = pod.create().await?;
    is_real(caller, PLAN, 0).await?;
    let collector = world.stage.collector().await?;
    cluster.delete(&web, Policy::Foreground).await?;
    poll("the pod to be deleted", async || Ok(cluster.fresh(&pod).await?.is_terminating())).await?;
    stuck(caller, "stuck --older 0s", 3).await?;
    for (page, code) in [(TREE, 0), (EXPLAIN, 0), (STUCK, 1)] {
        is_real(caller, page, code).await?;
    }
    cluster.set_finalizers(&pod, &[]).await?;
    cluster.settled(&collector).await?;
    collector.stop().await
}

async fn the_findings_in_the_documentation_are_real() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let deployment = async || ns.of::<Deployment>("api").field("spec", spec("api", 1)).create().await;
    let old: Obj = deployment().await?;
    cluster.delete(&old, Policy::Background).await?;
    let new = deployment().await?;
    ns.configmap("prices").owned_by(&old).create().await?;
    let web = ns.of::<ReplicaSet>("web").field("spec", spec("web", 0)).create().await?;
    let moved = reference(&web, &json!({ "apiVersion": "extensions/v1beta1" }));
    ns.secret("tls").owner_reference(moved).create().await?;
    for name in ["a", "b", "c", "d", "e"] {
        ns.configmap(name).owned_by(&new).create().await?;
    }
    is_real(caller, CHECK, 1).await
}

/// The README shows what the embedded server leads to: that one does not say who has set a finalizer.
async fn the_output_in_the_readme_is_real() -> Result<()> {
    let world = World::set().await?;
    if world.stage.plane.embedded().is_none() {
        return Ok(());
    }
    let (cluster, ns, caller) = world.parts();
    let carts = cluster.crd("carts.shop.example.com", Scope::Namespaced, &["v1"]).await?;
    let cart = ns.object(carts.resource(), "alice").finalizer("billing.acme.dev/invoice").create().await?;
    let (settings, tls) = (ns.configmap("settings").create().await?, ns.secret("tls").create().await?);
    readme_shows(caller, 2, "plan ns/shop-staging", "", 0).await?;
    cluster.delete_all(&[cart, settings, tls, ns.as_object().clone()], Policy::Background).await?;
    stuck(caller, "stuck --older 0s", 2).await?;
    readme_shows(caller, 0, "stuck -A", " --older 0s", 1).await?;
    readme_shows(caller, 1, "explain ns/shop-staging", "", 0).await
}

/// Fails unless a command prints each line of a sample of the README, which leaves out some.
async fn readme_shows(caller: Caller<'_>, at: usize, line: &str, flags: &str, code: i32) -> Result<()> {
    let &(command, printed) = samples(README).get(at).context("no sample")?;
    ensure!(command.strip_prefix("kubectl gc ") == Some(line), "{command}");
    let line = line.replace("shop-staging", caller.namespace) + flags;
    let ran = kube_gc(caller.kubeconfig, &line).await?;
    ensure!(ran.code == code, "{ran:?}");
    let (is, shown) = (words(&ran.out), words(&printed.replace("shop-staging", caller.namespace)));
    // How many are stuck in all depends on what earlier scenarios have left in other namespaces.
    let shown = shown.iter().filter(|line| *line != "…" && !line.contains(" stuck: deleted "));
    for line in shown {
        ensure!(is.contains(line), "the README says {line:?} for {command}: {}", ran.out);
    }
    Ok(())
}

/// Fails unless the sample of a page is what the command prints.
async fn is_real(caller: Caller<'_>, page: &str, code: i32) -> Result<()> {
    let samples = samples(page);
    let &(command, printed) = samples.first().context("no sample")?;
    let line = command.strip_prefix("kube-gc ").context("another command")?;
    let line = line.replace("shop", caller.namespace);
    let ran = kube_gc(caller.kubeconfig, &line).await?;
    ensure!(ran.code == code, "{ran:?}");
    let printed = printed.replace(" -n shop ", &format!(" -n {} ", caller.namespace));
    let (is, documented) = (without_uids(&words(&ran.out)), without_uids(&words(&printed)));
    ensure!(is == documented, "{command}: {}\nis documented as\n{printed}", ran.out);
    Ok(())
}

/// Replaces the uids in commands, and the beginnings of others, which a table ends with `…`.
fn without_uids(lines: &[String]) -> Vec<String> {
    let quoted = |text: &str| if text.len() == 36 { "UID".to_owned() } else { text.to_owned() };
    let shown = |word: &str| match word.contains('…') {
        true => "UID".to_owned(),
        false => word.split('"').map(quoted).collect::<Vec<_>>().join("\""),
    };
    lines.iter().map(|line| line.split(' ').map(shown).collect::<Vec<_>>().join(" ")).collect()
}
