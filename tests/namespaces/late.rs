//! Objects that are written after the deletion of its namespace.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;

use super::{delete, gone, turns};
use crate::conformance::stage::Stage;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::webhook::{Decision, Gate, Hook};
use kube_gc_testkit::{Options, Webhook};

kube_gc_testkit::scenarios! {
    objects_that_waited_in_a_webhook_are_deleted_with_their_namespace,
}

/// The API server admits two objects, a webhook takes its time, and the namespace is deleted. Fails if
/// the namespace is finalized before both are written: they would live on, and appear in the next
/// namespace of that name (rule 11.11).
async fn objects_that_waited_in_a_webhook_are_deleted_with_their_namespace() -> Result<()> {
    let stage = Stage::set().await?;
    let cluster = &stage.cluster;
    let ns = cluster.namespace().await?;
    let configmaps = ApiResource::erase::<ConfigMap>(&());
    let webhook = Webhook::start(stage.plane).await?;
    let gates = [Gate::closed(), Gate::closed()];
    let waiting = gates.clone();
    let hook = Hook { mutating: true, resource: &configmaps, operations: &["CREATE"] };
    let guard = webhook
        .review(cluster, &ns, hook, move |asked| {
            let gate = waiting[usize::from(asked.name() == "later")].clone();
            async move {
                gate.pass().await;
                Decision::Allow
            }
        })
        .await?;
    let collector = stage.collector_with(Options::default().arg("--finish-namespaces")).await?;
    let deleted = async {
        for gate in &gates {
            gate.arrived(1).await?;
        }
        delete(cluster, &ns).await?;
        poll("a look that shows nothing", async || Ok(turns(&collector, "empty").await? >= 1.0)).await?;
        gates[0].open();
        anyhow::Ok(())
    };
    // The second one is written right after the first was deleted: the wait begins anew.
    let one_after_the_other = async {
        let late = ns.configmap("late").create().await?;
        cluster.gone(&late).await?;
        gates[1].open();
        anyhow::Ok(late)
    };
    let (late, later, ()) = futures::try_join!(one_after_the_other, ns.configmap("later").create(), deleted)?;
    gone(cluster, &ns).await?;
    cluster.assert_gone([&late, &later]).await?;
    ensure!(turns(&collector, "finalized").await? >= 1.0);
    cluster.delete(&guard, kube_gc_testkit::Policy::Background).await?;
    collector.stop().await
}
