//! The truth of plans: what keeps an object, whatever is deleted.

use anyhow::{Result, ensure};
use futures::future::ready;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::json;

use super::Caller;
use super::fixtures::{Truth, World};
use crate::conformance::stage::HOLD;
use crate::conformance::user::User;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::webhook::{Decision, Denial, Hook, Webhook};
use kube_gc_testkit::{Obj, Options, Policy};

kube_gc_testkit::scenarios! {
    what_protects_a_claim_or_a_volume_keeps_it,
    the_reclaim_policy_decides_about_the_volume_of_a_claim,
    a_finalizer_in_the_spec_of_a_namespace_keeps_it,
    a_webhook_that_denies_keeps_what_is_planned_to_go,
    who_sees_nothing_is_promised_nothing,
}

/// The scenario does what the controllers do that protect them.
async fn what_protects_a_claim_or_a_volume_keeps_it() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let collector = world.stage.collector().await?;
    let access = json!(["ReadWriteOnce"]);
    let spec = json!({ "accessModes": access, "resources": { "requests": { "storage": "1Gi" } } });
    let claim = ns.of::<PersistentVolumeClaim>("claim").field("spec", spec).create().await?;
    let spec =
        json!({ "accessModes": access, "capacity": { "storage": "1Gi" }, "hostPath": { "path": "/none" } });
    let volume =
        cluster.of::<PersistentVolume>(format!("{}-volume", ns.name())).field("spec", spec).create().await?;
    for (object, kind, finalizer) in
        [(claim, "pvc", "kubernetes.io/pvc-protection"), (volume, "pv", "kubernetes.io/pv-protection")]
    {
        let object = cluster.set_finalizers(&object, &[finalizer]).await?;
        let line = format!("plan {kind}/{} -o name", object.name);
        caller.says(&line, 0, &[&format!("/{}\n", object.name)]).await?;
        let truth = Truth {
            line: format!("plan {kind}/{}", object.name),
            says: &[
                &format!(
                    "{0}/{1} is marked for deletion; no other object goes. {0}/{1} itself may go or stay: \
                     kube-controller-manager or a collector with --remove-protection-finalizers removes finalizer \
                     {finalizer} as soon as ",
                    object.resource.kind, object.name,
                ),
                "goes when its finalizers do, perhaps at once, finalizer kubernetes.io/",
                &format!("\nunknown {}/{} is deleted", object.resource.kind, object.name),
            ],
            policy: Policy::Background,
            roots: &[&object],
            objects: &[&object],
        };
        truth.comes_true(&world, &collector, async || Ok(())).await?;
    }
    collector.stop().await
}

/// A bare control plane has nobody who deletes the other volume.
async fn the_reclaim_policy_decides_about_the_volume_of_a_claim() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, _) = world.parts();
    let collector = world.stage.collector().await?;
    for (policy, says) in [
        ("Retain", ", and PersistentVolume/NAME stays with its data (reclaim policy Retain).\n"),
        (
            "Delete",
            ", but PersistentVolume/NAME follows it when its CSI driver or plugin has deleted its data (reclaim policy \
             Delete).\n",
        ),
    ] {
        let (name, access) = (format!("{}-{}", ns.name(), policy.to_lowercase()), json!(["ReadWriteOnce"]));
        let spec = json!({
            "accessModes": access,
            "capacity": { "storage": "1Gi" },
            "claimRef": { "namespace": ns.name(), "name": &name },
            "hostPath": { "path": "/none" },
            "persistentVolumeReclaimPolicy": policy,
        });
        let volume = cluster.of::<PersistentVolume>(&name).field("spec", spec).create().await?;
        let (path, bound) = (volume.path() + "/status", json!({ "status": { "phase": "Bound" } }));
        cluster.send("PATCH", &path, Some("application/merge-patch+json"), Some(&bound)).await?;
        let resources = json!({ "requests": { "storage": "1Gi" } });
        let spec = json!({ "accessModes": access, "resources": resources, "volumeName": &name });
        let claim = ns.of::<PersistentVolumeClaim>(&name).field("spec", spec).create().await?;
        let claim = cluster.set_finalizers(&claim, &[]).await?;
        let said = format!("/{name} is deleted; no other object goes{}", says.replace("NAME", &name));
        let objects: &[&Obj] = if policy == "Retain" { &[&claim, &volume] } else { &[&claim] };
        let truth = Truth {
            line: format!("plan pvc/{name}"),
            says: &[&said],
            policy: Policy::Background,
            roots: &[&claim],
            objects,
        };
        truth.comes_true(&world, &collector, async || Ok(())).await?;
        cluster.delete(&cluster.set_finalizers(&volume, &[]).await?, Policy::Background).await?;
    }
    collector.stop().await
}

async fn a_finalizer_in_the_spec_of_a_namespace_keeps_it() -> Result<()> {
    let world = World::set().await?;
    let (cluster, _, caller) = world.parts();
    let doomed = cluster.namespace().await?;
    let item = doomed.secret("item").create().await?;
    doomed.set_spec_finalizers(&["kubernetes", HOLD]).await?;
    let options = Options::config("[namespaces]\nquiet = \"100ms\"\n").arg("--finish-namespaces");
    let collector = world.stage.collector_with(options).await?;
    let plan = caller.json(&format!("plan ns/{}", doomed.name())).await?;
    let finalizer = &plan["objects"][0]["finalizers"][0];
    ensure!(finalizer["name"] == HOLD && finalizer["inSpec"] == true, "{plan}");
    let truth = Truth {
        line: format!("plan ns/{}", doomed.name()),
        says: &[
            &format!("Namespace/{} itself stays until finalizer {HOLD} is removed.", doomed.name()),
            &format!("\nheld Namespace/{} finalizer {HOLD}\n", doomed.name()),
        ],
        policy: Policy::Background,
        roots: &[doomed.as_object()],
        objects: &[doomed.as_object(), &item],
    };
    truth.comes_true(&world, &collector, async || doomed.set_spec_finalizers(&[]).await).await?;
    collector.stop().await
}

/// A plan says that it cannot know this, and a collector says it afterwards.
async fn a_webhook_that_denies_keeps_what_is_planned_to_go() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let root = ns.configmap("root").create().await?;
    let denied = ns.secret("denied").owned_by(&root).create().await?;
    let webhook = Webhook::start(world.stage.plane).await?;
    let hook = Hook { mutating: false, resource: &denied.resource, operations: &["DELETE"] };
    let guard = webhook.review(cluster, ns, hook, |asked| {
        let denial = Denial { code: Some(403), message: "not today".to_owned(), ..Denial::default() };
        ready(if asked.name() == "denied" { Decision::Deny(denial) } else { Decision::Allow })
    });
    let guard = guard.await?;
    let said = ["; 1 other goes.\n", "A plan cannot know what admission webhooks refuse"];
    caller.says("plan cm/root", 0, &said).await?;
    let collector = world.stage.collector_with(Options::config("[retry]\nmax = \"300ms\"\n")).await?;
    cluster.delete(&root, Policy::Background).await?;
    let asked = format!("--collector http://{}", collector.debug_address());
    let unfinished =
        async || anyhow::Ok(caller.json(&format!("stuck --older 0s {asked}")).await?["unfinished"] == 1);
    poll("the webhook to deny", unfinished).await?;
    let said = ["Secret/denied: the collector cannot finish with it (denied): ", "not today"];
    caller.says(&format!("stuck --older 0s {asked}"), 1, &said).await?;
    let refused = ". The collector tries to delete it, and the API server refuses it: ";
    let said =
        ["Secret/denied is garbage: its owner ConfigMap/root does not exist", refused, "(denied, for "];
    caller.says(&format!("explain secret/denied {asked}"), 0, &said).await?;
    let ran = caller.ask(&format!("explain secret/denied {asked}")).await?;
    ensure!(ran.out.matches("not today").count() == 1, "{ran:?}");
    let failed = "The collector has failed with Secret/denied, which may stay: ";
    caller.says(&format!("plan secret/denied {asked}"), 7, &[failed, "not today"]).await?;
    ensure!(cluster.exists_with_uid(&denied).await?, "it was not denied");
    drop(webhook);
    // The embedded server asks nobody any more.
    if world.stage.plane.embedded().is_none() {
        let line = format!("explain secret/denied {asked}");
        let fails = ". The collector tries to delete it, and that fails: ";
        let is_said = async || anyhow::Ok(caller.ask(&line).await?.out.contains(fails));
        poll("the webhook that is down to fail", is_said).await?;
        caller.says(&line, 0, &["failed calling webhook", "!The collector deletes it"]).await?;
        ensure!(caller.json(&line).await?["outcome"] == "waits");
        ensure!(cluster.exists_with_uid(&denied).await?, "it did not fail");
    }
    cluster.delete(&guard, Policy::Background).await?;
    cluster.gone(&denied).await?;
    collector.stop().await
}

/// Who may read the object alone, and whoever misspells a namespace.
async fn who_sees_nothing_is_promised_nothing() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, all) = world.parts();
    let rules = json!([{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"] }]);
    let user = User::create(world.stage.plane, cluster, ns, rules).await?;
    let user = Caller { kubeconfig: user.kubeconfig(), ..all };
    let nowhere = Caller { namespace: "nowhere", ..all };
    let root = ns.configmap("root").create().await?;
    let item = ns.secret("item").owned_by(&root).create().await?;
    for command in ["plan", "tree"] {
        let said = format!("you may not list anything in namespace {}; ", ns.name());
        user.says(&format!("{command} cm/root"), 6, &[&said]).await?;
    }
    for (command, said) in [
        ("plan", "configmaps \"root\" not found in namespace nowhere"),
        ("explain", "namespaces \"nowhere\" not found"),
        ("tree", "configmaps \"root\" not found in namespace nowhere"),
    ] {
        nowhere.says(&format!("{command} cm/root"), 8, &[said]).await?;
    }
    let collector = world.stage.collector().await?;
    cluster.delete(&root, Policy::Background).await?;
    cluster.gone(&item).await?;
    collector.stop().await
}
