//! The role of the collector has all necessary rights and no others.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::deployment::scenes::{Scene, Scenes};
use kube_gc_testkit::Collector;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::deployment::{Installation, Pod, plane, role_path};

kube_gc_testkit::scenarios! {
    the_plain_overlay_grants_all_that_the_collector_needs,
    the_overlay_for_high_availability_grants_all_that_the_collector_needs,
    the_overlay_for_a_dry_run_decides_and_writes_nothing,
    the_role_grants_nothing_else,
    every_verb_of_the_role_is_needed,
}

const MERGE_PATCH: Option<&str> = Some("application/merge-patch+json");
/// Every verb of the role.
const VERBS: [&str; 6] = ["create", "delete", "get", "list", "patch", "watch"];

/// The requests of a verb that were answered by 403.
async fn denied(collector: &Collector, verb: &str) -> Result<f64> {
    collector.metric_of("kube_gc_requests_total", &["code=\"403\"", &format!("verb=\"{verb}\"")]).await
}

async fn everything_is_done_under(overlay: &str) -> Result<()> {
    let installation = Installation::of(plane()?, overlay).await?;
    let cluster = &installation.cluster;
    let widgets = Scenes::widgets(cluster).await?;
    let found = Scenes::plant(cluster, &widgets).await?;
    let collector = Pod::of(&installation).await?.start().await?;
    collector.ready().await?;
    for scenes in [found, Scenes::plant(cluster, &widgets).await?] {
        scenes.begin(cluster).await?;
        let mut done = BTreeSet::new();
        let all_done = poll("the scenes to come to their end", async || {
            done = scenes.done(cluster).await?;
            Ok(done == Scene::ALL.into())
        });
        all_done.await.with_context(|| format!("done: {done:?}"))?;
    }
    cluster.settled(&collector).await?;
    for verb in ["get", "list", "watch", "delete", "patch", "create", "discover"] {
        ensure!(denied(&collector, verb).await? == 0.0, "{verb} was denied");
    }
    collector.stop().await
}

async fn the_plain_overlay_grants_all_that_the_collector_needs() -> Result<()> {
    everything_is_done_under("plain").await
}

/// Only a leader writes, so every write needs the role for the Lease. A Lease that can be created
/// but not renewed is lost again.
async fn the_overlay_for_high_availability_grants_all_that_the_collector_needs() -> Result<()> {
    everything_is_done_under("high-availability").await?;
    let installation = Installation::of(plane()?, "high-availability").await?;
    let collector = Pod::of(&installation).await?.start().await?;
    collector.ready().await?;
    let mut terms = BTreeSet::new();
    poll("the lease to be renewed", async || {
        let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-gc/leases/kube-gc-leader";
        let spec = installation.get(lease).await?["spec"].take();
        if spec["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty()) {
            terms.insert(spec["renewTime"].to_string());
        }
        Ok(terms.len() == 3)
    })
    .await?;
    collector.stop().await
}

/// A dry run writes nothing, and its role does not allow it.
async fn the_overlay_for_a_dry_run_decides_and_writes_nothing() -> Result<()> {
    let installation = Installation::of(plane()?, "dry-run").await?;
    let cluster = &installation.cluster;
    let scenes = Scenes::plant(cluster, &Scenes::widgets(cluster).await?).await?;
    let collector = Pod::of(&installation).await?.start().await?;
    collector.ready().await?;
    scenes.begin(cluster).await?;
    poll("decisions about all that would be written", async || {
        let decided = async |action| {
            collector.metric_of("kube_gc_decisions_total", &["outcome=\"dry_run\"", action]).await
        };
        Ok(decided("action=\"delete\"").await? > 0.0 && decided("action=\"orphan\"").await? > 0.0)
    })
    .await?;
    ensure!(scenes.done(cluster).await?.is_empty(), "something was written");
    for verb in ["delete", "patch", "create", "update"] {
        ensure!(!installation.may(verb, "", "secrets").await?, "it may {verb}");
    }
    collector.stop().await
}

async fn the_role_grants_nothing_else() -> Result<()> {
    let installation = Installation::of(plane()?, "plain").await?;
    let rbac = "rbac.authorization.k8s.io";
    for (verb, group, resource) in [
        ("create", "", "pods"),
        ("create", "", "pods/exec"),
        ("create", "", "serviceaccounts/token"),
        ("create", "", "secrets"),
        ("create", "apps", "deployments"),
        ("create", "certificates.k8s.io", "certificatesigningrequests"),
        ("update", "", "configmaps"),
        ("update", "apps", "deployments/finalizers"),
        ("deletecollection", "", "configmaps"),
        ("impersonate", "", "users"),
        ("impersonate", "", "serviceaccounts"),
        ("bind", rbac, "clusterroles"),
        ("escalate", rbac, "clusterroles"),
        ("approve", "certificates.k8s.io", "signers"),
        ("use", "policy", "podsecuritypolicies"),
    ] {
        ensure!(!installation.may(verb, group, resource).await?, "it may {verb} {resource}.{group}");
    }
    Ok(())
}

/// Without `list`, the collector ends at once and says why. Without another verb, the API server denies a
/// request of its usual work.
async fn every_verb_of_the_role_is_needed() -> Result<()> {
    let installation = Installation::of(plane()?, "plain").await?;
    let cluster = &installation.cluster;
    let rules = installation.role().await?;
    let verbs = rules.iter().filter_map(|rule| rule["verbs"].as_array()).flatten().filter_map(Value::as_str);
    let mut verbs: Vec<&str> = verbs.collect();
    verbs.sort_unstable();
    ensure!(verbs == VERBS, "not each verb once: {verbs:?}");
    let widgets = Scenes::widgets(cluster).await?;
    for verb in VERBS {
        grant(&installation, &rules, verb).await?;
        let pod = Pod::of(&installation).await?;
        if verb == "list" {
            let output = tokio::task::spawn_blocking(move || anyhow::Ok(pod.command()?.output()?)).await??;
            let errors = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.code() == Some(6), "{}: {errors}", output.status);
            ensure!(errors.contains("deploy/README.md"), "{errors}");
            continue;
        }
        let collector = pod.start().await?;
        collector.ready().await?;
        Scenes::plant(cluster, &widgets).await?.begin(cluster).await?;
        poll(&format!("{verb} to be denied"), async || Ok(denied(&collector, verb).await? > 0.0)).await?;
        collector.stop().await?;
    }
    Ok(())
}

/// Sets these rules without one verb, and waits until they take effect.
async fn grant(installation: &Installation<'_>, rules: &[Value], without: &str) -> Result<()> {
    let mut rules = rules.to_vec();
    for rule in &mut rules {
        if let Some(verbs) = rule["verbs"].as_array_mut() {
            verbs.retain(|found| found != without);
        }
    }
    // A rule without verbs is invalid.
    rules.retain(|rule| rule["verbs"].as_array().is_some_and(|verbs| !verbs.is_empty()));
    let patch = json!({ "rules": rules });
    installation.cluster.send("PATCH", &role_path(), MERGE_PATCH, Some(&patch)).await?;
    poll("the role to take effect", async || {
        for verb in VERBS {
            if installation.may(verb, "", "events").await? == (verb == without) {
                return Ok(false);
            }
        }
        Ok(true)
    })
    .await
}
