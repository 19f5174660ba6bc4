//! The final state.

use serde_json::{Value, json};

use crate::oracle::Rule;
use crate::world::{World, blocking, broken, to};

fn widget() -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "w"})
}

#[test]
fn a_settled_cluster_has_no_violations() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.create("terminating", &[to("never")]);
    world.begin_deletion("terminating", &["example.com/backup"]);
    assert_eq!(world.at_rest(&[]), Ok(()));
}

#[test]
fn garbage_must_be_gone_at_rest() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.remove("owner");
    assert_eq!(broken(&world.at_rest(&[])), Some(Rule::LostGarbage));
    world.collect("item", "Background").unwrap();
    assert_eq!(world.at_rest(&[]), Ok(()));
}

#[test]
fn dependents_of_only_waiting_owners_must_be_terminating() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("held", &[blocking("owner")]);
    world.begin_deletion("held", &["example.com/backup"]);
    world.begin_deletion("owner", &["foregroundDeletion"]);
    assert_eq!(world.at_rest(&[]), Ok(()));
    world.create("item", &[to("owner")]);
    assert_eq!(broken(&world.at_rest(&[])), Some(Rule::LostGarbage));
}

#[test]
fn no_absent_reference_may_stay_beside_a_solid_one() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner"), to("never")]);
    assert_eq!(broken(&world.at_rest(&[])), Some(Rule::LeftReference));
}

#[test]
fn undecidable_objects_are_kept_and_reported() {
    let mut world = World::new();
    world.create("item", &[to("never"), widget()]);
    assert_eq!(broken(&world.at_rest(&[])), Some(Rule::Hidden));
    assert_eq!(world.at_rest(&["item"]), Ok(()));
    world.serve_widgets(true);
    assert_eq!(broken(&world.at_rest(&["item"])), Some(Rule::LostGarbage));
}

#[test]
fn objects_with_impossible_owners_are_kept() {
    let mut world = World::new();
    let node = kube_gc_apiserver::resources::ResourceName::new("", "nodes");
    world.create_as(&node, None, "item", &[to("never")]);
    assert_eq!(world.at_rest(&[]), Ok(()));
}

#[test]
fn objects_of_ignored_types_stay_as_they_are() {
    let mut world = World::new();
    let event = kube_gc_apiserver::resources::ResourceName::new("", "events");
    world.create_as(&event, Some("a"), "item", &[to("never")]);
    assert_eq!(world.at_rest(&[]), Ok(()));
}

#[test]
fn no_orphan_finalizer_may_be_left() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.change("owner", |metadata| metadata["finalizers"] = json!(["orphan"]));
    assert_eq!(world.at_rest(&[]), Ok(()), "it is not being deleted");
    world.begin_deletion("owner", &["orphan"]);
    assert_eq!(broken(&world.at_rest(&[])), Some(Rule::StuckFinalizer));
}

#[test]
fn no_owner_may_wait_without_a_blocking_dependent() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.begin_deletion("item", &["example.com/backup"]);
    world.begin_deletion("owner", &["foregroundDeletion"]);
    assert_eq!(broken(&world.at_rest(&[])), Some(Rule::StuckFinalizer), "it does not block");
    world.change("item", |metadata| metadata["ownerReferences"] = json!([blocking("owner")]));
    assert_eq!(world.at_rest(&[]), Ok(()));
}

#[test]
fn a_ring_may_not_block_itself() {
    let mut world = World::new();
    world.create("self", &[blocking("self")]);
    world.begin_deletion("self", &["foregroundDeletion"]);
    assert_eq!(broken(&world.at_rest(&[])), Some(Rule::StuckFinalizer));

    let mut world = World::new();
    world.create("one", &[blocking("two")]);
    world.create("two", &[blocking("one")]);
    world.begin_deletion("one", &["foregroundDeletion"]);
    world.begin_deletion("two", &["foregroundDeletion"]);
    assert_eq!(broken(&world.at_rest(&[])), Some(Rule::StuckFinalizer));
    // Another object blocks one of them, and so the other.
    world.create("held", &[blocking("two")]);
    world.begin_deletion("held", &["example.com/backup"]);
    assert_eq!(world.at_rest(&[]), Ok(()));
}
