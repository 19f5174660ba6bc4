//! What people are advised, and what then happens to whoever does that, or does something else.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Event;
use serde_json::json;

use super::Caller;
use super::fixtures::{World, reference, unserved};
use super::kubectl::{command, in_shell};
use crate::conformance::stage::HOLD;
use crate::conformance::user::User;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::{Collector, Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    an_api_that_comes_back_takes_what_names_an_owner_of_before,
    who_removes_all_owner_references_in_one_change_keeps_the_object,
    a_plain_deletion_takes_the_finalizer_orphan_away,
    a_standby_says_that_the_leader_knows_more,
    a_namespace_without_the_finalizer_of_its_controller_leaves_its_content_behind,
    events_stay_whatever_their_owners,
    what_was_not_looked_at_is_no_answer,
}

/// The advice on a Secret begins so.
fn removing(name: &str) -> String {
    format!("Removing all owner references of Secret/{name} in one change")
}

const KEEPS: &str = " keeps it from garbage collection, but not from the end of its namespace, or from a controller that \
                     adopts it";

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
    let keep = format!("{}{KEEPS}: kubectl patch secrets lost ", removing("lost"));
    let goes = "\nAs soon as the server has Database in advice.example.org/v1, a collector may delete the object: a restored \
                owner has a new uid.\n";
    let asked = format!("--collector http://{}", collector.debug_address());
    caller.says("explain secret/lost --from lists", 0, &[&*keep, goes]).await?;
    let hint = "What to do: what is advised above.\n";
    let line = format!("explain secret/lost {asked}");
    let is_listed = async || anyhow::Ok(caller.ask(&line).await?.out.contains("What to do: "));
    poll("it to be listed as stuck", is_listed).await?;
    caller.says(&line, 0, &[&*keep, goes, hint]).await?;
    let answer = caller.ask("explain secret/kept --from lists").await?;
    let ran = in_shell(&world.stage, command(&answer, &removing("kept"))?).await?;
    ensure!(ran.code == 0, "{ran:?}");
    let definition = cluster.crd(name, Scope::Namespaced, &["v1"]).await?;
    ns.object(definition.resource(), "prod").create().await?;
    cluster.gone(&lost).await?;
    cluster.settled(&collector).await?;
    cluster.assert_kept([&kept]).await?;
    collector.stop().await
}

/// Who removes or changes only one of them loses it.
async fn who_removes_all_owner_references_in_one_change_keeps_the_object() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let (absent, waits) = (ns.configmap("absent").create().await?, ns.configmap("waits").create().await?);
    ns.secret("held").owned_by(&waits).blocking().finalizer(HOLD).create().await?;
    let goes = ns.configmap("goes").owned_by(&absent).finalizer(HOLD).create().await?;
    let old = reference(&goes, &json!({ "apiVersion": "v9" }));
    let (mut kept, mut lost) = (Vec::new(), Vec::new());
    for (name, references, left) in [
        ("a", vec![unserved(), absent.reference()], &absent),
        ("w", vec![unserved(), waits.reference()], &waits),
        ("g", vec![old], &goes),
    ] {
        let item = |end: &str| {
            let item = ns.secret(format!("{name}-{end}"));
            references.iter().cloned().fold(item, |item, reference| item.owner_reference(reference)).create()
        };
        kept.push(item("all").await?);
        lost.push((item("one").await?, left));
    }
    let for_now = ns.secret("for-now").owned_by(&absent).owned_by(&goes).create().await?;
    cluster.delete(&absent, Policy::Background).await?;
    cluster.delete(&waits, Policy::Foreground).await?;
    let said = "Secret/for-now stays at most as long as ConfigMap/goes exists, which is garbage.\n";
    caller.says("explain secret/for-now --from lists", 0, &[said]).await?;
    let collector = world.stage.collector().await?;
    cluster.settled_with_parked(&collector).await?;
    let said = [
        "the server does not have this kind\n",
        "served as v1\n",
        &format!("\n{}{KEEPS}, for each object as for this one: ", removing("a-all")),
    ];
    caller.says("check", 1, &said).await?;
    let version = "\nThe server has ConfigMap in v1, where no collector looks for this owner. As soon as the server has \
                   ConfigMap in v9, a collector may delete the object: a restored owner has a new uid.\n";
    caller.says("explain secret/g-all --from lists", 0, &[version]).await?;
    let mut commands = Vec::new();
    for item in &kept {
        let answer = caller.ask(&format!("explain secret/{} --from lists", item.name)).await?;
        let command = command(&answer, &removing(&item.name))?.to_owned();
        let ran = in_shell(&world.stage, &command).await?;
        ensure!(ran.code == 0, "{ran:?}");
        commands.push(command);
    }
    for (item, left) in &lost {
        cluster.set_owner_references(item, &[left.reference()]).await?;
    }
    cluster.set_finalizers(&goes, &[]).await?;
    for item in lost.iter().map(|(item, _)| item).chain([&for_now]) {
        cluster.gone(item).await?;
    }
    cluster.settled_with_parked(&collector).await?;
    cluster.assert_kept(&kept).await?;
    // Whoever has the name later keeps what it has.
    cluster.delete(&kept[0], Policy::Background).await?;
    let later = ns.secret(&kept[0].name).owner_reference(unserved()).create().await?;
    let ran = in_shell(&world.stage, &commands[0]).await?;
    let left = cluster.fresh(&later).await?.raw["metadata"]["ownerReferences"].clone();
    ensure!(ran.code != 0 && left == json!([unserved()]), "{ran:?}: {left}");
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
    let top = ns.configmap("top").create().await?;
    let middle = ns.configmap("middle").owned_by(&top).finalizer("orphan").create().await?;
    let leaf = ns.secret("leaf").owned_by(&middle).create().await?;
    let said = " Only a collector that deletes it because of its owners leaves it.\n";
    caller.says("explain cm/middle", 0, &[said]).await?;
    caller.says("explain cm/plain", 0, &["!Only a collector"]).await?;
    let collector = world.stage.collector().await?;
    cluster.delete(&plain, Policy::Background).await?;
    cluster.delete(&released, Policy::Orphan).await?;
    cluster.delete(&top, Policy::Background).await?;
    cluster.settled(&collector).await?;
    cluster.assert_gone([&plain, &goes, &released, &top, &middle]).await?;
    cluster.assert_kept([&stays, &leaf]).await?;
    caller.says("explain cm/plain", 8, &["!The finalizer orphan"]).await?;
    collector.stop().await
}

async fn a_standby_says_that_the_leader_knows_more() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let config = format!("[leader]\nenabled = true\nnamespace = \"{}\"\n", ns.name());
    let leader = world.stage.collector_with(Options::config(&config)).await?;
    poll("it to lead", async || Ok(leader.metric("kube_gc_leader").await? == 1.0)).await?;
    let standby = world.stage.collector_with(Options::config(&config)).await?;
    let owner = ns.configmap("owner").create().await?;
    let item = ns.secret("item").owned_by(&owner).create().await?;
    cluster.delete(&owner, Policy::Background).await?;
    cluster.gone(&item).await?;
    let asked = |of: &Collector| format!("explain secret/item --collector http://{}", of.debug_address());
    caller.says(&asked(&leader), 8, &["kube-gc deleted secrets/item"]).await?;
    let said = "a standby answers, which does not know what the leader deleted: ask the leader";
    caller.says(&asked(&standby), 8, &[said, "!does not remember"]).await?;
    standby.stop().await?;
    leader.stop().await
}

/// The first deletion marks it, the second one removes it. So does whoever takes the last finalizer out of its spec.
async fn a_namespace_without_the_finalizer_of_its_controller_leaves_its_content_behind() -> Result<()> {
    let world = World::set().await?;
    let (cluster, _, caller) = world.parts();
    let doomed = cluster.namespace().await?;
    let left = doomed.configmap("left").create().await?;
    let namespace = doomed.as_object();
    doomed.set_spec_finalizers(&[]).await?;
    cluster.delete(namespace, Policy::Background).await?;
    let said = "1 object is not deleted yet: no controller empties it without the finalizer kubernetes in its spec. \
                Another deletion removes it, and leaves in the store what is in it.\n";
    caller
        .says(&format!("explain ns/{} --from lists", doomed.name()), 0, &[said, "!look at the namespace"])
        .await?;
    let (line, inside) = ("explain cm/left --from lists", Caller { namespace: doomed.name(), ..caller });
    let said = " has no finalizers in its spec: it goes without the object, which stays in the store.\n";
    inside.says(line, 0, &[said, "!at most"]).await?;
    let collector = world.stage.collector().await?;
    let asked = format!("explain cm/left --collector http://{}", collector.debug_address());
    inside.says(&asked, 0, &[said, "!at most"]).await?;
    collector.stop().await?;
    cluster.delete(namespace, Policy::Background).await?;
    cluster.gone(namespace).await?;
    let said = format!(
        "No garbage collector deletes ConfigMap/left: it has no owner references. Namespace {} does not exist.\n",
        doomed.name()
    );
    inside.says(line, 0, &[&said]).await?;
    cluster.delete(&left, Policy::Background).await?;
    let doomed = cluster.namespace().await?;
    let left = doomed.configmap("left").create().await?;
    doomed.set_spec_finalizers(&["kubernetes", HOLD]).await?;
    cluster.delete(doomed.as_object(), Policy::Background).await?;
    let said = "As soon as no finalizer is left in its spec and its metadata, a namespace that is being deleted goes, and \
                what is still in it stays in the store.\n";
    caller.says(&format!("explain ns/{} --from lists", doomed.name()), 0, &[said, "!kubectl"]).await?;
    doomed.set_spec_finalizers(&[]).await?;
    cluster.gone(doomed.as_object()).await?;
    cluster.assert_kept([&left]).await?;
    cluster.delete(&left, Policy::Background).await
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
