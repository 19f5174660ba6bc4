//! What is below an owner, for clients that wait until it is settled.

use std::collections::BTreeSet;

use crate::graph::testing::world::*;
use crate::graph::*;
use crate::object::*;

/// As all partitions together know it.
fn below(w: &World, owner: &str) -> Below {
    let mut all = Below::default();
    for partition in &w.partitions {
        let keys = all.keys.iter().map(|(key, _)| key.clone());
        let linked: Vec<Key> =
            keys.filter(|key| w.sharding.of(key.namespace.as_ref()) == partition.id()).collect();
        all.extend(partition.below(&Uid::parse(owner).unwrap(), &linked));
    }
    all
}

fn names(below: &Below) -> Vec<String> {
    let names: BTreeSet<String> = below.keys.iter().map(|(key, _)| key.uid.to_string()).collect();
    names.into_iter().collect()
}

/// Objects of which each owns the next one.
fn chain(length: usize) -> Vec<Obj> {
    let mut chain = vec![config("link-00")];
    for link in 1..length {
        chain.push(config(&format!("link-{link:02}")).owned(&chain[link - 1]));
    }
    chain
}

#[test]
fn all_dependents_of_an_owner_are_below_it_and_others_are_not() {
    let (owner, other) = (config("owner"), config("other"));
    let middle = config("middle").owned(&owner);
    let (leaf, of_other) = (pod("leaf").owned(&middle), pod("of-other").owned(&other));
    let mut w = World::seen(1, &[&owner, &other, &middle, &leaf, &of_other]);
    let before = below(&w, "owner");
    assert_eq!(names(&before), ["leaf", "middle", "owner"]);
    assert_eq!(names(&below(&w, "middle")), ["leaf", "middle"]);
    assert!(below(&w, "unknown").keys.is_empty());

    w.see(&[&of_other.clone().terminating().at(11)]);
    w.partition("ns").expect_event(&of_other.key(), &ExpectedChange::Removed);
    assert_eq!(below(&w, "owner"), before, "of another owner");
    w.partition("ns").expect_event(&leaf.key(), &ExpectedChange::Removed);
    assert_eq!(below(&w, "owner").unseen_writes, 1);
    w.delete(&leaf);
    assert_ne!(below(&w, "owner").keys, before.keys);
}

/// An owner that was never seen, or is gone, is known by its uid alone.
#[test]
fn what_is_left_of_a_cascade_is_below_every_owner_that_is_gone() {
    for (length, is_known) in [(5, true), (40, false)] {
        let chain = chain(length);
        let other = pod("other").owned(&config("never-seen"));
        let mut w = World::seen(1, &chain.iter().chain([&other]).collect::<Vec<_>>());
        let (last, gone) = chain.split_last().unwrap();
        gone.iter().for_each(|link| w.delete(link));
        let parent = &chain[length - 2].facts.name;
        for link in gone {
            let found = names(&below(&w, &link.facts.name));
            assert_eq!(found, [parent.to_string(), last.facts.name.to_string()], "{}", link.facts.name);
        }
        // Too many owners are gone to remember them all, so that it may be below any.
        assert_eq!(names(&below(&w, "never-seen")).len(), if is_known { 2 } else { 4 });
        w.delete(last);
        assert_eq!(below(&w, "link-00"), Below::default());
        assert_eq!(names(&below(&w, "never-seen")), ["never-seen", "other"]);
    }
}

/// A live object in between does not end the chain when it goes.
#[test]
fn an_owner_is_remembered_through_objects_that_go_later() {
    let chain = chain(4);
    let mut w = World::seen(1, &chain.iter().collect::<Vec<_>>());
    for gone in [2, 1, 0] {
        w.delete(&chain[gone]);
        assert_eq!(names(&below(&w, "link-00")).last().unwrap(), "link-03");
    }
}

#[test]
fn dependents_in_other_partitions_are_below_a_cluster_scoped_owner() {
    let owner = node("owner");
    let middle = obj("things.example.com", "", "middle").owned(&owner);
    let (one, two) = (obj("configmaps", "one", "one").owned(&middle), obj("pods", "one", "two"));
    let two = two.owned(&one);
    let mut w = World::seen(4, &[&owner, &middle, &one, &two]);
    assert_eq!(names(&below(&w, "owner")), ["middle", "one", "owner", "two"]);
    for gone in [&owner, &middle, &one] {
        w.delete(gone);
        assert_eq!(names(&below(&w, "owner")).last().unwrap(), "two", "{gone:?}");
    }
    w.delete(&two);
    assert!(below(&w, "owner").keys.is_empty());
}
