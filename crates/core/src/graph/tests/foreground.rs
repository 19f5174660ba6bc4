//! Foreground deletion: what blocks an owner, what queues it, and deadlocks (rules 4.2 to
//! 4.5).

use crate::graph::testing::world::*;
use crate::graph::*;

#[test]
fn a_blocked_owner_queues_its_blocking_dependents_that_are_not_deleting_dependents() {
    let owner = config("owner");
    let mut w = World::seen(
        1,
        &[
            &owner.clone().foreground(),
            &pod("live").blocking(&owner),
            &pod("stuck").blocking(&owner).terminating(),
            &pod("deep").blocking(&owner).foreground(),
            &pod("free").owned(&owner),
        ],
    );
    assert_eq!(w.object(&owner).foreground, ForegroundProgress::Blocked(3));
    assert_eq!(w.queued(), ["live", "stuck"]);
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
    let owner = config("owner");
    let mut w = World::of(1, &[&owner.clone().foreground()]);
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
fn a_cycle_of_foreground_deletions_is_deadlocked_and_a_chain_is_not() {
    let (a, b, c) = (config("a"), config("b"), config("c"));
    let mut w = World::of(
        1,
        &[
            &a.clone().blocking(&c).foreground(),
            &b.clone().blocking(&a).foreground(),
            &c.clone().blocking(&b).foreground(),
            &pod("x").blocking(&config("y")).foreground(),
            &config("y").foreground(),
        ],
    );
    for member in [&a, &b, &c] {
        assert_eq!(w.object(member).foreground, ForegroundProgress::Deadlocked);
    }
    assert_eq!(w.object(&config("y")).foreground, ForegroundProgress::Blocked(1));
    w.see(&[&a.clone().owned(&c).foreground().at(11)]);
    assert_eq!(w.object(&c).foreground, ForegroundProgress::Unblocked, "the cycle is broken");
}
