//! Memory of removed objects is freed.

use crate::graph::testing::world::{Obj, World, config, pod};

fn from(objects: &[Obj], first: usize) -> Vec<&Obj> {
    objects[first..].iter().collect()
}

#[test]
fn a_partition_frees_the_memory_of_removed_objects() {
    let mut world = World::new(1);
    let empty = world.partition("ns").stats().bytes;
    let owners: Vec<Obj> = (0..2000).map(|number| config(&format!("owner-{number}"))).collect();
    let pods: Vec<Obj> =
        (0..10_000).map(|number| pod(&format!("pod-{number}")).owned(&owners[number / 5])).collect();
    world.list("configmaps", 2, &from(&owners, 0));
    world.list("pods", 2, &from(&pods, 0));
    let full = world.partition("ns").stats();
    assert_eq!((full.nodes, full.edges), (12_000, 10_000));

    // A tenth is left, in the slots where they were.
    world.list("pods", 1_000_000, &from(&pods, 9000));
    world.list("configmaps", 1_000_000, &from(&owners, 1800));
    let left = world.partition("ns").stats();
    assert_eq!((left.nodes, left.edges), (1200, 1000));
    // A few chunks of a hundred slots do not matter for a million objects.
    assert!(left.bytes < full.bytes / 3, "{} of {} bytes", left.bytes, full.bytes);
    assert_eq!(world.object(&pods[9500]).identity, pods[9500].identity());

    world.list("pods", 1_000_001, &[]);
    world.list("configmaps", 1_000_001, &[]);
    let none = world.partition("ns").stats();
    assert_eq!((none.nodes, none.edges), (0, 0));
    assert!(none.bytes < full.bytes / 10, "{} of {} bytes, {empty} at first", none.bytes, full.bytes);
}
