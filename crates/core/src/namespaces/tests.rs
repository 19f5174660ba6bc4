use std::time::{Duration, SystemTime};

use proptest::prelude::*;

use super::*;
use crate::mailbox::Backoff;
use crate::object::{GroupResource, Uid};

const REMAINING: &str = "NamespaceContentRemaining";

fn of(resource: &str, count: u64, alive: u64) -> TypeSurvey {
    let found = Found { count, alive, ..Found::default() };
    TypeSurvey { resource: GroupResource::parse(resource), found: Ok(found) }
}

fn unlisted(resource: &str, why: &str) -> TypeSurvey {
    TypeSurvey { resource: GroupResource::parse(resource), found: Err(why.to_owned()) }
}

fn survey(types: impl IntoIterator<Item = TypeSurvey>) -> Survey {
    Survey { types: types.into_iter().collect(), ..Survey::default() }
}

fn delete(resources: &[&str]) -> Step {
    Step::Delete(resources.iter().map(|resource| GroupResource::parse(resource)).collect())
}

/// Rule 11.3.
#[test]
fn pods_are_deleted_before_everything_else() {
    let found = |pods, alive| survey([of("secrets", 2, 2), of("pods", pods, alive), of("events", 1, 1)]);
    assert_eq!(step(&found(3, 1)), delete(&["pods"]));
    assert_eq!(step(&found(3, 0)), Step::Wait, "they have their grace period");
    assert_eq!(step(&found(0, 0)), delete(&["secrets", "events"]));
    let unknown = survey([of("secrets", 2, 2), unlisted("pods", "no answer")]);
    assert_eq!(step(&unknown), Step::Wait, "there may be pods");
    let others = survey([of("pods.metrics.k8s.io", 1, 0), of("secrets", 2, 2)]);
    assert_eq!(step(&others), delete(&["secrets"]), "not the pods of the core group");
}

/// Rule 11.4.
#[test]
fn an_object_that_begins_to_be_deleted_is_progress() {
    let before = survey([of("secrets", 3, 3), of("events", 1, 0)]);
    for (count, alive, is_progress) in [(3, 3, false), (3, 2, true), (2, 2, true), (4, 3, false)] {
        let after = survey([of("secrets", count, alive), of("events", 1, 0)]);
        assert_eq!(after.has_less_than(&before), is_progress, "{count} with {alive} alive");
    }
}

/// Rule 11.4.
#[test]
fn what_is_being_deleted_is_not_deleted_again_and_a_type_that_fails_stops_no_other() {
    let found =
        survey([of("a.example.com", 5, 0), unlisted("b.example.com", "no"), of("c.example.com", 1, 1)]);
    assert_eq!(step(&found), delete(&["c.example.com"]));
}

proptest! {
    /// Rule 11.2, for any look.
    #[test]
    fn nothing_is_finalized_while_anything_is_left_or_unknown(
        counts in prop::collection::vec(prop::option::of((0_u64..3, 0_u64..3)), 0..6),
        undiscovered in 0_usize..2,
        unparsed in 0_usize..2,
        failures in 0_usize..2,
    ) {
        let types = counts.iter().enumerate().map(|(number, found)| match found {
            Some((alive, more)) => of(&format!("t{number}"), alive + more, *alive),
            None => unlisted(&format!("t{number}"), "no"),
        });
        let survey = Survey {
            undiscovered: vec![("g/v1".to_owned(), "no".to_owned()); undiscovered],
            unparsed: vec!["a/b/c".to_owned(); unparsed],
            failures: vec!["no".to_owned(); failures],
            ..survey(types)
        };
        let is_proved_empty = !counts.is_empty()
            && counts.iter().all(|found| *found == Some((0, 0)))
            && undiscovered + unparsed + failures == 0;
        prop_assert_eq!(step(&survey) == Step::Finalize, is_proved_empty);
        if let Step::Delete(types) = step(&survey) {
            for deleted in types {
                let of_type = survey.types.iter().find(|of_type| of_type.resource == deleted);
                prop_assert!(of_type.unwrap().found.as_ref().unwrap().alive > 0);
            }
        }
    }
}

/// Rule 11.6. The texts are those of kube-controller-manager.
#[test]
fn the_conditions_have_the_words_of_kubernetes() {
    let mut held = of("widgets.example.com", 2, 0);
    held.found.as_mut().unwrap().finalizers = [("example.com/hold".to_owned(), 2)].into();
    let wrong = Survey {
        undiscovered: vec![("metrics.k8s.io/v1".to_owned(), "503".to_owned())],
        unparsed: vec!["a/b/c".to_owned()],
        failures: vec!["DELETE secrets ns/s: no".to_owned()],
        ..survey([held, of("pods", 1, 0), unlisted("things.example.com", "LIST things: 403")])
    };
    let said = |survey: &Survey, are_true: bool| -> Vec<String> {
        let all = conditions(survey, "now");
        assert!(all.iter().all(|condition| condition.is_true == are_true));
        all.iter().map(|said| format!("{} {}: {}", said.kind, said.reason, said.message)).collect()
    };
    let fine = [
        "NamespaceDeletionDiscoveryFailure ResourcesDiscovered: All resources successfully discovered",
        "NamespaceDeletionGroupVersionParsingFailure ParsedGroupVersions: All legacy kube types successfully parsed",
        "NamespaceDeletionContentFailure ContentDeleted: All content successfully deleted, may be waiting on \
         finalization",
        "NamespaceContentRemaining ContentRemoved: All content successfully removed",
        "NamespaceFinalizersRemaining ContentHasNoFinalizers: All content-preserving finalizers finished",
    ];
    assert_eq!(said(&survey([of("pods", 0, 0)]), false), fine);
    let problems = [
        "NamespaceDeletionDiscoveryFailure DiscoveryFailed: Discovery failed for some groups, 1 failing: unable \
         to retrieve the complete list of server APIs: metrics.k8s.io/v1: 503",
        "NamespaceDeletionGroupVersionParsingFailure GroupVersionParsingFailed: unexpected GroupVersion string: \
         a/b/c",
        "NamespaceDeletionContentFailure ContentDeletionFailed: Failed to delete all resource types, 2 \
         remaining: DELETE secrets ns/s: no, LIST things: 403",
        "NamespaceContentRemaining SomeResourcesRemain: Some resources are remaining: pods. has 1 resource \
         instances, widgets.example.com has 2 resource instances",
        "NamespaceFinalizersRemaining SomeFinalizersRemain: Some content in the namespace has finalizers \
         remaining: example.com/hold in 2 resource instances",
    ];
    assert_eq!(said(&wrong, true), problems);
}

#[test]
fn a_message_is_bounded_whatever_the_cluster_contains() {
    let types = (0..10_000).map(|number| unlisted(&format!("t{number}"), &"x".repeat(1000)));
    for condition in conditions(&survey(types), "now") {
        assert!(condition.message.len() < 5000, "{}", condition.message.len());
    }
}

#[test]
fn a_time_changes_with_the_status_only_and_foreign_conditions_stay() {
    let foreign = Condition {
        kind: "example.com/Audited".to_owned(),
        is_true: true,
        reason: "R".to_owned(),
        message: "m".to_owned(),
        since: "long ago".to_owned(),
    };
    let first = merged(std::slice::from_ref(&foreign), conditions(&survey([of("pods", 1, 0)]), "1")).unwrap();
    assert_eq!((first.len(), &first[0]), (6, &foreign));
    assert_eq!(merged(&first, conditions(&survey([of("pods", 1, 0)]), "2")), None, "nothing has changed");
    let second = merged(&first, conditions(&survey([of("pods", 2, 0)]), "2")).unwrap();
    let since = |conditions: &[Condition], kind: &str| {
        conditions.iter().find(|known| known.kind == kind).unwrap().since.clone()
    };
    assert_eq!(since(&second, REMAINING), "1", "it is still true");
    let third = merged(&second, conditions(&survey([of("pods", 0, 0)]), "3")).unwrap();
    assert_eq!(since(&third, REMAINING), "3");
    assert_eq!(since(&third, "NamespaceDeletionDiscoveryFailure"), "1");
}

const NOW: Duration = Duration::from_secs(1_000_000);

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Rule 11.8.
#[test]
fn a_lease_that_is_held_and_renewed_is_a_rival() {
    let now = SystemTime::UNIX_EPOCH + NOW;
    let record = |holder: &str, renewed, version: &str| LeaderRecord {
        holder: holder.to_owned(),
        renewed,
        version: version.to_owned(),
    };
    let is_rival = |record: &LeaderRecord, before: Option<&LeaderRecord>| record.rival(before, now).is_some();
    let old = NOW.as_secs() - RECENT.as_secs() - 1;
    assert!(is_rival(&record("a", Some(at(NOW.as_secs() - 10)), "1"), None));
    assert!(is_rival(&record("a", Some(at(NOW.as_secs() + 3600)), "1"), None), "clocks differ");
    assert!(is_rival(&record("a", None, "1"), None), "the time cannot be read");
    assert!(!is_rival(&record("", Some(now), "1"), None), "it was released");
    let stale = record("a", Some(at(old)), "1");
    assert!(!is_rival(&stale, None), "left behind");
    assert!(!is_rival(&stale, Some(&stale)));
    assert!(is_rival(&record("a", Some(at(old)), "2"), Some(&stale)), "renewed by a clock that is behind");
}

/// Rule 11.8.
#[test]
fn somebody_else_who_sets_the_conditions_is_a_rival() {
    let owner = |manager: &str, at, condition: &str| FieldOwner {
        manager: manager.to_owned(),
        at,
        conditions: vec![condition.to_owned()],
    };
    let is_rival = |owner| wrote_conditions(&[owner], "kube-gc", at(100)).is_some();
    assert!(is_rival(owner("kube-controller-manager", Some(at(100)), REMAINING)));
    assert!(is_rival(owner("kube-controller-manager", None, REMAINING)));
    assert!(!is_rival(owner("kube-controller-manager", Some(at(99)), REMAINING)), "before the start");
    assert!(!is_rival(owner("kube-gc", Some(at(200)), REMAINING)));
    assert!(!is_rival(owner("kubectl", Some(at(200)), "example.com/Audited")));
}

fn uid(text: &str) -> Uid {
    Uid::parse(text).unwrap()
}

const HELD: Ended = Ended::Held { awaited: 0 };

/// Rule 11.3: more can be done when the Pods are gone.
#[test]
fn a_namespace_waits_for_its_pods_and_then_for_everything() {
    assert_eq!(survey([of("pods", 2, 0), of("secrets", 3, 3)]).awaited(), 2);
    assert_eq!(survey([of("pods", 0, 0), of("secrets", 3, 0), of("configmaps", 4, 0)]).awaited(), 7);
}

fn ns(name: &str) -> TurnOf {
    TurnOf::Namespace(name.into())
}

fn turn_of(name: &str, uid: &Uid) -> NextTurn {
    NextTurn { of: ns(name), uid: Some(uid.clone()), is_quiet: false }
}

fn agenda() -> Agenda {
    Agenda::new(
        2,
        Backoff { min: Duration::from_secs(1), max: Duration::from_secs(8) },
        Duration::from_secs(5),
    )
}

/// Rule 11.11.
#[test]
fn a_namespace_is_quiet_when_looks_have_shown_nothing_for_long_enough() {
    let mut agenda = agenda();
    let (uid, second) = (uid("u"), Duration::from_secs);
    agenda.seen("ns", &uid, second(0));
    let mut turn = |at: u64, how| {
        let due = agenda.next_due();
        let turn = agenda.next(second(at)).map(|turn| turn.is_quiet);
        agenda.ended(&turn_of("ns", &uid), how, second(at));
        (due.map(|due| due.as_secs()), turn)
    };
    assert_eq!(turn(0, Ended::Empty), (Some(0), Some(false)), "it was seen just now");
    assert_eq!(turn(4, Ended::Empty), (Some(5), None), "the turn does not begin");
    assert_eq!(turn(5, Ended::Progress), (Some(5), Some(true)));
    assert_eq!(turn(6, Ended::Empty).1, Some(false), "an object was seen");
    assert_eq!(turn(20, HELD), (Some(11), Some(true)));
    assert_eq!(turn(30, Ended::Empty).1, Some(false), "something could not be looked at");
    assert_eq!(turn(35, Ended::Emptied), (Some(35), Some(true)));
    assert_eq!(turn(40, Ended::Done), (Some(40), Some(true)), "the quiet begins with the last deletion");

    let mut hasty = Agenda::new(1, Backoff { min: second(1), max: second(8) }, Duration::ZERO);
    hasty.seen("ns", &uid, second(0));
    assert!(hasty.next(second(0)).unwrap().is_quiet);
}

/// Rule 11.7.
#[test]
fn a_namespace_goes_behind_those_that_are_due() {
    let mut agenda = agenda();
    let moment = Duration::from_millis;
    for (name, at) in [("huge", 0), ("huge-2", 1), ("small", 2)] {
        agenda.seen(name, &uid(name), moment(at));
    }
    let mut turns = Vec::new();
    for now in [10, 11, 12] {
        turns.extend(agenda.next(moment(now)));
    }
    assert_eq!([&turns[0].of, &turns[1].of], [&ns("huge"), &ns("huge-2")]);
    assert_eq!(turns.len(), 2, "two at a time");
    agenda.ended(&turns[0], Ended::Progress, moment(100));
    assert_eq!(agenda.next(moment(200)).unwrap().of, ns("small"), "it has waited for longer");
    assert_eq!(agenda.busy().count(), 3);
    agenda.ended(&turn_of("small", &uid("small")), Ended::Done, moment(201));
    assert_eq!((agenda.len(), agenda.busy().count()), (2, 2));
    agenda.add_storage();
    assert_eq!((agenda.len(), agenda.busy().count()), (2, 3), "the storage is no namespace");
}

#[test]
fn a_namespace_that_is_held_is_looked_at_less_and_less_often() {
    let mut agenda = agenda();
    let held = uid("held");
    agenda.seen("held", &held, Duration::ZERO);
    let mut now = Duration::ZERO;
    let mut pauses = Vec::new();
    for _ in 0..6 {
        agenda.next(now).unwrap();
        assert_eq!(agenda.next(now), None, "it has one turn at a time");
        agenda.ended(&turn_of("held", &held), HELD, now);
        // An event about our own write changes nothing.
        agenda.seen("held", &held, now);
        let due = agenda.next_due().unwrap();
        pauses.push((due - now).as_secs());
        now = due;
    }
    assert_eq!(pauses, [1, 2, 4, 8, 8, 8]);
    assert_eq!(agenda.busy().count(), 0, "it waits for somebody else");
    // What held it is gone.
    now -= Duration::from_secs(5);
    agenda.hasten(&ns("held"), now);
    assert!(agenda.next_due().unwrap() - now < Duration::from_secs(1));
    assert_eq!(agenda.busy().count(), 1);
    // A request that failed is work of its own, which is tried again less and less often.
    let mut pauses = Vec::new();
    for _ in 0..3 {
        now = agenda.next_due().unwrap();
        agenda.next(now).unwrap();
        agenda.ended(&turn_of("held", &held), Ended::Failed, now);
        assert_eq!(agenda.busy().count(), 1);
        pauses.push((agenda.next_due().unwrap() - now).as_secs());
    }
    assert_eq!(pauses, [1, 2, 4]);
}

#[test]
fn a_recreated_namespace_is_another_one() {
    let mut agenda = agenda();
    let (old, new) = (uid("old"), uid("new"));
    agenda.seen("ns", &old, Duration::ZERO);
    let turn = agenda.next(Duration::ZERO).unwrap();
    agenda.seen("ns", &new, Duration::ZERO);
    agenda.ended(&turn, Ended::Done, Duration::ZERO);
    assert_eq!(agenda.next(Duration::ZERO).unwrap().uid, Some(new));
}
