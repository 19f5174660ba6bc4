//! The API server's own limit of concurrent requests, which only a real one has.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::config::Kubeconfig;
use serde_json::json;

use crate::faults::stage::Stage;
use kube_gc_testkit::cluster::create_all;
use kube_gc_testkit::{Collector, ControlPlane, Options, Policy};

kube_gc_testkit::scenarios! {
    a_server_that_admits_two_writes_at_a_time_rejects_few,
}

/// The number of objects to delete.
const OBJECTS: usize = 2000;
/// The number of concurrent writes that the server accepts.
const LIMIT: usize = 2;

/// Fails if all workers continue after a 429: most requests would then be rejected.
///
/// The bound: if the server freed a place as soon as its answer is complete, one request in 16
/// rounds of two would be rejected. The server frees the place a moment later, so the next request
/// may arrive too early, and a few more are rejected.
async fn a_server_that_admits_two_writes_at_a_time_rejects_few() -> Result<()> {
    let flags =
        ["--enable-priority-and-fairness=false", &format!("--max-mutating-requests-inflight={LIMIT}")];
    let stage = Stage::on(Some(ControlPlane::start_with(None, &flags)?)).await?;
    // Requests of system:masters are never rejected.
    let binding = stage.cluster.of::<ClusterRoleBinding>("collector");
    let binding = binding
        .field("subjects", json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "collector" }]))
        .field("roleRef", json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" }));
    binding.create().await?;
    let mut kubeconfig = Kubeconfig::read_from(stage.plane()?.kubeconfig())?;
    let user = kubeconfig.auth_infos.first_mut().and_then(|user| user.auth_info.as_mut());
    user.context("no user")?.impersonate = Some("collector".to_owned());
    let file = tempfile::Builder::new().prefix("kube-gc-collector-").tempfile()?;
    std::fs::write(&file, serde_json::to_string(&kubeconfig)?)?;

    let owner = stage.ns.configmap("owner").create().await?;
    let go = create_all((0..OBJECTS).map(|i| stage.ns.secret(format!("goes-{i}")).owned_by(&owner))).await?;
    let collector = Collector::start_with(file.path(), Options::default()).await?;
    collector.ready().await?;
    stage.cluster.settled(&collector).await?;
    stage.cluster.delete(&owner, Policy::Background).await?;
    stage.cluster.settled(&collector).await?;
    stage.cluster.assert_gone(&go).await?;

    let metrics = collector.metrics().await?;
    let requests = |code: &str| -> f64 {
        let of_secrets = r#"kube_gc_requests_total{verb="delete",resource="secrets",code=""#;
        metrics
            .iter()
            .filter(|(series, _)| series.starts_with(&format!("{of_secrets}{code}")))
            .map(|(_, n)| n)
            .sum()
    };
    let (all, refused) = (requests(""), requests("429"));
    eprintln!("{all} requests, {refused} refused");
    ensure!(refused > 0.0, "no request was rejected, so nothing is tested");
    ensure!(
        refused <= 40.0 + f64::from(u32::try_from(OBJECTS)?) / 8.0,
        "{refused} of {all} requests were refused"
    );
    collector.stop().await
}
