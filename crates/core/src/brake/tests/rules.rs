//! The rules, by example.

use super::*;

/// Rule 6.13.
#[test]
fn the_allowed_number_per_minute_is_exact_and_then_the_brake_stays_engaged() {
    let mut ledger = Ledger::new(rate(3));
    for number in 0..3 {
        ledger.delete(&pod(number), 0, SECOND).unwrap();
    }
    let why = "3 objects were deleted within a minute, as many as deletions_per_minute allows";
    assert_eq!(reason(ledger.delete(&pod(3), 0, SECOND)), why);
    // Time alone does not release the brake.
    assert_eq!(ledger.delete(&pod(3), 0, 1000 * SECOND), Err(Refusal::Engaged));
    ledger.release();
    for number in 3..6 {
        ledger.delete(&pod(number), 0, 1000 * SECOND).unwrap();
    }
    assert_eq!(reason(ledger.delete(&pod(6), 0, 1000 * SECOND)), why);
}

#[test]
fn pending_deletions_count_but_do_not_engage_the_brake() {
    let mut ledger = Ledger::new(rate(2));
    let first = ledger.begin(&pod(0), 0, SECOND).unwrap();
    let second = ledger.begin(&pod(1), 0, SECOND).unwrap();
    assert_eq!(ledger.begin(&pod(2), 0, SECOND), Err(Refusal::NotYet));
    assert_eq!(ledger.begin(&pod(2), 0, 500 * SECOND), Err(Refusal::NotYet), "however long they take");
    ledger.settle(first, DeletionResult::NoEffect, SECOND);
    let third = ledger.begin(&pod(2), 0, 500 * SECOND).unwrap();
    ledger.settle(second, DeletionResult::TookEffect, 500 * SECOND);
    ledger.settle(third, DeletionResult::TookEffect, 500 * SECOND);
    // They count from the time of the answer.
    reason(ledger.begin(&pod(3), 0, 559 * SECOND));
}

#[test]
fn a_rejected_deletion_does_not_count() {
    let mut ledger = Ledger::new(rate(1));
    for number in 0..100 {
        let ticket = ledger.begin(&pod(number), 0, SECOND).unwrap();
        ledger.settle(ticket, DeletionResult::NoEffect, SECOND);
    }
    ledger.delete(&pod(0), 0, SECOND).unwrap();
    reason(ledger.delete(&pod(1), 0, SECOND));
}

#[test]
fn an_uncertain_deletion_counts_once_however_often_it_is_retried() {
    for limit in [1, 2] {
        let mut ledger = Ledger::new(rate(limit));
        for _ in 0..100 {
            let ticket = ledger.begin(&pod(0), 0, SECOND).unwrap();
            ledger.settle(ticket, DeletionResult::Unknown, SECOND);
        }
        // It is gone, perhaps because of the first attempt.
        let ticket = ledger.begin(&pod(0), 0, SECOND).unwrap();
        ledger.settle(ticket, DeletionResult::NoEffect, SECOND);
        let others = (1..9).take_while(|number| ledger.delete(&pod(*number), 0, SECOND).is_ok()).count();
        assert_eq!(others + 1, usize::try_from(limit).unwrap());
    }
}

#[test]
fn a_share_refers_to_the_population_when_the_window_began() {
    let window = 600 * SECOND;
    let mut ledger = Ledger::new(share(10, window, 0));
    // Ten percent of 95 is 9.5 and is rounded up. Deletions in the meantime do not reduce it.
    for number in 0..10 {
        ledger.delete(&pod(number), 95 - u64::try_from(number).unwrap(), SECOND).unwrap();
    }
    let config_map = |number| object("configmaps", "", number);
    ledger.delete(&config_map(100), 1000, SECOND).expect("each type has its own share");
    assert_eq!(
        reason(ledger.delete(&pod(10), 85, 500 * SECOND)),
        "10 of 95 pods were deleted within 10m, as many as percent = 10 and percent_floor = 0 allow"
    );
    let paused = ledger.delete(&config_map(101), 1000, 500 * SECOND);
    assert_eq!(paused, Err(Refusal::Engaged), "all deletions pause");
}

#[test]
fn small_and_unknown_types_use_the_floor_and_a_window_follows_the_population() {
    let deletes = |ledger: &mut Ledger, population, at: u32| {
        (0..100).take_while(|number| ledger.delete(&pod(*number), population, at * SECOND).is_ok()).count()
    };
    assert_eq!(deletes(&mut Ledger::new(share(10, 60 * SECOND, 5)), 6, 1), 5);
    assert_eq!(deletes(&mut Ledger::new(share(10, 60 * SECOND, 0)), 0, 1), 1);
    let mut ledger = Ledger::new(share(50, 60 * SECOND, 0));
    for number in 0..5 {
        ledger.delete(&pod(number), 10, SECOND).unwrap();
    }
    assert_eq!(deletes(&mut ledger, 5, 62), 3, "a minute and a slot later, half of the rest");
}

#[test]
fn types_without_recent_deletions_take_no_memory() {
    let mut ledger = Ledger::new(share(100, 60 * SECOND, 1_000_000));
    for number in 0..10_000 {
        let now = Duration::from_secs(number / 50);
        ledger.delete(&object(&format!("type-{number}.example.com"), "", 0), 1, now).unwrap();
    }
    assert!(ledger.windows.len() < 4_000, "{} windows", ledger.windows.len());
}

fn per_namespace(namespace_limit: u32, limit: u32) -> Limits {
    let namespace_per_minute = NonZeroU32::new(namespace_limit);
    Limits { namespace_per_minute, ..rate(limit) }
}

fn in_namespace(namespace: &str, number: usize) -> Identity {
    object("pods", namespace, number)
}

/// Rule 6.15.
#[test]
fn a_namespace_beyond_its_limit_pauses_alone() {
    let mut ledger = Ledger::new(per_namespace(3, 9));
    let pending = ledger.begin(&in_namespace("a", 0), 0, SECOND).unwrap();
    for number in 1..3 {
        ledger.delete(&in_namespace("a", number), 0, SECOND).unwrap();
    }
    assert_eq!(ledger.delete(&in_namespace("a", 3), 0, SECOND), Err(Refusal::NotYet), "one is pending");
    ledger.settle(pending, DeletionResult::TookEffect, SECOND);
    assert_eq!(
        ledger.delete(&in_namespace("a", 3), 0, SECOND),
        Err(Refusal::Engages {
            limit: "namespace_deletions_per_minute",
            namespace: Namespace::parse("a"),
            why: "3 objects in the namespace a were deleted within a minute, as many as \
                  namespace_deletions_per_minute allows"
                .to_owned(),
        })
    );
    assert!(!ledger.is_engaged());
    let later = ledger.delete(&in_namespace("a", 3), 0, 1000 * SECOND);
    assert_eq!(later, Err(Refusal::Engaged), "until a person resumes");
    for number in 10..13 {
        ledger.delete(&in_namespace("b", number), 0, SECOND).unwrap();
        ledger.delete(&pod(100 + number), 0, SECOND).unwrap();
    }
    ledger.release();
    ledger.delete(&in_namespace("a", 3), 0, 1000 * SECOND).unwrap();
}

/// Rule 6.15. What the limit of a namespace holds back does not count for everything.
#[test]
fn the_limit_of_a_namespace_keeps_it_from_the_limit_of_all() {
    let mut ledger = Ledger::new(per_namespace(3, 4));
    let refused =
        (0..100).filter(|number| ledger.delete(&in_namespace("a", *number), 0, SECOND).is_err()).count();
    assert_eq!((refused, ledger.is_engaged()), (97, false));
    ledger.delete(&in_namespace("b", 200), 0, SECOND).unwrap();
    let answer = ledger.delete(&in_namespace("b", 201), 0, SECOND);
    assert!(matches!(answer, Err(Refusal::Engages { namespace: None, .. })), "{answer:?}");
}

/// Rule 6.15. The Lease must have room for the names of the namespaces.
#[test]
fn too_many_namespaces_beyond_their_limit_pause_everything() {
    let mut ledger = Ledger::new(per_namespace(1, 0));
    for number in 0..=1024 {
        let hour = 3600 * SECOND * u32::try_from(number).unwrap();
        let namespace = format!("ns-{number}");
        ledger.delete(&in_namespace(&namespace, number), 0, hour).unwrap();
        reason(ledger.delete(&in_namespace(&namespace, 10_000 + number), 0, hour));
        assert_eq!(ledger.is_engaged(), number == 1024);
    }
}

#[test]
fn memory_is_bounded_by_namespaces_and_one_that_is_not_counted_is_not_held() {
    let mut ledger = Ledger::new(per_namespace(1, 0));
    for number in 0..2_000 {
        // A namespace whose deletions are rejected takes no room from others.
        let ticket = ledger.begin(&in_namespace(&format!("rejected-{number}"), number), 0, SECOND).unwrap();
        ledger.settle(ticket, DeletionResult::NoEffect, SECOND);
    }
    let mut refused = || {
        let delete = |number: &usize| {
            ledger.delete(&in_namespace(&format!("ns-{number}"), *number), 0, SECOND).is_err()
        };
        (0..2_000).filter(delete).count()
    };
    assert_eq!((refused(), refused()), (0, 1024));
}
