//! Types are added and removed (rules 2.8 to 2.13 and 3.4).

use crate::graph::testing::world::*;
use crate::graph::*;
use crate::object::*;

fn widget(name: &str) -> Obj {
    obj("widgets.example.com", "ns", name)
}

fn thing(name: &str) -> Obj {
    obj("things.example.com", "", name)
}

const WIDGETS: &str = "widgets.example.com";
const THINGS: &str = "things.example.com";

/// A catalog that serves only v2 of widgets; v1 is perhaps served and could not be read.
fn without_v1(is_unread: bool) -> std::sync::Arc<Catalog> {
    let full = catalog_without(&[WIDGETS]);
    let mut builder = Catalog::builder();
    for resource in full.types() {
        builder.add(ServedKind { version: resource.version.clone(), resource: resource.clone() });
    }
    builder.add(ServedKind { version: "v2".into(), resource: resource(WIDGETS) });
    if is_unread {
        builder.unread("example.com", "v1");
    }
    std::sync::Arc::new(builder.build())
}

/// Rule 3.4.
#[test]
fn a_reference_to_an_unknown_kind_is_unresolved_until_the_catalog_knows_it() {
    let mut w = World::new(2);
    for owner in [widget("w"), thing("t")] {
        let name = owner.resource.group_resource.to_string();
        w.remove_type(&name);
        w.set_catalog(&catalog_without(&[&name]));
        let a = pod("a").owned(&owner);
        w.see(&[&a]);
        assert_eq!(w.object(&a).references[0].owner, OwnerView::Unresolved);
        w.forget();
        w.set_catalog(catalog());
        let queued = w.queued();
        assert!(queued.contains(&"a".to_owned()) && queued.contains(&owner.facts.name.to_string()));
        assert_eq!(w.virtual_node(&owner).0, owner.identity());
        w.delete(&a);
    }
}

#[test]
fn references_through_a_version_that_is_no_longer_served_become_unresolved() {
    let owner = widget("w");
    let through_v1 =
        pod("a").with(OwnerReference { api_version: "example.com/v1".into(), ..owner.reference() });
    let mut w = World::seen(1, &[&owner, &through_v1, &pod("b").owned(&owner)]);
    w.set_catalog(&without_v1(false));
    assert_eq!(w.queued(), ["a"]);
    assert_eq!(w.object(&through_v1).references[0].owner, OwnerView::Unresolved);
    assert!(matches!(w.object(&pod("b")).references[0].owner, OwnerView::Local { .. }));
    w.delete(&owner);
    assert_eq!(w.queued(), ["b"]);
    w.set_catalog(catalog());
    assert_eq!(w.queued(), ["a"]);
    let OwnerView::Local { state, .. } = &w.object(&through_v1).references[0].owner else { panic!() };
    assert_eq!(state, &OwnerState::Absent);
}

/// Rule 2.7.
#[test]
fn a_reference_through_an_unread_version_blocks_its_owner() {
    let mut w = World::new(1);
    let owner = widget("w");
    let through_v1 = OwnerReference { api_version: "example.com/v1".into(), ..owner.reference() };
    let blocking = pod("a").with(OwnerReference { block_owner_deletion: true, ..through_v1.clone() });
    w.set_catalog(&without_v1(true));
    w.see(&[&owner.clone().foreground(), &blocking]);
    assert_eq!(w.object(&owner).foreground, ForegroundProgress::PerhapsBlocked);
    assert_eq!(
        w.object(&blocking).references[0].owner,
        OwnerView::Unresolved,
        "the reference is only unresolved"
    );
    assert!(w.partition("ns").is_blocked_through_unread(&owner.facts.uid));

    // It stops blocking, and blocks again.
    w.see(&[&pod("a").with(through_v1).at(11)]);
    assert!(!w.partition("ns").is_blocked_through_unread(&owner.facts.uid));
    w.see(&[&blocking.clone().at(12)]);
    assert!(w.partition("ns").is_blocked_through_unread(&owner.facts.uid));

    // From now on it is an ordinary edge.
    w.set_catalog(catalog());
    assert!(!w.partition("ns").is_blocked_through_unread(&owner.facts.uid));
    assert_eq!(w.object(&owner).foreground, ForegroundProgress::Blocked(1));
    w.forget();
    w.delete(&blocking);
    assert_eq!(w.queued(), ["w"]);
    assert_eq!(w.object(&owner).foreground, ForegroundProgress::Unblocked);
}

#[test]
fn a_reference_through_an_unserved_version_blocks_no_owner() {
    let mut w = World::new(1);
    let owner = widget("w");
    let reference = OwnerReference { block_owner_deletion: true, ..owner.reference() };
    let through_v1 = OwnerReference { api_version: "example.com/v1".into(), ..reference };
    w.set_catalog(&without_v1(false));
    w.see(&[&owner.clone().foreground(), &pod("a").with(through_v1)]);
    assert_eq!(w.object(&owner).foreground, ForegroundProgress::Unblocked);
    assert!(!w.partition("ns").is_blocked_through_unread(&owner.facts.uid));
}

#[test]
fn the_removal_of_a_type_removes_its_nodes_and_deletes_no_dependents() {
    let (owner, cluster) = (widget("w"), thing("t"));
    let a = pod("a").owned(&owner).owned(&cluster);
    let mut w = World::seen(2, &[&owner, &cluster, &a]);
    w.set_catalog(&catalog_without(&[WIDGETS, THINGS]));
    assert!(w.is_observed(&owner), "the monitor is drained first");
    w.remove_type(WIDGETS);
    w.remove_type(THINGS);
    assert!(w.out.absent.is_empty());
    let references = w.object(&a).references;
    assert_eq!(references[0].owner, OwnerView::Unresolved);
    assert_eq!(
        references[1].owner,
        OwnerView::Remote(cluster.identity()),
        "partition 0 decides about its owners"
    );
    assert_eq!((w.state(&owner), w.state(&cluster)), (OwnerState::Unknown, OwnerState::Unknown));
    w.forget();
    w.set_catalog(catalog());
    assert_eq!(w.queued(), ["a", "t", "w"], "queued at once when their types return");
}

#[test]
fn a_dependent_of_an_owner_of_a_removed_type_is_unresolved() {
    let owner = thing("t");
    let mut w = World::of(2, &[&pod("a").owned(&owner)]);
    w.set_catalog(&catalog_without(&[THINGS]));
    w.remove_type(THINGS);
    w.forget();
    let (identity, generation) = w.virtual_node(&owner);
    let partition = &mut w.partitions[0];
    assert_eq!(
        partition.verified(&identity, Finding::NotServed, generation, &mut w.out),
        Verification::Applied
    );
    assert_eq!(w.queued(), ["a"], "queued, so that it is parked as unresolved");
    w.see(&[&pod("b").owned(&owner)]);
    assert_eq!(w.queued(), ["b"], "the owner is not queued any more");
    w.set_catalog(catalog());
    assert!(w.queued().contains(&"t".to_owned()), "the owner is queued when its type returns");
}

#[test]
fn the_last_deletions_of_a_removed_type_still_count() {
    let mut w = World::new(2);
    for (owner, name) in [(widget("w"), WIDGETS), (thing("t"), THINGS)] {
        let (a, late) = (pod("a").owned(&owner), pod("late").owned(&owner));
        w.see(&[&owner, &a]);
        w.forget();
        w.set_catalog(&catalog_without(&[name]));
        w.see(&[&late]);
        assert!(w.queued().is_empty());
        w.delete(&owner);
        assert_eq!(w.queued(), ["a", "late"]);
        w.remove_type(name);
        assert_eq!(w.state(&owner), OwnerState::Absent, "the owner does not return with its type");
        assert_ne!(w.object(&a).references[0].owner, OwnerView::Unresolved);
        w.delete(&a);
        w.delete(&late);
        w.set_catalog(catalog());
    }
}

#[test]
fn a_dependent_of_a_removed_type_no_longer_blocks() {
    let (near, far) = (config("near"), node("far"));
    let mut w = World::of(2, &[&near.clone().foreground(), &far.clone().foreground()]);
    w.see(&[&widget("w").blocking(&near).blocking(&far)]);
    w.forget();
    w.remove_type(WIDGETS);
    assert_eq!(w.queued(), ["far", "near"]);
    assert_eq!(w.object(&far).foreground, ForegroundProgress::Unblocked);
}

#[test]
fn owners_of_a_served_type_without_a_monitor_are_verified() {
    let mut w = World::seen(1, &[&widget("w"), &pod("a").owned(&widget("w"))]);
    w.remove_type(WIDGETS);
    assert_eq!(w.queued(), ["w"]);
    assert_eq!(w.virtual_node(&widget("w")).0, widget("w").identity());
}

#[test]
fn a_new_preferred_version_is_followed() {
    let mut w = World::of(1, &[&widget("w")]);
    let mut builder = Catalog::builder();
    let moved = ResourceType { version: "v3".into(), ..(*resource(WIDGETS)).clone() };
    let moved = std::sync::Arc::new(moved);
    builder.add(ServedKind { version: "v3".into(), resource: moved.clone() });
    w.set_catalog(&std::sync::Arc::new(builder.build()));
    assert_eq!(w.object(&widget("w")).identity.resource, moved);
}

#[test]
fn a_type_that_comes_back_with_another_scope_gets_new_nodes() {
    let (was_cluster, was_namespaced) = (thing("t"), widget("w"));
    let a = pod("a").owned(&was_cluster).owned(&was_namespaced);
    let mut w = World::of(2, &[&was_cluster, &was_namespaced, &a]);
    w.remove_type(WIDGETS);
    w.remove_type(THINGS);
    let mut builder = Catalog::builder();
    for (old, scope) in [(&was_cluster, Scope::Namespaced), (&was_namespaced, Scope::Cluster)] {
        let resource = ResourceType { scope, ..(*old.resource).clone() };
        builder
            .add(ServedKind { version: resource.version.clone(), resource: std::sync::Arc::new(resource) });
    }
    w.set_catalog(&std::sync::Arc::new(builder.build()));
    let references = w.object(&a).references;
    assert!(matches!(references[0].owner, OwnerView::Local { .. }));
    assert!(matches!(references[1].owner, OwnerView::Remote(_)));
    w.delete(&a);
    assert!(w.partitions.iter().all(|partition| partition.stats().nodes == 0), "no link is left");
}

#[test]
fn an_unserved_type_keeps_its_nodes_which_no_longer_prove_existence() {
    let (owner, near, far) = (widget("w").at(5), config("near").at(6), node("far").at(7));
    let blocking = widget("b").blocking(&near).blocking(&far).at(8);
    let child = pod("p").owned(&owner).at(9);
    let mut w =
        World::of(2, &[&owner, &near.clone().foreground(), &far.clone().foreground(), &blocking, &child]);
    w.partition("ns").expect_event(&blocking.key(), &ExpectedChange::Removed);
    assert_eq!(w.snapshot_and_queue(&blocking), Snapshot::AwaitsEvent);
    w.forget();
    for partition in &mut w.partitions {
        partition.type_unserved(&resource(WIDGETS), w.epoch, &mut w.out);
    }
    w.deliver();
    assert_eq!(w.queued(), ["b"], "it waited for an event that will not arrive");
    assert_eq!(w.object(&near).foreground, ForegroundProgress::Blocked(1));
    assert_eq!(w.object(&far).foreground, ForegroundProgress::Blocked(1));
    assert_eq!(w.state(&owner), OwnerState::Unknown, "the owner must be looked up");
    w.partition("ns").expect_event(&blocking.key(), &ExpectedChange::Removed);
    assert!(matches!(w.snapshot_and_queue(&blocking), Snapshot::Object(_)), "no event will arrive");
    w.set_catalog(&catalog_without(&[WIDGETS]));
    assert_eq!(w.state(&owner), OwnerState::Unknown);
    assert_ne!(
        w.object(&child).references[0].owner,
        OwnerView::Unresolved,
        "the reference keeps its resolved type"
    );
    w.set_catalog(catalog());

    // The type is back, and its first list has all objects.
    w.epoch = Epoch(2);
    w.start(WIDGETS);
    w.forget();
    w.list(WIDGETS, 20, &[&owner]);
    assert!(w.is_observed(&owner));
    assert_eq!(w.queued(), ["far", "near"], "no dependent blocks them");
    assert_eq!(w.object(&near).foreground, ForegroundProgress::Unblocked);
}
