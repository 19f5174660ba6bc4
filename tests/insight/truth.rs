//! The truth of plans: what a deletion takes along. `truth_kept.rs` has what keeps an object, and `truth_causes.rs`
//! the table of what holds one.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::fixtures::{Truth, World, unserved};
use super::values;
use crate::conformance::stage::HOLD;
use kube_gc_insight::Effect;
use kube_gc_testkit::{Obj, Options, Policy, Scope};

kube_gc_testkit::scenarios! {
    each_effect_comes_true,
    another_deletion_replaces_the_policy_of_one_that_has_begun,
    a_circle_and_a_namespace_do_not_wait_for_what_owners_elsewhere_wait_for,
    what_a_namespace_takes_along_comes_true,
    what_is_under_way_beside_what_is_asked_comes_true,
    the_order_of_two_deletions_decides_what_waits,
    the_objects_of_a_definition_go_on_as_their_deletion_began,
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
