//! A cluster as the graph sees it: Deployments with their ReplicaSets and Pods, Services with
//! their EndpointSlices, and objects without owners.

use std::num::NonZeroU16;
use std::sync::Arc;

use kube_gc_core::graph::{
    DeletesProve, Effects, Epoch, Intake, Partition, PartitionId, Sharding, WatchEvent,
};
use kube_gc_core::object::{
    Catalog, Finalizers, GroupResource, HashSeed, Key, Namespace, ObjectFacts, OwnerReference, ResourceType,
    ResourceVersion, Scope, ServedKind, Uid,
};

/// The size of a batch: a page of a list, or the maximum of a watch.
pub const BATCH: usize = 500;
/// As in a cluster of a million objects in 5,000 namespaces.
const OBJECTS_PER_NAMESPACE: usize = 200;
/// The objects of one application, see [`Cluster::add_application`].
const OBJECTS_PER_APPLICATION: usize = 12;
const PODS: usize = 5;

/// Resource, version and kind of each type. Owners come before their dependents.
const TYPES: [(&str, &str, &str); 7] = [
    ("deployments.apps", "v1", "Deployment"),
    ("services", "v1", "Service"),
    ("replicasets.apps", "v1", "ReplicaSet"),
    ("configmaps", "v1", "ConfigMap"),
    ("secrets", "v1", "Secret"),
    ("endpointslices.discovery.k8s.io", "v1", "EndpointSlice"),
    ("pods", "v1", "Pod"),
];
const DEPLOYMENT: usize = 0;
const SERVICE: usize = 1;
const REPLICA_SET: usize = 2;
const CONFIG_MAP: usize = 3;
const SECRET: usize = 4;
const ENDPOINT_SLICE: usize = 5;
/// The index of Pods in [`Cluster::types`].
pub const POD: usize = 6;

/// A generator of random numbers (SplitMix64): small, and the same in every run.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A uid in the format of the API server.
    pub fn uid(&mut self) -> String {
        let (high, low) = (self.next(), self.next());
        let (a, b, c) = (high >> 32, (high >> 16) & 0xffff, high & 0xfff);
        let (d, e) = (0x8000 | ((low >> 48) & 0x3fff), low & 0xffff_ffff_ffff);
        format!("{a:08x}-{b:04x}-4{c:03x}-{d:04x}-{e:012x}")
    }

    /// The random suffix of a generated name.
    pub fn suffix(&mut self, length: usize) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..length).map(|_| char::from(LETTERS[self.next() as usize % LETTERS.len()])).collect()
    }

    /// Shuffles a slice.
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for end in (1..things.len()).rev() {
            things.swap(end, self.next() as usize % (end + 1));
        }
    }
}

/// All objects of one type, in the order of a list.
#[derive(Debug)]
pub struct Listing {
    /// The type.
    pub resource: Arc<ResourceType>,
    /// Its objects, namespace by namespace.
    pub objects: Vec<ObjectFacts>,
}

/// A cluster's objects.
#[derive(Debug)]
pub struct Cluster {
    /// The served types.
    pub catalog: Arc<Catalog>,
    /// The objects by type. Owners come before their dependents.
    pub types: Vec<Listing>,
    random: Random,
    version: u64,
}

impl Cluster {
    /// A cluster of about this many objects.
    pub fn new(count: usize) -> Self {
        let mut builder = Catalog::builder();
        let mut types = Vec::new();
        for (name, version, kind) in TYPES {
            let resource = Arc::new(ResourceType {
                group_resource: GroupResource::parse(name),
                version: version.into(),
                kind: kind.into(),
                scope: Scope::Namespaced,
            });
            builder.add(ServedKind { version: version.into(), resource: Arc::clone(&resource) });
            types.push(Listing { resource, objects: Vec::new() });
        }
        let mut cluster =
            Self { catalog: Arc::new(builder.build()), types, random: Random(42), version: 1_000_000 };
        let applications = OBJECTS_PER_NAMESPACE / OBJECTS_PER_APPLICATION;
        for number in 0..count / OBJECTS_PER_APPLICATION {
            let namespace = Namespace::parse(&format!("team-{:04}-production", number / applications));
            cluster.add_application(namespace.as_ref(), number % applications);
        }
        cluster
    }

    /// A Deployment, its last two ReplicaSets, the Pods of the newer one, a Service with its
    /// EndpointSlice, and two objects that the application reads.
    fn add_application(&mut self, namespace: Option<&Namespace>, number: usize) {
        let name = format!("payments-backend-{number:02}");
        let deployment = self.add(DEPLOYMENT, namespace, &name, None);
        let service = self.add(SERVICE, namespace, &name, None);
        let slice = format!("{name}-{}", self.random.suffix(5));
        self.add(ENDPOINT_SLICE, namespace, &slice, Some(service));
        self.add(CONFIG_MAP, namespace, &format!("{name}-settings"), None);
        self.add(SECRET, namespace, &format!("{name}-credentials"), None);
        for pods in [0, PODS] {
            let set = format!("{name}-{}", self.random.suffix(10));
            let owner = self.add(REPLICA_SET, namespace, &set, Some(deployment.clone()));
            for _ in 0..pods {
                let pod = format!("{set}-{}", self.random.suffix(5));
                self.add(POD, namespace, &pod, Some(owner.clone()));
            }
        }
    }

    /// Adds an object and returns the reference that its dependents have.
    fn add(
        &mut self,
        of: usize,
        namespace: Option<&Namespace>,
        name: &str,
        owner: Option<OwnerReference>,
    ) -> OwnerReference {
        #[expect(clippy::expect_used, reason = "only an empty text is no uid")]
        let uid = Uid::parse(&self.random.uid()).expect("a uid");
        self.version += 1 + self.random.next() % 50;
        let Listing { resource, objects } = &mut self.types[of];
        objects.push(ObjectFacts {
            uid: uid.clone(),
            namespace: namespace.cloned(),
            name: name.into(),
            resource_version: Some(ResourceVersion::number(self.version)),
            owners: Vec::from_iter(owner),
            being_deleted: false,
            finalizers: Finalizers::default(),
            held_by_others: false,
        });
        OwnerReference {
            api_version: resource.api_version().into(),
            kind: resource.kind.clone().into(),
            name: name.into(),
            uid,
            controller: true,
            block_owner_deletion: true,
        }
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.types.iter().map(|listing| listing.objects.len()).sum()
    }

    /// The keys of all objects.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.types.iter().flat_map(|Listing { resource, objects }| {
            objects.iter().map(|facts| Key {
                uid: facts.uid.clone(),
                resource: Arc::clone(resource),
                namespace: facts.namespace.clone(),
            })
        })
    }

    /// The first lists of all types in the order of delivery, one type after the other.
    pub fn lists(&self) -> Vec<Intake> {
        self.types.iter().flat_map(|listing| listing.intakes().collect::<Vec<_>>()).collect()
    }
}

impl Listing {
    /// The first list of the type.
    pub fn intakes(&self) -> impl Iterator<Item = Intake> {
        let version = self.objects.iter().filter_map(|facts| facts.resource_version.as_ref()).next_back();
        let end = WatchEvent::InitDone { resource_version: version.cloned() };
        let pages =
            self.objects.chunks(BATCH).map(|page| page.iter().cloned().map(WatchEvent::Apply).collect());
        std::iter::once(vec![WatchEvent::Init { resource_version: None }])
            .chain(pages)
            .chain(std::iter::once(vec![end]))
            .map(|events| batch(&self.resource, events))
    }
}

/// A batch from a monitor.
pub fn batch(resource: &Arc<ResourceType>, events: Vec<WatchEvent>) -> Intake {
    Intake::Events { resource: Arc::clone(resource), epoch: Epoch(1), events }
}

/// A partition whose monitors have started.
pub fn partition(cluster: &Cluster) -> Partition {
    let sharding = Sharding::new(NonZeroU16::MIN, HashSeed::new(1));
    let mut partition = Partition::new(PartitionId(1), sharding, Arc::clone(&cluster.catalog));
    let mut effects = Effects::default();
    for Listing { resource, .. } in &cluster.types {
        let resource = Arc::clone(resource);
        let started =
            Intake::MonitorStarted { resource, epoch: Epoch(1), deletes_prove: DeletesProve::Absence };
        partition.intake(started, &mut effects);
    }
    partition
}

/// Passes batches of monitors to a partition, as its actor does, and returns the number of
/// resulting keys.
pub fn feed(partition: &mut Partition, intakes: impl IntoIterator<Item = Intake>) -> usize {
    let mut effects = Effects::default();
    let mut keys = 0;
    for intake in intakes {
        partition.intake(intake, &mut effects);
        keys += effects.delete.len();
        effects.clear();
    }
    keys
}
