//! DELETEs of the collector.

use kube_gc_apiserver::resources::ResourceName;
use serde_json::json;

use crate::oracle::{Bounds, Rule};
use crate::world::{World, blocking, broken, to};

#[test]
fn an_owned_object_must_not_be_deleted() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner"), to("never")]);
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete));
}

#[test]
fn an_object_without_existing_owners_may_be_deleted() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner"), to("never")]);
    world.remove("owner");
    assert_eq!(world.collect("item", "Background"), Ok(()));
}

#[test]
fn an_object_without_references_must_not_be_deleted() {
    let mut world = World::new();
    world.create("item", &[]);
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete));
}

#[test]
fn an_owner_must_match_in_uid_name_namespace_and_kind() {
    let mut world = World::new();
    world.create("owner", &[]);
    for (field, other) in [("name", "other"), ("kind", "Node"), ("uid", "other")] {
        let mut reference = to("owner");
        reference[field] = other.into();
        world.create("item", &[reference]);
        assert_eq!(world.collect("item", "Background"), Ok(()), "{field}");
    }
    world.create_as(&ResourceName::new("", "configmaps"), Some("b"), "item", &[to("owner")]);
    assert_eq!(world.collect("item", "Background"), Ok(()), "namespace");
    let mut reference = to("owner");
    reference["kind"] = "configmap".into();
    world.create("item", &[reference]);
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete), "lower case");
}

#[test]
fn a_cluster_scoped_owner_matches_from_any_namespace() {
    let mut world = World::new();
    world.create_as(&ResourceName::new("", "nodes"), None, "node", &[]);
    let mut reference = to("node");
    reference["kind"] = "Node".into();
    world.create("item", std::slice::from_ref(&reference));
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete));
    world.remove("node");
    world.create("item", &[reference]);
    assert_eq!(world.collect("item", "Background"), Ok(()));
}

#[test]
fn a_reference_of_an_unknown_kind_proves_nothing() {
    let mut world = World::new();
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "w"});
    world.create("item", std::slice::from_ref(&widget));
    world.wait(60);
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete));
    // From now on, the absence can be found out. It stays true after the type is removed again.
    world.create("item", &[widget]);
    world.serve_widgets(true);
    world.wait(60);
    world.serve_widgets(false);
    world.wait(60);
    assert_eq!(world.collect("item", "Background"), Ok(()));
}

#[test]
fn an_impossible_scope_proves_nothing() {
    let mut world = World::new();
    world.create_as(&ResourceName::new("", "nodes"), None, "item", &[to("never")]);
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete));
}

#[test]
fn a_waiting_owner_takes_its_dependents_along() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.begin_deletion("owner", &["foregroundDeletion"]);
    assert_eq!(world.collect("item", "Background"), Ok(()));
}

#[test]
fn an_owner_that_no_longer_waits_is_solid_after_a_while() {
    for (waited, rule) in [(1, None), (5, Some(Rule::WrongfulDelete))] {
        let mut world = World::new();
        world.create("owner", &[]);
        world.create("item", &[to("owner")]);
        world.begin_deletion("owner", &["foregroundDeletion"]);
        world.begin_deletion("owner", &["orphan"]);
        world.wait(waited);
        assert_eq!(broken(&world.collect("item", "Background")), rule, "after {waited} s");
    }
}

#[test]
fn a_terminating_owner_is_solid() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.begin_deletion("owner", &["example.com/backup"]);
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete));
}

#[test]
fn an_owner_with_both_finalizers_is_solid() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.begin_deletion("owner", &["foregroundDeletion", "orphan"]);
    assert_eq!(broken(&world.collect("item", "Foreground")), Some(Rule::WrongfulDelete));
}

#[test]
fn a_delete_must_have_uid_and_version_as_preconditions() {
    for (bound, rule) in [
        (json!({"uid": "item", "resourceVersion": "1"}), None),
        (json!({"uid": "item"}), Some(Rule::Precondition)),
        (json!({"resourceVersion": "1"}), Some(Rule::Precondition)),
        (json!({"uid": "other", "resourceVersion": "1"}), Some(Rule::Precondition)),
        (json!({"uid": "item", "resourceVersion": "0"}), Some(Rule::Precondition)),
    ] {
        let mut world = World::new();
        world.create("item", &[to("never")]);
        assert_eq!(broken(&world.collect_if("item", "Background", &bound)), rule, "{bound}");
    }
}

/// Five conflicts need six versions with the same references.
#[test]
fn after_churn_the_uid_alone_suffices() {
    for (changes, rule) in [(4, Some(Rule::Precondition)), (5, None)] {
        let mut world = World::new();
        world.create("item", &[to("never")]);
        for change in 0..changes {
            world.change("item", |metadata| metadata["labels"]["n"] = change.to_string().into());
        }
        let judged = world.collect_if("item", "Background", &json!({"uid": "item"}));
        assert_eq!(broken(&judged), rule, "after {changes} changes");
    }
}

#[test]
fn with_the_uid_alone_the_last_read_state_counts() {
    for (waited, rule) in [(0, None), (5, Some(Rule::Precondition))] {
        let mut world = World::new();
        world.create("owner", &[]);
        world.create("item", &[to("never")]);
        for change in 0..5 {
            world.change("item", |metadata| metadata["labels"]["n"] = change.to_string().into());
        }
        world.change("item", |metadata| metadata["ownerReferences"] = json!([to("owner")]));
        world.wait(waited);
        let judged = world.collect_if("item", "Background", &json!({"uid": "item"}));
        assert_eq!(broken(&judged), rule, "after {waited} s");
    }
}

#[test]
fn the_policy_of_a_delete_follows_the_finalizers_of_the_object() {
    for (finalizers, right) in [
        (vec![], "Background"),
        (vec!["orphan"], "Orphan"),
        (vec!["foregroundDeletion"], "Foreground"),
        (vec!["foregroundDeletion", "orphan"], "Orphan"),
        (vec!["example.com/backup"], "Background"),
    ] {
        for policy in ["Background", "Foreground", "Orphan"] {
            let mut world = World::new();
            world.create("item", &[to("never")]);
            world.change("item", |metadata| metadata["finalizers"] = json!(finalizers));
            let rule = (policy != right).then_some(Rule::Policy);
            assert_eq!(broken(&world.collect("item", policy)), rule, "{policy} with {finalizers:?}");
        }
    }
}

#[test]
fn foreground_deletion_continues_below_a_waiting_owner() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.create("leaf", &[blocking("item")]);
    world.begin_deletion("owner", &["foregroundDeletion"]);
    assert_eq!(world.collect("item", "Foreground"), Ok(()));
    world.create("lonely", &[to("owner")]);
    assert_eq!(broken(&world.collect("lonely", "Foreground")), Some(Rule::Policy));
}

#[test]
fn terminating_objects_must_not_be_deleted_again() {
    let mut world = World::new();
    world.create("item", &[to("never")]);
    world.begin_deletion("item", &["example.com/backup"]);
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::WrongfulDelete));
}

/// Such an owner may be in admission.
#[test]
fn an_owner_that_never_existed_is_absent_only_for_older_objects() {
    let unborn = Some(Rule::WrongfulDelete);
    for (seconds, existed, jumps, rule) in
        [(1, false, false, unborn), (2, false, false, None), (1, true, false, None), (0, false, true, None)]
    {
        let mut world = World::with(Bounds::default());
        if existed {
            world.create("owner", &[]);
            world.remove("owner");
        }
        world.create("item", &[to("owner")]);
        world.wait(seconds);
        if jumps {
            world.oracle.jumped(world.now);
        }
        assert_eq!(broken(&world.collect("item", "Background")), rule, "{seconds} {existed} {jumps}");
    }
}

#[test]
fn objects_of_ignored_types_must_not_be_deleted() {
    let mut world = World::new();
    world.create_as(&ResourceName::new("", "events"), Some("a"), "event", &[to("never")]);
    assert_eq!(broken(&world.collect("event", "Background")), Some(Rule::WrongfulDelete));
}

#[test]
fn a_dependent_that_appeared_late_after_orphaning_must_not_be_deleted() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.begin_deletion("owner", &["orphan"]);
    world.create("later", &[to("owner")]);
    assert_eq!(world.release("owner"), Ok(()), "the collector may not know the type");
    assert_eq!(world.collect("later", "Background"), Ok(()), "it came when the deletion had begun");
    assert_eq!(broken(&world.collect("item", "Background")), Some(Rule::LostOrphan));
}

#[test]
fn a_restart_forgets_orphaned_owners() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.begin_deletion("owner", &["orphan"]);
    assert_eq!(world.release("owner"), Ok(()));
    world.oracle.restarted();
    assert_eq!(world.collect("item", "Background"), Ok(()));
}

#[test]
fn the_memory_of_orphaned_owners_is_bounded() {
    for (remembered, rule) in [(0, None), (1, Some(Rule::LostOrphan))] {
        let mut world = World::with(Bounds { remembered, ..Bounds::default() });
        world.create("owner", &[]);
        world.create("item", &[to("owner")]);
        world.begin_deletion("owner", &["orphan"]);
        assert_eq!(world.release("owner"), Ok(()));
        assert_eq!(broken(&world.collect("item", "Background")), rule, "{remembered}");
    }
}

#[test]
fn a_foreground_deletion_after_an_orphan_deletion_counts() {
    let mut world = World::new();
    world.create("owner", &[]);
    world.create("item", &[to("owner")]);
    world.begin_deletion("owner", &["orphan", "example.com/backup"]);
    let released = world.patch("owner", |metadata| metadata["finalizers"] = json!(["example.com/backup"]));
    assert_eq!(released, Ok(()));
    world.begin_deletion("owner", &["foregroundDeletion", "example.com/backup"]);
    assert_eq!(world.collect("item", "Background"), Ok(()));
}
