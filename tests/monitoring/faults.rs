//! The faults and the load of the test.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::json;

use kube_gc_testkit::cluster::{create_all, poll};
use kube_gc_testkit::{Cluster, ControlPlane, Crd, Ns, Obj, Policy, Scope, Webhook, WebhookBehavior};

/// The content type of merge patches.
pub const MERGE_PATCH: Option<&str> = Some("application/merge-patch+json");
/// The name of an object whose owner is of a kind that is not served.
pub const OF_UNKNOWN: &str = "of-unknown";
/// Marks objects whose deletion the webhook denies.
const PROTECTED: &str = "kube-gc-test/protected";

/// The faults of the cluster, for as long as this value exists.
pub struct Faults {
    webhook: Webhook,
    guarded: Obj,
    _widgets: Crd,
}

impl Faults {
    /// Creates the faults that must exist before the collectors start.
    pub async fn make(plane: &ControlPlane, cluster: &Cluster, ns: &Ns) -> Result<Self> {
        let widgets = unconvertible(cluster, ns).await?;
        unavailable(cluster, ns).await?;
        stuck(cluster, ns).await?;
        // Garbage that a webhook protects.
        let webhook = Webhook::start(plane).await?;
        webhook.set_behavior(WebhookBehavior::Reject("not before the audit", Some(403)));
        webhook.guard_secrets(cluster, ns, PROTECTED).await?;
        let guarded = ns.secret("guarded").label(PROTECTED, "yes").owner_reference(never()).create().await?;
        let path = guarded.path() + "?dryRun=All";
        poll("the webhook to be asked", async || {
            Ok(cluster.send("DELETE", &path, None, None).await.is_err())
        })
        .await?;
        Ok(Self { webhook, guarded, _widgets: widgets })
    }

    /// Makes the webhook allow everything, and waits until the denied writes are done.
    pub async fn allow(&self, cluster: &Cluster) -> Result<()> {
        self.webhook.set_behavior(WebhookBehavior::Accept);
        poll("what was denied to go", async || Ok(!cluster.exists_with_uid(&self.guarded).await?)).await
    }
}

/// A reference to an owner that never existed.
fn never() -> serde_json::Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "6b1b7f5c-0000-4000-8000-000000000000" })
}

/// A type that cannot be listed: its objects are stored in another version, and nothing converts
/// them.
async fn unconvertible(cluster: &Cluster, ns: &Ns) -> Result<Crd> {
    let widgets = cluster.crd("widgets.example.com", Scope::Namespaced, &["v1beta1", "v1"]).await?;
    ns.object(widgets.resource(), "widget").create().await?;
    let conversion = json!({
        "strategy": "Webhook",
        "webhook": { "clientConfig": { "url": "https://127.0.0.1:1/" }, "conversionReviewVersions": ["v1"] },
    });
    let patch = json!({ "spec": { "conversion": conversion } });
    cluster.send("PATCH", &widgets.definition().path(), MERGE_PATCH, Some(&patch)).await?;
    let watched = widgets.resource_at("v1");
    poll("the conversion to fail", async || Ok(cluster.list(&watched, None).await.is_err())).await?;
    Ok(widgets)
}

/// A group of an aggregated API whose server does not exist.
async fn unavailable(cluster: &Cluster, ns: &Ns) -> Result<()> {
    let service = ns.of::<Service>("nobody").field("spec", json!({ "ports": [{ "port": 443 }] }));
    let service = service.create().await?;
    let spec = json!({
        "group": "down.example.com", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
        "insecureSkipTLSVerify": true,
        "service": { "namespace": ns.name(), "name": service.name, "port": 443 },
    });
    cluster.of::<APIService>("v1.down.example.com").field("spec", spec).create().await?;
    poll("the API to be unavailable", async || {
        Ok(cluster.send("GET", "/apis/down.example.com/v1", None, None).await.is_err())
    })
    .await
}

/// An owner that waits for a blocked dependent, an owner of a kind that is not served, and an
/// owner in another namespace.
async fn stuck(cluster: &Cluster, ns: &Ns) -> Result<()> {
    let owner = ns.configmap("waiting").create().await?;
    ns.secret("held").owned_by(&owner).blocking().finalizer("example.com/hold").create().await?;
    cluster.delete(&owner, Policy::Foreground).await?;
    let mut unknown = never();
    unknown["apiVersion"] = json!("nowhere.example.com/v1");
    unknown["kind"] = json!("Unknown");
    ns.configmap(OF_UNKNOWN).owner_reference(unknown).create().await?;
    let elsewhere = cluster.namespace().await?.configmap("elsewhere").create().await?;
    ns.configmap("of-elsewhere").owned_by(&elsewhere).create().await?;
    Ok(())
}

/// Owners, one for each policy, with their dependents.
pub struct Load {
    owners: Vec<(Obj, Policy)>,
    dependents: Vec<Obj>,
    orphans: Vec<Obj>,
}

impl Load {
    /// Creates the objects.
    pub async fn create(ns: &Ns, sizes: [usize; 3]) -> Result<Self> {
        let mut load = Self { owners: Vec::new(), dependents: Vec::new(), orphans: Vec::new() };
        for (policy, size) in [Policy::Background, Policy::Foreground, Policy::Orphan].into_iter().zip(sizes)
        {
            let name = format!("{policy:?}").to_lowercase();
            let owner = ns.configmap(&name).create().await?;
            let of_owner = |number| ns.configmap(format!("{name}-{number}")).owned_by(&owner).blocking();
            let dependents = create_all((0..size).map(of_owner)).await?;
            let all = if policy == Policy::Orphan { &mut load.orphans } else { &mut load.dependents };
            all.extend(dependents);
            load.owners.push((owner, policy));
        }
        Ok(load)
    }

    /// Deletes the owners.
    pub async fn begin(&self, cluster: &Cluster) -> Result<()> {
        for (owner, policy) in &self.owners {
            cluster.delete(owner, *policy).await?;
        }
        Ok(())
    }

    /// Waits until everything is done, and checks the result.
    pub async fn done(&self, cluster: &Cluster) -> Result<()> {
        let owners: Vec<&Obj> = self.owners.iter().map(|(owner, _)| owner).collect();
        poll("the cascades to end", async || {
            let gone = owners.iter().copied().chain(&self.dependents);
            Ok(cluster.assert_gone(gone).await.is_ok())
        })
        .await?;
        cluster.assert_kept(&self.orphans).await?;
        for orphan in self.orphans.iter().take(3) {
            ensure!(cluster.fresh(orphan).await?.owner_uids().is_empty(), "{orphan} is still owned");
        }
        Ok(())
    }
}
