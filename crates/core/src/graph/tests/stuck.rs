//! Stuck objects.

use std::time::Duration;

use crate::graph::testing::world::*;
use crate::graph::*;
use crate::object::*;

const ALL: usize = 100;

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn all() -> StuckFilter {
    StuckFilter { limit: ALL, ..StuckFilter::default() }
}

impl World {
    /// Name, cause and seconds of all stuck objects, in all partitions.
    fn waiting(&mut self, now: u64, filter: &StuckFilter) -> Vec<(String, StuckCause, u64)> {
        let mut waiting = Vec::new();
        for partition in &mut self.partitions {
            let StuckObjects { counts, objects } = partition.stuck_objects(seconds(now), filter, None);
            if filter.limit == ALL {
                assert_eq!(counts.iter().map(|(_, count)| count.count).sum::<usize>(), objects.len());
            }
            waiting.extend(objects.into_iter().map(|stuck| {
                (stuck.object.name.to_string(), StuckCause::from(&stuck.detail), stuck.waited.as_secs())
            }));
        }
        waiting
    }
}

#[test]
fn a_blocked_owner_is_stuck_and_lists_its_blocking_dependents() {
    let owner = config("owner");
    let pods: Vec<Obj> = (0..5).map(|n| pod(&format!("p{n}")).blocking(&owner)).collect();
    let mut w = World::of(2, &[&owner]);
    w.see(&pods.iter().collect::<Vec<_>>());
    assert_eq!(w.waiting(1, &all()), [], "it is not being deleted");
    w.see(&[&owner.foreground().at(20)]);
    assert_eq!(w.waiting(2, &all()), [("owner".to_owned(), StuckCause::Blocked, 0)]);
    assert_eq!(w.waiting(7, &all()), [("owner".to_owned(), StuckCause::Blocked, 5)]);
    let stuck = w.partition("ns").stuck_objects(seconds(7), &all(), None).objects.remove(0);
    let StuckDetail::Blocked { count: 5, some } = stuck.detail else { panic!("{stuck:?}") };
    assert_eq!(some.len(), 3);
    assert!(some.iter().all(|blocking| blocking.name.starts_with('p')));
    for pod in &pods {
        w.delete(pod);
    }
    assert_eq!(w.waiting(8, &all()), [], "nothing blocks it any more");
}

#[test]
fn a_reference_of_invalid_scope_is_listed_until_it_goes() {
    let thing = obj("things.example.com", "", "thing").owned(&config("owner"));
    let mut w = World::of(2, &[&thing]);
    assert_eq!(w.waiting(1, &all()), [("thing".to_owned(), StuckCause::InvalidScope, 0)]);
    w.see(&[&thing.clone().at(11)]);
    assert_eq!(w.waiting(3, &all()), [("thing".to_owned(), StuckCause::InvalidScope, 2)]);
    let stuck = w.partition("").stuck_objects(seconds(3), &all(), None).objects.remove(0);
    assert_eq!(stuck.detail, StuckDetail::InvalidScope { count: 1, some: vec![config("owner").reference()] });
    w.see(&[&thing.clone().terminating().at(12)]);
    assert_eq!(
        w.waiting(4, &all()),
        [("thing".to_owned(), StuckCause::Held, 0)],
        "it is being deleted, whatever it names"
    );
    w.see(&[&thing.clone().at(13)]);
    assert_eq!(
        w.waiting(5, &all()),
        [("thing".to_owned(), StuckCause::InvalidScope, 0)],
        "the waiting time starts over"
    );
    w.see(&[&thing.unowned().at(14)]);
    assert_eq!(w.waiting(6, &all()), []);
    assert!(w.partition("").may_be_stuck.is_empty(), "no candidate is left");
}

#[test]
fn a_reused_slot_does_not_inherit_the_waiting_time() {
    let thing = |name| obj("things.example.com", "", name).owned(&config("owner"));
    let mut w = World::of(1, &[&thing("first")]);
    assert_eq!(w.waiting(1, &all()).len(), 1);
    w.delete(&thing("first"));
    w.see(&[&thing("second")]);
    assert_eq!(w.waiting(9, &all()), [("second".to_owned(), StuckCause::InvalidScope, 0)]);
}

#[test]
fn a_write_without_an_event_is_stuck_after_a_while_if_work_waits_for_it() {
    let mut w = World::of(1, &[&pod("a"), &pod("b")]);
    for written in ["a", "b"] {
        let change = ExpectedChange::Version(ResourceVersion::number(20));
        w.partition("ns").expect_event(&pod(written).key(), &change);
    }
    assert_eq!(w.snapshot_and_queue(&pod("a")), Snapshot::AwaitsEvent);
    let filter = StuckFilter { patience: seconds(2), ..all() };
    assert_eq!(w.waiting(1, &filter), []);
    assert_eq!(w.waiting(3, &filter), [("a".to_owned(), StuckCause::UnseenWrite, 2)]);
    w.see(&[&pod("a").at(20)]);
    assert_eq!(w.waiting(9, &filter), []);
}

#[test]
fn what_was_deleted_is_stuck_if_others_hold_it_for_long() {
    let mut w = World::of(1, &[&pod("a").held().terminating(), &pod("b")]);
    let filter = StuckFilter { patience: seconds(60), ..all() };
    assert_eq!(w.waiting(1, &filter), []);
    assert_eq!(w.waiting(61, &filter), [("a".to_owned(), StuckCause::Held, 60)]);
    let stuck = w.partition("ns").stuck_objects(seconds(61), &filter, None).objects.remove(0);
    assert_eq!(stuck.detail, StuckDetail::Held { by_finalizers: true });
    // In its grace period, nothing holds a pod, however little patience there is. The period may be made shorter.
    let mut leaving = pod("b").terminating().at(11);
    leaving.facts.grace = Some(300);
    w.delete(&pod("a"));
    w.see(&[&leaving]);
    assert_eq!(w.waiting(70, &all()), []);
    assert_eq!(w.waiting(370, &filter), []);
    assert_eq!(w.waiting(430, &filter), [("b".to_owned(), StuckCause::Held, 60)]);
    leaving.facts.grace = Some(0);
    w.see(&[&leaving.clone().at(12)]);
    assert_eq!(w.waiting(431, &filter), [("b".to_owned(), StuckCause::Held, 61)]);
    w.delete(&leaving);
    assert_eq!(w.waiting(499, &filter), []);
    assert!(w.partition("ns").may_be_stuck.is_empty(), "no candidate is left");
}

/// A collector may have started long after that.
#[test]
fn what_was_deleted_before_it_was_seen_is_stuck_since_the_end_of_its_grace_period() {
    let (mut owner, mut held) = (config("owner").foreground(), pod("held").held().terminating());
    (owner.facts.ends, held.facts.ends, held.facts.grace) = (Some(940), Some(910), Some(30));
    // The server's clock is ahead, or the time is not known.
    let (mut ahead, unknown) = (pod("ahead").held().terminating(), pod("unknown").held().terminating());
    ahead.facts.ends = Some(2000);
    let mut w = World::of(1, &[&owner, &held, &ahead, &unknown, &pod("p").blocking(&owner)]);
    let filter = StuckFilter { patience: seconds(60), ..all() };
    let held = |waited| ("held".to_owned(), StuckCause::Held, waited);
    let blocked = |waited| ("owner".to_owned(), StuckCause::Blocked, waited);
    assert_eq!(w.waiting(980, &filter), [held(70)]);
    assert_eq!(w.waiting(1000, &filter), [held(90), blocked(60)]);
    assert_eq!(w.waiting(1039, &filter), [held(129), blocked(99)]);
    assert_eq!(w.waiting(1040, &filter).len(), 4);
}

#[test]
fn all_stuck_objects_are_counted_and_the_oldest_are_named() {
    let mut w = World::new(1);
    for number in 0..5 {
        let (owner, place) = (config(&format!("o{number}")), ["a", "b"][number % 2]);
        let owner = Obj { facts: ObjectFacts { namespace: Namespace::parse(place), ..owner.facts }, ..owner };
        let dependent = obj("pods", place, &format!("p{number}")).blocking(&owner);
        w.see(&[&owner.foreground(), &dependent]);
        w.waiting(u64::try_from(number).unwrap(), &all());
    }
    let names = |waiting: Vec<(String, StuckCause, u64)>| -> Vec<String> {
        waiting.into_iter().map(|(name, ..)| name).collect()
    };
    let filter = StuckFilter { limit: 2, ..StuckFilter::default() };
    assert_eq!(names(w.waiting(5, &filter)), ["o0", "o1"]);
    let counts = w.partition("a").stuck_objects(seconds(5), &filter, None).counts;
    assert_eq!(counts[0], (StuckCause::Blocked, StuckCount { count: 5, oldest: seconds(5) }));
    let filter = StuckFilter { namespace: Namespace::parse("b"), ..all() };
    assert_eq!(names(w.waiting(5, &filter)), ["o1", "o3"]);
    let filter = StuckFilter { resource: Some(GroupResource::parse("pods")), ..all() };
    assert_eq!(names(w.waiting(5, &filter)), [""; 0]);
    let invalid = w.partition("a").stuck_objects(seconds(5), &all(), Some(StuckCause::InvalidScope));
    assert_eq!((invalid.counts[0], invalid.objects), (counts[0], Vec::new()));
}
