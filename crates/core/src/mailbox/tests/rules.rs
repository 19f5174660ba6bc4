//! The rules of the work queues.

use std::time::Duration;

use super::Reason::{Failed, Parked};
use super::*;
use crate::mailbox::Job;

fn pop(mailbox: &mut TestMailbox, millis: u64) -> Option<Key> {
    mailbox.pop(at(millis)).map(|job| job.key)
}

/// A mailbox in which a key has just failed for the first time, at 0.
fn failed(key: &Key) -> TestMailbox {
    let mut mailbox = mailbox();
    mailbox.add(key.clone(), at(0));
    assert_eq!(pop(&mut mailbox, 0).as_ref(), Some(key));
    mailbox.finish(key, retry(Failed), at(0));
    mailbox
}

#[test]
fn one_key_is_queued_once() {
    let (mut mailbox, a) = (mailbox(), key("ns", 1));
    mailbox.add(a.clone(), at(0));
    mailbox.add(a.clone(), at(1));
    let job = Job { key: a.clone(), waited: Duration::from_millis(7), triggered_at: None };
    assert_eq!(mailbox.pop(at(7)), Some(job));
    assert_eq!(mailbox.pop(at(7)), None);
    assert_eq!(mailbox.adds_total(), 1);
    assert_eq!(mailbox.finish(&a, Completion::Done, at(10)), Some(Duration::from_millis(3)));
    assert_eq!(mailbox.len(), 0);
}

#[test]
fn the_time_in_a_closed_pool_does_not_count_as_waiting() {
    let (a, b) = (key("ns", 1), key("ns", 2));
    let mut mailbox = failed(&a);
    mailbox.add(b.clone(), at(0));
    mailbox.clear_backoff(at(1000));
    assert_eq!(mailbox.stats(|_| true).oldest_ready_since, Some(at(1000)));
    let waited = [mailbox.pop(at(1003)), mailbox.pop(at(1003))].map(|job| job.map(|job| job.waited));
    assert_eq!(waited, [Some(Duration::from_millis(3)); 2]);
}

/// Rule 8.5.
#[test]
fn a_flood_in_one_namespace_delays_another_by_one_key_each() {
    let mut mailbox = mailbox();
    for number in 0..10_000 {
        mailbox.add(key("flood", number), at(0));
    }
    for number in 0..10 {
        mailbox.add(key("quiet", number), at(0));
    }
    let first: Vec<_> = (0..20).filter_map(|_| pop(&mut mailbox, 0)).collect();
    let quiet = first.iter().filter(|key| key.namespace == Namespace::parse("quiet")).count();
    assert_eq!(quiet, 10);
}

#[test]
fn statistics_describe_the_partition() {
    let (mut mailbox, a) = (mailbox(), key("", 1));
    for (number, namespace) in ["", "x", "x", "y"].into_iter().enumerate() {
        mailbox.add(key(namespace, u32::try_from(number).unwrap() + 1), at(10));
    }
    pop(&mut mailbox, 20);
    let stats = mailbox.stats(|_| true);
    assert_eq!((stats.ready, stats.running), (3, vec![at(20)]));
    assert_eq!(stats.oldest_ready_since, Some(at(10)));
    mailbox.finish(&a, retry(Parked), at(30));
    let stats = mailbox.stats(|_| true);
    assert_eq!(stats.delayed.into_iter().collect::<Vec<_>>(), [(Parked, 1)]);
    assert_eq!((stats.running, mailbox.retries_total()), (Vec::new(), 1));
    let failing = mailbox.failing().next().unwrap();
    assert_eq!((failing.key, failing.attempts, failing.since), (&a, 1, at(30)));
    assert_eq!((&**failing.error, failing.next_retry), ("it failed", Some(at(35))));
}

#[test]
fn a_clock_that_goes_back_counts_as_stopped() {
    let (mut mailbox, a) = (mailbox(), key("ns", 1));
    mailbox.add(a.clone(), at(100));
    assert_eq!(mailbox.pop(at(50)).map(|job| job.waited), Some(Duration::ZERO));
    mailbox.finish(&a, retry(Failed), at(0));
    assert_eq!(mailbox.next_due(), Some(at(105)));
}

#[test]
fn memory_follows_the_number_of_keys() {
    let mut mailbox = mailbox();
    for number in 0..10_000 {
        mailbox.add(key(&format!("ns-{}", number % 1000), number), at(0));
    }
    let parked = key("ns-999", 9_999);
    while let Some(job) = mailbox.pop(at(0)) {
        let completion = if job.key == parked { retry(Parked) } else { Completion::Done };
        mailbox.finish(&job.key, completion, at(0));
    }
    assert_eq!(mailbox.len(), 1);
    assert!(mailbox.entries.capacity() < 200 && mailbox.flows.capacity() < 200);
    assert!(mailbox.flows.is_empty() && mailbox.turns.is_empty());
    assert_eq!(pop(&mut mailbox, 5), Some(parked));
}

/// A deferral because of another key's failure does not count as an attempt.
#[test]
fn a_deferred_key_counts_no_attempt_and_keeps_its_own_error() {
    let mut mailbox = mailbox();
    let a = key("a", 1);
    mailbox.add(a.clone(), at(0));
    for now in [0, 100, 200] {
        mailbox.pop(at(now)).unwrap();
        mailbox.finish(&a, defer(100), at(now));
    }
    let failing = mailbox.failure_of(&a).unwrap();
    assert_eq!((failing.attempts, &**failing.error), (0, "another one failed"));
    assert_eq!(mailbox.retries_total(), 0);
    mailbox.pop(at(300)).unwrap();
    mailbox.finish(&a, retry(Reason::Failed), at(300));
    assert_eq!(mailbox.failure_of(&a).unwrap().next_retry, Some(at(305)), "its first failure");
    mailbox.pop(at(305)).unwrap();
    mailbox.finish(&a, defer(100), at(305));
    let failing = mailbox.failure_of(&a).unwrap();
    assert_eq!((failing.attempts, &**failing.error, failing.reason), (1, "it failed", Reason::Parked));
}

#[test]
fn a_trigger_leaves_with_the_next_job_and_the_first_of_several_counts() {
    let mut mailbox = mailbox();
    let a = key("a", 1);
    mailbox.add(a.clone(), at(5));
    mailbox.note_trigger(&a, Time::from_micros(4_200));
    mailbox.note_trigger(&a, Time::from_micros(3_100));
    mailbox.note_trigger(&a, Time::from_micros(4_900));
    assert_eq!(mailbox.pop(at(6)).unwrap().triggered_at, Some(Time::from_micros(3_100)));
    // While it is worked on: for the next time.
    mailbox.add(a.clone(), at(7));
    mailbox.note_trigger(&a, at(7));
    mailbox.finish(&a, Completion::Done, at(8));
    assert_eq!(mailbox.pop(at(8)).unwrap().triggered_at, Some(at(7)));
    mailbox.finish(&a, Completion::Done, at(9));
    mailbox.note_trigger(&a, at(9));
    mailbox.add(a.clone(), at(10));
    assert_eq!(mailbox.pop(at(10)).unwrap().triggered_at, None, "it was not inside");
}
