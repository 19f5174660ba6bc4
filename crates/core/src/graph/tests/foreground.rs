//! Foreground deletion: what blocks an owner, what queues it, and deadlocks (rules 4.2 to
//! 4.5).

use crate::graph::testing::world::*;
use crate::graph::*;

#[test]
fn a_blocked_owner_queues_its_blocking_dependents_that_are_not_deleting_dependents() {
    let mut w = World::new(1);
    let owner = config("owner");
    w.see(&[
        &owner.clone().foreground(),
        &pod("live").blocking(&owner),
        &pod("stuck").blocking(&owner).terminating(),
        &pod("deep").blocking(&owner).foreground(),
        &pod("free").owned(&owner),
    ]);
    w.forget();
    assert_eq!(w.object(&owner).foreground, ForegroundProgress::Blocked(3));
    assert_eq!(w.queued(), ["live", "stuck"]);
}

#[test]
fn an_owner_is_queued_only_when_the_last_blocking_dependent_is_gone() {
    let mut w = World::new(2);
    for owner in [config("owner"), node("n")] {
        w.see(&[&owner.clone().foreground(), &pod("a").blocking(&owner), &pod("b").blocking(&owner)]);
        w.forget();
        w.delete(&pod("a"));
        assert!(w.queued().is_empty());
        w.delete(&pod("b"));
        assert_eq!(w.queued(), [&*owner.facts.name]);
        assert_eq!(w.object(&owner).foreground, ForegroundProgress::Unblocked);
        w.delete(&owner);
    }
}

#[test]
fn an_owner_is_queued_when_all_blocking_dependents_are_deleting_dependents() {
    let mut w = World::new(2);
    for owner in [config("owner"), node("n")] {
        let (a, b) = (pod("a").blocking(&owner), pod("b").blocking(&owner));
        w.see(&[&owner.clone().foreground(), &a, &b]);
        w.forget();
        w.see(&[&a.clone().foreground().at(11)]);
        assert_eq!(w.queued(), ["a"]);
        w.see(&[&b.clone().foreground().at(11)]);
        assert!(w.queued().contains(&owner.facts.name.to_string()));
        w.delete(&a);
        assert!(w.queued().is_empty(), "the owner is not affected");
        w.delete(&b);
        w.delete(&owner);
    }
}

#[test]
fn dependents_kept_for_a_solid_owner_are_queued_when_a_waiting_owner_stops_waiting() {
    let mut w = World::new(2);
    for owner in [config("owner"), node("n")] {
        // Kept for another reason, for example a reference of invalid scope.
        let (kept, goes) = (pod("kept").owned(&owner), pod("goes").owned(&owner));
        w.see(&[&owner.clone().foreground(), &kept, &goes.clone().terminating()]);
        w.forget();
        w.see(&[&owner.clone().terminating().at(11)]);
        assert_eq!(w.queued(), ["kept"]);
        w.see(&[&owner.clone().terminating().at(12)]);
        assert!(w.queued().is_empty(), "once");
        [&kept, &goes, &owner].into_iter().for_each(|one| w.delete(one));
    }
}

#[test]
fn a_wide_cascade_wakes_its_owner_a_constant_number_of_times() {
    let mut w = World::new(1);
    let owner = config("owner");
    w.see(&[&owner.clone().foreground()]);
    let pods: Vec<Obj> = (0..200).map(|n| pod(&format!("p{n}")).blocking(&owner)).collect();
    w.see(&pods.iter().collect::<Vec<_>>());
    w.forget();
    for pod in &pods {
        w.see(&[&pod.clone().foreground().at(11)]);
    }
    pods.iter().for_each(|pod| w.delete(pod));
    assert_eq!(w.out.delete.iter().filter(|key| **key == owner.key()).count(), 2);
}

#[test]
fn a_node_never_blocks_itself() {
    let mut w = World::new(1);
    let own = config("own");
    w.see(&[&own.clone().blocking(&own), &own.clone().blocking(&own).foreground().at(11)]);
    let object = w.object(&own);
    assert_eq!(object.foreground, ForegroundProgress::Unblocked);
    assert!(!object.has_dependents);
    w.delete(&own);
    assert_eq!(w.partition("ns").stats().nodes, 0);
}

#[test]
fn a_cycle_of_foreground_deletions_is_deadlocked_and_a_chain_is_not() {
    let mut w = World::new(1);
    let (a, b, c) = (config("a"), config("b"), config("c"));
    w.see(&[
        &a.clone().blocking(&c).foreground(),
        &b.clone().blocking(&a).foreground(),
        &c.clone().blocking(&b).foreground(),
        &pod("x").blocking(&config("y")).foreground(),
        &config("y").foreground(),
    ]);
    for member in [&a, &b, &c] {
        assert_eq!(w.object(member).foreground, ForegroundProgress::Deadlocked);
    }
    assert_eq!(w.object(&config("y")).foreground, ForegroundProgress::Blocked(1));
    w.see(&[&a.clone().owned(&c).foreground().at(11)]);
    assert_eq!(w.object(&c).foreground, ForegroundProgress::Unblocked, "the cycle is broken");
}

#[test]
fn the_object_that_closes_a_cycle_is_queued() {
    let mut w = World::new(1);
    let (a, b) = (config("a"), config("b"));
    w.see(&[&a.clone().foreground(), &b.clone().blocking(&a).foreground()]);
    w.forget();
    w.see(&[&a.clone().blocking(&b).foreground().at(11)]);
    assert_eq!(w.queued(), ["a"], "a new reference queues it");
    assert_eq!(w.object(&a).foreground, ForegroundProgress::Deadlocked);
}

#[test]
fn a_snapshot_reports_a_possible_cycle() {
    let mut w = World::new(1);
    let (owner, middle) = (config("owner"), config("middle"));
    w.see(&[&owner.clone().foreground(), &middle.clone().owned(&owner), &pod("leaf").owned(&middle)]);
    let object = w.object(&middle);
    assert!(object.has_dependents && !object.has_dependent_deleting_dependents);
    w.see(&[&pod("leaf").owned(&middle).foreground().at(11)]);
    assert!(w.object(&middle).has_dependent_deleting_dependents);
}

#[test]
fn a_dependent_in_another_namespace_blocks_no_owner() {
    let mut w = World::new(1);
    let owner = config("owner");
    w.see(&[&owner.clone().foreground(), &obj("pods", "other", "bad").blocking(&owner)]);
    let object = w.object(&owner);
    assert_eq!((object.foreground, object.has_dependents), (ForegroundProgress::Unblocked, false));
}
