//! Deletions and proved absences (rules 3.15 to 3.20).

use crate::graph::testing::world::*;
use crate::graph::*;
use crate::object::*;

/// Rule 3.15.
#[test]
fn a_real_delete_remembers_the_absence_and_queues_every_dependent() {
    let mut w = World::new(2);
    for owner in [config("owner"), node("n")] {
        w.see(&[&owner, &pod("a").owned(&owner), &pod("b").owned(&owner)]);
        w.forget();
        w.delete(&owner);
        assert_eq!(w.queued(), ["a", "b"]);
        assert_eq!(w.out.absent, [owner.identity()]);
        assert_eq!(w.state(&owner), OwnerState::Absent);
        w.delete(&pod("a"));
        assert_eq!(w.state(&owner), OwnerState::Absent);
        w.delete(&pod("b"));
        assert_eq!(w.state(&owner), OwnerState::Unknown, "no dependent names it");
        assert!(w.partitions.iter().all(|partition| partition.stats().nodes == 0));
    }
}

/// Latency is measured for the dependents of an owner that is gone or is deleting them, and for no
/// other key.
#[test]
fn the_dependents_of_a_deleted_owner_are_marked_as_such() {
    let cascaded = |out: &mut Effects| {
        let marked: Vec<_> = out.cascaded.drain(..).map(|key| key.uid.to_string()).collect();
        let all = marked.len() + out.delete.drain(..).count();
        (marked, all)
    };
    let above = config("above").foreground();
    let owner = config("owner").blocking(&above);
    let mut w = World::of(
        1,
        &[&above, &owner, &pod("a").owned(&owner), &pod("b").owned(&owner), &pod("c").owned(&node("n"))],
    );
    cascaded(&mut w.out);
    w.delete(&owner);
    // The owner was waiting for its dependent, and has no owner itself.
    let (mut marked, all) = cascaded(&mut w.out);
    marked.sort();
    assert_eq!((marked, all), (vec![pod("a").key().uid.to_string(), pod("b").key().uid.to_string()], 3));

    let other = config("other");
    w.see(&[&other, &pod("d").owned(&other)]);
    cascaded(&mut w.out);
    w.see(&[&other.clone().at(50).foreground()]);
    let (marked, all) = cascaded(&mut w.out);
    assert_eq!((marked, all), (vec![pod("d").key().uid.to_string()], 2));
    w.see(&[&pod("e").owned(&config("never"))]);
    assert_eq!(cascaded(&mut w.out).0, Vec::<String>::new(), "the owner was not deleted by this event");
}

#[test]
fn a_delete_event_that_proves_nothing_queues_the_owner_for_verification() {
    let mut w = World::new(1);
    w.deletes_prove = DeletesProve::Nothing;
    w.epoch = Epoch(2);
    w.start("configmaps");
    w.list("configmaps", 1, &[]);
    let owner = config("owner");
    w.epoch = Epoch(1);
    w.see(&[&pod("a").owned(&owner)]);
    w.epoch = Epoch(2);
    w.see(&[&owner]);
    w.forget();
    w.delete(&owner);
    assert_eq!(w.queued(), ["owner"]);
    assert!(w.out.absent.is_empty());
    assert_eq!(w.prove_absent(&owner), Verification::Applied);
    assert_eq!(w.queued(), ["a"]);
}

#[test]
fn a_delete_event_of_an_unseen_object_proves_its_absence() {
    let owner = config("owner");
    let mut w = World::seen(1, &[&pod("a").owned(&owner)]);
    w.delete(&owner);
    assert_eq!(w.queued(), ["a"]);
    assert_eq!(w.state(&owner), OwnerState::Absent);
}

/// Rule 3.18.
#[test]
fn an_absence_that_matches_all_dependents_works_like_a_delete_event() {
    let mut w = World::new(2);
    for owner in [config("owner"), node("n")] {
        w.see(&[&pod("a").owned(&owner), &pod("b").owned(&owner)]);
        w.forget();
        assert_eq!(w.prove_absent(&owner), Verification::Applied);
        assert_eq!(w.queued(), ["a", "b"]);
        assert_eq!(w.state(&owner), OwnerState::Absent);
        assert_eq!(w.snapshot_and_queue(&owner), Snapshot::Gone, "there is nothing to verify");
        w.delete(&pod("a"));
        w.delete(&pod("b"));
    }
}

/// Rule 3.19.
#[test]
fn a_virtual_node_takes_the_next_identity_in_order_while_dependents_disagree() {
    let owner = obj("configmaps", "n2", "b").uid("owner");
    let named = |name: &str| OwnerReference { name: name.into(), ..owner.reference() };
    let mut w = World::of(
        1,
        &[
            &obj("pods", "n2", "says n2/b").with(named("b")),
            &obj("pods", "n3", "says n3/a").with(named("a")),
            &obj("pods", "n1", "says n1/c").with(named("c")),
        ],
    );
    // By namespace before name, and from the start again.
    for expected in ["n2/b", "n3/a", "n1/c", "n2/b"] {
        w.forget();
        let identity = w.virtual_node(&owner).0;
        assert_eq!(format!("{}/{}", identity.namespace.clone().unwrap(), identity.name), expected);
        assert_eq!(w.prove_absent(&owner), Verification::Retry);
        assert_eq!(w.queued(), [format!("says {expected}")]);
        assert_eq!(w.out.absent, [identity]);
    }
}

#[test]
fn the_next_identity_is_tried_when_one_does_not_resolve() {
    let owner = config("a").uid("owner");
    let other = OwnerReference { name: "b".into(), ..owner.reference() };
    let mut w = World::of(1, &[&pod("p").owned(&owner), &pod("q").with(other)]);
    let (identity, generation) = w.virtual_node(&owner);
    let mut out = Effects::default();
    let verdict = w.partition("ns").verified(&identity, Finding::NotServed, generation, &mut out);
    assert_eq!(verdict, Verification::Retry);
    assert_eq!(&*w.virtual_node(&owner).0.name, "b");
    assert!(out.delete.is_empty(), "the caller backs off");
    let again = w.partition("ns").verified(&identity, Finding::NotServed, generation, &mut out);
    assert_eq!(again, Verification::Stale);
}

/// Rule 3.17.
#[test]
fn a_verdict_on_an_older_generation_is_discarded_and_the_key_queued_again() {
    let owner = config("owner");
    let a = pod("a").owned(&owner);
    let mut w = World::of(1, &[&a]);
    let (identity, generation) = w.virtual_node(&owner);
    w.see(&[&owner]);
    w.forget();
    let mut out = Effects::default();
    let verdict = w.partition("ns").verified(&identity, Finding::Absent, generation, &mut out);
    assert_eq!((verdict, &out.delete[..]), (Verification::Stale, &[owner.key()][..]));
    assert!(w.is_observed(&owner));
    w.delete(&a);
    w.delete(&owner);
    w.see(&[&a]);
    let verdict = w.partition("ns").verified(&identity, Finding::Absent, generation, &mut out);
    assert_eq!(verdict, Verification::Stale, "a new node has a new generation");
}

/// Rule 3.20.
#[test]
fn an_observed_object_that_is_proved_absent_is_removed() {
    let (owner, above) = (config("owner"), config("above"));
    let mut w = World::seen(
        1,
        &[&above.clone().foreground(), &owner.clone().blocking(&above), &pod("a").owned(&owner)],
    );
    let generation = w.object(&owner).generation;
    w.forget();
    let mut out = Effects::default();
    let verdict = w.partition("ns").verified(&owner.identity(), Finding::Absent, generation, &mut out);
    assert_eq!(verdict, Verification::Applied);
    assert_eq!(out.take_delete().collect::<Vec<_>>(), [pod("a").key(), above.key()]);
    assert_eq!(w.state(&owner), OwnerState::Absent);
}

#[test]
fn an_observed_object_survives_the_absence_of_another_identity() {
    let owner = config("owner");
    let bad = pod("bad").with(OwnerReference { name: "else".into(), ..owner.reference() });
    let mut w = World::of(1, &[&owner, &bad, &pod("good").owned(&owner)]);
    let generation = w.object(&owner).generation;
    let mut out = Effects::default();
    let wrong = owner.clone().named("else").identity();
    w.partition("ns").verified(&wrong, Finding::Absent, generation, &mut out);
    assert_eq!(out.delete, [bad.key()]);
    assert!(w.is_observed(&owner));
}

#[test]
fn an_absent_object_that_is_observed_again_is_reported() {
    let owner = config("owner");
    let mut w = World::of(1, &[&pod("a").owned(&owner)]);
    w.prove_absent(&owner);
    w.see(&[&owner]);
    assert_eq!(w.out.present, [owner.identity()]);
    assert!(w.is_observed(&owner));
}

#[test]
fn a_reset_forgets_everything_and_needs_new_monitors() {
    let mut w = World::of(1, &[&pod("a").owned(&config("owner"))]);
    w.partition("ns").reset();
    assert_eq!(w.partition("ns").stats().nodes, 0);
    assert!(!w.change(&pod("a"), WatchEvent::Apply(pod("a").facts)));
}
