//! What people are advised, and what then happens to whoever does that, or does something else.

use anyhow::Result;
use k8s_openapi::api::core::v1::Event;
use serde_json::json;

use super::Caller;
use super::fixtures::World;
use crate::conformance::stage::HOLD;
use crate::conformance::user::User;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Policy, Scope};

kube_gc_testkit::scenarios! {
    an_api_that_comes_back_takes_what_names_an_owner_of_before,
    a_plain_deletion_takes_the_finalizer_orphan_away,
    events_stay_whatever_their_owners,
    what_was_not_looked_at_is_no_answer,
}

/// Whoever restores a definition and its objects gives them new uids.
async fn an_api_that_comes_back_takes_what_names_an_owner_of_before() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let name = "databases.advice.example.org";
    let definition = cluster.crd(name, Scope::Namespaced, &["v1"]).await?;
    let owner = ns.object(definition.resource(), "prod").create().await?;
    let kept = ns.secret("kept").owned_by(&owner).create().await?;
    let lost = ns.secret("lost").owned_by(&owner).create().await?;
    definition.remove().await?;
    let collector = world.stage.collector().await?;
    cluster.settled_with_parked(&collector).await?;
    let keep = "To keep Secret/lost, remove the owner reference to Database/prod. As soon as the server has Database in \
                advice.example.org/v1, a collector deletes the object, unless that uid is there (a restored owner has a \
                new one) or another owner keeps it.\n";
    let asked = format!("--collector http://{}", collector.debug_address());
    caller.says("explain secret/lost --from lists", 0, &[keep]).await?;
    let hint = "What to do: remove the owner reference to keep the object; once the API of the owner answers";
    let line = format!("explain secret/lost {asked}");
    let is_listed = async || anyhow::Ok(caller.ask(&line).await?.out.contains("What to do: "));
    poll("it to be listed as stuck", is_listed).await?;
    caller.says(&line, 0, &[keep, hint]).await?;
    caller
        .says("check", 1, &["remove the reference to keep the object: it may go when its API is back"])
        .await?;
    cluster.set_owner_references(&kept, &[]).await?;
    let definition = cluster.crd(name, Scope::Namespaced, &["v1"]).await?;
    ns.object(definition.resource(), "prod").create().await?;
    cluster.gone(&lost).await?;
    cluster.settled(&collector).await?;
    cluster.assert_kept([&kept]).await?;
    collector.stop().await
}

async fn a_plain_deletion_takes_the_finalizer_orphan_away() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let root = async |name: &str| {
        let root = ns.configmap(name).finalizer("orphan").create().await?;
        let below = ns.secret(format!("{name}-below")).owned_by(&root).create().await?;
        anyhow::Ok((root, below))
    };
    let ((plain, goes), (released, stays)) = (root("plain").await?, root("released").await?);
    let said = "The finalizer orphan of ConfigMap/plain does not keep its dependents: `kubectl delete` takes it away, \
                unless it has --cascade=orphan.\n";
    caller.says("explain cm/plain", 0, &[said]).await?;
    let collector = world.stage.collector().await?;
    cluster.delete(&plain, Policy::Background).await?;
    cluster.delete(&released, Policy::Orphan).await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&plain, &goes, &released]).await?;
    cluster.assert_kept([&stays]).await?;
    caller.says("explain cm/plain", 8, &["!The finalizer orphan"]).await?;
    collector.stop().await
}

async fn events_stay_whatever_their_owners() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let owner = ns.configmap("owner").create().await?;
    let involved = json!({ "kind": "ConfigMap", "name": "owner", "namespace": ns.name() });
    let event = ns.of::<Event>("event").field("involvedObject", involved).owned_by(&owner).create().await?;
    let below = ns.secret("below").owned_by(&owner).create().await?;
    cluster.delete(&owner, Policy::Background).await?;
    let said = "Event/event stays, whatever its owners: by default, collectors ignore events (`discovery.ignored`).\n";
    caller.says("explain event/event", 0, &[said, "!is garbage"]).await?;
    let collector = world.stage.collector().await?;
    // No collector sees markers of this type.
    cluster.forget(&event.resource);
    cluster.settled(&collector).await?;
    cluster.assert_gone([&below]).await?;
    cluster.assert_kept([&event]).await?;
    collector.stop().await
}

async fn what_was_not_looked_at_is_no_answer() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let root = ns.configmap("root").create().await?;
    ns.secret("held").owned_by(&root).blocking().finalizer(HOLD).create().await?;
    cluster.delete(&root, Policy::Foreground).await?;
    let unseen = "ConfigMap/root terminating waits for dependents that were not looked at\n";
    caller.says("tree cm/root --kinds configmaps", 7, &[unseen]).await?;
    caller.says("tree cm/root", 0, &["waits for 1 blocking dependent", "!not looked at"]).await?;
    // Somebody who may not list pods.
    let claim =
        json!({ "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } });
    let claim = ns
        .of::<k8s_openapi::api::core::v1::PersistentVolumeClaim>("claim")
        .field("spec", claim)
        .finalizer("kubernetes.io/pvc-protection")
        .create()
        .await?;
    cluster.delete(&claim, Policy::Background).await?;
    let rules =
        json!([{ "apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "list"] }]);
    let user = User::create(world.stage.plane, cluster, ns, rules).await?;
    let user = Caller { kubeconfig: user.kubeconfig(), ..caller };
    let said = "Not looked at: pods that use PersistentVolumeClaim/claim: ";
    user.says("explain pvc/claim --from lists", 7, &[said]).await?;
    caller.says("explain pvc/claim --from lists", 0, &["!Not looked at"]).await?;
    cluster.delete(ns.as_object(), Policy::Background).await?;
    let nothing = " is being deleted: nothing that was looked at is left in it, but it waits for ";
    let line = format!("explain ns/{} --from lists", ns.name());
    caller.says(&format!("{line} --kinds namespaces"), 7, &[nothing]).await?;
    caller.says(&line, 0, &["cannot go: "]).await
}
