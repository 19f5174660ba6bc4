//! Who verifies the owners of objects that name very many.

use crate::graph::testing::world::*;
use crate::graph::*;
use crate::object::OwnerReference;

/// Owners that never existed.
fn nobody(number: usize) -> Obj {
    config(&format!("owner-{number:04}"))
}

/// An object that names this many of them.
fn naming(name: &str, owners: usize) -> Obj {
    (0..owners).fold(pod(name), |object, number| object.owned(&nobody(number)))
}

fn large(name: &str) -> Obj {
    naming(name, LARGE + 1)
}

/// Rule 4.34.
#[test]
fn a_large_object_is_queued_once_and_its_owners_are_not() {
    let mut world = World::of(1, &[&large("large")]);
    assert_eq!(world.out.delete.len(), 1);
    assert_eq!(world.queued(), ["large"]);
    world.see(&[&naming("small", 2)]);
    assert_eq!(
        world.queued(),
        ["owner-0000", "owner-0001"],
        "the small object may name them before the large one"
    );
}

#[test]
fn thousands_of_unresolved_references_queue_their_object_once() {
    let reference = |number| OwnerReference { api_version: "v9".into(), ..nobody(number).reference() };
    let world =
        World::of(1, &[&(0..8000).fold(pod("large"), |object, number| object.with(reference(number)))]);
    assert_eq!(world.out.delete.len(), 1);
}

#[test]
fn an_owner_of_a_small_object_is_queued_once() {
    let mut world = World::of(1, &[&pod("small").owned(&nobody(0))]);
    assert_eq!(world.queued(), ["owner-0000"]);
    world.see(&[&pod("another").owned(&nobody(0))]);
    assert_eq!(world.queued(), [""; 0], "the large object is queued itself");
    world.see(&[&large("large")]);
    assert_eq!(world.queued(), ["large"]);
    world.see(&[&pod("last").owned(&nobody(1))]);
    assert_eq!(world.queued(), ["owner-0001"], "only the large object named it before");
}

#[test]
fn owners_that_a_large_object_leaves_behind_are_queued() {
    let mut world = World::of(1, &[&large("large")]);
    world.queued();
    world.see(&[&naming("large", 2).at(11)]);
    assert_eq!(world.queued(), ["large", "owner-0000", "owner-0001"]);
}

/// For example when a replica becomes the leader.
#[test]
fn rederiving_work_queues_a_large_object_and_not_its_owners() {
    let mut world = World::of(1, &[&large("large"), &naming("small", 1)]);
    world.queued();
    let partition = world.sharding.of(pod("large").facts.namespace.as_ref());
    world.partitions[usize::from(partition.0)].rederive(&mut world.out);
    assert_eq!(world.queued(), ["large", "owner-0000", "small"]);
}

#[test]
fn a_small_snapshot_is_only_taken_of_a_small_object() {
    let (small, large) = (naming("small", LARGE), large("large"));
    let mut world = World::of(1, &[&small, &large]);
    let mut out = Effects::default();
    let partition = world.partition("ns");
    assert!(partition.snapshot_and_queue_small(&large.key(), &mut out).is_none());
    let snapshot = partition.snapshot_and_queue(&large.key(), &mut out);
    assert!(matches!(snapshot, Snapshot::Object(item) if item.references.len() == LARGE + 1));
    let snapshot = partition.snapshot_and_queue_small(&small.key(), &mut out);
    assert!(matches!(snapshot, Some(Snapshot::Object(item)) if item.references.len() == LARGE));
    assert_eq!(partition.snapshot_and_queue_small(&pod("gone").key(), &mut out), Some(Snapshot::Gone));
}

/// An object links to each of its owners in partition 0.
#[test]
fn thousands_of_owners_in_another_partition_have_one_link_each() {
    let mut world = World::new(2);
    world.delayed = true;
    let object =
        (0..1000).fold(pod("large"), |object, number| object.owned(&node(&format!("node-{number}"))));
    world.see(&[&object]);
    assert_eq!(world.outbox.len(), 1000);
    assert!(world.outbox.iter().all(|link| link.references.len() == 1 && !link.shares_uid));
}
