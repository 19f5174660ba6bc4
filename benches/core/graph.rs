//! The graph: building it, and the events that change it.

use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, SamplingMode, Throughput};
use kube_gc_core::graph::{Intake, Partition, WatchEvent};
use kube_gc_core::object::{ObjectFacts, OwnerReference, ResourceVersion};

use crate::cluster::{BATCH, Cluster, Listing, POD, Random, batch, feed, partition};

/// A large cluster.
const LARGE: usize = 1_000_000;
/// The number of events that are timed together.
const EVENTS: usize = 50_000;

/// Measures builds and events.
pub fn bench(criterion: &mut Criterion) {
    let cluster = Cluster::new(LARGE);
    builds(criterion, &cluster);
    events(criterion, &cluster);
}

fn builds(criterion: &mut Criterion, cluster: &Cluster) {
    let mut group = criterion.benchmark_group("graph, built of lists");
    group.sampling_mode(SamplingMode::Flat).sample_size(10).warm_up_time(Duration::from_secs(1));
    group.throughput(Throughput::Elements(cluster.len() as u64));
    group.bench_function("1,000,000 objects, owners first", |bencher| {
        bencher.iter_batched(|| cluster.lists(), |lists| built(cluster, lists), BatchSize::PerIteration);
    });
    let owners_last = || -> Vec<Intake> {
        cluster.types.iter().rev().flat_map(|listing| listing.intakes().collect::<Vec<_>>()).collect()
    };
    group.bench_function("1,000,000 objects, owners last", |bencher| {
        bencher.iter_batched(owners_last, |lists| built(cluster, lists), BatchSize::PerIteration);
    });
    group.finish();
}

/// Builds a graph. The caller drops it after the timing.
fn built(cluster: &Cluster, lists: Vec<Intake>) -> Partition {
    let mut partition = partition(cluster);
    feed(&mut partition, lists);
    partition
}

fn events(criterion: &mut Criterion, cluster: &Cluster) {
    let mut bed = Bed::new(cluster);
    let mut group = criterion.benchmark_group("graph, events among 1,000,000 objects");
    group.sampling_mode(SamplingMode::Flat).sample_size(10).measurement_time(Duration::from_secs(3));
    group.throughput(Throughput::Elements(bed.pods.len() as u64));
    timed(&mut group, "no-op update", &mut bed, |bed| bed.happen(Pod::updated));
    timed(&mut group, "owner change", &mut bed, |bed| bed.happen(Pod::adopted));
    timed(&mut group, "insert", &mut bed, |bed| {
        bed.happen(Pod::deleted);
        bed.happen(Pod::updated)
    });
    timed(&mut group, "delete", &mut bed, |bed| {
        let took = bed.happen(Pod::deleted);
        bed.happen(Pod::updated);
        took
    });
    group.finish();
}

/// Times rounds that leave the graph unchanged.
fn timed(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    bed: &mut Bed<'_>,
    round: impl Fn(&mut Bed<'_>) -> Duration,
) {
    let size = |bed: &Bed<'_>| (bed.partition.stats().nodes, bed.partition.stats().edges);
    let before = size(bed);
    group.bench_function(name, |bencher| {
        bencher.iter_custom(|rounds| (0..rounds).map(|_| round(bed)).sum());
    });
    assert_eq!(size(bed), before, "every round leaves the graph as it was");
}

/// A large graph, and some of its Pods in the order of their events.
struct Bed<'a> {
    partition: Partition,
    of: &'a Listing,
    pods: Vec<Pod>,
}

impl<'a> Bed<'a> {
    fn new(cluster: &'a Cluster) -> Self {
        let of = &cluster.types[POD];
        let partition = built(cluster, cluster.lists());
        // A ReplicaSet has five Pods, one after the other.
        let mut pods: Vec<Pod> = of
            .objects
            .windows(6)
            .filter(|window| window[0].namespace == window[5].namespace)
            .map(|window| Pod {
                facts: window[0].clone(),
                other_owner: window[5].owners[0].clone(),
                version: 1_000_000_000,
            })
            .collect();
        Random(7).shuffle(&mut pods);
        pods.truncate(EVENTS);
        assert!(pods.iter().all(|pod| pod.facts.owners[0] != pod.other_owner), "another owner");
        Self { partition, of, pods }
    }

    /// Applies the same event to all Pods, and returns how long the graph took. Each batch is
    /// created right before it is applied, as when events arrive.
    fn happen(&mut self, what: impl Fn(&mut Pod) -> WatchEvent) -> Duration {
        let mut took = Duration::ZERO;
        for pods in self.pods.chunks_mut(BATCH) {
            let events = batch(&self.of.resource, pods.iter_mut().map(&what).collect());
            let began = Instant::now();
            feed(&mut self.partition, [events]);
            took += began.elapsed();
        }
        took
    }
}

struct Pod {
    facts: ObjectFacts,
    /// The owner that it does not have at present.
    other_owner: OwnerReference,
    version: u64,
}

impl Pod {
    /// Changes something that does not matter to a garbage collector. Creates the Pod if it does
    /// not exist.
    fn updated(&mut self) -> WatchEvent {
        self.version += 1;
        self.facts.resource_version = Some(ResourceVersion::number(self.version));
        WatchEvent::Apply(self.facts.clone())
    }

    /// Changes the owner.
    fn adopted(&mut self) -> WatchEvent {
        std::mem::swap(&mut self.facts.owners[0], &mut self.other_owner);
        self.updated()
    }

    fn deleted(&mut self) -> WatchEvent {
        WatchEvent::Delete(self.facts.clone())
    }
}
