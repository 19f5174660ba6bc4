//! Updates of objects (rules 3.8 to 3.14).

use crate::graph::testing::world::*;
use crate::graph::*;
use crate::object::*;

/// Rule 3.8.
#[test]
fn an_irrelevant_change_only_stores_the_version() {
    let a = pod("a").owned(&config("owner"));
    let mut w = World::seen(1, &[&a]);
    let before = w.object(&a);
    w.see(&[&a.clone().at(11)]);
    assert!(w.queued().is_empty());
    let after = w.object(&a);
    assert_eq!(after.generation, before.generation);
    assert_eq!(after.resource_version, Some(ResourceVersion::number(11)));
}

#[test]
fn an_older_version_is_ignored() {
    let a = pod("a").at(11);
    let mut w = World::of(1, &[&a, &a.clone().at(10).owned(&config("owner"))]);
    assert!(w.object(&a).references.is_empty());
}

#[test]
fn every_relevant_change_begins_a_new_generation() {
    let a = pod("a");
    let mut w = World::of(1, &[&a]);
    let mut last = w.object(&a).generation;
    for changed in [a.clone().owned(&config("o")), a.clone(), a.clone().terminating(), a.clone().foreground()]
    {
        w.see(&[&changed]);
        let generation = w.object(&a).generation;
        assert_ne!(generation, last);
        last = generation;
    }
}

/// Rule 3.11.
#[test]
fn an_object_whose_remaining_reference_is_uncertain_is_queued() {
    let (good, doubtful) = (config("good"), config("doubtful"));
    let a = pod("a").owned(&good).owned(&doubtful);
    let mut w = World::seen(1, &[&good, &a]);
    w.see(&[&a.clone().unowned().owned(&doubtful).at(11)]);
    assert_eq!(w.queued(), ["a"]);
    w.see(&[&doubtful]);
    w.see(&[&a.clone().unowned().owned(&doubtful).owned(&good).at(12), &a.unowned().owned(&good).at(13)]);
    assert!(w.queued().is_empty(), "all solid");
}

#[test]
fn duplicate_references_do_not_count_as_added() {
    let owner = config("owner");
    let twice = pod("a")
        .owned(&owner)
        .with(OwnerReference { name: "else".into(), ..owner.reference() })
        .owned(&owner)
        .blocking(&owner);
    let mut w = World::of(1, &[&owner, &twice]);
    assert_eq!(w.queued(), ["a"]);
    for version in 11..20 {
        w.see(&[&twice.clone().at(version)]);
    }
    assert!(w.queued().is_empty());
    let written: Vec<_> = w.object(&twice).references.into_iter().map(|r| r.reference).collect();
    assert_eq!(written, twice.facts.owners);
}

#[test]
fn entering_foreground_deletion_queues_the_dependents_and_the_node_every_time() {
    let mut w = World::new(2);
    for owner in [config("owner"), node("n")] {
        w.see(&[&owner, &pod("a").owned(&owner)]);
        w.forget();
        let name = owner.facts.name.to_string();
        w.see(&[&owner.clone().foreground().at(11)]);
        assert_eq!(w.queued(), ["a".to_owned(), name.clone()]);
        w.see(&[&owner.clone().foreground().at(12)]);
        assert!(w.queued().is_empty());
        w.see(&[&owner.clone().terminating().at(13), &owner.clone().foreground().at(14)]);
        assert_eq!(w.queued(), ["a".to_owned(), name], "queued for a second foreground deletion");
        w.delete(&pod("a"));
    }
}

/// Rule 3.14.
#[test]
fn entering_orphan_deletion_queues_the_node_for_the_orphan_pool_only() {
    let owner = config("owner");
    let mut w = World::seen(1, &[&owner, &pod("a").owned(&owner)]);
    let mut both = owner.clone().orphaning().at(11);
    both.facts.finalizers.foreground = true;
    w.see(&[&both]);
    assert_eq!(w.queued_orphaning(), ["owner"]);
    assert!(w.queued().is_empty(), "orphaning takes precedence");
    w.see(&[&owner.clone().foreground().at(12)]);
    assert_eq!(w.queued(), ["a", "owner"]);
    w.see(&[&owner.orphaning().at(13)]);
    assert_eq!(w.queued_orphaning(), ["owner"]);
}

#[test]
fn a_changed_identity_queues_the_dependents() {
    let owner = config("owner");
    let a = pod("a").owned(&owner);
    let mut w = World::seen(1, &[&owner, &a]);
    w.see(&[&owner.clone().named("renamed").at(11)]);
    assert_eq!(w.queued(), ["a"]);
    assert_eq!(&*w.object(&a).references[0].reference.name, "owner", "the reference is kept as written");
}

#[test]
fn a_write_is_unseen_until_its_event_arrives() {
    let mut w = World::new(1);
    let a = pod("a");
    let expect = |w: &mut World, change| w.partition("ns").expect_event(&pod("a").key(), &change);
    let unseen = |w: &mut World| w.partition("ns").stats().unseen_writes;
    let version = |number| ExpectedChange::Version(ResourceVersion::number(number));
    expect(&mut w, ExpectedChange::Removed);
    assert_eq!(unseen(&mut w), 0, "the node does not exist");
    w.see(&[&a]);
    expect(&mut w, version(10));
    assert_eq!(unseen(&mut w), 0, "the event has already arrived");
    expect(&mut w, version(12));
    w.see(&[&a.clone().at(11)]);
    assert_eq!(unseen(&mut w), 1);
    w.see(&[&a.clone().at(12)]);
    assert_eq!(unseen(&mut w), 0);
    expect(&mut w, ExpectedChange::Removed);
    assert_eq!(unseen(&mut w), 1);
    w.delete(&a);
    assert_eq!(unseen(&mut w), 0);
}
