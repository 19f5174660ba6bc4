//! The precheck, the classes and the decision table.

use super::*;
use crate::object::PropagationPolicy::{Background, Foreground, Orphan};
use crate::verdict::ReferenceClass::{Absent, InvalidScope, Orphaned, Solid, Unresolved, Waiting};
use crate::verdict::{
    Decision, Explanation, IdleReason, KeepReason, ParkReason, Precheck, ReferenceClass, decide, from_live,
    from_state, named, precheck,
};

fn deleting(foreground: ForegroundProgress) -> ObjectSnapshot {
    ObjectSnapshot { deletion: DeletionState::DeletingDependents, foreground, ..item(1) }
}

/// Rule 4.1.
#[test]
fn an_object_in_plain_deletion_is_left_alone() {
    let terminating = ObjectSnapshot { deletion: DeletionState::Terminating, ..item(1) };
    assert_eq!(precheck(&terminating), Precheck::Nothing(IdleReason::Terminating));
    let orphaning = ObjectSnapshot { deletion: DeletionState::Orphaning, ..item(1) };
    assert_eq!(precheck(&orphaning), Precheck::Nothing(IdleReason::Orphaning));
}

/// Rule 4.2.
#[test]
fn a_foreground_deletion_without_blocking_dependents_loses_its_finalizer() {
    assert_eq!(precheck(&deleting(ForegroundProgress::Unblocked)), Precheck::RemoveForegroundFinalizer);
}

/// Rule 2.7.
#[test]
fn a_foreground_deletion_asks_all_partitions_while_part_of_the_api_is_unread() {
    let perhaps = deleting(ForegroundProgress::PerhapsBlocked);
    assert_eq!(precheck(&perhaps), Precheck::AskForUnreadReferences);
}

/// Rule 4.3.
#[test]
fn a_foreground_deletion_waits_for_its_blocking_dependents() {
    assert_eq!(precheck(&deleting(ForegroundProgress::Blocked(3))), Precheck::WaitForDependents(3));
}

/// Rule 4.5.
#[test]
fn a_cycle_of_foreground_deletions_is_broken() {
    assert_eq!(precheck(&deleting(ForegroundProgress::Deadlocked)), Precheck::BreakDeadlock);
}

/// Rule 4.7.
#[test]
fn an_object_without_owner_references_is_left_alone() {
    assert_eq!(precheck(&item(0)), Precheck::Nothing(IdleReason::NoReferences));
    assert_eq!(decide(&item(0), &[]), Decision::Keep(KeepReason::NoReferences));
}

#[test]
fn any_other_object_is_decided_by_its_owners() {
    assert_eq!(precheck(&item(1)), Precheck::Classify);
    let with_finalizer = ObjectSnapshot { finalizers: FOREGROUND, ..item(1) };
    assert_eq!(precheck(&with_finalizer), Precheck::Classify, "a finalizer alone deletes nothing");
}

/// Rule 4.8.
#[test]
fn an_observed_owner_is_solid_without_a_request_even_in_deletion() {
    for deletion in [DeletionState::Live, DeletionState::Terminating, DeletionState::Orphaning] {
        let state = OwnerState::Observed { resource_version: version(5), deletion };
        assert_eq!(from_state(&state), Some(Solid));
    }
}

/// Rule 4.10.
#[test]
fn an_apparently_waiting_owner_must_be_confirmed_live() {
    let state =
        OwnerState::Observed { resource_version: version(5), deletion: DeletionState::DeletingDependents };
    assert_eq!(from_state(&state), None);
}

/// Rule 4.9.
#[test]
fn only_a_proved_absence_counts() {
    assert_eq!(from_state(&OwnerState::Absent), Some(Absent));
    assert_eq!(from_state(&OwnerState::Unknown), None);
}

/// Rule 4.9.
#[test]
fn an_owner_view_is_classified_by_its_location() {
    assert_eq!(named(&OwnerView::Unresolved), Err(Unresolved));
    assert_eq!(named(&OwnerView::InvalidScope), Err(InvalidScope));
    assert_eq!(named(&OwnerView::Remote(identity(1))), Ok((&identity(1), None)));
    let local = OwnerView::Local { identity: identity(1), state: OwnerState::Absent };
    assert_eq!(named(&local), Ok((&identity(1), Some(&OwnerState::Absent))));
}

/// Rule 4.8.
#[test]
fn a_live_owner_waits_only_if_it_is_being_deleted_in_the_foreground() {
    for (being_deleted, finalizers, class) in [
        (false, Finalizers::default(), Solid),
        (false, FOREGROUND, Solid),
        (true, Finalizers::default(), Solid),
        (true, ORPHAN, Solid),
        (true, BOTH, Solid),
        (true, FOREGROUND, Waiting),
    ] {
        let owner = ObjectFacts { being_deleted, finalizers, ..facts(0, 5) };
        assert_eq!(from_live(&owner), class, "being deleted: {being_deleted}, {finalizers:?}");
    }
}

/// Decides on an object with these classes after `change`.
fn decided(classes: &[ReferenceClass], change: impl Fn(&mut ObjectSnapshot)) -> Decision {
    let mut item = item(classes.len());
    change(&mut item);
    decide(&item, classes)
}

fn plain(classes: &[ReferenceClass]) -> Decision {
    decided(classes, |_| ())
}

const fn delete(policy: crate::object::PropagationPolicy) -> Decision {
    Decision::Delete { policy, stop_blocking_first: false }
}

const fn remove(remove: Vec<usize>, confirm_solid: Option<usize>) -> Decision {
    Decision::RemoveReferences { remove, confirm_solid }
}

/// Rule 4.14.
#[test]
fn some_solid_and_none_absent_or_waiting_is_kept() {
    assert_eq!(plain(&[Solid]), Decision::Keep(KeepReason::Owned));
    assert_eq!(plain(&[Solid, Solid]), Decision::Keep(KeepReason::Owned));
}

/// Rule 4.12.
#[test]
fn a_solid_owner_does_not_hide_a_reference_that_needs_a_lookup() {
    assert_eq!(plain(&[Solid, Unresolved]), Decision::Park(ParkReason::Unresolved));
    assert_eq!(plain(&[InvalidScope, Solid]), Decision::Report { invalid_scope: vec![0] });
}

/// Rule 4.15.
#[test]
fn some_solid_and_some_absent_loses_the_absent_ones() {
    assert_eq!(plain(&[Absent, Solid, Absent]), remove(vec![0, 2], None));
    assert_eq!(plain(&[Unresolved, Solid, InvalidScope, Absent]), remove(vec![3], None));
}

/// Rule 4.16.
#[test]
fn a_solid_owner_is_confirmed_live_before_a_waiting_reference_is_removed() {
    assert_eq!(plain(&[Waiting, Solid]), remove(vec![0], Some(1)));
    assert_eq!(plain(&[Absent, Waiting, Solid, Solid]), remove(vec![0, 1], Some(2)));
}

/// Rule 4.17.
#[test]
fn none_solid_and_some_unresolved_deletes_nothing_and_leaves_the_absent_ones() {
    for classes in
        [&[Unresolved][..], &[Absent, Unresolved], &[Waiting, Unresolved], &[InvalidScope, Unresolved]]
    {
        assert_eq!(plain(classes), Decision::Park(ParkReason::Unresolved), "{classes:?}");
    }
}

/// Rule 4.17.
#[test]
fn none_solid_and_some_invalid_scope_deletes_nothing_and_is_reported_not_retried() {
    assert_eq!(plain(&[InvalidScope]), Decision::Report { invalid_scope: vec![0] });
    assert_eq!(plain(&[Absent, InvalidScope]), Decision::Report { invalid_scope: vec![1] });
    assert_eq!(plain(&[Waiting, InvalidScope]), Decision::Report { invalid_scope: vec![1] });
}

/// Rule 4.18.
#[test]
fn waiting_with_dependents_is_deleted_in_the_foreground() {
    for classes in [&[Waiting][..], &[Absent, Waiting]] {
        assert_eq!(decided(classes, |item| item.has_dependents = true), delete(Foreground), "{classes:?}");
    }
}

/// Rule 4.19.
#[test]
fn a_possible_cycle_stops_blocking_before_it_is_deleted() {
    let cycle = |item: &mut ObjectSnapshot| {
        item.has_dependents = true;
        item.has_dependent_deleting_dependents = true;
    };
    let expected = Decision::Delete { policy: Foreground, stop_blocking_first: true };
    assert_eq!(decided(&[Absent, Waiting], cycle), expected);
    let nothing_to_patch = |item: &mut ObjectSnapshot| {
        cycle(item);
        item.references[0].reference.block_owner_deletion = false;
    };
    assert_eq!(decided(&[Waiting], nothing_to_patch), delete(Foreground));
}

/// Rule 4.20.
#[test]
fn its_own_orphan_finalizer_is_honoured_even_if_its_owner_waits() {
    for finalizers in [ORPHAN, BOTH] {
        let change = |item: &mut ObjectSnapshot| {
            item.finalizers = finalizers;
            item.has_dependents = true;
            item.has_dependent_deleting_dependents = true;
        };
        assert_eq!(decided(&[Waiting], change), delete(Orphan));
        assert_eq!(decided(&[Absent], change), delete(Orphan));
    }
}

/// Rule 4.20.
#[test]
fn waiting_without_dependents_is_deleted_in_the_background() {
    assert_eq!(plain(&[Waiting]), delete(Background));
}

/// Rule 4.20.
#[test]
fn all_absent_is_deleted_by_the_policy_of_its_finalizers() {
    let with = |finalizers| decided(&[Absent, Absent], |item| item.finalizers = finalizers);
    assert_eq!(with(Finalizers::default()), delete(Background));
    assert_eq!(with(FOREGROUND), delete(Foreground));
    assert_eq!(with(ORPHAN), delete(Orphan));
    assert_eq!(decided(&[Absent], |item| item.has_dependents = true), delete(Background));
}

/// Rule 5.11.
#[test]
fn an_orphaned_reference_is_removed_before_any_other_decision() {
    assert_eq!(plain(&[Orphaned]), remove(vec![0], None));
    assert_eq!(
        plain(&[Absent, Orphaned]),
        remove(vec![1], None),
        "absent references wait for the next evaluation"
    );
    assert_eq!(plain(&[Unresolved, Orphaned]), remove(vec![1], None));
    assert_eq!(plain(&[Absent, Orphaned, Waiting, Solid]), remove(vec![0, 1, 2], Some(3)));
}

/// Rule 4.1.
#[test]
fn no_decision_is_made_about_an_object_in_deletion() {
    for deletion in [DeletionState::Terminating, DeletionState::DeletingDependents, DeletionState::Orphaning]
    {
        let decision = decided(&[Absent], |item| item.deletion = deletion);
        assert_eq!(decision, Decision::Keep(KeepReason::BeingDeleted));
    }
}

/// Rule 4.9.
#[test]
fn a_missing_class_does_not_count_as_absent() {
    assert_eq!(decide(&item(2), &[Absent]), Decision::Park(ParkReason::Unclassified));
    assert_eq!(decide(&item(1), &[]), Decision::Park(ParkReason::Unclassified));
    assert_eq!(decide(&item(1), &[Absent, Solid]), Decision::Park(ParkReason::Unclassified));
}

/// Rule 9.7.
#[test]
fn a_decision_names_its_reasons() {
    let (item, classes) = (item(2), [Absent, Waiting]);
    let decision = decide(&item, &classes);
    assert_eq!(
        Explanation { item: &item, classes: &classes, decision: &decision }.to_string(),
        "delete with Background: owner ConfigMap name-1 (uid-1) is absent, \
         owner ConfigMap name-2 (uid-2) is waiting for its dependents to be deleted",
    );
    assert_eq!(plain(&[Unresolved]).to_string(), "keep for now, an owner reference is unresolved");
    assert_eq!(plain(&[InvalidScope]).to_string(), "keep and report 1 owner reference of invalid scope");
    assert_eq!(plain(&[Solid, Absent, Absent]).to_string(), "remove 2 owner references");
    assert_eq!(serde_json::to_value(&decision).unwrap()["delete"]["policy"], "Background");
}
