//! PATCHes of the collector that change finalizers.

use serde_json::json;

use crate::oracle::Rule;
use crate::world::{World, blocking, broken, configmaps, to};

#[test]
fn a_blocking_dependent_keeps_its_owner() {
    for (reference, rule) in
        [(blocking("owner"), Some(Rule::WaitedTooShort)), (to("owner"), None), (blocking("other"), None)]
    {
        let mut world = World::new();
        world.create("owner", &[]);
        world.create("item", std::slice::from_ref(&reference));
        world.all_known();
        world.begin_deletion("owner", &["foregroundDeletion"]);
        assert_eq!(broken(&world.release("owner")), rule, "{reference}");
    }
}

#[test]
fn a_dependent_that_the_collector_could_not_see_does_not_block() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.all_known();
    world.create("late", &[blocking("owner")]);
    world.begin_deletion("owner", &["foregroundDeletion"]);
    world.oracle.shown(&configmaps(), 3, world.now);
    assert_eq!(world.release("owner"), Ok(()), "shown when it was decided already");
}

#[test]
fn a_restarted_collector_knows_nothing() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[blocking("owner")]);
    world.all_known();
    world.oracle.restarted();
    world.begin_deletion("owner", &["foregroundDeletion"]);
    assert_eq!(world.release("owner"), Ok(()));
}

#[test]
fn finalizers_of_objects_that_are_not_terminating_stay() {
    for finalizer in ["orphan", "foregroundDeletion"] {
        let mut world = World::new();
        world.create("owner", &[]);
        world.change("owner", |metadata| metadata["finalizers"] = json!([finalizer]));
        let patched = world.patch("owner", |metadata| metadata["finalizers"] = json!([]));
        assert_eq!(broken(&patched), Some(Rule::WaitedTooShort), "{finalizer}");
    }
}

#[test]
fn the_orphan_finalizer_is_handled_before_the_foreground_one() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.begin_deletion("owner", &["foregroundDeletion", "orphan"]);
    let patched = world.patch("owner", |metadata| metadata["finalizers"] = json!(["orphan"]));
    assert_eq!(broken(&patched), Some(Rule::WaitedTooShort));
}

#[test]
fn the_removal_of_a_finalizer_must_have_uid_and_version() {
    for bound in [json!({"uid": "owner"}), json!({"resourceVersion": "2"})] {
        let mut world = World::new();
        world.create("owner", &[]);
        world.begin_deletion("owner", &["foregroundDeletion"]);
        let patched = world.patch_if("owner", &bound, |metadata| metadata["finalizers"] = json!([]));
        assert_eq!(broken(&patched), Some(Rule::Precondition));
    }
}

#[test]
fn no_reference_is_left_when_the_orphan_finalizer_is_removed() {
    for (is_released, rule) in [(true, None), (false, Some(Rule::LostOrphan))] {
        let mut world = World::new();
        world.create("owner", &[]);
        world.create("item", &[to("owner")]);
        world.all_known();
        world.begin_deletion("owner", &["orphan"]);
        world.create("later", &[to("owner")]);
        if is_released {
            let bound = json!({"uid": "item"});
            world.patch_if("item", &bound, |metadata| metadata["ownerReferences"] = json!([])).unwrap();
        }
        assert_eq!(broken(&world.release("owner")), rule);
    }
}

#[test]
fn a_type_that_was_unknown_at_the_time_is_excused() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.begin_deletion("owner", &["orphan"]);
    world.oracle.listed(&configmaps(), true, world.now);
    world.wait(10);
    assert_eq!(world.release("owner"), Ok(()));
}

#[test]
fn a_type_that_cannot_be_listed_is_excused_for_a_while() {
    for (waited, rule) in [(10, None), (300, Some(Rule::LostOrphan))] {
        let mut world = World::new();
        world.create("owner", &[]);
        world.all_known();
        // Nothing has shown it.
        world.create("item", &[to("owner")]);
        world.oracle.listed(&configmaps(), false, world.now);
        world.begin_deletion("owner", &["orphan"]);
        world.wait(waited);
        assert_eq!(broken(&world.release("owner")), rule, "after {waited} s");
    }
}

#[test]
fn a_group_that_has_not_answered_since_the_start_is_no_excuse_for_ten_minutes() {
    for (waited, listed, rule) in [(10, false, Some(Rule::LostOrphan)), (600, false, None), (10, true, None)]
    {
        let mut world = World::new();
        world.create("owner", &[]);
        world.create("item", &[to("owner")]);
        world.all_known();
        world.begin_deletion("owner", &["orphan"]);
        world.oracle.restarted();
        world.oracle.away("", world.now);
        if listed {
            // It is a type like others from now on.
            world.oracle.listed(&configmaps(), true, world.now);
        }
        world.wait(waited);
        assert_eq!(broken(&world.release("owner")), rule, "after {waited} s, listed: {listed}");
    }
}
