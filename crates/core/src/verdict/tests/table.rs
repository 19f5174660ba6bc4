//! The precheck, the classes and the decision table.

use super::*;
use crate::object::PropagationPolicy;
use crate::verdict::ReferenceClass::{Absent, InvalidScope, Orphaned, Solid, Unresolved, Waiting};
use crate::verdict::{
    Decision, IdleReason, KeepReason, ParkReason, Precheck, ReferenceClass, decide, from_live, from_state,
    named, precheck,
};

/// Rules 2.7, 4.1, 4.2, 4.3, 4.5 and 4.7.
#[test]
fn the_precheck_follows_from_the_objects_own_deletion() {
    let in_state = |deletion| ObjectSnapshot { deletion, ..item(1) };
    let foreground =
        |foreground| ObjectSnapshot { foreground, ..in_state(DeletionState::DeletingDependents) };
    for (item, expected) in [
        (in_state(DeletionState::Terminating), Precheck::Nothing(IdleReason::Terminating)),
        (in_state(DeletionState::Orphaning), Precheck::Nothing(IdleReason::Orphaning)),
        (foreground(ForegroundProgress::Unblocked), Precheck::RemoveForegroundFinalizer),
        (foreground(ForegroundProgress::PerhapsBlocked), Precheck::AskForUnreadReferences),
        (foreground(ForegroundProgress::Blocked(3)), Precheck::WaitForDependents(3)),
        (foreground(ForegroundProgress::Deadlocked), Precheck::BreakDeadlock),
        (item(0), Precheck::Nothing(IdleReason::NoReferences)),
        (item(1), Precheck::Classify),
        // A finalizer alone deletes nothing.
        (ObjectSnapshot { finalizers: FOREGROUND, ..item(1) }, Precheck::Classify),
    ] {
        assert_eq!(precheck(&item), expected, "{item:?}");
    }
}

/// Rules 4.8, 4.9 and 4.10.
#[test]
fn what_a_monitor_shows_is_solid_and_the_rest_needs_proof_or_a_live_read() {
    let observed = |deletion| OwnerState::Observed { resource_version: version(5), deletion };
    for (state, class) in [
        (observed(DeletionState::Live), Some(Solid)),
        (observed(DeletionState::Terminating), Some(Solid)),
        (observed(DeletionState::Orphaning), Some(Solid)),
        (observed(DeletionState::DeletingDependents), None),
        (OwnerState::Absent, Some(Absent)),
        (OwnerState::Unknown, None),
    ] {
        assert_eq!(from_state(&state), class, "{state:?}");
    }
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

const fn remove(remove: Vec<usize>, confirm_solid: Option<usize>) -> Decision {
    Decision::RemoveReferences { remove, confirm_solid }
}

/// Rules 4.7, 4.9, 4.12, 4.14, 4.15, 4.16, 4.17, 4.20 and 5.11.
#[test]
fn a_decision_follows_from_the_classes_of_all_references() {
    let unresolved = || Decision::Park(ParkReason::Unresolved);
    let report = |invalid_scope| Decision::Report { invalid_scope };
    let owned = || Decision::Keep(KeepReason::Owned);
    let delete = Decision::Delete { policy: PropagationPolicy::Background, stop_blocking_first: false };
    let cases: [(&[ReferenceClass], Decision); 21] = [
        // Rule 4.14: some solid, and none absent or waiting.
        (&[Solid], owned()),
        (&[Solid, Solid], owned()),
        // Rule 4.12: a solid owner does not hide a reference that needs a look-up.
        (&[Solid, Unresolved], unresolved()),
        (&[InvalidScope, Solid], report(vec![0])),
        // Rule 4.15: some solid, and some absent.
        (&[Absent, Solid, Absent], remove(vec![0, 2], None)),
        (&[Unresolved, Solid, InvalidScope, Absent], remove(vec![3], None)),
        // Rule 4.16: the solid owner is confirmed live before a waiting reference goes.
        (&[Waiting, Solid], remove(vec![0], Some(1))),
        (&[Absent, Waiting, Solid, Solid], remove(vec![0, 1], Some(2))),
        // Rule 4.17: none solid, and some unresolved or of invalid scope: nothing goes.
        (&[Unresolved], unresolved()),
        (&[Absent, Unresolved], unresolved()),
        (&[Waiting, Unresolved], unresolved()),
        (&[InvalidScope, Unresolved], unresolved()),
        (&[InvalidScope], report(vec![0])),
        (&[Absent, InvalidScope], report(vec![1])),
        (&[Waiting, InvalidScope], report(vec![1])),
        // Rule 4.20: waiting, without dependents.
        (&[Waiting], delete),
        // Rule 5.11: orphaned references go first, and the others wait for the next evaluation.
        (&[Orphaned], remove(vec![0], None)),
        (&[Absent, Orphaned], remove(vec![1], None)),
        (&[Unresolved, Orphaned], remove(vec![1], None)),
        (&[Absent, Orphaned, Waiting, Solid], remove(vec![0, 1, 2], Some(3))),
        // Rule 4.7.
        (&[], Decision::Keep(KeepReason::NoReferences)),
    ];
    for (classes, expected) in cases {
        assert_eq!(decide(&item(classes.len()), classes), expected, "{classes:?}");
    }
    // Rule 4.9: a missing class does not count as absent.
    for (owners, classes) in [(2, &[Absent][..]), (1, &[]), (1, &[Absent, Solid])] {
        assert_eq!(decide(&item(owners), classes), Decision::Park(ParkReason::Unclassified));
    }
}

/// Rule 4.1.
#[test]
fn no_decision_is_made_about_an_object_in_deletion() {
    for deletion in [DeletionState::Terminating, DeletionState::DeletingDependents, DeletionState::Orphaning]
    {
        let item = ObjectSnapshot { deletion, ..item(1) };
        assert_eq!(decide(&item, &[Absent]), Decision::Keep(KeepReason::BeingDeleted));
    }
}
