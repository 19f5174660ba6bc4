//! PATCHes of the collector that change owner references.

use serde_json::json;

use crate::oracle::{Bounds, Rule};
use crate::world::{World, blocking, broken, to};

/// A solid owner, a waiting one, one that never existed, and an item that all three own.
fn three_owners() -> World {
    let mut world = World::new();
    world.create("solid", &[]);
    world.create("waiting", &[]);
    world.begin_deletion("waiting", &["foregroundDeletion"]);
    world.create("item", &[to("solid"), to("waiting"), to("never")]);
    world
}

#[test]
fn absent_and_waiting_references_are_removed_beside_a_solid_one() {
    let mut world = three_owners();
    let patched = world.patch("item", |metadata| metadata["ownerReferences"] = json!([to("solid")]));
    assert_eq!(patched, Ok(()));
}

#[test]
fn a_reference_of_a_young_object_to_an_owner_that_never_existed_stays() {
    for (seconds, rule) in [(1, Some(Rule::WrongfulPatch)), (2, None)] {
        let mut world = World::with(Bounds::default());
        world.create("solid", &[]);
        world.create("item", &[to("solid"), to("never")]);
        world.wait(seconds);
        let patched = world.patch("item", |metadata| metadata["ownerReferences"] = json!([to("solid")]));
        assert_eq!(broken(&patched), rule, "after {seconds} s");
    }
}

/// A late patch without a resource version, which removes the reference to a deleted owner, may
/// meet two references with one uid that are not adjacent.
#[test]
fn the_order_of_references_is_irrelevant() {
    let mut world = three_owners();
    let again = |owner: &str| {
        let mut reference = to(owner);
        reference["controller"] = true.into();
        reference
    };
    world.change("item", |metadata| {
        metadata["ownerReferences"] = json!([to("never"), to("solid"), again("never")]);
    });
    let together = json!([to("never"), again("never"), to("solid")]);
    let patched = world.patch_if("item", &json!({"uid": "item"}), |metadata| {
        metadata["ownerReferences"] = together;
    });
    assert_eq!(patched, Ok(()));
}

#[test]
fn a_solid_reference_must_not_be_removed() {
    let mut world = three_owners();
    world.create("other", &[]);
    world.change("item", |metadata| metadata["ownerReferences"] = json!([to("solid"), to("other")]));
    let patched = world.patch("item", |metadata| metadata["ownerReferences"] = json!([to("solid")]));
    assert_eq!(broken(&patched), Some(Rule::WrongfulPatch));
}

#[test]
fn no_reference_is_removed_without_a_solid_one() {
    for left in [vec![], vec![to("never")]] {
        let mut world = three_owners();
        world.change("item", |metadata| metadata["ownerReferences"] = json!([to("waiting"), to("never")]));
        let patched = world.patch("item", |metadata| metadata["ownerReferences"] = json!(left));
        assert_eq!(broken(&patched), Some(Rule::WrongfulPatch));
    }
}

/// An owner that was solid a while ago does not allow the removal of a waiting reference. It does
/// allow that of an absent one.
#[test]
fn a_solid_owner_must_be_confirmed_before_a_waiting_reference_is_removed() {
    for (goes, rule) in [("waiting", Some(Rule::WrongfulPatch)), ("never", None)] {
        let mut world = three_owners();
        world.change("item", |metadata| metadata["ownerReferences"] = json!([to("solid"), to(goes)]));
        world.remove("solid");
        world.wait(10);
        let patched = world.patch("item", |metadata| metadata["ownerReferences"] = json!([to("solid")]));
        assert_eq!(broken(&patched), rule, "{goes}");
    }
}

#[test]
fn a_reference_of_an_unknown_kind_must_not_be_removed() {
    let mut world = three_owners();
    let unknown = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "w"});
    world.change("item", |metadata| metadata["ownerReferences"] = json!([to("solid"), unknown]));
    let patched = world.patch("item", |metadata| metadata["ownerReferences"] = json!([to("solid")]));
    assert_eq!(broken(&patched), Some(Rule::WrongfulPatch));
}

#[test]
fn references_to_an_orphaning_owner_are_removed_at_any_version() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    let bound = json!({"uid": "item"});
    let mut other = World::new();
    other.create("owner", &[]);
    other.create("item", &[to("owner")]);
    let patched = other.patch_if("item", &bound, |metadata| metadata["ownerReferences"] = json!([]));
    assert_eq!(broken(&patched), Some(Rule::Precondition), "it is not to orphan");
    world.begin_deletion("owner", &["orphan"]);
    let patched = world.patch_if("item", &bound, |metadata| metadata["ownerReferences"] = json!([]));
    assert_eq!(patched, Ok(()));
}

#[test]
fn a_patch_must_have_the_uid() {
    for bound in [json!({"resourceVersion": "5"}), json!({"uid": "other", "resourceVersion": "5"})] {
        let mut world = three_owners();
        let patched =
            world.patch_if("item", &bound, |metadata| metadata["ownerReferences"] = json!([to("solid")]));
        assert_eq!(broken(&patched), Some(Rule::Precondition));
    }
}

#[test]
fn a_patch_must_not_change_anything_else() {
    let mut world = three_owners();
    let patched = world.patch("item", |metadata| {
        metadata["ownerReferences"] = json!([to("solid")]);
        metadata["labels"]["app"] = "other".into();
    });
    assert_eq!(broken(&patched), Some(Rule::ForeignWrite));
    let mut world = three_owners();
    let patched = world.patch("item", |metadata| {
        let mut kept = to("solid");
        kept["controller"] = true.into();
        metadata["ownerReferences"] = json!([kept]);
    });
    assert_eq!(broken(&patched), Some(Rule::ForeignWrite));
    for left in [json!(["foregroundDeletion"]), json!([]), json!(["foregroundDeletion", "example.com/other"])]
    {
        let mut world = three_owners();
        world.begin_deletion("item", &["foregroundDeletion", "example.com/backup"]);
        let patched = world.patch("item", |metadata| metadata["finalizers"] = left);
        assert_eq!(broken(&patched), Some(Rule::ForeignWrite));
    }
}

#[test]
fn references_are_unblocked_only_in_a_ring_of_deletions() {
    let mut world = World::new();
    world.create("one", &[blocking("two")]);
    world.create("two", &[blocking("one")]);
    let released = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "one", "uid": "one", "blockOwnerDeletion": false}]);
    world.begin_deletion("one", &["foregroundDeletion"]);
    let patched = world.patch("two", |metadata| metadata["ownerReferences"] = released.clone());
    assert_eq!(patched, Ok(()), "its owner waits, and so does its dependent");

    let mut world = World::new();
    world.create("one", &[]);
    world.create("two", &[blocking("one")]);
    let patched = world.patch("two", |metadata| metadata["ownerReferences"] = released.clone());
    assert_eq!(broken(&patched), Some(Rule::WrongfulPatch));
    world.change("two", |metadata| metadata["ownerReferences"] = json!([blocking("one")]));
    world.begin_deletion("two", &["foregroundDeletion"]);
    assert_eq!(
        world.patch("two", |metadata| metadata["ownerReferences"] = released),
        Ok(()),
        "it waits itself"
    );
}
