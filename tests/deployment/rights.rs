//! The role of the collector has all necessary rights and no others.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::deployment::scenes::{Scene, Scenes};
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::deployment::{Installation, Pod, grants, plane, role_path};
use kube_gc_testkit::{Collector, Crd};

kube_gc_testkit::scenarios! {
    the_plain_overlay_grants_all_that_the_collector_needs,
    the_overlay_for_high_availability_grants_all_that_the_collector_needs,
    the_overlay_for_the_prometheus_operator_grants_all_that_the_collector_needs,
    the_overlay_for_a_dry_run_decides_and_writes_nothing,
    the_role_grants_nothing_else,
    every_verb_of_the_role_is_needed,
}

const MERGE_PATCH: Option<&str> = Some("application/merge-patch+json");

/// The effect of a missing verb.
enum Symptom {
    /// The collector ends at once, and names the missing right.
    Refuses,
    /// No type is synced.
    NotSynced,
    /// Requests are denied, and these scenes do not finish. For `perhaps`, that depends on the
    /// partitions of the namespaces.
    Undone { scenes: &'static [Scene], perhaps: &'static [Scene] },
}

/// Every verb of the role, with the effect of its absence.
const NEEDED: [(&str, Symptom); 6] = [
    ("list", Symptom::Refuses),
    ("watch", Symptom::NotSynced),
    (
        "get",
        Symptom::Undone {
            scenes: &[Scene::Foreground, Scene::Orphan, Scene::CustomResource, Scene::Absent],
            perhaps: &[Scene::CrossNamespace],
        },
    ),
    // Where an admission plugin protects owner references, patching an object's references needs
    // the right to delete it.
    (
        "delete",
        Symptom::Undone {
            scenes: &[
                Scene::Background,
                Scene::Foreground,
                Scene::Orphan,
                Scene::Shared,
                Scene::CustomResource,
                Scene::Absent,
            ],
            perhaps: &[],
        },
    ),
    (
        "patch",
        Symptom::Undone {
            scenes: &[Scene::Foreground, Scene::Orphan, Scene::Shared, Scene::CustomResource],
            perhaps: &[],
        },
    ),
    ("create", Symptom::Undone { scenes: &[Scene::CrossNamespace], perhaps: &[] }),
];

/// The requests of a verb that were answered by 403.
async fn denied(collector: &Collector, verb: &str) -> Result<f64> {
    let verb = format!("verb=\"{verb}\"");
    let metrics = collector.metrics().await?;
    let matches = |series: &String| {
        series.starts_with("kube_gc_requests_total{")
            && series.contains("code=\"403\"")
            && series.contains(&verb)
    };
    Ok(metrics.iter().filter(|(series, _)| matches(series)).map(|(_, count)| count).sum())
}

/// Waits until exactly these scenes have finished, and perhaps some of those.
async fn come_to_their_end(
    installation: &Installation<'_>,
    scenes: &Scenes,
    expected: &BTreeSet<Scene>,
    perhaps: &[Scene],
) -> Result<()> {
    let mut done = BTreeSet::new();
    let reached = poll("the scenes to come to their end", async || {
        done = scenes.done(&installation.cluster).await?;
        done.retain(|scene| !perhaps.contains(scene));
        Ok(done == *expected)
    })
    .await;
    reached.with_context(|| format!("done: {done:?}, expected: {expected:?}"))
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
        come_to_their_end(&installation, &scenes, &Scene::ALL.into(), &[]).await?;
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

async fn the_overlay_for_the_prometheus_operator_grants_all_that_the_collector_needs() -> Result<()> {
    everything_is_done_under("prometheus-operator").await
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
        let metrics = collector.metrics().await?;
        let decided = |action: &str| {
            metrics.keys().any(|series| {
                series.starts_with("kube_gc_decisions_total{")
                    && series.contains("outcome=\"dry_run\"")
                    && series.contains(&format!("action=\"{action}\""))
            })
        };
        Ok(decided("delete") && decided("orphan"))
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

async fn every_verb_of_the_role_is_needed() -> Result<()> {
    let installation = Installation::of(plane()?, "plain").await?;
    let rules = installation.role().await?;
    let has = |verb: &str| rules.iter().any(|rule| grants(rule, verb));
    let verbs: BTreeSet<&str> =
        rules.iter().flat_map(|rule| rule["verbs"].as_array()).flatten().filter_map(Value::as_str).collect();
    ensure!(verbs == NEEDED.iter().map(|(verb, _)| *verb).collect(), "verbs without a symptom: {verbs:?}");
    ensure!(
        rules.iter().map(|rule| rule["verbs"].as_array().map_or(0, Vec::len)).sum::<usize>() == verbs.len()
    );
    // One definition for all verbs. Replacing it would end a watch. After that, owners have to be proved
    // absent again, and without `get` that is impossible.
    let widgets = Scenes::widgets(&installation.cluster).await?;
    for (verb, symptom) in &NEEDED {
        ensure!(has(verb));
        grant(&installation, &rules, Some(verb)).await?;
        shows(&installation, &widgets, verb, symptom).await.with_context(|| format!("without {verb}"))?;
    }
    Ok(())
}

/// Sets these rules, optionally without one verb, and waits until they take effect.
async fn grant(installation: &Installation<'_>, rules: &[Value], without: Option<&str>) -> Result<()> {
    let mut rules = rules.to_vec();
    for rule in &mut rules {
        if let Some(verbs) = rule["verbs"].as_array_mut() {
            verbs.retain(|found| found.as_str() != without);
        }
    }
    // A rule without verbs is invalid.
    rules.retain(|rule| rule["verbs"].as_array().is_some_and(|verbs| !verbs.is_empty()));
    let patch = json!({ "rules": rules });
    installation.cluster.send("PATCH", &role_path(), MERGE_PATCH, Some(&patch)).await?;
    poll("the role to take effect", async || {
        for (verb, _) in &NEEDED {
            if installation.may(verb, "", "events").await? == (Some(*verb) == without) {
                return Ok(false);
            }
        }
        Ok(true)
    })
    .await
}

async fn shows(installation: &Installation<'_>, widgets: &Crd, verb: &str, symptom: &Symptom) -> Result<()> {
    let cluster = &installation.cluster;
    let pod = Pod::of(installation).await?;
    if let Symptom::Refuses = symptom {
        let output = tokio::task::spawn_blocking(move || anyhow::Ok(pod.command()?.output()?)).await??;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(6), "{}: {errors}", output.status);
        ensure!(errors.contains("deploy/README.md"), "{errors}");
        return Ok(());
    }
    let collector = pod.start().await?;
    collector.ready().await?;
    let scenes = Scenes::plant(cluster, widgets).await?;
    scenes.begin(cluster).await?;
    poll("a request to be denied", async || Ok(denied(&collector, verb).await? > 0.0)).await?;
    match symptom {
        Symptom::Refuses => {}
        Symptom::NotSynced => {
            poll("each type to fail", async || {
                let monitors = collector.get_debug("/debug/monitors").await?.json()?;
                let monitors = monitors.as_array().context("no monitors")?.clone();
                let fails =
                    |monitor: &Value| monitor["last_error"].as_str().is_some_and(|it| it.contains("403"));
                Ok(!monitors.is_empty() && monitors.iter().all(fails))
            })
            .await?;
        }
        Symptom::Undone { scenes: undone, perhaps } => {
            let done = |scene: &Scene| !undone.contains(scene) && !perhaps.contains(scene);
            let expected = Scene::ALL.into_iter().filter(done).collect();
            come_to_their_end(installation, &scenes, &expected, perhaps).await?;
        }
    }
    collector.stop().await
}
