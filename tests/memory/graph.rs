//! The graph of a cluster like the one of `make bench-scale`, built from its lists.

use std::num::NonZeroU16;
use std::sync::Arc;

use allocation_counter::{AllocationInfo, measure};
use kube_gc_core::graph::{
    DeletesProve, Effects, Epoch, Intake, Partition, PartitionId, Sharding, WatchEvent,
};
use kube_gc_core::object::{
    Catalog, GroupResource, HashSeed, ObjectFacts, ResourceType, ResourceVersion, Scope, ServedKind,
};
use kube_gc_decode::benching;

use crate::large::{Cluster, Number, Type, object};

/// The size of a batch, as from a monitor.
const BATCH: usize = 500;

/// A graph and its memory.
#[derive(Debug)]
pub struct Graph {
    /// The number of objects.
    pub objects: usize,
    /// The total length of their names.
    pub names: usize,
    /// Its partitions. The first one has the cluster-scoped objects.
    pub partitions: Vec<Partition>,
    /// The allocations of the build.
    pub allocated: AllocationInfo,
}

impl Graph {
    /// A graph with this many objects.
    pub fn new(objects: u64, partitions: NonZeroU16) -> Result<Self, String> {
        let cluster = Cluster::of(objects);
        let mut built = Ok((Vec::new(), 0, 0));
        let allocated = measure(|| built = build(&cluster, Sharding::new(partitions, HashSeed::new(1))));
        let (partitions, objects, names) = built?;
        Ok(Self { objects, names, partitions, allocated })
    }
}

type Built = (Vec<Partition>, usize, usize);

fn build(cluster: &Cluster, sharding: Sharding) -> Result<Built, String> {
    let types: Vec<(Type, Arc<ResourceType>)> = cluster
        .types()
        .filter(|kind| kind.called().plural != "events")
        .map(|kind| (kind, resource(kind)))
        .collect();
    let mut catalog = Catalog::builder();
    for (_, resource) in &types {
        catalog.add(ServedKind { version: resource.version.clone(), resource: Arc::clone(resource) });
    }
    let catalog = Arc::new(catalog.build());
    let partitions = sharding.all().map(|id| Partition::new(id, sharding, Arc::clone(&catalog))).collect();
    let mut feeder = Feeder { sharding, partitions, effects: Effects::default() };
    let (mut objects, mut names) = (0, 0);
    for (kind, resource) in &types {
        feeder.start(resource);
        let mut numbers = cluster.list(*kind, Number(0), cluster.end()).peekable();
        while numbers.peek().is_some() {
            let facts = page(cluster, numbers.by_ref().take(BATCH))?;
            objects += facts.len();
            names += facts.iter().map(|facts| facts.name.len()).sum::<usize>();
            feeder.show(resource, facts);
        }
        feeder.end(resource, cluster.end().0 + 1);
    }
    Ok((feeder.partitions, objects, names))
}

fn resource(kind: Type) -> Arc<ResourceType> {
    let called = kind.called();
    let group_resource = if called.group.is_empty() {
        GroupResource::parse(&called.plural)
    } else {
        GroupResource::parse(&format!("{}.{}", called.plural, called.group))
    };
    Arc::new(ResourceType {
        group_resource,
        version: called.version.into(),
        kind: called.kind.as_str().into(),
        scope: if called.namespaced { Scope::Namespaced } else { Scope::Cluster },
    })
}

/// A part of a list, as it is read.
fn page(cluster: &Cluster, numbers: impl Iterator<Item = Number>) -> Result<Vec<ObjectFacts>, String> {
    let mut body = String::from(
        r#"{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},"items":["#,
    );
    for (index, number) in numbers.enumerate() {
        if index > 0 {
            body.push(',');
        }
        object(&mut body, cluster, number, number.0 + 1);
    }
    body.push_str("]}");
    benching::list([body.as_bytes()].into_iter())
}

/// Passes batches to the partitions, and messages between them.
struct Feeder {
    sharding: Sharding,
    partitions: Vec<Partition>,
    effects: Effects,
}

impl Feeder {
    fn start(&mut self, resource: &Arc<ResourceType>) {
        for id in self.of(resource) {
            let (resource, epoch) = (Arc::clone(resource), Epoch(1));
            let deletes_prove = DeletesProve::Absence;
            self.give(id, Intake::MonitorStarted { resource, epoch, deletes_prove });
        }
        self.all(resource, &WatchEvent::Init { resource_version: None });
    }

    fn show(&mut self, resource: &Arc<ResourceType>, facts: Vec<ObjectFacts>) {
        let mut events: Vec<Vec<WatchEvent>> = self.partitions.iter().map(|_| Vec::new()).collect();
        for facts in facts {
            let id = self.sharding.of(facts.namespace.as_ref());
            events[usize::from(id.0)].push(WatchEvent::Apply(facts));
        }
        for (id, events) in self.sharding.all().zip(events) {
            if !events.is_empty() {
                self.give(id, Intake::Events { resource: Arc::clone(resource), epoch: Epoch(1), events });
            }
        }
    }

    fn end(&mut self, resource: &Arc<ResourceType>, version: u64) {
        let resource_version = Some(ResourceVersion::number(version));
        self.all(resource, &WatchEvent::InitDone { resource_version });
    }

    fn all(&mut self, resource: &Arc<ResourceType>, change: &WatchEvent) {
        for id in self.of(resource) {
            let (resource, events) = (Arc::clone(resource), vec![change.clone()]);
            self.give(id, Intake::Events { resource, epoch: Epoch(1), events });
        }
    }

    /// The partitions that contain objects of a type.
    fn of(&self, resource: &ResourceType) -> Vec<PartitionId> {
        match resource.scope {
            Scope::Cluster => vec![Sharding::CLUSTER],
            Scope::Namespaced => self.sharding.all().filter(|&id| id != Sharding::CLUSTER).collect(),
        }
    }

    fn give(&mut self, PartitionId(id): PartitionId, intake: Intake) {
        self.partitions[usize::from(id)].intake(intake, &mut self.effects);
        while !self.effects.peers.is_empty() {
            for (PartitionId(id), message) in std::mem::take(&mut self.effects.peers) {
                self.partitions[usize::from(id)].receive(message, &mut self.effects);
            }
        }
        self.effects.clear();
    }
}
