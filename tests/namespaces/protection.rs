//! The finalizers that protect claims and volumes in use, which nobody removes on a bare control plane.

use anyhow::Result;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use serde_json::json;

use super::{delete, finishing, gone};
use crate::conformance::stage::Stage;
use kube_gc_testkit::{Cluster, Ns, Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    a_claim_goes_when_no_pod_on_a_node_uses_it,
    a_volume_goes_when_it_is_not_bound,
    nothing_loses_its_protection_without_the_flag,
}

const CLAIMS: &str = "kubernetes.io/pvc-protection";
const VOLUMES: &str = "kubernetes.io/pv-protection";
const FLAG: &str = "--remove-protection-finalizers";

/// The finalizer is that of admission, which the embedded server does not have.
async fn claim(ns: &Ns, name: &str) -> Result<Obj> {
    let resources = json!({ "requests": { "storage": "1Gi" } });
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": resources });
    ns.of::<PersistentVolumeClaim>(name).field("spec", spec).finalizer(CLAIMS).create().await
}

async fn background(cluster: &Cluster, object: &Obj) -> Result<()> {
    cluster.delete(object, Policy::Background).await
}

/// Rule 11.13.
async fn a_claim_goes_when_no_pod_on_a_node_uses_it() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let (used, unused) = (claim(&ns, "a-used").await?, claim(&ns, "unused").await?);
    let pod = |name: &str, node: Option<&str>, claim: &Obj| {
        let volume = json!({ "name": "data", "persistentVolumeClaim": { "claimName": claim.name } });
        let containers = json!([{ "name": "main", "image": "none" }]);
        let spec = json!({ "nodeName": node, "containers": containers, "volumes": [volume] });
        ns.of::<Pod>(name).field("spec", spec).create()
    };
    let runs = pod("runs", Some("nowhere"), &used).await?;
    pod("waits", None, &unused).await?;
    let collector = stage.collector_with(finishing().arg(FLAG)).await?;
    for claim in [&used, &unused] {
        background(cluster, claim).await?;
    }
    cluster.gone(&unused).await?;
    cluster.assert_kept([&used]).await?;
    cluster.delete_with(&runs, &json!({ "gracePeriodSeconds": 0 })).await?;
    cluster.gone(&used).await?;
    claim(&ns, "with-its-namespace").await?;
    delete(cluster, &ns).await?;
    gone(cluster, &ns).await?;
    collector.stop().await
}

/// Rule 11.14.
async fn a_volume_goes_when_it_is_not_bound() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let volume = |name: &str| {
        let spec = json!({
            "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "hostPath": { "path": "/none" },
        });
        let name = format!("{}-{name}", ns.name());
        cluster.of::<PersistentVolume>(name).field("spec", spec).finalizer(VOLUMES).create()
    };
    let (bound, free) = (volume("bound").await?, volume("free").await?);
    let status = async |phase: &str| {
        let (path, patch) = (bound.path() + "/status", json!({ "status": { "phase": phase } }));
        cluster.send("PATCH", &path, Some("application/merge-patch+json"), Some(&patch)).await
    };
    status("Bound").await?;
    let collector = stage.collector_with(Options::default().arg(FLAG)).await?;
    for volume in [&bound, &free] {
        background(cluster, volume).await?;
    }
    cluster.gone(&free).await?;
    cluster.assert_kept([&bound]).await?;
    status("Released").await?;
    cluster.gone(&bound).await?;
    collector.stop().await
}

/// Rule 11.13: it is off by default.
async fn nothing_loses_its_protection_without_the_flag() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let kept = claim(&ns, "kept").await?;
    let collector = stage.collector_with(Options::default()).await?;
    background(cluster, &kept).await?;
    cluster.settled(&collector).await?;
    cluster.assert_kept([&kept]).await?;
    collector.stop().await?;
    let collector = stage.collector_with(Options::default().arg(FLAG)).await?;
    cluster.gone(&kept).await?;
    collector.stop().await
}
