//! Attaching dependents to owners (rules 3.3 to 3.6 and 3.12).

use crate::graph::testing::world::*;
use crate::graph::*;
use crate::object::*;

/// Rule 3.3.
#[test]
fn an_unseen_owner_becomes_virtual_and_is_queued_once() {
    let mut w = World::new(1);
    let owner = config("owner");
    w.see(&[&pod("a").owned(&owner), &pod("b").owned(&owner)]);
    assert_eq!(w.out.delete.len(), 1, "the owner is queued already");
    assert_eq!(w.queued(), ["owner"]);
    assert_eq!(w.virtual_node(&owner).identity, owner.identity());
    assert_eq!(w.partition("ns").stats().virtual_nodes, 1);
}

/// Rule 3.5.
#[test]
fn a_real_object_makes_its_virtual_node_observed_and_keeps_matching_dependents() {
    let mut w = World::new(1);
    let owner = config("owner");
    w.see(&[&pod("a").owned(&owner)]);
    w.forget();
    w.see(&[&owner]);
    assert!(w.queued().is_empty());
    assert!(w.is_observed(&owner));
    assert_eq!(w.partition("ns").stats().virtual_nodes, 0);
}

#[test]
fn an_owner_observed_in_another_namespace_queues_and_reports_its_dependents() {
    let mut w = World::new(1);
    let owner = obj("configmaps", "other", "owner");
    let bad = pod("bad").owned(&owner);
    w.see(&[&bad]);
    w.forget();
    w.see(&[&owner]);
    assert_eq!(w.queued(), ["bad"]);
    let reference = owner.reference();
    assert_eq!(w.reports(), [Report::NamespaceMismatch { dependent: bad.identity(), reference }]);
    w.see(&[&owner.at(11)]);
    assert!(w.queued().is_empty() && w.reports().is_empty(), "once");
}

/// Rule 3.6.
#[test]
fn a_dependent_in_another_namespace_than_its_observed_owner_is_queued_and_reported() {
    let mut w = World::new(1);
    let owner = obj("configmaps", "other", "owner");
    let bad = pod("bad").owned(&owner);
    w.see(&[&owner, &bad]);
    assert_eq!(w.queued(), ["bad"]);
    assert_eq!(w.reports().len(), 1);
    w.see(&[&bad.at(11)]);
    assert!(w.queued().is_empty(), "once");
}

#[test]
fn a_dependent_with_a_wrong_name_is_queued_without_a_report() {
    let mut w = World::new(1);
    let owner = config("owner");
    let bad = pod("bad").with(OwnerReference { name: "else".into(), ..owner.reference() });
    w.see(&[&owner, &bad]);
    assert_eq!(w.queued(), ["bad"]);
    assert!(w.reports().is_empty());
    let written = w.object(&bad).references;
    assert_eq!(&*written[0].reference.name, "else");
    let OwnerView::Local { identity, state } = &written[0].owner else { panic!() };
    assert_eq!((&*identity.name, state), ("else", &OwnerState::Unknown));
}

#[test]
fn a_dependent_that_disagrees_with_a_virtual_owner_is_queued_without_a_report() {
    let mut w = World::new(1);
    let owner = config("owner");
    w.see(&[&pod("a").owned(&owner)]);
    w.forget();
    let bad = pod("bad").with(OwnerReference { name: "else".into(), ..owner.reference() });
    w.see(&[&bad, &obj("pods", "other", "far").owned(&owner)]);
    assert_eq!(w.queued(), ["bad", "far"]);
    assert!(w.reports().is_empty());
}

#[test]
fn a_reference_of_another_kind_has_an_owner_node_of_its_own() {
    let mut w = World::new(1);
    let owner = config("owner");
    let bad = pod("bad").with(OwnerReference { kind: "Pod".into(), ..owner.reference() });
    w.see(&[&owner, &bad]);
    assert_eq!(w.queued(), ["owner"], "the owner pod with that uid is queued for verification");
    assert_eq!(w.prove_absent(&pod("owner")), Verification::Applied);
    assert_eq!(w.queued(), ["bad"]);
    assert!(w.is_observed(&owner), "the observed owner is unchanged");
}

#[test]
fn any_served_version_and_the_lower_case_kind_name_the_same_owner() {
    let mut w = World::new(1);
    let owner = obj("widgets.example.com", "ns", "w");
    let old = OwnerReference { api_version: "example.com/v1".into(), ..owner.reference() };
    let lower = OwnerReference { kind: "widget".into(), ..owner.reference() };
    let dependent = pod("a").with(old.clone()).with(lower.clone());
    w.see(&[&owner, &dependent]);
    assert!(w.queued().is_empty());
    let written: Vec<_> = w.object(&dependent).references.into_iter().map(|r| r.reference).collect();
    assert_eq!(written, [old, lower], "kept as written, in order");
}

#[test]
fn an_invalid_scope_is_evaluated_once_and_causes_no_write() {
    let mut w = World::new(1);
    let bad = node("n").owned(&config("owner"));
    w.see(&[&bad]);
    assert_eq!(w.queued(), ["n"], "queued for the warning");
    let reference = config("owner").reference();
    assert_eq!(w.reports(), [Report::InvalidScope { dependent: bad.identity(), reference }]);
    assert_eq!(w.object(&bad).references[0].owner, OwnerView::InvalidScope);
    w.forget();
    w.see(&[&config("owner"), &pod("p").owned(&bad).uid("owner")]);
    w.delete(&config("owner"));
    w.see(&[&bad.clone().at(11)]);
    w.partition("").rederive(&mut Effects::default());
    assert!(w.queued().is_empty());
    w.see(&[&bad.clone().owned(&config("second")).at(12)]);
    assert_eq!(w.queued(), ["n"], "queued for another warning");
}

#[test]
fn a_virtual_node_is_removed_with_its_last_dependent() {
    let mut w = World::new(2);
    let a = pod("a").owned(&config("owner")).owned(&node("n"));
    w.see(&[&a]);
    w.delete(&a);
    assert!(w.partitions.iter().all(|partition| partition.stats().nodes == 0));
    assert_eq!(w.snapshot_and_queue(&config("owner")), Snapshot::Gone);
}

#[test]
fn a_late_dependent_of_a_foreground_deleting_owner_is_queued() {
    let mut w = World::new(2);
    w.see(&[&config("owner").foreground(), &node("n").foreground()]);
    w.forget();
    w.see(&[&pod("a").owned(&config("owner")), &pod("b").owned(&node("n"))]);
    assert_eq!(w.queued(), ["a", "b"]);
}

#[test]
fn a_late_dependent_of_an_orphaning_owner_queues_the_owner() {
    let mut w = World::new(2);
    w.see(&[&config("owner").orphaning(), &node("n").orphaning()]);
    w.forget();
    w.see(&[&pod("a").owned(&config("owner")), &pod("b").owned(&node("n"))]);
    assert_eq!(w.queued_orphaning(), ["n", "owner"]);
}

/// Rule 3.12.
#[test]
fn a_late_dependent_of_an_absent_owner_is_queued() {
    let mut w = World::new(2);
    for owner in [config("owner"), node("n")] {
        w.see(&[&owner, &pod("a").owned(&owner)]);
        w.delete(&owner);
        w.forget();
        w.see(&[&pod("late").owned(&owner)]);
        assert_eq!(w.queued(), ["late"]);
        assert_eq!(w.state(&owner), OwnerState::Absent);
        w.delete(&pod("a"));
        w.delete(&pod("late"));
    }
}
