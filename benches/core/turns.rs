//! The longest turns: what one object with thousands of owner references costs without a yield.
//! Whatever else is due on the same thread waits for the end of such a turn, at most 10 ms.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode};
use kube_gc_core::graph::{Effects, Partition, Snapshot, WatchEvent};
use kube_gc_core::object::{Key, ObjectFacts, OwnerReference, ResourceType, ResourceVersion, Uid};
use kube_gc_core::verdict::Basis;

use crate::cluster::{Cluster, POD, Random, batch, feed, partition};

/// The other objects of the cluster.
const OBJECTS: usize = 100_000;
/// The API server accepts about 10,000 references in one object, as etcd limits its size.
const REFERENCES: usize = 10_000;

/// Measures turns on an object with many references to owners that do not exist.
pub fn bench(criterion: &mut Criterion) {
    let mut cluster = Cluster::new(OBJECTS);
    let mut bed = Bed::new(&mut cluster);
    let mut group = criterion.benchmark_group(format!("turns, an object with {REFERENCES} references"));
    group.sampling_mode(SamplingMode::Flat).sample_size(20).measurement_time(Duration::from_secs(2));
    group.bench_function("graph, insert", |bencher| {
        bencher.iter_custom(|rounds| {
            let round = |_| {
                let took = bed.happen(Large::exists);
                bed.happen(Large::is_deleted);
                took
            };
            (0..rounds).map(round).sum()
        });
    });
    group.bench_function("graph, delete", |bencher| {
        bencher.iter_custom(|rounds| {
            let round = |_| {
                bed.happen(Large::exists);
                bed.happen(Large::is_deleted)
            };
            (0..rounds).map(round).sum()
        });
    });
    bed.happen(Large::exists);
    group.bench_function("graph, all references change", |bencher| {
        bencher.iter_custom(|rounds| (0..rounds).map(|_| bed.happen(Large::has_other_owners)).sum());
    });
    group.bench_function("snapshot", |bencher| bencher.iter(|| black_box(bed.snapshot())));
    let snapshot = bed.snapshot();
    group.bench_function("basis of a DELETE", |bencher| {
        bencher.iter(|| {
            if let Snapshot::Object(item) = black_box(&snapshot) {
                black_box(Basis::of(item));
            }
        });
    });
    group.finish();
}

/// A graph, and the object with many references.
struct Bed {
    partition: Partition,
    resource: Arc<ResourceType>,
    large: Large,
}

impl Bed {
    fn new(cluster: &mut Cluster) -> Self {
        let mut partition = partition(cluster);
        feed(&mut partition, cluster.lists());
        let of = &cluster.types[POD];
        let mut random = Random(11);
        let owners = owners(&mut random);
        let facts = ObjectFacts { uid: uid(&mut random), owners, ..of.objects[0].clone() };
        let large = Large { facts, other_owners: self::owners(&mut random), version: 1_000_000_000 };
        Self { partition, resource: Arc::clone(&of.resource), large }
    }

    /// Applies an event, and returns how long the graph took.
    fn happen(&mut self, what: impl Fn(&mut Large) -> WatchEvent) -> Duration {
        let events = batch(&self.resource, vec![what(&mut self.large)]);
        let began = Instant::now();
        feed(&mut self.partition, [events]);
        began.elapsed()
    }

    fn snapshot(&mut self) -> Snapshot {
        let facts = &self.large.facts;
        let key = Key {
            uid: facts.uid.clone(),
            resource: Arc::clone(&self.resource),
            namespace: facts.namespace.clone(),
        };
        self.partition.snapshot_and_queue(&key, &mut Effects::default())
    }
}

struct Large {
    facts: ObjectFacts,
    /// The owners that it does not have at present.
    other_owners: Vec<OwnerReference>,
    version: u64,
}

impl Large {
    fn exists(&mut self) -> WatchEvent {
        self.version += 1;
        self.facts.resource_version = Some(ResourceVersion::number(self.version));
        WatchEvent::Apply(self.facts.clone())
    }

    fn has_other_owners(&mut self) -> WatchEvent {
        std::mem::swap(&mut self.facts.owners, &mut self.other_owners);
        self.exists()
    }

    fn is_deleted(&mut self) -> WatchEvent {
        WatchEvent::Delete(self.facts.clone())
    }
}

#[expect(clippy::expect_used, reason = "only an empty text is no uid")]
fn uid(random: &mut Random) -> Uid {
    Uid::parse(&random.uid()).expect("a uid")
}

fn owners(random: &mut Random) -> Vec<OwnerReference> {
    let owner = |number| OwnerReference {
        api_version: "v1".into(),
        kind: "ConfigMap".into(),
        name: format!("nobody-{number}").into(),
        uid: uid(random),
        controller: false,
        block_owner_deletion: true,
    };
    (0..REFERENCES).map(owner).collect()
}
