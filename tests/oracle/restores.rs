//! What is right after the store was restored from a backup.

use serde_json::json;

use crate::oracle::Rule;
use crate::world::{World, blocking, broken, configmaps, to};

/// An item whose owner is in the backup, and went after it.
fn lost_owner() -> World {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.back_up();
    world.remove("owner");
    world
}

#[test]
fn what_is_owned_again_must_not_go() {
    let mut world = lost_owner();
    world.restore();
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete));
    let mut world = lost_owner();
    assert_eq!(world.collect("item", "Background"), Ok(()));
    world.restore();
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete), "it is back, too");
}

#[test]
fn what_has_lost_its_owners_since_goes() {
    let mut world = lost_owner();
    world.restore();
    world.remove("owner");
    assert_eq!(world.collect("item", "Background"), Ok(()));
}

#[test]
fn what_never_had_an_owner_in_the_backup_goes() {
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
fn only_what_was_sent_before_is_judged_by_what_was_true_before() {
    for (sent, rule) in [
        (-1, None),
        // While the server is down, and when it is there again.
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
fn what_was_wrong_before_is_not_excused_by_a_restore() {
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

/// Versions are given out twice: the one that was decided on is another object's state
/// now, and nothing could have prevented it.
#[test]
fn a_version_that_is_there_by_accident_is_judged_as_what_it_was() {
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
fn references_to_what_is_there_again_stay() {
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
fn an_orphan_deletion_that_was_undone_keeps_nobody() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.back_up();
    world.doom("owner", &["orphan"]);
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
fn who_blocks_again_holds_its_owner_even_before_that_was_noticed() {
    for (notices, rule) in [(false, Some(Rule::WaitedTooShort)), (true, None)] {
        let mut world = World::new();
        world.create("owner", &[]);
        world.create("item", &[blocking("owner")]);
        world.all_known();
        world.doom("owner", &["foregroundDeletion"]);
        world.back_up();
        world.remove("item");
        world.oracle.shown(&configmaps(), 4, world.now);
        world.wait(10);
        world.restore();
        if notices {
            // Whoever begins anew may see the owner first.
            world.oracle.restarted();
        }
        assert_eq!(broken(&world.release("owner")), rule);
    }
}

#[test]
fn at_rest_the_backup_counts() {
    let mut world = lost_owner();
    assert_eq!(broken(&world.at_rest(&[])), Some(Rule::LostGarbage));
    world.restore();
    assert_eq!(world.at_rest(&[]), Ok(()));
    world.remove("owner");
    assert_eq!(broken(&world.at_rest(&[])), Some(Rule::LostGarbage));
}

/// The DELETE of a dependent was right when it was sent, and nobody could call it back.
#[test]
fn a_request_is_judged_by_when_it_was_sent() {
    for (sent, rule) in [(0, None), (20, Some(Rule::WrongfulDelete))] {
        let mut world = World::new();
        world.create("owner", &[]);
        world.create("item", &[to("owner")]);
        world.doom("owner", &["foregroundDeletion"]);
        let began = world.now;
        world.wait(1);
        world.doom("owner", &["orphan"]);
        world.wait(30);
        world.sent = Some(began + std::time::Duration::from_secs(sent));
        assert_eq!(broken(&world.collect("item", "Background")), rule, "sent after {sent} s");
    }
}

#[test]
fn what_is_owned_again_must_not_go_whatever_the_version_is() {
    let mut world = lost_owner();
    world.restore_raised();
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete));
    let mut world = lost_owner();
    world.restore_raised();
    world.remove("owner");
    assert_eq!(world.collect("item", "Background"), Ok(()));
}
