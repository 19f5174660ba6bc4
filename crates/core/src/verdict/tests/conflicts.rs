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
}

fn unblocked(owners: usize, at: u64) -> ObjectFacts {
    let mut facts = facts(owners, at);
    for reference in &mut facts.owners {
        reference.block_owner_deletion = false;
    }
    facts
}

/// Rules 4.25 and 4.27.
#[test]
fn a_conflict_is_compared_with_what_was_decided_and_sent() {
    use AfterConflict::{Absent, Backoff, BeingDeleted, DeleteWith, Reevaluate};
    let (decided, patched) = (Basis::of(&item(2)), Basis::of(&item(2)).without_blocking());
    let none = Dependents::default();
    let any = Dependents { any: true, ..none };
    let going = ObjectFacts { being_deleted: true, ..facts(2, 11) };
    for (basis, sent, read, dependents, conflicts, expected) in [
        (&decided, Some(10), Some(facts(2, 11)), any, 1, Reevaluate),
        (
            &decided,
            Some(10),
            Some(facts(2, 11)),
            Dependents { deleting_dependents: true, ..any },
            1,
            Reevaluate,
        ),
        // The uid alone never deletes over changed references, and notices a deletion.
        (&decided, Some(14), Some(facts(3, 15)), none, 5, Reevaluate),
        (&decided, None, Some(facts(2, 16)), none, 6, Backoff),
        (&decided, None, None, none, 1, Absent),
        (&decided, None, Some(going), none, 1, BeingDeleted),
        // After our own patch.
        (&patched, Some(11), Some(unblocked(2, 12)), none, 1, DeleteWith(ResourceVersion::number(12))),
        (&patched, Some(11), Some(facts(2, 12)), none, 1, Reevaluate),
    ] {
        let sent = sent.map(ResourceVersion::number);
        let after = after_conflict(basis, sent.as_ref(), read.as_ref(), dependents, conflicts);
        assert_eq!(after, expected, "{sent:?}, {read:?}");
    }
}

/// Rule 4.23.
#[test]
fn the_version_a_patch_returned_counts_if_nothing_else_has_changed() {
    let expected = Basis::of(&item(2)).without_blocking();
    let cases: [(Change, _); 8] = [
        (|_| (), version(11)),
        (|facts| facts.owners.reverse(), version(11)),
        // A solid owner was added, or one still blocks.
        (|facts| *facts = unblocked(3, 11), None),
        (|facts| facts.owners[0].block_owner_deletion = true, None),
        (|facts| facts.uid = uid(9), None),
        (|facts| facts.being_deleted = true, None),
        (|facts| facts.finalizers = ORPHAN, None),
        (|facts| facts.resource_version = None, None),
    ];
    for (index, (change, version)) in cases.into_iter().enumerate() {
        let mut facts = unblocked(2, 11);
        change(&mut facts);
        assert_eq!(after_patch(&expected, &facts), version, "case {index}");
    }
    // References that became identical are expected once.
    let mut twice = item(1);
    twice.references.push(twice.references[0].clone());
    twice.references[1].reference.block_owner_deletion = false;
    assert_eq!(after_patch(&Basis::of(&twice).without_blocking(), &unblocked(1, 11)), version(11));
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
