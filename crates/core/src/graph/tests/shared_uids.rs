//! Two resources, one uid (rules 3.1 and 3.2).

use crate::graph::testing::world::*;
use crate::graph::*;

fn old(name: &str) -> Obj {
    obj("ingresses.extensions", "ns", name)
}

fn new(name: &str) -> Obj {
    obj("ingresses.networking.k8s.io", "ns", name)
}

#[test]
fn an_object_served_twice_counts_once_and_is_handled_under_its_least_name() {
    let mut w = World::new(2);
    for owner in [config("owner"), node("n")] {
        let (first, second) = (new("i").blocking(&owner), old("i").blocking(&owner));
        w.see(&[&owner.clone().foreground(), &first, &second]);
        w.forget();
        assert_eq!(w.object(&owner).foreground, ForegroundProgress::Blocked(1));
        assert_eq!(w.out.delete, [old("i").key()]);
        assert_eq!(w.partition("ns").observed(&first.facts.uid), Some(old("i").identity()));
        assert!(w.reports().is_empty());
        w.forget();
        assert_eq!(w.snapshot_and_queue(&first), Snapshot::Gone);
        assert_eq!(w.out.delete, [old("i").key()], "an earlier key leads to the primary");
        w.delete(&first);
        w.delete(&second);
        w.delete(&owner);
        w.forget();
    }
}

#[test]
fn the_next_view_becomes_primary_when_the_first_type_is_removed() {
    for owner in [config("owner"), node("n")] {
        let mut w = World::seen(
            2,
            &[&old("i").blocking(&owner), &new("i").blocking(&owner), &owner.clone().foreground()],
        );
        w.remove_type("ingresses.extensions");
        assert!(w.out.delete.contains(&new("i").key()), "keys under the old name find no node");
        assert_eq!(w.object(&owner).foreground, ForegroundProgress::Blocked(1));
        w.forget();
        w.delete(&new("i"));
        assert_eq!(w.queued(), [&*owner.facts.name]);
    }
}

#[test]
fn an_object_served_twice_is_deleted_once_in_either_order_of_events() {
    for (first, second) in [(old("i"), new("i")), (new("i"), old("i"))] {
        let owner = config("owner");
        let mut w = World::of(1, &[&owner, &old("i").owned(&owner), &new("i").owned(&owner)]);
        w.partition("ns").expect_event(&old("i").key(), &ExpectedChange::Removed);
        w.delete(&first);
        assert_eq!(w.snapshot_and_queue(&second), Snapshot::AwaitsEvent);
        w.forget();
        w.delete(&second);
        assert!(w.queued().is_empty());
        assert_eq!(w.snapshot_and_queue(&second), Snapshot::Gone);
    }
}

#[test]
fn any_other_shared_uid_is_a_collision_reported_once() {
    let (a, b) = (config("x").uid("u"), pod("x").uid("u"));
    let mut w = World::of(1, &[&a, &b, &pod("d").owned(&a)]);
    assert_eq!(w.reports(), [Report::UidCollision { first: a.identity(), second: b.identity() }]);
    w.see(&[&a.clone().at(11), &b.clone().at(11)]);
    assert!(w.reports().is_empty());
    assert!(w.is_observed(&a) && w.is_observed(&b));
    w.delete(&b);
    assert!(w.queued().is_empty(), "dependents of the other object are not affected");
    assert!(w.is_observed(&a));
}
