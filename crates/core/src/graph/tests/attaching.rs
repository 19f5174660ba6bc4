//! Attaching dependents to owners (rules 3.3 to 3.6 and 3.12).

use crate::graph::testing::world::*;
use crate::graph::*;
use crate::object::*;

/// Rules 3.3 and 3.5.
#[test]
fn an_unseen_owner_becomes_virtual_and_is_queued_once() {
    let owner = config("owner");
    let mut w = World::of(1, &[&pod("a").owned(&owner), &pod("b").owned(&owner)]);
    assert_eq!(w.out.delete.len(), 1, "the owner is queued already");
    assert_eq!(w.queued(), ["owner"]);
    assert_eq!(w.virtual_node(&owner).0, owner.identity());
    assert_eq!(w.partition("ns").stats().virtual_nodes, 1);
    w.see(&[&owner]);
    assert!(w.queued().is_empty() && w.is_observed(&owner), "its dependents match");
    assert_eq!(w.partition("ns").stats().virtual_nodes, 0);
}

/// Rules 3.5 and 3.6.
#[test]
fn a_dependent_in_another_namespace_than_its_owner_is_queued_and_reported() {
    let owner = obj("configmaps", "other", "owner");
    let bad = pod("bad").owned(&owner);
    for [first, second] in [[&owner, &bad], [&bad, &owner]] {
        let mut w = World::seen(1, &[first]);
        w.see(&[second]);
        assert_eq!(w.queued(), ["bad"]);
        let reference = owner.reference();
        assert_eq!(w.reports(), [Report::NamespaceMismatch { dependent: bad.identity(), reference }]);
        w.see(&[&owner.clone().at(11), &bad.clone().at(11)]);
        assert!(w.queued().is_empty() && w.reports().is_empty(), "once");
    }
}

#[test]
fn a_dependent_with_a_wrong_name_is_queued_without_a_report() {
    let owner = config("owner");
    let bad = pod("bad").with(OwnerReference { name: "else".into(), ..owner.reference() });
    let mut w = World::of(1, &[&owner, &bad]);
    assert_eq!(w.queued(), ["bad"]);
    assert!(w.reports().is_empty());
    let written = w.object(&bad).references;
    assert_eq!(&*written[0].reference.name, "else");
    let OwnerView::Local { identity, state } = &written[0].owner else { panic!() };
    assert_eq!((&*identity.name, state), ("else", &OwnerState::Unknown));
}

#[test]
fn any_served_version_and_the_lower_case_kind_name_the_same_owner() {
    let owner = obj("widgets.example.com", "ns", "w");
    let old = OwnerReference { api_version: "example.com/v1".into(), ..owner.reference() };
    let lower = OwnerReference { kind: "widget".into(), ..owner.reference() };
    let dependent = pod("a").with(old.clone()).with(lower.clone());
    let mut w = World::of(1, &[&owner, &dependent]);
    assert!(w.queued().is_empty());
    let written: Vec<_> = w.object(&dependent).references.into_iter().map(|r| r.reference).collect();
    assert_eq!(written, [old, lower], "kept as written, in order");
}

#[test]
fn an_invalid_scope_is_evaluated_once_and_causes_no_write() {
    let bad = node("n").owned(&config("owner"));
    let mut w = World::of(1, &[&bad]);
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
