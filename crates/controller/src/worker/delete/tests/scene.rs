//! A small graph and a scripted API server, on one thread and under one clock.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::graph::TakeInChanges;
use crate::actors::graph_handle::GraphHandle;
use crate::actors::graph_queue::GraphQueue;
use crate::actors::pool::{Outcome, WorkerSlot};
use crate::actors::tests::{EPOCH, bare_context, graph_on, identity, seen};
use crate::worker::delete::{Births, DeleteWork};
use kube_gc_client::testing::{Reply, Server};
use kube_gc_client::{ApiSettings, WriteGate};
use kube_gc_core::graph::WatchEvent;
use kube_gc_core::object::{Finalizers, Identity, ObjectFacts, OwnerReference, ResourceVersion};

/// A graph of ConfigMaps in the namespace `a`, and the work that decides on them.
pub struct Scene {
    pub graph: GraphHandle,
    pub work: Arc<DeleteWork>,
}

/// A ConfigMap as the graph and the API server know it.
#[derive(Clone, Debug)]
pub struct Thing {
    pub identity: Identity,
    pub version: u64,
    pub owners: Vec<OwnerReference>,
    pub deleted_with: Option<Finalizers>,
    /// When it was created and last changed, if the API server's answer says so.
    pub times: Option<[String; 2]>,
}

pub const FOREGROUND: Finalizers = Finalizers { foreground: true, orphan: false };

impl Thing {
    pub fn new(name: &str, version: u64, owners: &[&Self]) -> Self {
        let owners = owners.iter().map(|owner| owner.reference()).collect();
        Self { identity: identity("a", name), version, owners, deleted_with: None, times: None }
    }

    /// The same, being deleted.
    pub fn deleted(&self, version: u64, finalizers: Finalizers) -> Self {
        Self { version, deleted_with: Some(finalizers), ..self.clone() }
    }

    pub fn reference(&self) -> OwnerReference {
        OwnerReference { block_owner_deletion: true, ..self.identity.reference() }
    }

    fn facts(&self) -> ObjectFacts {
        ObjectFacts {
            being_deleted: self.deleted_with.is_some(),
            finalizers: self.deleted_with.unwrap_or_default(),
            ..seen(&self.identity, self.version, self.owners.clone())
        }
    }

    /// The object in the form of the API server's answer.
    pub fn reply(&self) -> Reply {
        let mut finalizers = Vec::new();
        if let Some(Finalizers { foreground, orphan }) = self.deleted_with {
            finalizers.extend(foreground.then_some("foregroundDeletion"));
            finalizers.extend(orphan.then_some("orphan"));
        }
        let owners = self.owners.iter().map(|owner| {
            json!({ "apiVersion": &*owner.api_version, "kind": &*owner.kind, "name": &*owner.name,
                    "uid": &owner.uid, "blockOwnerDeletion": owner.block_owner_deletion })
        });
        let mut metadata = json!({
            "name": &*self.identity.name, "namespace": "a", "uid": &self.identity.uid,
            "resourceVersion": self.version.to_string(),
            "ownerReferences": owners.collect::<Vec<_>>(), "finalizers": finalizers,
        });
        if self.deleted_with.is_some() {
            metadata["deletionTimestamp"] = Value::from("2026-01-01T00:00:00Z");
        }
        if let Some([created, changed]) = &self.times {
            metadata["creationTimestamp"] = Value::from(&**created);
            metadata["managedFields"] = json!([{ "manager": "m", "time": changed }]);
        }
        Reply::ok(json!({ "kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata }).to_string())
    }
}

impl Scene {
    /// A synced graph that shows these, and a server.
    pub async fn set(server: &Server, settings: ApiSettings, things: &[&Thing]) -> Self {
        let absent_owners = Arc::new(AbsentOwnerCache::new(10));
        let graph = graph_on(None, &absent_owners).await;
        let api = server.api_with(settings, WriteGate::open());
        let context = bare_context(api, graph.clone(), absent_owners);
        let scene = Self { graph, work: Arc::new(DeleteWork::new(context)) };
        let mut list = vec![WatchEvent::Init { resource_version: None }];
        list.extend(things.iter().map(|thing| WatchEvent::Apply(thing.facts())));
        list.push(WatchEvent::InitDone { resource_version: Some(ResourceVersion::number(100)) });
        scene.change(list).await;
        scene
    }

    /// The same, with this grace for births.
    pub fn with_birth_grace(mut self, grace: Duration) -> Self {
        let mut work = DeleteWork::clone(&self.work);
        work.context.births = Births::new(grace);
        self.work = Arc::new(DeleteWork::new(work.context));
        self
    }

    /// A watch shows this.
    pub async fn see(&self, thing: &Thing) {
        self.change(vec![WatchEvent::Apply(thing.facts())]).await;
    }

    /// Tells the graph that a watch has shown the deletion of the object.
    pub async fn lose(&self, thing: &Thing) {
        self.change(vec![WatchEvent::Delete(thing.facts())]).await;
    }

    async fn change(&self, changes: Vec<WatchEvent>) {
        let any = identity("a", "any");
        let changes = changes.into_iter().map(|change| (Instant::now(), change)).collect();
        let waiting = GraphQueue::default().waiting();
        let message = TakeInChanges { resource: any.resource, epoch: EPOCH, changes, waiting };
        let partition = self.graph.partition_of(any.namespace.as_ref());
        self.graph.take_in(partition, message).await.unwrap();
    }

    /// What comes of a thing.
    pub async fn decide(&self, thing: &Thing) -> Outcome {
        match self.work.attempt(&thing.identity.key(), &WorkerSlot::none()).await {
            Ok(outcome) => outcome,
            Err(interrupted) => interrupted.outcome(),
        }
    }
}
