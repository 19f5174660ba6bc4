//! Partitions, a catalog, and objects to feed them.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::{Arc, OnceLock};

use crate::graph::*;
use crate::object::*;

/// Group and resource, kind, served versions (preferred one first), scope.
const TYPES: [(&str, &str, &[&str], Scope); 10] = [
    ("configmaps", "ConfigMap", &["v1"], Scope::Namespaced),
    ("customresourcedefinitions.apiextensions.k8s.io", "CustomResourceDefinition", &["v1"], Scope::Cluster),
    ("ingresses.extensions", "Ingress", &["v1beta1"], Scope::Namespaced),
    ("ingresses.networking.k8s.io", "Ingress", &["v1"], Scope::Namespaced),
    ("namespaces", "Namespace", &["v1"], Scope::Cluster),
    ("nodes", "Node", &["v1"], Scope::Cluster),
    ("persistentvolumeclaims", "PersistentVolumeClaim", &["v1"], Scope::Namespaced),
    ("pods", "Pod", &["v1"], Scope::Namespaced),
    ("things.example.com", "Thing", &["v1"], Scope::Cluster),
    ("widgets.example.com", "Widget", &["v2", "v1"], Scope::Namespaced),
];

/// Everything is served.
pub fn catalog() -> &'static Arc<Catalog> {
    static FULL: OnceLock<Arc<Catalog>> = OnceLock::new();
    FULL.get_or_init(|| catalog_without(&[]))
}

pub fn catalog_without(missing: &[&str]) -> Arc<Catalog> {
    let mut builder = Catalog::builder();
    for (name, kind, versions, scope) in TYPES.iter().filter(|(name, ..)| !missing.contains(name)) {
        let resource = ResourceType::of(name, versions[0], kind, *scope);
        for version in *versions {
            builder.add(ServedKind { version: (*version).into(), resource: Arc::clone(&resource) });
        }
    }
    Arc::new(builder.build())
}

pub fn resource(name: &str) -> Arc<ResourceType> {
    Arc::clone(catalog().resource(&GroupResource::parse(name)).unwrap())
}

/// An object. Its uid is its name by default.
#[derive(Clone, Debug)]
pub struct Obj {
    pub resource: Arc<ResourceType>,
    pub facts: ObjectFacts,
}

pub fn obj(resource_name: &str, namespace: &str, name: &str) -> Obj {
    let facts = ObjectFacts {
        uid: Uid::parse(name).unwrap(),
        namespace: Namespace::parse(namespace),
        name: name.into(),
        resource_version: ResourceVersion::parse("10"),
        owners: Vec::new(),
        being_deleted: false,
        finalizers: Finalizers::default(),
        held_by_others: false,
        grace: None,
        ends: None,
    };
    Obj { resource: resource(resource_name), facts }
}

pub fn pod(name: &str) -> Obj {
    obj("pods", "ns", name)
}

pub fn config(name: &str) -> Obj {
    obj("configmaps", "ns", name)
}

pub fn node(name: &str) -> Obj {
    obj("nodes", "", name)
}

impl Obj {
    pub fn reference(&self) -> OwnerReference {
        self.identity().reference()
    }
    pub fn owned(mut self, owner: &Self) -> Self {
        self.facts.owners.push(owner.reference());
        self
    }
    pub fn blocking(mut self, owner: &Self) -> Self {
        self.facts.owners.push(OwnerReference { block_owner_deletion: true, ..owner.reference() });
        self
    }
    pub fn with(mut self, reference: OwnerReference) -> Self {
        self.facts.owners.push(reference);
        self
    }
    pub fn held(mut self) -> Self {
        self.facts.held_by_others = true;
        self
    }
    /// Not deleted yet, with these finalizers.
    pub fn with_finalizers(mut self, foreground: bool, orphan: bool) -> Self {
        self.facts.finalizers = Finalizers { foreground, orphan };
        self
    }
    pub fn unowned(mut self) -> Self {
        self.facts.owners.clear();
        self
    }
    pub fn at(mut self, version: u64) -> Self {
        self.facts.resource_version = Some(ResourceVersion::number(version));
        self
    }
    pub fn uid(mut self, uid: &str) -> Self {
        self.facts.uid = Uid::parse(uid).unwrap();
        self
    }
    pub fn named(mut self, name: &str) -> Self {
        self.facts.name = name.into();
        self
    }
    fn deleting(mut self, foreground: bool, orphan: bool) -> Self {
        self.facts.being_deleted = true;
        self.facts.finalizers = Finalizers { foreground, orphan };
        self
    }
    pub fn foreground(self) -> Self {
        self.deleting(true, false)
    }
    pub fn orphaning(self) -> Self {
        self.deleting(false, true)
    }
    pub fn terminating(self) -> Self {
        self.deleting(false, false)
    }
    pub fn identity(&self) -> Identity {
        Identity {
            resource: Arc::clone(&self.resource),
            namespace: self.facts.namespace.clone(),
            name: self.facts.name.clone(),
            uid: self.facts.uid.clone(),
        }
    }
    pub fn key(&self) -> Key {
        self.identity().key()
    }
}

pub struct World {
    pub partitions: Vec<Partition>,
    pub sharding: Sharding,
    pub epoch: Epoch,
    pub deletes_prove: DeletesProve,
    /// All effects but the links.
    pub out: Effects,
    /// Undelivered links. They are delivered at once unless `delayed` is set.
    pub outbox: Vec<Link>,
    pub delayed: bool,
}

impl World {
    /// Partitions with synced, empty monitors of all types.
    pub fn new(namespaced: u16) -> Self {
        let mut world = Self::unsynced(namespaced);
        for (name, ..) in TYPES {
            world.list(name, 1, &[]);
        }
        world
    }
    /// The same, and these objects.
    pub fn of(namespaced: u16, objects: &[&Obj]) -> Self {
        let mut world = Self::new(namespaced);
        world.see(objects);
        world
    }
    /// The same, and what followed from these objects was done.
    pub fn seen(namespaced: u16, objects: &[&Obj]) -> Self {
        let mut world = Self::of(namespaced, objects);
        world.forget();
        world
    }
    pub fn unsynced(namespaced: u16) -> Self {
        let sharding = Sharding::new(NonZeroU16::new(namespaced).unwrap(), HashSeed::new(1));
        let catalog = catalog();
        let partitions = sharding.all().map(|id| Partition::new(id, sharding, Arc::clone(catalog))).collect();
        let deletes_prove = DeletesProve::Absence;
        let mut world = Self {
            partitions,
            sharding,
            epoch: Epoch(1),
            deletes_prove,
            out: Effects::default(),
            outbox: Vec::new(),
            delayed: false,
        };
        for (name, ..) in TYPES {
            world.start(name);
        }
        world
    }
    pub fn start(&mut self, name: &str) {
        let (epoch, deletes_prove) = (self.epoch, self.deletes_prove);
        for id in self.sharding.all() {
            let partition = &mut self.partitions[usize::from(id.0)];
            partition.monitor_started(&resource(name), epoch, deletes_prove);
        }
    }
    pub fn partition(&mut self, namespace: &str) -> &mut Partition {
        let id = self.sharding.of(Namespace::parse(namespace).as_ref());
        &mut self.partitions[usize::from(id.0)]
    }
    pub fn partition_of(&mut self, obj: &Obj) -> &mut Partition {
        let id = self.home(obj);
        &mut self.partitions[usize::from(id.0)]
    }
    fn home(&self, obj: &Obj) -> PartitionId {
        self.sharding.of(obj.facts.namespace.as_ref())
    }
    /// Returns whether the monitor runs.
    fn apply_events(&mut self, id: PartitionId, resource: &ResourceType, events: &[WatchEvent]) -> bool {
        let partition = &mut self.partitions[usize::from(id.0)];
        let is_current = partition.apply_events(resource, self.epoch, events, &mut self.out);
        self.deliver();
        is_current
    }
    /// As between the actors, links arrive in their order.
    pub fn deliver(&mut self) {
        self.outbox.append(&mut self.out.links);
        if !self.delayed {
            self.flush();
        }
        self.partitions.iter().for_each(Partition::check);
    }
    pub fn flush(&mut self) {
        for link in std::mem::take(&mut self.outbox) {
            // Twice, because links are idempotent.
            self.partitions[0].receive(&link, &mut self.out);
            self.partitions[0].receive(&link, &mut self.out);
        }
    }
    /// Returns whether the monitor runs.
    pub fn change(&mut self, obj: &Obj, event: WatchEvent) -> bool {
        self.apply_events(self.home(obj), &obj.resource, &[event])
    }
    pub fn see(&mut self, objects: &[&Obj]) {
        for obj in objects {
            self.change(obj, WatchEvent::Apply(obj.facts.clone()));
        }
    }
    pub fn delete(&mut self, obj: &Obj) {
        self.change(obj, WatchEvent::Delete(obj.facts.clone()));
    }
    /// A complete list of a type, for all partitions.
    pub fn list(&mut self, name: &str, version: u64, objects: &[&Obj]) {
        for id in self.sharding.all() {
            let resource_version = ResourceVersion::parse(&version.to_string());
            let mut events = vec![WatchEvent::Init { resource_version: resource_version.clone() }];
            let here = objects.iter().filter(|obj| self.home(obj) == id);
            events.extend(here.map(|obj| WatchEvent::Apply(obj.facts.clone())));
            events.push(WatchEvent::InitDone { resource_version });
            self.apply_events(id, &resource(name), &events);
        }
    }
    pub fn set_catalog(&mut self, catalog: &Arc<Catalog>) {
        for partition in &mut self.partitions {
            partition.set_catalog(Arc::clone(catalog), &mut self.out);
        }
        self.deliver();
    }
    pub fn remove_type(&mut self, name: &str) {
        let proved_under = Some(self.partitions[0].disturbance());
        self.remove_type_proved(name, proved_under);
    }
    pub fn remove_type_proved(&mut self, name: &str, proved_under: Option<u64>) {
        for partition in &mut self.partitions {
            partition.type_removed(&resource(name), self.epoch, proved_under, &mut self.out);
        }
        self.deliver();
    }
    /// The keys that were queued for the delete pool since the last call, without duplicates.
    pub fn queued(&mut self) -> Vec<String> {
        let keys: BTreeSet<String> = self.out.take_delete().map(|key| key.uid.to_string()).collect();
        keys.into_iter().collect()
    }
    pub fn queued_orphaning(&mut self) -> Vec<String> {
        let keys: BTreeSet<String> = self.out.orphan.drain(..).map(|key| key.uid.to_string()).collect();
        keys.into_iter().collect()
    }
    pub fn reports(&mut self) -> Vec<Report> {
        std::mem::take(&mut self.out.reports)
    }
    pub fn forget(&mut self) {
        self.out.clear();
    }
    pub fn snapshot_and_queue(&mut self, obj: &Obj) -> Snapshot {
        let id = self.home(obj);
        self.partitions[usize::from(id.0)].snapshot_and_queue(&obj.key(), &mut self.out)
    }
    pub fn object(&mut self, obj: &Obj) -> ObjectSnapshot {
        match self.snapshot_and_queue(obj) {
            Snapshot::Object(object) => *object,
            other => panic!("not an object: {other:?}"),
        }
    }
    pub fn virtual_node(&mut self, obj: &Obj) -> (Identity, Generation) {
        match self.snapshot_and_queue(obj) {
            Snapshot::Virtual { identity, generation } => (identity, generation),
            other => panic!("not a virtual node: {other:?}"),
        }
    }
    pub fn state(&mut self, obj: &Obj) -> OwnerState {
        let identity = obj.identity();
        let id = self.home(obj);
        self.partitions[usize::from(id.0)].owner_state(&identity)
    }
    pub fn is_observed(&mut self, obj: &Obj) -> bool {
        matches!(self.state(obj), OwnerState::Observed { .. })
    }
    /// A worker proves the identity of the virtual node absent.
    pub fn prove_absent(&mut self, obj: &Obj) -> Verification {
        let (identity, generation) = self.virtual_node(obj);
        let id = self.home(obj);
        let verdict = self.partitions[usize::from(id.0)].verified(
            &identity,
            Finding::Absent,
            generation,
            &mut self.out,
        );
        self.deliver();
        verdict
    }
    pub fn dump(&self) -> dump::Dump {
        dump::Dump::merge(self.partitions.iter().map(|partition| partition.dump(None)))
    }
}
