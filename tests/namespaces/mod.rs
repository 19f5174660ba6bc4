//! `kube-gc run --finish-namespaces`, on a control plane without kube-controller-manager.

mod late;
mod many;
mod pages;
mod protection;

use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use crate::conformance::stage::{Breakable, HOLD, Stage, impatient};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::harness::Module;
use kube_gc_testkit::{Cluster, Collector, Ns, Options, Policy, Scope, target};

kube_gc_testkit::scenarios! {
    a_terminating_namespace_is_emptied_and_finalized,
    an_object_with_a_finalizer_holds_its_namespace_which_names_it,
    a_type_that_cannot_be_listed_holds_its_namespaces,
    beside_another_controller_it_does_not_start_and_it_stops,
    a_dry_run_leaves_terminating_namespaces_alone,
    the_brake_does_not_count_the_content_of_namespaces,
    the_brake_of_a_namespace_holds_that_namespace_alone,
}

/// All scenarios.
pub const ALL: &[Module] =
    &[late::SCENARIOS, many::SCENARIOS, pages::SCENARIOS, protection::SCENARIOS, SCENARIOS];

/// Nothing waits in a webhook.
fn finishing() -> Options {
    Options::config("[namespaces]\nquiet = \"100ms\"\n").arg("--finish-namespaces")
}

async fn gone(cluster: &Cluster, ns: &Ns) -> Result<()> {
    cluster.gone(ns.as_object()).await
}

async fn delete(cluster: &Cluster, ns: &Ns) -> Result<()> {
    cluster.delete(ns.as_object(), Policy::Background).await
}

/// Waits until a condition of a namespace is true, and returns its message.
async fn condition(cluster: &Cluster, ns: &Ns, kind: &str) -> Result<String> {
    let mut message = None;
    poll(kind, async || {
        let object = cluster.fresh(ns.as_object()).await?.raw;
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.iter().find(|known| known["type"] == kind && known["status"] == "True");
        message = found.map(|condition| condition["message"].as_str().unwrap_or_default().to_owned());
        Ok(message.is_some())
    })
    .await?;
    message.context("no message")
}

async fn turns(collector: &Collector, outcome: &str) -> Result<f64> {
    let series = format!("kube_gc_namespace_turns_total{{outcome=\"{outcome}\"}}");
    collector.metrics().await?.get(&series).copied().with_context(|| format!("no series {series}"))
}

/// Types with and without `deletecollection`, custom ones and objects that own each other (rules
/// 11.1 to 11.3).
async fn a_terminating_namespace_is_emptied_and_finalized() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let widgets = cluster.crd("widgets.finish.example.com", Scope::Namespaced, &["v1"]).await?;
    let (ns, other) = (cluster.namespace().await?, cluster.namespace().await?);
    let collector = stage.collector_with(finishing()).await?;
    let owner = ns.configmap("owner").create().await?;
    let objects = [
        ns.secret("dependent").owned_by(&owner).blocking().create().await?,
        ns.pod("pod").create().await?,
        ns.object(widgets.resource(), "widget").create().await?,
        ns.of::<Service>("service").field("spec", json!({ "ports": [{ "port": 80 }] })).create().await?,
        owner,
    ];
    let kept = other.configmap("kept").create().await?;
    delete(cluster, &ns).await?;
    gone(cluster, &ns).await?;
    cluster.assert_gone(&objects).await?;
    ensure!(turns(&collector, "finalized").await? >= 1.0);
    cluster.assert_kept([&kept, other.as_object()]).await?;
    // One that was deleted while nobody finished it.
    collector.stop().await?;
    delete(cluster, &other).await?;
    let collector = stage.collector_with(finishing()).await?;
    gone(cluster, &other).await?;
    cluster.assert_gone([&kept]).await?;
    collector.stop().await
}

/// Rules 11.2, 11.4 and 11.6.
async fn an_object_with_a_finalizer_holds_its_namespace_which_names_it() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let held = ns.configmap("held").finalizer(HOLD).create().await?;
    let free = ns.secret("free").create().await?;
    let collector = stage.collector_with(finishing()).await?;
    delete(cluster, &ns).await?;
    let finalizers = condition(cluster, &ns, "NamespaceFinalizersRemaining").await?;
    ensure!(finalizers.ends_with("remaining: example.com/hold in 1 resource instances"), "{finalizers}");
    let content = condition(cluster, &ns, "NamespaceContentRemaining").await?;
    ensure!(content == "Some resources are remaining: configmaps. has 1 resource instances", "{content}");
    cluster.assert_gone([&free]).await?;
    cluster.assert_kept([&held]).await?;
    cluster.set_finalizers(&held, &[]).await?;
    gone(cluster, &ns).await?;
    collector.stop().await
}

/// Rule 11.2: a type that fails may have objects.
async fn a_type_that_cannot_be_listed_holds_its_namespaces() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let widgets = Breakable::create(cluster, "widgets.broken.finish.example.com").await?;
    let ns = cluster.namespace().await?;
    ns.object(widgets.resource(), "widget").create().await?;
    let free = ns.secret("free").create().await?;
    widgets.break_it().await?;
    let collector = stage.collector_with(impatient().arg("--finish-namespaces")).await?;
    delete(cluster, &ns).await?;
    let failure = condition(cluster, &ns, "NamespaceDeletionContentFailure").await?;
    ensure!(failure.contains("widgets.broken.finish.example.com"), "{failure}");
    cluster.gone(&free).await?;
    poll("a further turn", async || Ok(turns(&collector, "held").await? >= 2.0)).await?;
    cluster.assert_kept([ns.as_object()]).await?;
    widgets.mend().await?;
    gone(cluster, &ns).await?;
    collector.stop().await?;
    widgets.remove().await
}

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const LEASE: &str = "kube-controller-manager";

/// Takes the Lease as a kube-controller-manager does.
async fn take_lease(cluster: &Cluster) -> Result<()> {
    let now = humantime::format_rfc3339_micros(SystemTime::now()).to_string();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": LEASE },
        "spec": { "holderIdentity": "control-plane_1", "renewTime": now, "leaseDurationSeconds": 15 },
    });
    cluster.send("POST", LEASES, None, Some(&lease)).await.map(drop)
}

async fn remove_lease(cluster: &Cluster) -> Result<()> {
    cluster.send("DELETE", &format!("{LEASES}/{LEASE}"), None, None).await.map(drop)
}

/// Rule 11.8.
async fn beside_another_controller_it_does_not_start_and_it_stops() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let kept = ns.configmap("kept").create().await?;
    take_lease(cluster).await?;
    for flag in ["--finish-namespaces", "--remove-protection-finalizers"] {
        let output = tokio::process::Command::new(target::binary())
            .args(["run", flag, "--listen", "127.0.0.1:0", "--debug-listen", "127.0.0.1:0"])
            .arg("--kubeconfig")
            .arg(stage.plane.kubeconfig())
            .output()
            .await?;
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(2), "{}: {log}", output.status);
        ensure!(
            log.contains("control-plane_1 holds the Lease") && log.contains("docs/finish-namespaces.md"),
            "{log}"
        );
    }
    remove_lease(cluster).await?;

    let collector = stage.collector_with(finishing()).await?;
    take_lease(cluster).await?;
    delete(cluster, &ns).await?;
    poll("it to stop", async || Ok(collector.metric("kube_gc_namespaces_stopped").await? == 1.0)).await?;
    collector.log_line("another controller finalizes namespaces").await?;
    cluster.assert_kept([&kept, ns.as_object()]).await?;
    remove_lease(cluster).await?;
    collector.stop().await
}

/// Rule 11.9.
async fn a_dry_run_leaves_terminating_namespaces_alone() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let kept = ns.configmap("kept").create().await?;
    let collector = stage.collector_with(finishing().arg("--dry-run")).await?;
    delete(cluster, &ns).await?;
    let before = cluster.fresh(ns.as_object()).await?;
    poll("it to decide", async || Ok(turns(&collector, "dry_run").await? >= 1.0)).await?;
    collector.log_line("objects in the namespace would be deleted").await?;
    cluster.assert_kept([&kept]).await?;
    let after = cluster.fresh(ns.as_object()).await?;
    ensure!(after.raw["metadata"]["resourceVersion"] == before.raw["metadata"]["resourceVersion"]);
    collector.stop().await
}

/// Rule 11.10.
async fn the_brake_does_not_count_the_content_of_namespaces() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    for name in ["a", "b", "c"] {
        ns.configmap(name).create().await?;
    }
    let options = Options::config("[brake]\ndeletions_per_minute = 1\n").arg("--finish-namespaces");
    let collector = stage.collector_with(options).await?;
    delete(cluster, &ns).await?;
    gone(cluster, &ns).await?;
    ensure!(collector.metric("kube_gc_brake_engaged").await? == 0.0, "the content has counted");
    collector.stop().await
}

/// Rule 11.10.
async fn the_brake_of_a_namespace_holds_that_namespace_alone() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let (braked, other) = (cluster.namespace().await?, cluster.namespace().await?);
    let owner = braked.configmap("owner").create().await?;
    for name in ["a", "b", "c"] {
        braked.secret(name).owned_by(&owner).create().await?;
    }
    let kept = braked.configmap("kept").create().await?;
    other.configmap("content").create().await?;
    let config = "[namespaces]\nquiet = \"100ms\"\n[brake]\nnamespace_deletions_per_minute = 1\n";
    let collector = stage.collector_with(Options::config(config).arg("--finish-namespaces")).await?;
    cluster.settled(&collector).await?;
    cluster.delete(&owner, Policy::Background).await?;
    poll("the brake", async || Ok(collector.metric("kube_gc_braked_namespaces").await? == 1.0)).await?;
    delete(cluster, &braked).await?;
    delete(cluster, &other).await?;
    gone(cluster, &other).await?;
    cluster.assert_kept([&kept]).await?;
    // A restart resumes.
    collector.stop().await?;
    let collector = stage.collector_with(finishing()).await?;
    gone(cluster, &braked).await?;
    collector.stop().await
}
