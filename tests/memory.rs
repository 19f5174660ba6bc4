//! The memory of an object, counted and not estimated, so that an increase is noticed.

// The benchmark's own files, some of which are not needed.
#![allow(dead_code, unused_imports)]

#[path = "memory/graph.rs"]
mod graph;
#[path = "../benches/common/cluster/mod.rs"]
mod large;

use std::num::NonZeroU16;

use self::graph::Graph;

/// So many that fixed costs do not matter.
const OBJECTS: u64 = 50_000;

#[test]
fn an_object_takes_120_bytes_and_its_name() {
    let Graph { objects, names, partitions, allocated } =
        &Graph::new(OBJECTS, NonZeroU16::new(2).unwrap()).unwrap();
    assert_eq!(*objects as u64, OBJECTS);
    let each = |bytes: usize| bytes as f64 / *objects as f64;
    let counted = usize::try_from(allocated.bytes_current).unwrap();
    assert!(each(counted - names) <= 120.0, "{} bytes", each(counted - names));
    // An allocator rounds each one up. Only the name has its own.
    let pieces = usize::try_from(allocated.count_current).unwrap();
    assert!(each(pieces) < 1.1, "{} allocations", each(pieces));
    let own: usize = partitions.iter().map(|partition| partition.stats().bytes).sum();
    assert!(own <= counted && own > counted * 97 / 100, "{own} by its own account, but {counted} bytes");
}
