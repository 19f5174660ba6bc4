//! The truth of plans: what one says of a deletion, and what then happens. `truth_causes.rs` has the table of what
//! holds objects.

use anyhow::{Context as _, Result, anyhow, ensure};
use futures::future::ready;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};

use super::fixtures::{World, unserved};
use super::proof::{self, Case, Moment, Shown, holds};
use super::{Caller, values};
use crate::conformance::stage::HOLD;
use crate::conformance::user::User;
use kube_gc_insight::Effect;
use kube_gc_testkit::cluster::poll;
use kube_gc_testkit::webhook::{Decision, Denial, Hook, Webhook};
use kube_gc_testkit::{Cluster, Collector, Obj, Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    each_effect_comes_true,
    another_deletion_replaces_the_policy_of_one_that_has_begun,
    a_circle_and_a_namespace_do_not_wait_for_what_owners_elsewhere_wait_for,
    what_a_namespace_takes_along_comes_true,
    what_is_under_way_beside_what_is_asked_comes_true,
    the_order_of_two_deletions_decides_what_waits,
    the_objects_of_a_definition_go_on_as_their_deletion_began,
    what_protects_a_claim_or_a_volume_keeps_it,
    the_reclaim_policy_decides_about_the_volume_of_a_claim,
    a_finalizer_in_the_spec_of_a_namespace_keeps_it,
    a_webhook_that_denies_keeps_what_is_planned_to_go,
    who_sees_nothing_is_promised_nothing,
}

/// A deletion, what a plan has to say about it, and all objects that could be concerned.
pub struct Truth<'a> {
    pub line: String,
    pub says: &'a [&'a str],
    pub policy: Policy,
    pub roots: &'a [&'a Obj],
    pub objects: &'a [&'a Obj],
}

impl Truth<'_> {
    /// Fails unless the plan says this, and what then happens is what it says: until nothing changes any more,
    /// and again without the finalizers of others, and after `release`.
    pub async fn comes_true(
        &self,
        world: &World,
        collector: &Collector,
        release: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<()> {
        // What is under way already is no part of the plan, and its requests and markers are none of it.
        for custom in self.objects.iter().filter(|object| object.resource.group.contains('.')) {
            world.stage.cluster.forget(&custom.resource);
        }
        world.stage.cluster.settled_with_parked(collector).await?;
        self.follows(&self.planned(world).await?, world, collector, release).await
    }

    /// Fails unless the plan says this.
    pub async fn planned(&self, world: &World) -> Result<Case> {
        let (cluster, _, caller) = world.parts();
        let before = cluster.request_counts().await?;
        let asked = caller.ask(&format!("{} -o json", self.line)).await?;
        caller.says(&self.line, asked.code, self.says).await?;
        let sent = cluster.request_counts().await?.since(&before);
        ensure!(sent.writes() == 0, "something was written: {sent:?}");
        let mut objects = Vec::new();
        for object in self.objects {
            objects.push(cluster.fresh(object).await?);
        }
        let plan = serde_json::from_value(asked.json()?)?;
        Ok(Case { title: self.line.clone(), objects, had_deleted: false, plan })
    }

    /// Fails unless what happens is what was planned.
    async fn follows(
        &self,
        case: &Case,
        world: &World,
        collector: &Collector,
        release: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<()> {
        let (cluster, ..) = world.parts();
        for root in self.roots {
            if cluster.exists_with_uid(root).await? {
                cluster.delete(root, self.policy).await?;
            }
            collect_pods(cluster, root, &case.objects).await?;
        }
        came_true(cluster, collector, case, Moment::Idle).await?;
        for object in &case.objects {
            let Ok(Some(object)) = cluster.get(object).await else { continue };
            if !holds(&object).is_empty() {
                proof::release(cluster, &object).await?;
            }
        }
        release().await?;
        came_true(cluster, collector, case, Moment::Released).await
    }
}

/// Does what PodGC of kube-controller-manager does with the pods of a node that is gone.
async fn collect_pods(cluster: &Cluster, node: &Obj, objects: &[Obj]) -> Result<()> {
    let is_on =
        |pod: &&Obj| node.resource.kind == "Node" && pod.raw["spec"]["nodeName"] == node.name.as_str();
    for pod in objects.iter().filter(is_on) {
        cluster.gone(node).await?;
        cluster.delete_with(pod, &json!({ "gracePeriodSeconds": 0 })).await?;
    }
    Ok(())
}

/// What a namespace or a definition takes along goes after the collector has settled, so this waits.
async fn came_true(cluster: &Cluster, collector: &Collector, case: &Case, moment: Moment) -> Result<()> {
    for custom in case.objects.iter().filter(|object| object.resource.group.contains('.')) {
        // No marker can be written of a type that goes.
        cluster.forget(&custom.resource);
    }
    cluster.settled_with_parked(collector).await?;
    let differences = async || case.differences(&Shown::of(cluster, &case.objects).await, moment);
    let came = poll("the plan to come true", async || Ok(differences().await.is_empty())).await;
    came.with_context(|| case.title.clone()).or(Err(anyhow!("{:?}", differences().await)))
}

/// The name of the object that shows an effect. A new effect does not compile without one.
const fn shown_by(effect: Effect) -> &'static str {
    match effect {
        Effect::Deleted => "middle",
        Effect::Held => "held",
        Effect::Blocks => "parked",
        Effect::Orphaned => "orphaned",
        Effect::Kept => "kept",
        Effect::Unknown => "both",
    }
}

async fn each_effect_comes_true() -> Result<()> {
    let world = World::set().await?;
    let (_, ns, caller) = world.parts();
    let collector = world.stage.collector().await?;
    let root = ns.configmap("root").create().await?;
    let other = ns.configmap("other").create().await?;
    let middle = ns.configmap("middle").owned_by(&root).blocking().create().await?;
    let held = ns.secret("held").owned_by(&middle).blocking().finalizer(HOLD).create().await?;
    let kept = ns.secret("kept").owned_by(&root).owned_by(&other).create().await?;
    let parked = ns.secret("parked").owned_by(&root).blocking().owner_reference(unserved()).create().await?;
    // It releases its dependents, in an order that decides.
    let releases = ns.configmap("releases").owned_by(&root).finalizer("orphan").create().await?;
    let orphaned = ns.secret("orphaned").owned_by(&releases).create().await?;
    let both = ns.secret("both").owned_by(&releases).owned_by(&root).create().await?;
    let objects = &[&root, &other, &middle, &held, &kept, &parked, &releases, &orphaned, &both];
    let says = [
        "ConfigMap/root is deleted after the dependents that block it; 2 others go; 1 stays until its finalizers \
         are removed; 1 blocks it; 1 is orphaned; 1 is kept by another owner reference; 1 may go or stay. \
         ConfigMap/root waits for Secret/held, Secret/parked.\n",
        "\nkept Secret/kept kept by ConfigMap/other, loses",
        &format!("\nheld Secret/held finalizer {HOLD}\n"),
        "kept by a reference to Gone/x (gone.example.com/v1 is not served)",
    ];
    let line = "plan cm/root --cascade foreground".to_owned();
    let plan = caller.json(&line).await?;
    for effect in values::<Effect>("plan", "Effect")? {
        let is_shown =
            |object: &Value| object["name"] == shown_by(effect) && object["effect"] == effect.into_str();
        ensure!(plan["objects"].as_array().into_iter().flatten().any(is_shown), "{effect:?} in {plan}");
    }
    caller.says("plan cm/root -o name --cascade orphan", 0, &["configmap/root\n", "!secret"]).await?;
    let waits_for: Vec<&Value> = plan["objects"].as_array().into_iter().flatten().collect();
    let waits_for =
        waits_for.iter().find(|object| object["name"] == "root").context("no root")?["after"].to_string();
    ensure!(["held", "parked"].iter().all(|name| waits_for.contains(name)), "{waits_for}");
    let truth = Truth { line, says: &says, policy: Policy::Foreground, roots: &[&root], objects };
    truth.comes_true(&world, &collector, async || Ok(())).await?;
    collector.stop().await
}

/// All pairs. The one of a deletion in the background and nothing that holds it is no deletion under way.
async fn another_deletion_replaces_the_policy_of_one_that_has_begun() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, _) = world.parts();
    let (policies, mut cases) = ([Policy::Background, Policy::Foreground, Policy::Orphan], Vec::new());
    let pairs = policies.into_iter().flat_map(|begun| policies.map(|asked| (begun, asked)));
    for (begun, asked, held) in
        pairs.flat_map(|(begun, asked)| [false, true].map(|held| (begun, asked, held)))
    {
        if begun == Policy::Background && !held {
            continue;
        }
        let [was, now] = [begun, asked].map(|policy| format!("{policy:?}").to_lowercase());
        let name = format!("{was}-{now}-{held}");
        let root = ns.configmap(&name);
        let root = if held { root.finalizer(HOLD) } else { root }.create().await?;
        let below = ns.secret(format!("{name}-below")).owned_by(&root).blocking().create().await?;
        let beside = ns.secret(format!("{name}-beside")).owned_by(&root).create().await?;
        cluster.delete(&root, begun).await?;
        let says = match (asked, held) {
            (Policy::Background, false) => " and is still there, and its dependents follow; 2 others go.",
            (Policy::Background, true) => {
                " and is still there, and its dependents follow when it is gone; 2 others go."
            }
            (Policy::Foreground, _) => {
                " and is still there, and goes after the dependents that block it; 2 others go."
            }
            (Policy::Orphan, _) => {
                " and is still there, and its dependents are released; no other object goes; 2 are orphaned."
            }
        };
        let note = format!(
            "The deletion of ConfigMap/{name} began with {begun:?}, and another one changes that to {asked:?}."
        );
        let says = [
            says,
            if held { " itself stays until finalizer example.com/hold is" } else { "!itself stays" },
            if begun == asked { "!another one changes" } else { &note },
        ];
        let line = format!("plan cm/{name} --cascade {now}");
        let (roots, objects): (&[&Obj], &[&Obj]) = (&[&root], &[&root, &below, &beside]);
        let case = Truth { line, says: &says, policy: asked, roots, objects }.planned(&world).await?;
        cases.push((case, asked));
    }
    for (case, asked) in &cases {
        cluster.delete(&case.objects[0], *asked).await?;
    }
    let collector = world.stage.collector().await?;
    for (case, policy) in &cases {
        let roots: &[&Obj] = &[&case.objects[0]];
        let truth = Truth { line: case.title.clone(), says: &[], policy: *policy, roots, objects: &[] };
        truth.follows(case, &world, &collector, async || Ok(())).await?;
    }
    collector.stop().await
}

async fn what_is_under_way_beside_what_is_asked_comes_true() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, _) = world.parts();
    // One of two is being deleted, and releases what both own: the order decides.
    let (a, b) = (ns.configmap("a").finalizer(HOLD).create().await?, ns.configmap("b").create().await?);
    let both = ns.secret("both").owned_by(&a).owned_by(&b).create().await?;
    let of_b = ns.secret("of-b").owned_by(&b).create().await?;
    cluster.delete(&a, Policy::Orphan).await?;
    // Two finalizers hold what has been deleted, and more wait for that.
    let root = ns.configmap("root").create().await?;
    let middle = ns.configmap("middle").owned_by(&root).blocking().create().await?;
    let one = ns.secret("one").owned_by(&middle).blocking().finalizer(HOLD).create().await?;
    let two = ns.secret("two").owned_by(&middle).blocking().finalizer(HOLD).create().await?;
    let late = ns.secret("late").owned_by(&one).owned_by(&two).create().await?;
    cluster.delete(&two, Policy::Background).await?;
    // A namespace that is being deleted, and holds two.
    let doomed = cluster.namespace().await?;
    let inside = doomed.secret("inside").finalizer(HOLD).create().await?;
    let other = doomed.secret("other").finalizer(HOLD).create().await?;
    cluster.delete(doomed.as_object(), Policy::Background).await?;
    let last = format!(
        "; 2 stay until finalizers are removed. Namespace/{} waits for Secret/inside, Secret/other.\n",
        doomed.name()
    );
    let truths = [
        Truth {
            line: "plan cm b".to_owned(),
            says: &["; 1 other goes; 1 may go or stay.\n"],
            policy: Policy::Background,
            roots: &[&b],
            objects: &[&a, &b, &both, &of_b],
        },
        Truth {
            line: "plan cm root --cascade foreground".to_owned(),
            says: &[
                "ConfigMap/root is deleted after the dependents that block it; 2 others go; 1 is being deleted already; 1 \
                 stays until its finalizers are removed. ConfigMap/root waits for Secret/one, Secret/two.\n",
                "\ndeleted Secret/late after Secret/two\n",
            ],
            policy: Policy::Foreground,
            roots: &[&root],
            objects: &[&root, &middle, &one, &two, &late],
        },
        Truth {
            line: format!("plan ns/{}", doomed.name()),
            says: &[" and is still there, and goes last, after its 2 objects", &last],
            policy: Policy::Background,
            roots: &[doomed.as_object()],
            objects: &[doomed.as_object(), &inside, &other],
        },
    ];
    let mut cases = Vec::new();
    for truth in &truths {
        cases.push(truth.planned(&world).await?);
    }
    cases[0].had_deleted = true;
    let options = Options::config("[namespaces]\nquiet = \"100ms\"\n").arg("--finish-namespaces");
    let collector = world.stage.collector_with(options).await?;
    for (truth, case) in truths.iter().zip(&cases) {
        truth.follows(case, &world, &collector, async || Ok(())).await?;
    }
    collector.stop().await
}

async fn a_circle_and_a_namespace_do_not_wait_for_what_owners_elsewhere_wait_for() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, _) = world.parts();
    let a = ns.configmap("a").create().await?;
    let b = ns.configmap("b").owned_by(&a).blocking().create().await?;
    let c = ns.configmap("c").owned_by(&b).blocking().create().await?;
    let closing = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": c.uid, "blockOwnerDeletion": true });
    cluster.set_owner_references(&a, &[closing]).await?;
    let x = ns.secret("x").owned_by(&c).blocking().finalizer(HOLD).create().await?;
    let of_ring = Truth {
        line: "plan cm/a --cascade foreground".to_owned(),
        says: &[
            "; 2 others go; 1 stays until its finalizers are removed.\n",
            "\ndeleted ConfigMap/c after Secret/x\n",
        ],
        policy: Policy::Foreground,
        roots: &[&a],
        objects: &[&a, &b, &c, &x],
    };
    let doomed = cluster.namespace().await?;
    let leaving = cluster.of::<Node>(format!("{}-leaving", ns.name())).finalizer(HOLD).create().await?;
    let inside = doomed.secret("inside").owned_by(&leaving).create().await?;
    cluster.delete(&leaving, Policy::Background).await?;
    let of_namespace = Truth {
        line: format!("plan ns/{}", doomed.name()),
        says: &["is deleted last, after its only object.\n", "!waits", "!after Node/"],
        policy: Policy::Background,
        roots: &[doomed.as_object()],
        objects: &[doomed.as_object(), &inside],
    };
    let options = Options::config("[namespaces]\nquiet = \"100ms\"\n").arg("--finish-namespaces");
    let collector = world.stage.collector_with(options).await?;
    for truth in [of_ring, of_namespace] {
        truth.comes_true(&world, &collector, async || Ok(())).await?;
    }
    let leaving = cluster.fresh(&leaving).await?;
    cluster.set_finalizers(&leaving, &[]).await?;
    collector.stop().await
}

/// What is in it goes in the background, and holds up the definition of its type, too.
async fn what_a_namespace_takes_along_comes_true() -> Result<()> {
    let world = World::set().await?;
    let cluster = &world.stage.cluster;
    let begun = cluster.namespace().await?;
    let a = begun.configmap("a").create().await?;
    let x = begun.secret("x").owned_by(&a).blocking().finalizer(HOLD).create().await?;
    let b = begun.configmap("b").finalizer("orphan").create().await?;
    let y = begun.secret("y").owned_by(&b).create().await?;
    cluster.delete(&a, Policy::Foreground).await?;
    let shared = cluster.namespace().await?;
    let pins = cluster.crd("pins.truth.example.org", Scope::Namespaced, &["v1"]).await?;
    let pin = shared.object(pins.resource(), "pin").finalizer(HOLD).create().await?;
    let (namespace, definition) = (shared.as_object(), pins.definition());
    let [of_begun, of_shared] = [begun.name(), shared.name()].map(|name| format!("ns/{name}"));
    let truths = [
        Truth {
            line: format!("plan {of_begun}"),
            says: &[" waits for Secret/x.\n", "!ConfigMap/a after"],
            policy: Policy::Background,
            roots: &[begun.as_object()],
            objects: &[begun.as_object(), &a, &x, &b, &y],
        },
        Truth {
            line: format!("plan {of_shared} crd/pins.truth.example.org"),
            says: &[
                &format!("\ndeleted Namespace/{} after Pin/pin\n", shared.name()),
                "\ndeleted CustomResourceDefinition/pins.truth.example.org after Pin/pin\n",
            ],
            policy: Policy::Background,
            roots: &[namespace, definition],
            objects: &[namespace, definition, &pin],
        },
    ];
    let options = Options::config("[namespaces]\nquiet = \"100ms\"\n").arg("--finish-namespaces");
    let collector = world.stage.collector_with(options).await?;
    for truth in &truths {
        truth.comes_true(&world, &collector, async || Ok(())).await?;
    }
    collector.stop().await
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

/// What the first has let go does not hold it.
async fn the_order_of_two_deletions_decides_what_waits() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, _) = world.parts();
    let collector = world.stage.collector().await?;
    let (a, b) = (ns.configmap("a").create().await?, ns.configmap("b").create().await?);
    let of_both = ns.secret("of-both").owned_by(&a).blocking().owned_by(&b).blocking();
    let of_both = of_both.finalizer(HOLD).create().await?;
    let of_b = ns.secret("of-b").owned_by(&b).blocking().finalizer(HOLD).create().await?;
    let truth = Truth {
        line: "plan cm/a cm/b --cascade foreground".to_owned(),
        says: &[
            " Some of these wait for Secret/of-b.\n",
            "\ndeleted ConfigMap/a perhaps after Secret/of-both\n",
            "\ndeleted ConfigMap/b after Secret/of-b, perhaps after Secret/of-both\n",
        ],
        policy: Policy::Foreground,
        roots: &[&a, &b],
        objects: &[&a, &b, &of_both, &of_b],
    };
    let case = truth.planned(&world).await?;
    cluster.delete(&a, Policy::Foreground).await?;
    cluster.gone(&a).await?;
    truth.follows(&case, &world, &collector, async || Ok(())).await?;
    collector.stop().await
}

/// The API server deletes them without a policy. Until they go, the definition waits for what they wait for.
async fn the_objects_of_a_definition_go_on_as_their_deletion_began() -> Result<()> {
    let world = World::set().await?;
    let (cluster, ns, caller) = world.parts();
    let goods = cluster.crd("goods.truth.example.org", Scope::Namespaced, &["v1"]).await?;
    let good = |name: &str| ns.object(goods.resource(), name).create();
    let (front, lets, plain) = (good("front").await?, good("lets").await?, good("plain").await?);
    let held = ns.secret("held").owned_by(&front).blocking().finalizer(HOLD).create().await?;
    let beside = ns.secret("beside").owned_by(&front).create().await?;
    let stays = ns.secret("stays").owned_by(&lets).create().await?;
    cluster.delete(&front, Policy::Foreground).await?;
    cluster.delete(&lets, Policy::Orphan).await?;
    cluster.delete(&held, Policy::Background).await?;
    let definition = goods.definition();
    let truth = Truth {
        line: format!("plan crd/{}", definition.name),
        says: &[" waits for Secret/held.\n", "; 1 is orphaned. "],
        policy: Policy::Background,
        roots: &[definition],
        objects: &[definition, &front, &lets, &plain, &held, &beside, &stays],
    };
    let mut case = truth.planned(&world).await?;
    case.had_deleted = true;
    cluster.delete(definition, Policy::Background).await?;
    cluster.gone(&plain).await?;
    for (object, finalizer) in [(&front, "foregroundDeletion"), (&lets, "orphan")] {
        ensure!(cluster.fresh(object).await?.finalizers() == [finalizer], "{object} goes on otherwise");
    }
    let blocked = format!("\nGood/front waits for Secret/held (finalizer {HOLD}).\n");
    let advice = format!("\nFinalizer {HOLD}: ");
    caller.says(&format!("explain crd/{}", definition.name), 0, &[&blocked, &advice]).await?;
    let collector = world.stage.collector().await?;
    truth.follows(&case, &world, &collector, async || Ok(())).await?;
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
