//! An object that is written after the deletion of its namespace.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;

use super::{delete, gone, turns};
use crate::conformance::stage::Stage;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::webhook::{Decision, Gate, Hook};
use kube_gc_testkit::{Options, Webhook};

kube_gc_testkit::scenarios! {
    an_object_that_waited_in_a_webhook_is_deleted_with_its_namespace,
}

/// The API server admits an object, a webhook takes its time, and the namespace is deleted. Fails if
/// the namespace is finalized before the object is written: the object would live on, and appear in
/// the next namespace of that name (rule 11.11).
async fn an_object_that_waited_in_a_webhook_is_deleted_with_its_namespace() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let configmaps = ApiResource::erase::<ConfigMap>(&());
    let webhook = Webhook::start(stage.plane).await?;
    let gate = Gate::closed();
    let waiting = gate.clone();
    let hook = Hook { mutating: true, resource: &configmaps, operations: &["CREATE"] };
    let guard = webhook
        .review(cluster, &ns, hook, move |_| {
            let gate = waiting.clone();
            async move {
                gate.pass().await;
                Decision::Allow
            }
        })
        .await?;
    let collector = stage.collector_with(Options::default().arg("--finish-namespaces")).await?;
    let deleted_too_late = async {
        gate.arrived(1).await?;
        delete(cluster, &ns).await?;
        poll("a look that shows nothing", async || Ok(turns(&collector, "empty").await? >= 1.0)).await?;
        gate.open();
        anyhow::Ok(())
    };
    let (late, opened) = tokio::join!(ns.configmap("late").create(), deleted_too_late);
    opened?;
    let late = late?;
    gone(cluster, &ns).await?;
    cluster.assert_gone([&late]).await?;
    ensure!(turns(&collector, "finalized").await? >= 1.0);
    cluster.delete(&guard, kube_gc_testkit::Policy::Background).await?;
    collector.stop().await
}
