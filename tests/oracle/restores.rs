//! Writes after the store was restored from a backup.

use serde_json::json;

use crate::oracle::Rule;
use crate::world::{World, blocking, broken, configmaps, to};

/// An item whose owner is in the backup and was deleted after it.
fn lost_owner() -> World {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.back_up();
    world.remove("owner");
    world
}

#[test]
fn an_object_that_a_restore_gave_an_owner_must_not_be_deleted() {
    let mut world = lost_owner();
    world.restore();
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete));
    let mut world = lost_owner();
    assert_eq!(world.collect("item", "Background"), Ok(()));
    world.restore();
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete), "it is back, too");
}

#[test]
fn an_object_that_lost_its_owners_after_the_restore_may_be_deleted() {
    let mut world = lost_owner();
    world.restore();
    world.remove("owner");
    assert_eq!(world.collect("item", "Background"), Ok(()));
}

#[test]
fn an_object_without_owners_in_the_backup_may_be_deleted() {
    let mut world = World::new();
    world.create("item", &[to("later")]);
    world.back_up();
    world.create("later", &[]);
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete));
    let mut world = World::new();
    world.create("item", &[to("later")]);
    world.back_up();
    world.create("later", &[]);
    world.restore();
    assert_eq!(world.collect("item", "Background"), Ok(()));
}

#[test]
fn only_requests_sent_before_the_restore_are_judged_by_the_state_before_it() {
    for (sent, rule) in [
        (-1, None),
        // While the server is down, and after its restart.
        (0, Some(Rule::WrongfulDelete)),
        (15, Some(Rule::WrongfulDelete)),
        (30, Some(Rule::WrongfulDelete)),
    ] {
        let mut world = lost_owner();
        world.wait(10);
        let stopped = world.now.as_secs();
        world.restore();
        world.sent = Some(std::time::Duration::from_secs(stopped.saturating_add_signed(sent)));
        assert_eq!(broken(&world.collect("item", "Background")), rule, "sent {sent} s after");
    }
}

#[test]
fn a_restore_does_not_excuse_an_earlier_violation() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.back_up();
    world.wait(10);
    world.sent = Some(world.now);
    world.wait(1);
    world.restore();
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete));
}

/// Versions are used twice: the version of the decision is now that of another object's state.
/// Nothing could have prevented this.
#[test]
fn a_version_that_matches_by_accident_is_judged_by_the_object_it_meant() {
    for (owner, rule) in [("never", None), ("owner", Some(Rule::WrongfulDelete))] {
        let mut world = World::new();
        world.create("owner", &[]);
        world.create("item", &[]);
        world.back_up();
        world.change("item", |metadata| metadata["ownerReferences"] = json!([to(owner)]));
        world.wait(10);
        let sent = world.now;
        world.wait(1);
        world.restore();
        world.change("item", |metadata| metadata["ownerReferences"] = json!([to("owner")]));
        world.sent = Some(sent);
        assert_eq!(broken(&world.collect("item", "Background")), rule, "{owner}");
    }
}

#[test]
fn references_to_restored_owners_must_not_be_removed() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("solid", &[]);
    world.create("item", &[to("owner"), to("solid")]);
    world.back_up();
    world.remove("owner");
    world.wait(10);
    world.restore();
    let patched = world.patch("item", |metadata| metadata["ownerReferences"] = json!([to("solid")]));
    assert_eq!(broken(&patched), Some(Rule::WrongfulPatch));
}

#[test]
fn an_orphan_deletion_undone_by_a_restore_keeps_no_dependents() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.back_up();
    world.begin_deletion("owner", &["orphan"]);
    assert_eq!(world.release("owner"), Ok(()), "the collector may not know the type");
    world.restore();
    let patched = world.patch("item", |metadata| metadata["ownerReferences"] = json!([]));
    assert_eq!(broken(&patched), Some(Rule::WrongfulPatch), "its owner is there");
    world.oracle.restarted();
    world.change("item", |metadata| metadata["ownerReferences"] = json!([to("owner")]));
    world.remove("owner");
    assert_eq!(world.collect("item", "Background"), Ok(()), "in the background this time");
}

#[test]
fn a_restored_blocking_dependent_keeps_its_owner_at_once() {
    for (notices, rule) in [(false, Some(Rule::WaitedTooShort)), (true, None)] {
        let mut world = World::new();
        world.create("owner", &[]);
        world.create("item", &[blocking("owner")]);
        world.all_known();
        world.begin_deletion("owner", &["foregroundDeletion"]);
        world.back_up();
        world.remove("item");
        world.oracle.shown(&configmaps(), 4, world.now);
        world.wait(10);
        world.restore();
        if notices {
            // A restarted collector may see the owner first.
            world.oracle.restarted();
        }
        assert_eq!(broken(&world.release("owner")), rule);
    }
}

#[test]
fn at_rest_the_restored_state_counts() {
    let mut world = lost_owner();
    assert_eq!(broken(&world.at_rest(&[])), Some(Rule::LostGarbage));
    world.restore();
    assert_eq!(world.at_rest(&[]), Ok(()));
    world.remove("owner");
    assert_eq!(broken(&world.at_rest(&[])), Some(Rule::LostGarbage));
}

/// The DELETE of a dependent was right when it was sent, and could not be called back.
#[test]
fn a_request_is_judged_by_the_time_it_was_sent() {
    for (sent, rule) in [(0, None), (20, Some(Rule::WrongfulDelete))] {
        let mut world = World::new();
        world.create("owner", &[]);
        world.create("item", &[to("owner")]);
        world.begin_deletion("owner", &["foregroundDeletion"]);
        let began = world.now;
        world.wait(1);
        world.begin_deletion("owner", &["orphan"]);
        world.wait(30);
        world.sent = Some(began + std::time::Duration::from_secs(sent));
        assert_eq!(broken(&world.collect("item", "Background")), rule, "sent after {sent} s");
    }
}

#[test]
fn an_object_that_a_restore_gave_an_owner_must_not_be_deleted_at_any_version() {
    let mut world = lost_owner();
    world.restore_raised();
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete));
    let mut world = lost_owner();
    world.restore_raised();
    world.remove("owner");
    assert_eq!(world.collect("item", "Background"), Ok(()));
}
