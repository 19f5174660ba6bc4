//! Our own writes whose events have not arrived.

use crate::graph::testing::world::{World, config, pod};
use crate::graph::*;
use crate::object::ResourceVersion;

fn version(number: u64) -> ExpectedChange {
    ExpectedChange::Version(ResourceVersion::number(number))
}

/// Rule 3.24.
#[test]
fn an_object_we_deleted_is_not_evaluated_before_its_event() {
    let owner = config("owner");
    let a = pod("a").blocking(&owner);
    let mut w = World::of(1, &[&owner, &a, &owner.clone().foreground().at(11)]);
    w.partition("ns").expect_event(&a.key(), &ExpectedChange::Removed);
    // Evaluating the owner queues it again; a second DELETE would be wasted.
    let _ = w.snapshot_and_queue(&owner);
    assert_eq!(w.snapshot_and_queue(&a), Snapshot::AwaitsEvent);
    w.forget();
    w.delete(&a);
    assert_eq!(w.queued(), ["owner"]);
    assert_eq!(w.snapshot_and_queue(&a), Snapshot::Gone);
}

#[test]
fn a_key_postponed_for_our_own_write_is_queued_when_the_event_arrives() {
    let a = pod("a").owned(&config("owner"));
    let mut w = World::of(1, &[&config("owner"), &a]);
    w.partition("ns").expect_event(&a.key(), &version(9));
    w.partition("ns").expect_event(&config("owner").key(), &version(11));
    w.forget();
    w.see(&[&config("owner").at(11)]);
    assert!(w.queued().is_empty(), "nothing waited for it");
    w.partition("ns").expect_event(&a.key(), &version(12));
    assert_eq!(w.snapshot_and_queue(&a), Snapshot::AwaitsEvent);
    w.see(&[&a.clone().at(11)]);
    assert!(w.queued().is_empty(), "that was the write of another client");
    assert_eq!(w.snapshot_and_queue(&a), Snapshot::AwaitsEvent);
    w.see(&[&a.clone().at(12)]);
    assert_eq!(w.queued(), ["a"]);
    assert!(matches!(w.snapshot_and_queue(&a), Snapshot::Object(_)));
}

#[test]
fn a_second_write_keeps_work_that_waits_for_the_event_of_the_first() {
    let a = pod("a").owned(&config("owner"));
    let mut w = World::of(1, &[&config("owner"), &a]);
    w.partition("ns").expect_event(&a.key(), &version(12));
    assert_eq!(w.snapshot_and_queue(&a), Snapshot::AwaitsEvent);
    w.partition("ns").expect_event(&a.key(), &version(13));
    w.forget();
    w.see(&[&a.clone().at(12)]);
    assert!(w.queued().is_empty());
    w.see(&[&a.clone().at(13)]);
    assert_eq!(w.queued(), ["a"]);
}
