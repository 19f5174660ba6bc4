//! What a plan names, and what it cannot be sure of. `tests/insight/proof` compares the plans of random
//! graphs with what the collector then does.

use super::*;
use kube_gc_core::graph::testing::world::*;
use kube_gc_core::object::PropagationPolicy::{self, Background, Foreground, Orphan};

/// The question about one object, of which a walk looks at so many.
pub(super) fn of_one(root: &Obj, policy: PropagationPolicy, limit: usize) -> PlanQuery {
    PlanQuery { roots: vec![root.identity()], policy, others: Vec::new(), limit }
}

pub(super) const ALL: [PropagationPolicy; 3] = [Background, Foreground, Orphan];

/// The effects of a plan as `name effect`, in the order of the names.
pub(super) fn effects(plan: &Plan) -> Vec<String> {
    let mut all: Vec<String> = plan
        .objects
        .iter()
        .map(|object| {
            let after: String = object.after.iter().map(|after| format!(" after {}", after.name)).collect();
            let perhaps = object.perhaps_after.iter().map(|after| format!(" perhaps after {}", after.name));
            format!("{} {}{after}{}", object.name.name, object.effect.into_str(), perhaps.collect::<String>())
        })
        .collect();
    all.sort();
    all
}

/// The references that an object loses, and those that it may lose.
fn lost(plan: &Plan, name: &str) -> (Vec<String>, Vec<String>) {
    let object = plan.objects.iter().find(|object| object.name.name == name).unwrap();
    let names = |names: &[ObjectName]| names.iter().map(|name| name.name.clone()).collect();
    (names(&object.loses), names(&object.may_lose))
}

/// Each case: its objects with the root first, and the effects of each policy.
fn check(objects: &[&Obj], expected: [&[&str]; 3]) {
    for (policy, expected) in ALL.into_iter().zip(expected) {
        let plan = Cluster::of(objects).plan(objects[0], policy);
        assert_eq!(effects(&plan), expected, "{policy}");
    }
}

#[test]
fn dependents_go_at_every_level_or_are_orphaned_at_the_first() {
    let (a, other) = (config("a"), config("other"));
    let b = config("b").owned(&a);
    let c = pod("c").blocking(&b);
    let kept = pod("kept").owned(&a).owned(&other);
    let all = ["a deleted", "b deleted", "c deleted", "kept kept"];
    check(&[&a, &b, &c, &kept, &other], [&all, &all, &["a deleted", "b orphaned", "kept kept"]]);
    let plan = Cluster::of(&[&a, &b, &c, &kept, &other]).plan(&a, Orphan);
    assert_eq!(lost(&plan, "b"), (vec!["a".to_owned()], vec![]));
    assert_eq!((plan.deletes, plan.exists), (1, Some(true)));
    let named = plan.objects.iter().find(|object| object.name.name == "kept").unwrap();
    assert_eq!(named.kept_by[0].name, "other");
    assert_eq!(
        plan.verdict,
        "ConfigMap/a is deleted, and its dependents are released; no other object goes; 1 is orphaned; 1 is kept by \
         another owner reference."
    );
}

#[test]
fn a_finalizer_below_holds_all_that_it_blocks() {
    let a = config("a");
    let b = config("b").blocking(&a);
    let c = pod("c").blocking(&b).held();
    let d = pod("d").owned(&a);
    let cluster = || Cluster::of(&[&a, &b, &c, &d]).read(&c, &["example.com/x"]);
    let plan = cluster().plan(&a, Foreground);
    assert_eq!(effects(&plan), ["a deleted after c", "b deleted after c", "c held", "d deleted"]);
    let held = plan.objects.iter().find(|object| object.effect == Effect::Held).unwrap();
    assert_eq!(held.finalizers.as_ref().unwrap()[0].name, "example.com/x");
    let expected = "; 2 others go; 1 stays until its finalizers are removed. ConfigMap/a waits for Pod/c.";
    assert!(plan.verdict.ends_with(expected), "{}", plan.verdict);
    // In the background nothing waits.
    let plan = cluster().plan(&a, Background);
    assert_eq!(effects(&plan), ["a deleted", "b deleted", "c held", "d deleted"]);
}

#[test]
fn what_a_held_owner_owns_goes_after_it() {
    let a = config("a").held();
    let b = config("b").blocking(&a);
    let c = pod("c").owned(&a);
    let cluster = || Cluster::of(&[&a, &b, &c]).read(&a, &["example.com/x", "foregroundDeletion"]);
    assert_eq!(
        effects(&cluster().plan(&a, Background)),
        ["a held", "b deleted after a", "c deleted after a"]
    );
    // In the foreground, nothing waits for it, whether it blocks or not.
    assert_eq!(effects(&cluster().plan(&a, Foreground)), ["a held", "b deleted", "c deleted"]);
    assert_eq!(effects(&cluster().plan(&a, Orphan)), ["a held", "b orphaned", "c orphaned"]);
    // Nor for one in the middle, which its own dependents make one of these.
    let top = config("top");
    let middle = config("middle").blocking(&top).held();
    let leaf = pod("leaf").owned(&middle);
    let plan = Cluster::of(&[&top, &middle, &leaf]).read(&middle, &["example.com/x"]).plan(&top, Foreground);
    assert_eq!(effects(&plan), ["leaf deleted", "middle held", "top deleted after middle"]);
}

#[test]
fn all_that_holds_an_object_is_named() {
    let (a, leaving) = (config("a"), config("leaving").terminating().held());
    let (c, d) = (pod("c").blocking(&a).held(), pod("d").blocking(&a).held());
    let e = pod("e").owned(&c).owned(&d).owned(&leaving);
    let mut cluster = Cluster::of(&[&a, &c, &d, &e, &leaving]);
    for held in [&c, &d] {
        cluster = cluster.read(held, &["example.com/x"]);
    }
    let plan = cluster.plan(&a, Foreground);
    let expected = ["a deleted after c after d", "c held", "d held", "e deleted after leaving"];
    assert_eq!(effects(&plan), expected);
    assert!(plan.verdict.ends_with(" ConfigMap/a waits for Pod/c, Pod/d."), "{}", plan.verdict);
}

/// As long as another owner is there, the collector releases an object from those that wait.
#[test]
fn an_owner_waits_for_what_another_one_keeps_in_some_orders_only() {
    let (a, b, leaving) = (config("a"), config("b"), config("leaving").terminating().held());
    let plan = |x: Obj, roots: &[&Obj]| {
        let mut cluster = Cluster::of(&[&a, &b, &leaving, &x]).read(&x, &["example.com/x"]);
        let roots = roots.iter().map(|root| root.identity()).collect();
        effects(
            &cluster.plan_of(PlanQuery { roots, policy: Foreground, others: Vec::new(), limit: 100 }, 100),
        )
    };
    let x = pod("x").blocking(&a).held();
    let both = ["a deleted perhaps after x", "b deleted perhaps after x", "x held"];
    assert_eq!(plan(x.clone().blocking(&b), &[&a, &b]), both);
    assert_eq!(plan(x.clone().owned(&leaving), &[&a])[0], "a deleted perhaps after x");
    // What is being deleted is not released, and nothing keeps what has one owner.
    let both = ["a deleted after x", "b deleted after x", "x held"];
    assert_eq!(plan(x.clone().terminating().blocking(&b), &[&a, &b]), both);
    assert_eq!(plan(x, &[&a, &b])[0], "a deleted after x");
}

#[test]
fn a_finalizer_that_was_not_read_holds_all_the_same() {
    let a = config("a");
    let b = config("b").owned(&a).held();
    let failed = Live::Failed("403".into());
    let plan = Cluster::of(&[&a, &b]).reading(&b, failed).plan(&a, Background);
    assert_eq!(effects(&plan), ["a deleted", "b held"]);
    let held = plan.objects.iter().find(|object| object.effect == Effect::Held).unwrap();
    assert_eq!(held.finalizers, None);
}

#[test]
fn an_orphan_finalizer_releases_what_is_below() {
    let a = config("a");
    let b = config("b").owned(&a).with_finalizers(false, true);
    let c = pod("c").owned(&b);
    // It loses both, in an order that decides.
    let d = pod("d").owned(&b).owned(&a);
    check(
        &[&a, &b, &c, &d],
        [
            &["a deleted", "b deleted", "c orphaned", "d unknown"],
            &["a deleted", "b deleted", "c orphaned", "d unknown"],
            &["a deleted", "b orphaned", "d kept"],
        ],
    );
}

#[test]
fn an_owner_that_cannot_be_read_leaves_it_open() {
    let a = config("a");
    let b = pod("b").owned(&a).owned(&config("hidden"));
    let c = pod("c").owned(&b);
    let failed = Live::Failed("403 Forbidden".into());
    let plan = Cluster::of(&[&a, &b, &c]).reading(&config("hidden"), failed).plan(&a, Background);
    assert_eq!(effects(&plan), ["a deleted", "b unknown", "c unknown"]);
    assert!(plan.depends_on_unseen);
    assert_eq!((plan.deletes, plan.perhaps_deletes), (1, 2));
    // Another owner that exists makes it irrelevant.
    let b = pod("b").owned(&a).owned(&config("hidden")).owned(&config("k"));
    let failed = Live::Failed("403 Forbidden".into());
    let mut cluster = Cluster::of(&[&a, &b, &config("k")]).reading(&config("hidden"), failed);
    let plan = cluster.plan(&a, Background);
    assert!(effects(&plan) == ["a deleted", "b kept"] && !plan.depends_on_unseen);
}

/// Nor is what goes only after it.
#[test]
fn what_a_collector_has_failed_with_is_not_promised() {
    let (a, b) = (config("a"), config("b").blocking(&config("a")));
    let (c, d) = (pod("c").owned(&b), pod("d").owned(&a));
    let planned = |failed: &str, policy| {
        let mut cluster = Cluster::of(&[&a, &b, &c, &d]);
        cluster.outside.failed = [(failed.to_owned(), "not today".to_owned())].into();
        cluster.plan(&a, policy)
    };
    let plan = planned("elsewhere", Background);
    assert!((plan.deletes, plan.perhaps_deletes, plan.depends_on_unseen) == (4, 0, false), "{plan:?}");
    let plan = planned("b", Background);
    assert_eq!(effects(&plan), ["a deleted", "b unknown", "c unknown after b", "d deleted"]);
    assert_eq!((plan.deletes, plan.perhaps_deletes, plan.depends_on_unseen), (2, 2, true));
    assert_eq!(plan.notes[0], "The collector has failed with ConfigMap/b, which may stay: not today.");
    assert!(plan.verdict.ends_with("; 1 other goes; 2 may go or stay."), "{}", plan.verdict);
    let plan = planned("b", Foreground);
    assert!(plan.verdict.ends_with(" ConfigMap/a waits for ConfigMap/b."), "{}", plan.verdict);
    // Whoever asks deletes it; the collector may fail again with what is left to do.
    let plan = planned("a", Background);
    assert!((plan.deletes, plan.perhaps_deletes, plan.depends_on_unseen) == (4, 0, true), "{plan:?}");
}

/// A chain of owners ends with one that is absent: all of it goes, and so does what it seems to keep.
#[test]
fn what_only_garbage_keeps_goes_after_it() {
    let (a, gone) = (config("a"), config("gone"));
    let top = config("top").owned(&gone);
    let garbage = config("garbage").owned(&top);
    let kept = pod("kept").owned(&a).owned(&garbage);
    let below = pod("below").owned(&kept);
    let objects = [&a, &top, &garbage, &kept, &below];
    let of_kept = ["a deleted", "below deleted after garbage", "kept deleted after garbage"];
    let plan = Cluster::of(&objects).plan(&a, Background);
    assert_eq!(effects(&plan), of_kept);
    assert_eq!((plan.deletes, plan.depends_on_unseen), (3, false));
    assert!(plan.verdict.ends_with("; 2 others go."), "{}", plan.verdict);
    // Either reference may be the last one.
    let plan = Cluster::of(&objects).plan(&a, Orphan);
    assert_eq!(effects(&plan), ["a deleted", "below unknown after garbage", "kept unknown after garbage"]);
    assert!(plan.verdict.ends_with("a is deleted; 2 may go or stay."), "{}", plan.verdict);
    // Objects that own each other keep each other, and an owner that exists keeps the chain.
    let ring = garbage.clone().owned(&config("ring"));
    let back = config("ring").owned(&ring);
    let kept = pod("kept").owned(&a).owned(&ring);
    for objects in [[&a, &top, &ring, &kept, &back], [&a, &gone, &top, &garbage, &objects[3].clone()]] {
        assert_eq!(effects(&Cluster::of(&objects).plan(&a, Background)), ["a deleted", "kept kept"]);
    }
}

/// The collector breaks them where they close, at what has a dependent that is deleted in the foreground.
#[test]
fn a_circle_does_not_hold_what_it_is_broken_for() {
    let name = |number: usize| format!("o{number}");
    for length in [2, 3, 5] {
        let owner = |number: usize| config(&name((number + length - 1) % length));
        let ring = (0..length).map(|number| config(&name(number)).blocking(&owner(number)));
        let ring: Vec<Obj> = ring.collect();
        let last = ring.last().unwrap().clone();
        let x = pod("x").blocking(&last).held();
        let all = |extra: &[&Obj]| {
            let objects: Vec<&Obj> = ring.iter().chain([&x]).chain(extra.iter().copied()).collect();
            let mut cluster = Cluster::of(&objects).read(&x, &["example.com/x"]);
            for held in extra {
                cluster = cluster.read(held, &["example.com/x"]);
            }
            cluster.plan(&ring[0], Foreground)
        };
        let mut expected: Vec<String> = (0..length - 1).map(|number| format!("o{number} deleted")).collect();
        expected.extend([format!("o{} deleted after x", length - 1), "x held".to_owned()]);
        let plan = all(&[]);
        assert_eq!(effects(&plan), expected);
        assert!(!plan.verdict.contains("waits"), "{}", plan.verdict);
        // What hangs on the circle elsewhere still holds it.
        let y = pod("y").blocking(&ring[0]).held();
        let plan = all(&[&y]);
        assert!(plan.verdict.ends_with(" ConfigMap/o0 waits for Pod/y."), "{plan:#?}");
    }
    // It is not known whether the first of two is still there when the other is decided on.
    let (a, d) = (config("a"), config("d").foreground());
    let b = config("b").blocking(&a);
    let (d, x) = (d.owned(&b), pod("x").blocking(&b).held());
    let plan = Cluster::of(&[&a, &b, &d, &x]).read(&x, &["example.com/x"]).plan(&a, Foreground);
    assert!(plan.verdict.ends_with(" ConfigMap/a waits for Pod/x."), "{}", plan.verdict);
}

#[test]
fn a_reference_is_lost_when_its_held_owner_is_gone() {
    let (a, other) = (config("a").held(), config("other"));
    let kept = pod("kept").owned(&a).owned(&other);
    for (policy, expected) in
        [(Background, "kept kept after a"), (Foreground, "kept kept after a"), (Orphan, "kept kept")]
    {
        let plan = Cluster::of(&[&a, &other, &kept]).read(&a, &["example.com/x"]).plan(&a, policy);
        assert!(effects(&plan).contains(&expected.to_owned()), "{policy}: {plan:?}");
        assert_eq!(lost(&plan, "kept").0, ["a"], "{policy}");
    }
}

#[test]
fn what_is_not_listed_by_choice_may_go_too() {
    let a = config("a");
    let mut cluster = Cluster::of(&[&a]);
    for (left_out, goes) in [
        (LeftOut::Chosen(1), "; no other object that was looked at goes."),
        (LeftOut::Ignored(1), "; no other object goes."),
    ] {
        cluster.outside.left_out = left_out;
        let plan = cluster.plan(&a, Background);
        assert!(plan.verdict.ends_with(goes), "{plan:?}");
        assert_eq!(plan.depends_on_unseen, left_out == LeftOut::Chosen(1));
    }
}

#[test]
fn what_the_brake_holds_does_not_go_now() {
    let namespace = |name: &str| kube_gc_core::object::Namespace::parse(name);
    let a = node("a");
    let (b, c) = (config("b").owned(&a), obj("pods", "other", "c").owned(&a));
    for (paused, said) in [
        (vec![None], "; no other object goes now; 2 wait until the brake of the collector is released."),
        (vec![namespace("ns")], "; 1 other goes; 1 waits until the brake of the collector is released."),
        (vec![namespace("elsewhere")], "; 2 others go."),
    ] {
        let mut cluster = Cluster::of(&[&a, &b, &c]);
        cluster.outside.paused = paused;
        let verdict = cluster.plan(&a, Background).verdict;
        assert!(verdict.ends_with(said), "{verdict}");
    }
}

#[test]
fn the_brake_is_engaged_whatever_else_holds_what_goes() {
    let a = config("a");
    let (b, c) = (pod("b").blocking(&a).held(), pod("c").blocking(&a));
    let of = |policy, all: &[&Obj]| {
        let mut cluster = Cluster::of(all).read(&b, &["example.com/x"]);
        cluster.outside.paused = vec![None];
        cluster.plan(&a, policy)
    };
    let both = "; no other object goes now; 1 waits for the brake and until its finalizers are removed";
    let plan = of(Background, &[&a, &b]);
    assert!(plan.is_braked && plan.verdict.ends_with(&format!("{both}.")), "{}", plan.verdict);
    let plan = of(Foreground, &[&a, &b]);
    assert!(plan.verdict.ends_with(" ConfigMap/a waits for the brake, too."), "{}", plan.verdict);
    let plan = of(Foreground, &[&a, &c]);
    let said =
        "; 1 waits until the brake of the collector is released. ConfigMap/a waits for the brake, too.";
    assert!(plan.verdict.ends_with(said), "{}", plan.verdict);
    let plan = of(Orphan, &[&a, &b]);
    assert!(plan.is_braked && !plan.verdict.contains("brake"), "{}", plan.verdict);
}

#[test]
fn owners_that_are_too_many_to_follow_leave_it_open() {
    let a = config("a");
    let owners: Vec<Obj> = (0..1001).map(|number| config(&format!("o{number}"))).collect();
    let items =
        owners.iter().enumerate().map(|(number, owner)| pod(&format!("p{number}")).owned(&a).owned(owner));
    let items: Vec<Obj> = items.collect();
    let of = |count: usize| {
        let objects: Vec<&Obj> = [&a].into_iter().chain(&owners[..count]).chain(&items[..count]).collect();
        Cluster::of(&objects).plan_of(of_one(&a, Background, 10_000), 1)
    };
    let plan = of(1000);
    assert_eq!((plan.perhaps_deletes, plan.truncated, plan.depends_on_unseen), (0, false, false));
    let plan = of(1001);
    assert_eq!((plan.perhaps_deletes, plan.truncated, plan.depends_on_unseen), (1, true, true));
    assert!(plan.verdict.ends_with("; 1 may go or stay. There are more objects than were looked at."));
}

#[test]
fn the_brake_is_foreseen() {
    use kube_gc_core::brake::{Limits, Share};
    use std::num::NonZeroU32;
    let a = config("a");
    let pods: Vec<Obj> = (0..5).map(|number| pod(&format!("p{number}")).owned(&a)).collect();
    let objects: Vec<&Obj> = [&a].into_iter().chain(&pods).collect();
    let mut plan = Cluster::of(&objects).plan(&a, Background);
    assert_eq!(plan.brake, Forecast::Unknown);
    let per_minute = |count| Limits { per_minute: NonZeroU32::new(count), ..Limits::default() };
    let in_namespace = |count| Limits { namespace_per_minute: NonZeroU32::new(count), ..Limits::default() };
    let percent = NonZeroU32::new(10).unwrap();
    let share = Share { percent, window: std::time::Duration::from_secs(600), floor: 2 };
    let share = Limits { share: Some(share), ..Limits::default() };
    for (limits, population, expected) in [
        (Limits::default(), None, "Off"),
        (per_minute(5), None, "Passes"),
        (per_minute(4), None, "Engages"),
        (in_namespace(5), None, "Passes"),
        (in_namespace(4), None, "Engages"),
        (share, Some(50), "Passes"),
        (share, Some(40), "Engages"),
        (share, None, "Unknown"),
    ] {
        plan.forecast(&limits, |_| population);
        let shown = format!("{:?}", plan.brake);
        assert!(shown.starts_with(expected), "{limits:?}: {shown}");
    }
}

#[test]
fn a_chain_of_many_objects_and_an_owner_of_many_are_walked() {
    let a = config("a");
    let mut chain = vec![a.clone()];
    for number in 0..3000 {
        let next = config(&format!("c{number}")).blocking(chain.last().unwrap());
        chain.push(next);
    }
    let wide: Vec<Obj> = (0..3000).map(|number| pod(&format!("p{number}")).blocking(&a)).collect();
    let objects: Vec<&Obj> = chain.iter().chain(&wide).collect();
    let mut cluster = Cluster::of(&objects);
    let plan = cluster.plan_of(of_one(&a, Foreground, 100_000), 1);
    assert_eq!(plan.deletes, objects.len());
}
