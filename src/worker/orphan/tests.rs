//! Orphaning on a small graph, and what follows from the answer to its last request.

use kube_gc_core::graph::{DeletesProve, Epoch, Intake, PartitionId, WatchEvent};
use kube_gc_core::object::{Catalog, Finalizers, ObjectFacts, OwnerReference, ServedKind};
use tokio::sync::watch;

use super::*;
use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::graph_handle::GraphHandle;
use crate::actors::registry::{Registry, RoundTypes};
use crate::actors::supervision::Threads;
use crate::actors::tests::{identity, in_system, sharding, start_partition_on};
use crate::api::AbsenceProof;
use crate::api::scripted::{Reply, Server};
use crate::worker::decision::{DecisionRecorder, Summaries};

fn failed(class: ErrorClass) -> Result<FinalizerRemoval, ApiError> {
    let (action, target) = ("PATCH", "secrets a/b".into());
    Err(ApiError { class, action, target, message: "says the server".into(), code: None })
}

/// An object at a version, with its owner.
fn seen(object: &Identity, version: u64, owner: Option<&Identity>) -> ObjectFacts {
    let reference = |owner: &Identity| OwnerReference {
        api_version: "v1".into(),
        kind: (&*owner.resource.kind).into(),
        name: (&*owner.name).into(),
        uid: owner.uid.clone(),
        controller: false,
        block_owner_deletion: false,
    };
    ObjectFacts {
        uid: object.uid.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        resource_version: Some(ResourceVersion::number(version)),
        owners: owner.map(reference).into_iter().collect(),
        being_deleted: false,
        finalizers: Finalizers::default(),
        held_by_others: false,
    }
}

/// Work on a graph that has seen these objects.
async fn work(objects: Vec<ObjectFacts>) -> OrphanWork {
    let resource = identity("a", "any").resource;
    let (epoch, sharding) = (Epoch(1), sharding());
    let thread = Threads::default().start("graph partitions").unwrap();
    let partitions = (0..sharding.count()).map(|id| start_partition_on(&thread, PartitionId(id))).collect();
    let graph = GraphHandle::new(sharding, partitions);
    let mut catalog = Catalog::builder();
    catalog.add(ServedKind { version: "v1".into(), resource: Arc::clone(&resource) });
    graph.use_catalog(&Arc::new(catalog.build())).await.unwrap();
    let deletes_prove = DeletesProve::Absence;
    let started = Intake::MonitorStarted { resource: Arc::clone(&resource), epoch, deletes_prove };
    graph.take_in_everywhere(started).await.unwrap();
    let server = Server::answering(|_| Reply::never());
    let context = OrphanContext {
        api: server.api(),
        graph,
        absent_owners: Arc::new(AbsentOwnerCache::new(10)),
        registry: Registry::default(),
        releases: Releases::new(4),
        decisions: DecisionRecorder::new(server.api(), Vec::new(), Summaries::off()),
    };
    let (_, types) = watch::channel(Arc::new(RoundTypes::default()));
    let work = OrphanWork::new(context.clone(), Rounds::start(context, types, Duration::ZERO));
    work.see(objects).await;
    work
}

impl OrphanWork {
    async fn see(&self, objects: Vec<ObjectFacts>) {
        let any = identity("a", "any");
        let here = self.context.graph.partition_of(any.namespace.as_ref());
        let events = objects.into_iter().map(WatchEvent::Apply).collect();
        let seen = Intake::Events { resource: any.resource, epoch: Epoch(1), events };
        self.context.graph.ask(here, move |graph, effects| graph.intake(seen, effects)).await.unwrap();
    }
}

/// Fails if the dependents of an owner are taken from the graph as a whole, which would need memory
/// for each of them, and would release those that a later policy deletes (rule 5.3).
#[test]
fn dependents_are_taken_in_pages_while_the_owner_orphans_them() {
    in_system(async {
        let owner = identity("a", "owner");
        let deleted = ObjectFacts { being_deleted: true, ..seen(&owner, 1, None) };
        let orphan = Finalizers { orphan: true, ..Finalizers::default() };
        let dependent =
            |number: u64| seen(&identity("a", &format!("dependent-{number}")), 2 + number, Some(&owner));
        let mut objects = vec![ObjectFacts { finalizers: orphan, ..deleted.clone() }];
        objects.extend((0..5).map(dependent));
        let work = work(objects).await.paged(2);

        let mut dependents = pin!(work.dependents(owner.key()));
        for _ in 0..2 {
            assert!(matches!(dependents.next().await, Some(Ok(_))));
        }
        let version = Some(ResourceVersion::number(10));
        work.see(vec![ObjectFacts { resource_version: version, ..deleted }]).await;
        assert!(matches!(dependents.next().await, Some(Err(Stopped::PolicyChanged))));
    });
}

#[test]
fn an_owner_whose_finalizer_may_have_been_removed_without_an_answer_is_remembered() {
    assert!(may_have_orphaned(&failed(ErrorClass::Transient)));
    assert!(may_have_orphaned(&Ok(FinalizerRemoval::Gone(AbsenceProof::of_test()))));
    assert!(may_have_orphaned(&failed(ErrorClass::DryRun)), "the other collector removes it");
    assert!(!may_have_orphaned(&failed(ErrorClass::Conflict)), "somebody else was faster");
    let live = ObjectFacts { being_deleted: true, ..seen(&identity("a", "a"), 1, None) };
    assert!(!may_have_orphaned(&Ok(FinalizerRemoval::NotPresent(live.clone()))));
    assert!(!may_have_orphaned(&Ok(FinalizerRemoval::NotBeingDeleted(live))));
}
