//! Lists, sync and epochs (rules 1.16, 1.17, 2.16 and 3.22).

use crate::graph::testing::world::*;
use crate::graph::*;

/// Rule 1.16.
#[test]
fn an_object_missing_from_a_list_is_gone() {
    let owner = config("owner");
    let mut w = World::seen(2, &[&owner, &config("kept"), &pod("a").owned(&owner)]);
    w.list("configmaps", 20, &[&config("kept")]);
    assert_eq!(w.queued(), ["a"]);
    assert_eq!(w.state(&owner), OwnerState::Absent);
    assert!(w.is_observed(&config("kept")));
}

#[test]
fn an_object_newer_than_the_list_is_alive() {
    let owner = config("owner").at(21);
    let mut w = World::of(1, &[&owner, &pod("a").owned(&owner)]);
    w.list("configmaps", 20, &[]);
    assert!(w.is_observed(&owner) && w.queued().is_empty());
    w.list("configmaps", 21, &[]);
    assert_eq!(w.state(&owner), OwnerState::Absent, "its version is not greater than the list's");
}

#[test]
fn a_list_whose_version_cannot_be_compared_proves_nothing() {
    let owner = config("owner");
    let mut w = World::of(1, &[&owner, &pod("a").owned(&owner), &config("leaf")]);
    w.list("configmaps", 0, &[]);
    assert_eq!(w.queued(), ["owner"], "queued for verification");
    assert_eq!(w.snapshot_and_queue(&config("leaf")), Snapshot::Gone);
}

/// Rule 1.17.
#[test]
fn the_same_name_with_another_uid_is_another_object() {
    let (old, new) = (config("owner").uid("old"), config("owner").uid("new"));
    let mut w = World::of(1, &[&old, &pod("a").owned(&old)]);
    w.list("configmaps", 20, &[&new]);
    assert_eq!(w.queued(), ["a"]);
    assert!(w.is_observed(&new));
    assert_eq!(w.state(&old), OwnerState::Absent);
}

/// A deletion may be repeated while no watch runs. The second one needs work although that of the
/// first is done.
#[test]
fn a_list_does_not_hide_a_finalizer_that_was_removed_and_added_again() {
    let (held, kept) = (config("held").foreground(), config("kept").orphaning());
    let mut w = World::seen(1, &[&held, &kept]);
    w.see(&[&held.clone().at(15), &kept.clone().at(15)]);
    assert!(w.queued().is_empty() && w.queued_orphaning().is_empty(), "a watch shows every change");
    w.list("configmaps", 20, &[&held.clone().at(16), &kept.clone().at(15)]);
    assert_eq!(w.queued(), ["held"]);
    assert!(w.queued_orphaning().is_empty(), "it has not changed");
    w.list("configmaps", 30, &[&held.at(16), &kept.at(25)]);
    assert_eq!(w.queued_orphaning(), ["kept"]);
}

/// A live read in between found the owner solid, so the dependent was kept.
#[test]
fn a_list_does_not_hide_an_owner_that_was_solid_in_between() {
    let mut w = World::new(2);
    for (owner, name) in [(config("owner"), "configmaps"), (node("n"), "nodes")] {
        let owner = owner.foreground();
        let (kept, goes) = (pod("kept").owned(&owner), pod("goes").owned(&owner).terminating());
        w.see(&[&owner, &kept, &goes]);
        w.forget();
        w.list(name, 20, &[&owner]);
        assert!(w.queued().is_empty(), "it has not changed");
        w.list(name, 30, &[&owner.clone().at(25)]);
        assert_eq!(w.queued(), ["kept", &*owner.facts.name]);
        [&kept, &goes, &owner].into_iter().for_each(|one| w.delete(one));
    }
}

#[test]
fn a_type_is_synced_after_the_first_complete_list_of_an_epoch() {
    let mut w = World::unsynced(1);
    let resource = resource("configmaps").group_resource.clone();
    let owner = config("owner");
    w.see(&[&owner]);
    assert_eq!(w.state(&owner), OwnerState::Unknown);
    let end = WatchEvent::InitDone { resource_version: None };
    w.change(&owner, end);
    assert!(!w.partition("ns").is_synced(&resource), "a list that never began");
    w.list("configmaps", 20, &[&owner]);
    assert!(w.partition("ns").is_synced(&resource) && w.is_observed(&owner));
    w.epoch = Epoch(2);
    w.start("configmaps");
    assert!(!w.partition("ns").is_synced(&resource));
    assert_eq!(w.state(&owner), OwnerState::Unknown, "kept, but not proof until the list is complete");
    w.list("configmaps", 20, &[&owner]);
    assert!(w.is_observed(&owner));
}

/// Rule 3.22.
#[test]
fn batches_of_another_epoch_or_of_no_monitor_are_discarded() {
    let mut w = World::new(1);
    w.epoch = Epoch(2);
    w.start("configmaps");
    let a = config("a");
    for stale in [Epoch(1), Epoch(3)] {
        w.epoch = stale;
        assert!(!w.change(&a, WatchEvent::Apply(a.facts.clone())));
    }
    w.epoch = Epoch(1);
    w.start("configmaps");
    w.epoch = Epoch(2);
    assert!(w.change(&a, WatchEvent::Apply(a.facts.clone())), "an older monitor never replaces a newer one");
    w.remove_type("configmaps");
    assert!(!w.change(&a, WatchEvent::Apply(a.facts.clone())));
    assert_eq!(w.snapshot_and_queue(&a), Snapshot::Gone);
}

#[test]
fn the_end_of_an_older_monitor_does_not_affect_its_successor() {
    let mut w = World::new(1);
    w.epoch = Epoch(2);
    w.start("configmaps");
    w.see(&[&config("a")]);
    w.epoch = Epoch(1);
    w.remove_type("configmaps");
    assert_ne!(w.snapshot_and_queue(&config("a")), Snapshot::Gone);
}
