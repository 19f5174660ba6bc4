//! From a key to a decision: what a worker does before it writes.

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use kube_gc_core::graph::{Effects, Partition, Snapshot};
use kube_gc_core::object::Key;
use kube_gc_core::verdict::{GraphClass, Precheck, ReferenceClass, decide, from_graph, precheck};

use crate::cluster::{BATCH, Cluster, POD, Random, batch, feed, partition};
use kube_gc_core::graph::WatchEvent;

const OBJECTS: usize = 100_000;
const KEYS: usize = 10_000;

/// Measures snapshots and decisions.
pub fn bench(criterion: &mut Criterion) {
    let cluster = Cluster::new(OBJECTS);
    let mut keys: Vec<Key> =
        cluster.keys().filter(|key| key.resource == cluster.types[POD].resource).collect();
    Random(7).shuffle(&mut keys);
    keys.truncate(KEYS);

    let mut solid = partition(&cluster);
    feed(&mut solid, cluster.lists());
    let mut bereaved = partition(&cluster);
    feed(&mut bereaved, cluster.lists());
    for owners in &cluster.types[..POD] {
        for gone in owners.objects.chunks(BATCH) {
            let gone = gone.iter().cloned().map(WatchEvent::Delete).collect();
            feed(&mut bereaved, [batch(&owners.resource, gone)]);
        }
    }

    let mut group = criterion.benchmark_group("verdict");
    group.throughput(Throughput::Elements(keys.len() as u64));
    for (name, partition) in [("the owner lives", &mut solid), ("the owner is gone", &mut bereaved)] {
        let mut effects = Effects::default();
        group.bench_function(format!("snapshot, {name}"), |bencher| {
            bencher.iter(|| {
                for key in &keys {
                    black_box(partition.snapshot_and_queue(key, &mut effects));
                    effects.clear();
                }
            });
        });
        let snapshots = snapshots(partition, &keys);
        group.bench_function(format!("classify and decide, {name}"), |bencher| {
            bencher.iter(|| {
                for snapshot in &snapshots {
                    let Snapshot::Object(item) = black_box(snapshot) else { continue };
                    if black_box(precheck(item)) != Precheck::Classify {
                        continue;
                    }
                    let classes: Vec<ReferenceClass> = item
                        .references
                        .iter()
                        .map(|reference| match from_graph(&reference.owner) {
                            GraphClass::Known(class) => class,
                            _ => ReferenceClass::Unresolved,
                        })
                        .collect();
                    black_box(decide(item, &classes));
                }
            });
        });
    }
    group.finish();
}

/// Snapshots of objects whose decision depends on their owners.
fn snapshots(partition: &mut Partition, keys: &[Key]) -> Vec<Snapshot> {
    let mut effects = Effects::default();
    let snapshots: Vec<Snapshot> =
        keys.iter().map(|key| partition.snapshot_and_queue(key, &mut effects)).collect();
    let to_be_classified = |snapshot: &Snapshot| matches!(snapshot, Snapshot::Object(item) if precheck(item) == Precheck::Classify);
    assert!(snapshots.iter().all(to_be_classified), "pods that are there and have an owner");
    snapshots
}
