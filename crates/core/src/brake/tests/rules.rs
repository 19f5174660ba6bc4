//! The rules, by example.

use super::*;
use crate::brake::{Admission, Cause, DeletionResult, Ledger, Ticket};

/// Deletes one object. Returns the answer if it is not granted.
fn delete(
    ledger: &mut Ledger,
    number: usize,
    of: &GroupResource,
    population: u64,
    now: Duration,
) -> Result<(), Admission> {
    let ticket = begin(ledger, number, of, population, now)?;
    ledger.settle(ticket, DeletionResult::TookEffect, now);
    Ok(())
}

fn begin(
    ledger: &mut Ledger,
    number: usize,
    of: &GroupResource,
    population: u64,
    now: Duration,
) -> Result<Ticket, Admission> {
    let mut answer = ledger.admit(&uid(number), of, None, None, now);
    if answer == Admission::PopulationNeeded {
        answer = ledger.admit(&uid(number), of, None, Some(population), now);
    }
    match answer {
        Admission::Granted(ticket) => Ok(ticket),
        other => Err(other),
    }
}

/// Rule 6.13.
#[test]
fn the_allowed_number_per_minute_is_exact_and_then_the_brake_stays_engaged() {
    let mut ledger = Ledger::new(rate(3));
    for number in 0..3 {
        delete(&mut ledger, number, &pods(), 0, SECOND).unwrap();
    }
    let cause = Cause::Rate { limit: 3 };
    assert_eq!(delete(&mut ledger, 3, &pods(), 0, SECOND), Err(Admission::Engages(cause)));
    // Time alone does not release the brake.
    assert_eq!(delete(&mut ledger, 3, &pods(), 0, 1000 * SECOND), Err(Admission::Refused));
    ledger.release();
    for number in 3..6 {
        delete(&mut ledger, number, &pods(), 0, 1000 * SECOND).unwrap();
    }
    assert!(delete(&mut ledger, 6, &pods(), 0, 1000 * SECOND).is_err());
}

#[test]
fn deletions_are_allowed_again_after_a_minute() {
    let mut ledger = Ledger::new(rate(2));
    for minute in 0..10 {
        // Their slot expires a little later.
        let now = Duration::from_secs(61 * minute);
        delete(&mut ledger, 0, &pods(), 0, now).unwrap();
        delete(&mut ledger, 1, &pods(), 0, now).unwrap();
    }
    let last = Duration::from_secs(61 * 9);
    assert!(delete(&mut ledger, 2, &pods(), 0, last + 60 * SECOND - Duration::from_nanos(1)).is_err());
}

#[test]
fn pending_deletions_count_but_do_not_engage_the_brake() {
    let mut ledger = Ledger::new(rate(2));
    let first = begin(&mut ledger, 0, &pods(), 0, SECOND).unwrap();
    let second = begin(&mut ledger, 1, &pods(), 0, SECOND).unwrap();
    assert_eq!(begin(&mut ledger, 2, &pods(), 0, SECOND), Err(Admission::NotYet));
    assert_eq!(
        begin(&mut ledger, 2, &pods(), 0, 500 * SECOND),
        Err(Admission::NotYet),
        "pending deletions count, however long they take"
    );
    ledger.settle(first, DeletionResult::NoEffect, SECOND);
    let third = begin(&mut ledger, 2, &pods(), 0, 500 * SECOND).unwrap();
    ledger.settle(second, DeletionResult::TookEffect, 500 * SECOND);
    ledger.settle(third, DeletionResult::TookEffect, 500 * SECOND);
    // They count from the time of the answer.
    let engages = Admission::Engages(Cause::Rate { limit: 2 });
    assert_eq!(begin(&mut ledger, 3, &pods(), 0, 559 * SECOND), Err(engages));
}

#[test]
fn a_rejected_deletion_does_not_count() {
    let mut ledger = Ledger::new(rate(1));
    for number in 0..100 {
        let ticket = begin(&mut ledger, number, &pods(), 0, SECOND).unwrap();
        ledger.settle(ticket, DeletionResult::NoEffect, SECOND);
    }
    delete(&mut ledger, 0, &pods(), 0, SECOND).unwrap();
    assert!(delete(&mut ledger, 1, &pods(), 0, SECOND).is_err());
}

#[test]
fn an_uncertain_deletion_counts_once_however_often_it_is_retried() {
    let mut ledger = Ledger::new(rate(2));
    for _ in 0..100 {
        let ticket = begin(&mut ledger, 0, &pods(), 0, SECOND).unwrap();
        ledger.settle(ticket, DeletionResult::Unknown, SECOND);
    }
    // It is gone, perhaps because of the first attempt.
    let ticket = begin(&mut ledger, 0, &pods(), 0, SECOND).unwrap();
    ledger.settle(ticket, DeletionResult::NoEffect, SECOND);
    delete(&mut ledger, 1, &pods(), 0, SECOND).unwrap();
    assert!(delete(&mut ledger, 2, &pods(), 0, SECOND).is_err(), "two deletions counted");
}

#[test]
fn a_share_refers_to_the_population_when_the_window_began() {
    let (window, configmaps) = (600 * SECOND, GroupResource::parse("configmaps"));
    let mut ledger = Ledger::new(share(10, window, 0));
    // Ten percent of 95 is 9.5 and is rounded up. Deletions in the meantime do not reduce it.
    for number in 0..10 {
        delete(&mut ledger, number, &pods(), 95 - u64::try_from(number).unwrap(), SECOND).unwrap();
    }
    delete(&mut ledger, 100, &configmaps, 1000, SECOND).expect("each type has its own share");
    let cause = match delete(&mut ledger, 10, &pods(), 85, 500 * SECOND) {
        Err(Admission::Engages(cause)) => cause,
        other => panic!("{other:?}"),
    };
    assert!(matches!(cause, Cause::Share { deleted: 10, of: 95, .. }), "{cause:?}");
    assert_eq!(
        cause.to_string(),
        "10 of 95 pods were deleted within 10m, as many as percent = 10 and percent_floor = 0 allow"
    );
    assert_eq!(
        delete(&mut ledger, 101, &configmaps, 1000, 500 * SECOND),
        Err(Admission::Refused),
        "all deletions pause"
    );
}

#[test]
fn small_and_unknown_types_use_the_floor() {
    let mut ledger = Ledger::new(share(10, 60 * SECOND, 5));
    for number in 0..5 {
        delete(&mut ledger, number, &pods(), 6, SECOND).unwrap();
    }
    assert!(delete(&mut ledger, 5, &pods(), 1, SECOND).is_err());
    let mut ledger = Ledger::new(share(10, 60 * SECOND, 0));
    delete(&mut ledger, 0, &pods(), 0, SECOND).unwrap();
    assert!(delete(&mut ledger, 1, &pods(), 0, SECOND).is_err());
}

#[test]
fn a_sliding_window_follows_the_population() {
    let mut ledger = Ledger::new(share(50, 60 * SECOND, 0));
    for number in 0..5 {
        delete(&mut ledger, number, &pods(), 10, SECOND).unwrap();
    }
    // A minute and a slot later, half of the rest is allowed.
    for number in 5..8 {
        delete(&mut ledger, number, &pods(), 5, 62 * SECOND).unwrap();
    }
    assert!(delete(&mut ledger, 8, &pods(), 5, 62 * SECOND).is_err());
}

#[test]
fn memory_is_bounded_by_types_and_not_by_deletions() {
    let mut ledger = Ledger::new(share(100, 60 * SECOND, 1_000_000));
    let of = |number| GroupResource::new("example.com", &format!("type-{number}"));
    for number in 0..10_000_u32 {
        // Expired types make room for others.
        let now = Duration::from_secs(u64::from(number) / 50);
        delete(&mut ledger, 0, &of(number), 1, now).unwrap();
    }
    let now = Duration::from_secs(10_000);
    let fits = (0..10_000).take_while(|number| delete(&mut ledger, 0, &of(*number), 1, now).is_ok()).count();
    assert!((4000..5000).contains(&fits), "{fits}");
    assert!(ledger.is_engaged(), "instead of not counting more types");
}

fn per_namespace(namespace_limit: u32, limit: u32) -> Limits {
    let namespace_per_minute = NonZeroU32::new(namespace_limit);
    Limits { namespace_per_minute, ..rate(limit) }
}

/// Deletes one object in a namespace. Returns the answer if it is not granted.
fn delete_in(ledger: &mut Ledger, namespace: &str, number: usize, now: Duration) -> Result<(), Admission> {
    match ledger.admit(&uid(number), &pods(), Namespace::parse(namespace).as_ref(), None, now) {
        Admission::Granted(ticket) => {
            ledger.settle(ticket, DeletionResult::TookEffect, now);
            Ok(())
        }
        other => Err(other),
    }
}

/// Rule 6.15.
#[test]
fn a_namespace_beyond_its_limit_pauses_alone() {
    let mut ledger = Ledger::new(per_namespace(3, 9));
    for number in 0..3 {
        delete_in(&mut ledger, "a", number, SECOND).unwrap();
    }
    let answer = delete_in(&mut ledger, "a", 3, SECOND);
    let Err(Admission::Engages(cause)) = answer else { panic!("{answer:?}") };
    assert_eq!(cause.namespace().map(Namespace::as_str), Some("a"));
    assert_eq!(
        cause.to_string(),
        "3 objects in the namespace a were deleted within a minute, as many as namespace_deletions_per_minute allows"
    );
    assert!(!ledger.is_engaged());
    assert_eq!(
        delete_in(&mut ledger, "a", 3, 1000 * SECOND),
        Err(Admission::Refused),
        "until a person resumes"
    );
    for number in 10..13 {
        delete_in(&mut ledger, "b", number, SECOND).unwrap();
        delete_in(&mut ledger, "", 100 + number, SECOND).unwrap();
    }
    ledger.release();
    delete_in(&mut ledger, "a", 3, 1000 * SECOND).unwrap();
}

/// Rule 6.15. What the limit of a namespace holds back does not count for everything.
#[test]
fn the_limit_of_a_namespace_keeps_it_from_the_limit_of_all() {
    let mut ledger = Ledger::new(per_namespace(3, 4));
    let refused = (0..100).filter(|number| delete_in(&mut ledger, "a", *number, SECOND).is_err()).count();
    assert_eq!((refused, ledger.is_engaged()), (97, false));
    delete_in(&mut ledger, "b", 200, SECOND).unwrap();
    assert_eq!(delete_in(&mut ledger, "b", 201, SECOND), Err(Admission::Engages(Cause::Rate { limit: 4 })));
}

#[test]
fn pending_deletions_of_a_namespace_hold_only_their_namespace() {
    let mut ledger = Ledger::new(per_namespace(1, 0));
    let (a, b) = (Namespace::parse("a"), Namespace::parse("b"));
    let pending = ledger.admit(&uid(0), &pods(), a.as_ref(), None, SECOND);
    assert!(matches!(pending, Admission::Granted(_)));
    assert_eq!(ledger.admit(&uid(1), &pods(), a.as_ref(), None, SECOND), Admission::NotYet);
    assert!(matches!(ledger.admit(&uid(1), &pods(), b.as_ref(), None, SECOND), Admission::Granted(_)));
}

/// Rule 6.15. The Lease must have room for the names of the namespaces.
#[test]
fn too_many_namespaces_beyond_their_limit_pause_everything() {
    let mut ledger = Ledger::new(per_namespace(1, 0));
    let hour = |number: usize| Duration::from_secs(3600) * u32::try_from(number).unwrap();
    let mut engages = |number: usize| {
        let namespace = format!("ns-{number}");
        delete_in(&mut ledger, &namespace, number, hour(number)).unwrap();
        match delete_in(&mut ledger, &namespace, 10_000 + number, hour(number)) {
            Err(Admission::Engages(cause)) => cause,
            other => panic!("{other:?}"),
        }
    };
    for number in 0..1024 {
        assert!(engages(number).namespace().is_some());
    }
    assert_eq!(engages(1024), Cause::Namespaces);
    assert!(ledger.is_engaged());
}

#[test]
fn memory_is_bounded_by_namespaces_and_one_that_is_not_counted_is_not_held() {
    let mut ledger = Ledger::new(per_namespace(1, 0));
    for number in 0..2_000 {
        delete_in(&mut ledger, &format!("ns-{number}"), number, SECOND).unwrap();
    }
    let held =
        (0..2_000).filter(|number| delete_in(&mut ledger, &format!("ns-{number}"), *number, SECOND).is_err());
    assert_eq!(held.count(), 1024);
}
