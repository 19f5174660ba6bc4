//! The truth of what a namespace leaves behind, and of what is left of one.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim};
use serde_json::json;

use super::Caller;
use super::fixtures::{Truth, World, stuck};
use crate::conformance::stage::HOLD;
use kube_gc_testkit::{Options, Policy};

kube_gc_testkit::scenarios! {
    a_namespace_without_finalizers_in_its_spec_keeps_what_is_in_it,
}

/// The first deletion marks it, and the second one removes it.
async fn a_namespace_without_finalizers_in_its_spec_keeps_what_is_in_it() -> Result<()> {
    let world = World::set().await?;
    let (cluster, _, caller) = world.parts();
    let doomed = cluster.namespace().await?;
    let (namespace, name) = (doomed.as_object(), doomed.name());
    let (left, other) = (doomed.configmap("left").create().await?, doomed.secret("other").create().await?);
    let held = doomed.secret("held").finalizer(HOLD).create().await?;
    let spec = json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let claim = doomed.of::<PersistentVolumeClaim>("claim").field("spec", spec).create().await?;
    doomed.set_spec_finalizers(&[]).await?;
    let options = Options::config("[namespaces]\nquiet = \"100ms\"\n").arg("--finish-namespaces");
    let collector = world.stage.collector_with(options).await?;
    let stays = format!(
        "; no other object goes. What is in Namespace/{name} stays, because nobody empties a namespace without \
         finalizers in its spec.\n"
    );
    let marked = format!("Namespace/{name} is marked for deletion{stays}");
    let row = format!("\nheld Namespace/{name} goes when it is deleted again\n");
    let not = "!deletes what is in a namespace";
    let truth = Truth {
        line: format!("plan ns/{name}"),
        says: &[&marked, &row, not],
        policy: Policy::Background,
        roots: &[namespace],
        objects: &[namespace, &left, &other],
    };
    let inside = Caller { namespace: name, ..caller };
    let again = async || {
        stuck(inside, "stuck --older 0s --from lists", 1).await?;
        let waits = format!(
            "Namespace/{name} waits for another deletion, which removes it and leaves in the store what is in it\n"
        );
        inside.says("stuck --older 0s --from lists", 1, &[&waits]).await?;
        caller.says(&format!("plan ns/{name}"), 0, &[&format!(" and is still there{stays}"), not]).await?;
        cluster.delete(namespace, Policy::Background).await
    };
    truth.comes_true(&world, &collector, again).await?;
    let found = "; 4 objects are left in it (PersistentVolumeClaim/claim, ConfigMap/left, Secret/held, Secret/other). The API server \
                 refuses to create or change anything there as long as the namespace does not exist. Creating the \
                 namespace alone keeps what is in it";
    let (plan, explain) = (format!("plan ns/{name}"), format!("explain ns/{name} --from lists"));
    let by_collector = format!("plan secret/other --collector http://{}", collector.debug_address());
    let by_uid = format!("plan uid:{} --from lists", other.uid);
    let of_objects = ["plan secret/other --cascade orphan", "plan secret -l app=x", &by_collector, &by_uid];
    for line in [&*plan, &*explain, "stuck --from lists", "check"].into_iter().chain(of_objects) {
        inside.says(line, 8, &[&format!("namespaces \"{name}\" not found{found}")]).await?;
    }
    ensure!(cluster.set_finalizers(&held, &[]).await.is_err(), "it was updated");
    let namespace = cluster.of::<Namespace>(name).create().await?;
    inside.says("plan secret/other", 0, &["Secret/other is deleted; no other object goes.\n"]).await?;
    for object in [&left, &other, &held, &claim] {
        ensure!(cluster.exists_with_uid(object).await?, "{object:?} is gone");
    }
    cluster.delete(&namespace, Policy::Background).await?;
    for object in [&held, &claim] {
        cluster.set_finalizers(object, &[]).await?;
    }
    cluster.gone(&namespace).await?;
    cluster.assert_gone([&left, &other, &held, &claim]).await?;
    inside.says("stuck --from lists", 8, &["!is left in it"]).await?;
    collector.stop().await
}
