//! What a 409, a patch and a confirmation prove.

use std::time::Duration;

use super::*;
use crate::verdict::{
    AfterConflict, Basis, CONFLICTS_BEFORE_UID_ALONE, Confirmation, Dependents, after_conflict, after_patch,
};

/// A first conflict of a DELETE of `item(2)` at version 10.
fn conflict(read: Option<&ObjectFacts>) -> AfterConflict {
    let sent = ResourceVersion::number(10);
    after_conflict(&Basis::of(&item(2)), Some(&sent), read, Dependents::default(), 1)
}

/// What somebody did to the object meanwhile.
type Change = fn(&mut ObjectFacts);

/// Rules 4.24, 4.25, 4.26 and 4.28.
#[test]
fn what_follows_a_conflict_depends_on_what_a_read_shows() {
    assert_eq!(conflict(None), AfterConflict::Absent);
    let newer = || AfterConflict::DeleteWith(ResourceVersion::number(11));
    let cases: [(Change, AfterConflict); 13] = [
        (|facts| facts.uid = uid(9), AfterConflict::Absent),
        (|facts| facts.being_deleted = true, AfterConflict::BeingDeleted),
        (|facts| facts.resource_version = version(10), AfterConflict::Backoff),
        (|facts| facts.resource_version = None, AfterConflict::Backoff),
        (|facts| facts.owners.push(reference(3)), AfterConflict::Reevaluate),
        (|facts| facts.owners.push(reference(1)), AfterConflict::Reevaluate),
        (|facts| facts.owners.clear(), AfterConflict::Reevaluate),
        (|facts| facts.owners[0].block_owner_deletion = false, AfterConflict::Reevaluate),
        (|facts| facts.owners[0].controller = true, AfterConflict::Reevaluate),
        (|facts| facts.owners[0].name = "other".into(), AfterConflict::Reevaluate),
        (|facts| facts.finalizers = ORPHAN, AfterConflict::Reevaluate),
        (|_| (), newer()),
        // The order of references does not matter.
        (|facts| facts.owners.reverse(), newer()),
    ];
    for (index, (change, expected)) in cases.into_iter().enumerate() {
        let mut facts = facts(2, 11);
        change(&mut facts);
        assert_eq!(conflict(Some(&facts)), expected, "case {index}");
    }
}

/// Rule 4.25.
#[test]
fn a_conflict_after_changed_dependents_causes_a_new_decision() {
    let (any, deleting_dependents) = (true, true);
    for dependents in
        [Dependents { any, deleting_dependents: false }, Dependents { any, deleting_dependents }]
    {
        let sent = ResourceVersion::number(10);
        let after = after_conflict(&Basis::of(&item(2)), Some(&sent), Some(&facts(2, 11)), dependents, 1);
        assert_eq!(after, AfterConflict::Reevaluate);
    }
}

/// Rule 4.27.
#[test]
fn after_five_conflicts_over_unrelated_fields_the_uid_alone_decides() {
    let (basis, mut sent) = (Basis::of(&item(2)), Some(ResourceVersion::number(10)));
    for consecutive in 1..=CONFLICTS_BEFORE_UID_ALONE {
        let facts = facts(2, 10 + u64::from(consecutive));
        match after_conflict(&basis, sent.as_ref(), Some(&facts), Dependents::default(), consecutive) {
            AfterConflict::DeleteWith(version) => {
                assert!(consecutive < 5);
                sent = Some(version);
            }
            AfterConflict::DeleteWithUidAlone => {
                assert_eq!(consecutive, 5);
                sent = None;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(sent, None);
    let after = after_conflict(&basis, None, Some(&facts(2, 16)), Dependents::default(), 6);
    assert_eq!(after, AfterConflict::Backoff, "a 409 although only the uid was bound");
}

/// Rule 4.27.
#[test]
fn the_uid_alone_never_deletes_over_changed_references() {
    let (basis, sent) = (Basis::of(&item(2)), ResourceVersion::number(14));
    let after = after_conflict(&basis, Some(&sent), Some(&facts(3, 15)), Dependents::default(), 5);
    assert_eq!(after, AfterConflict::Reevaluate);
}

#[test]
fn a_conflict_with_the_uid_alone_still_notices_a_deletion() {
    let basis = Basis::of(&item(2));
    let after = |read| after_conflict(&basis, None, read, Dependents::default(), 1);
    assert_eq!(after(None), AfterConflict::Absent);
    let going = ObjectFacts { being_deleted: true, ..facts(2, 11) };
    assert_eq!(after(Some(&going)), AfterConflict::BeingDeleted);
}

fn unblocked(owners: usize, at: u64) -> ObjectFacts {
    let mut facts = facts(owners, at);
    for reference in &mut facts.owners {
        reference.block_owner_deletion = false;
    }
    facts
}

/// Rule 4.23.
#[test]
fn the_version_a_patch_returned_counts_if_the_references_are_the_expected_ones() {
    let expected = Basis::of(&item(2)).without_blocking();
    assert_eq!(after_patch(&expected, &unblocked(2, 11)), version(11));
    let mut reversed = unblocked(2, 11);
    reversed.owners.reverse();
    assert_eq!(after_patch(&expected, &reversed), version(11));
}

#[test]
fn references_that_became_identical_are_expected_once() {
    let mut twice = item(1);
    twice.references.push(twice.references[0].clone());
    twice.references[1].reference.block_owner_deletion = false;
    assert_eq!(after_patch(&Basis::of(&twice).without_blocking(), &unblocked(1, 11)), version(11));
}

/// Rule 4.23.
#[test]
fn a_solid_owner_that_was_added_next_to_our_patch_prevents_the_deletion() {
    let expected = Basis::of(&item(2)).without_blocking();
    assert_eq!(after_patch(&expected, &unblocked(3, 11)), None);
    assert_eq!(after_patch(&expected, &facts(2, 11)), None, "still blocking");
}

#[test]
fn any_other_change_next_to_our_patch_causes_a_new_decision() {
    let expected = Basis::of(&item(2)).without_blocking();
    let cases: [fn(&mut ObjectFacts); 4] = [
        |facts| facts.uid = uid(9),
        |facts| facts.being_deleted = true,
        |facts| facts.finalizers = ORPHAN,
        |facts| facts.resource_version = None,
    ];
    for (index, case) in cases.into_iter().enumerate() {
        let mut facts = unblocked(2, 11);
        case(&mut facts);
        assert_eq!(after_patch(&expected, &facts), None, "case {index}");
    }
}

#[test]
fn a_conflict_after_our_patch_is_compared_with_the_result_of_the_patch() {
    let (basis, sent) = (Basis::of(&item(2)).without_blocking(), ResourceVersion::number(11));
    let after = |facts| after_conflict(&basis, Some(&sent), Some(&facts), Dependents::default(), 1);
    assert_eq!(after(unblocked(2, 12)), AfterConflict::DeleteWith(ResourceVersion::number(12)));
    assert_eq!(after(facts(2, 12)), AfterConflict::Reevaluate);
}

const ASKED: Duration = Duration::from_secs(100);

fn observed(at: Option<ResourceVersion>, deletion: DeletionState) -> OwnerState {
    OwnerState::Observed { resource_version: at, deletion }
}

fn waiting(at: u64) -> OwnerState {
    observed(version(at), DeletionState::DeletingDependents)
}

fn confirmed(seen: OwnerState, live: u64) -> Confirmation {
    let owner = ObjectFacts { being_deleted: true, finalizers: FOREGROUND, ..facts(0, live) };
    Confirmation::new(seen, &owner, ASKED).unwrap()
}

/// Rule 4.10.
#[test]
fn only_an_owner_that_waits_in_a_live_read_is_confirmed() {
    assert_eq!(Confirmation::new(waiting(5), &facts(0, 6), ASKED), None);
    let orphaning = ObjectFacts { being_deleted: true, finalizers: BOTH, ..facts(0, 6) };
    assert_eq!(Confirmation::new(waiting(5), &orphaning, ASKED), None);
}

/// Rule 4.31.
#[test]
fn a_confirmation_holds_for_a_second_and_until_an_event_of_the_owner() {
    let (soon, late) = (Duration::from_millis(999), Confirmation::LIFETIME);
    let unversioned = || observed(None, DeletionState::DeletingDependents);
    for (seen, live, state, age, holds) in [
        (waiting(5), 5, waiting(5), Duration::ZERO, true),
        (waiting(5), 5, waiting(5), soon, true),
        (waiting(5), 5, waiting(5), late, false),
        (waiting(5), 7, waiting(6), Duration::ZERO, false),
        // The confirmed version changes nothing.
        (waiting(5), 7, waiting(7), Duration::ZERO, true),
        (waiting(5), 7, waiting(8), Duration::ZERO, false),
        // An owner that no monitor shows.
        (OwnerState::Unknown, 5, OwnerState::Unknown, Duration::ZERO, true),
        (OwnerState::Unknown, 5, waiting(6), Duration::ZERO, false),
        // Without versions, events cannot be told apart.
        (unversioned(), 5, unversioned(), Duration::ZERO, false),
    ] {
        let confirmation = confirmed(seen, live);
        assert_eq!(confirmation.holds(&state, ASKED + age), holds, "{confirmation:?}, {state:?}");
    }
    let earlier = ASKED - Duration::from_millis(1);
    assert!(!confirmed(waiting(5), 5).holds(&waiting(5), earlier));
}

/// Rule 4.32.
#[test]
fn the_owner_must_still_be_deleting_dependents_right_before_each_delete() {
    let confirmation = confirmed(waiting(5), 5);
    for deletion in [DeletionState::Live, DeletionState::Terminating, DeletionState::Orphaning] {
        assert!(!confirmation.holds(&observed(version(5), deletion), ASKED));
        assert!(!confirmation.stands(&observed(version(5), deletion), ASKED));
    }
    for state in [OwnerState::Absent, OwnerState::Unknown] {
        assert!(!confirmation.holds(&state, ASKED));
        assert!(!confirmation.stands(&state, ASKED));
    }
}

#[test]
fn a_constantly_changing_owner_does_not_void_decisions() {
    let confirmation = confirmed(waiting(5), 7);
    for at in 5..9 {
        assert!(confirmation.stands(&waiting(at), ASKED));
    }
    assert!(!confirmation.stands(&waiting(8), ASKED + Confirmation::LIFETIME));
    assert!(!confirmation.stands(&observed(version(8), DeletionState::Orphaning), ASKED));
}
