//! Work on an object that names thousands of owners.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use actix::Actor;
use tokio::time::Instant;

use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::graph::{EffectSinks, GraphActor};
use crate::actors::graph_handle::GraphHandle;
use crate::actors::pool::{Outcome, Work as _, WorkerSlot};
use crate::actors::tests::{Sink, identity, in_system, reference, seen, sharding};
use crate::api::EventRecorder;
use crate::api::scripted::{ReceivedRequest, Reply, Server};
use crate::telemetry::StuckReason;
use crate::worker::delete::{DeleteContext, DeleteWork};
use kube_gc_core::graph::{DeletesProve, Epoch, Intake, LARGE, Partition, WatchEvent};
use kube_gc_core::mailbox::Completion;
use kube_gc_core::object::{Catalog, Identity, OwnerReference, ResourceType, ResourceVersion, ServedKind};
use kube_gc_core::text::LONGEST;

const MANY: usize = 8000;

/// A reference to an owner that never existed.
fn nobody(kind: &str, number: usize) -> OwnerReference {
    OwnerReference { kind: kind.into(), ..reference(&identity("a", &format!("nobody-{number}"))) }
}

/// The API server knows no owner, and the object is gone when it is to be deleted.
fn answer(request: &ReceivedRequest) -> Reply {
    let name = request.path.rsplit('/').next().unwrap();
    Reply::status(404, "not found", &format!(r#"{{"name":"{name}","kind":"configmaps"}}"#))
}

/// A graph in which objects have these references, and the work that decides on them.
struct Stage {
    server: Server,
    work: Arc<DeleteWork>,
    context: DeleteContext,
}

impl Stage {
    async fn with(references: Vec<OwnerReference>) -> Self {
        Self::with_objects(vec![references]).await
    }

    async fn with_objects(references: Vec<Vec<OwnerReference>>) -> Self {
        let resource: Arc<ResourceType> = Self::object(0).resource;
        let mut catalog = Catalog::builder();
        catalog.add(ServedKind { version: "v1".into(), resource: Arc::clone(&resource) });
        let catalog = Arc::new(catalog.build());
        let (sharding, sink) = (sharding(), Sink.start());
        let absent_owners = Arc::new(AbsentOwnerCache::new(500));
        let start = |id| {
            let sinks = EffectSinks {
                delete: sink.clone().recipient(),
                orphan: sink.clone().recipient(),
                absent_owners: Arc::clone(&absent_owners),
                event_recorder: EventRecorder::silent(),
                restore_fence: None,
            };
            GraphActor::start(id, Partition::new(id, sharding, Arc::clone(&catalog)), sinks, None)
        };
        let graph = GraphHandle::new(sharding, sharding.all().map(start).collect());
        let facts = |(number, owners)| WatchEvent::Apply(seen(&Self::object(number), 5, owners));
        let epoch = Epoch(1);
        let ended = WatchEvent::InitDone { resource_version: ResourceVersion::parse("9") };
        let shown = references.into_iter().enumerate().map(facts);
        let begun = WatchEvent::Init { resource_version: None };
        let events = std::iter::once(begun).chain(shown).chain([ended]).collect();
        let here = graph.partition_of(Self::object(0).namespace.as_ref());
        let deletes_prove = DeletesProve::Absence;
        let monitored = Intake::MonitorStarted { resource: Arc::clone(&resource), epoch, deletes_prove };
        graph.take_in_everywhere(monitored).await.unwrap();
        let list = Intake::Events { resource: Arc::clone(&resource), epoch, events };
        graph.ask(here, move |graph, effects| graph.intake(list, effects)).await.unwrap();
        let server = Server::answering(answer);
        let context = DeleteContext::bare(server.api(), graph, absent_owners);
        let work = Arc::new(DeleteWork::new(context.clone()));
        Self { server, work, context }
    }

    fn object(number: usize) -> Identity {
        identity("a", &format!("large-{number}"))
    }

    async fn attempt(&self) -> Outcome {
        self.work.work(Self::object(0).key(), WorkerSlot::none()).await
    }
}

/// Fails if nothing else on the thread is polled while thousands of references are classified (rule
/// 7.6). All owners are known, so that no lookup interrupts the work.
#[test]
fn classifying_thousands_of_references_yields_to_other_tasks() {
    in_system(async {
        let stage = Stage::with((0..MANY).map(|number| nobody("Unserved", number)).collect()).await;
        let turns = Rc::new(Cell::new(0));
        let others = Rc::clone(&turns);
        let others = actix::spawn(async move {
            loop {
                others.set(others.get() + 1);
                tokio::task::yield_now().await;
            }
        });
        let outcome = stage.attempt().await;
        others.abort();
        let Completion::Retry { reason: StuckReason::Unresolved, error } = outcome else {
            panic!("{outcome:?}")
        };
        assert!(error.len() <= LONGEST && error.ends_with("; and 7,984 more"), "{error}");
        assert!(turns.get() > MANY / 300, "{} turns in {MANY} references", turns.get());
        assert_eq!(stage.server.seen().len(), 0);
    });
}

/// Fails if an owner is looked up twice, or if all owners are looked up at once (rules 4.33 and 4.34).
#[test]
fn every_absent_owner_is_looked_up_once_and_at_a_limited_rate() {
    in_system(async {
        let stage = Stage::with((0..1000).map(|number| nobody("ConfigMap", number)).collect()).await;
        let began = Instant::now();
        let mut turns = 1;
        loop {
            match stage.attempt().await {
                Completion::Again => turns += 1,
                Completion::Done => break,
                outcome => panic!("{outcome:?}"),
            }
        }
        assert_eq!(turns, 1000_usize.div_ceil(64), "others have had their turn in between");
        assert!(began.elapsed() >= Duration::from_secs(2), "{:?}", began.elapsed());
        let mut requests = BTreeMap::<_, usize>::new();
        for request in stage.server.seen() {
            *requests.entry(request.line()).or_default() += 1;
        }
        assert_eq!(requests.len(), 1002, "1000 owners, and the object itself: a DELETE and a GET");
        assert!(requests.values().all(|times| *times == 1), "{requests:#?}");
    });
}

/// Rule 7.10. Fails if the look-ups of an object that names more owners than usual are not limited:
/// one object that somebody writes costs as many requests as it names owners.
#[test]
fn the_look_ups_of_many_objects_with_many_absent_owners_share_one_rate() {
    const OBJECTS: usize = 10;
    let owners = |object: usize| (0..64).map(move |number| nobody("ConfigMap", 64 * object + number));
    in_system(async {
        let stage = Stage::with_objects((0..OBJECTS).map(|object| owners(object).collect()).collect()).await;
        let began = Instant::now();
        for number in 0..OBJECTS {
            let key = Stage::object(number).key();
            while !matches!(stage.work.work(key.clone(), WorkerSlot::none()).await, Completion::Done) {}
        }
        // After 250 at once, 250 a second.
        assert!(began.elapsed() >= Duration::from_millis(1500), "{:?}", began.elapsed());
        assert_eq!(stage.server.seen().len(), 64 * OBJECTS + 2 * OBJECTS, "a DELETE and a GET for each");
    });
}

/// Rule 7.10. Workers leave such an object to those for large ones.
#[test]
fn an_object_with_nine_owners_is_large() {
    in_system(async {
        for (owners, is_left) in [(LARGE, false), (LARGE + 1, true)] {
            let stage = Stage::with((0..owners).map(|number| nobody("ConfigMap", number)).collect()).await;
            let small = stage.context.graph.look_at_small(&Stage::object(0).key()).await.unwrap();
            assert_eq!(small.is_none(), is_left, "{owners}");
        }
        assert_eq!(LARGE, 8, "the documented limit");
    });
}

/// Fails if requests are sent whose answers cannot change the decision.
#[test]
fn an_unresolvable_owner_prevents_all_other_lookups() {
    in_system(async {
        let mut references: Vec<_> = (0..1000).map(|number| nobody("ConfigMap", number)).collect();
        references.push(nobody("Unserved", 1000));
        let stage = Stage::with(references).await;
        assert!(matches!(stage.attempt().await, Completion::Retry { reason: StuckReason::Unresolved, .. }));
        assert_eq!(stage.server.seen().len(), 0);
    });
}

/// If an object names few owners, all are looked up: one may be solid, so that the references to
/// absent ones are removed.
#[test]
fn all_owners_of_small_objects_are_looked_up_regardless_of_the_first_result() {
    in_system(async {
        let mut references = vec![nobody("Unserved", 0)];
        references.extend((1..LARGE).map(|number| nobody("ConfigMap", number)));
        let stage = Stage::with(references).await;
        assert!(matches!(stage.attempt().await, Completion::Retry { reason: StuckReason::Unresolved, .. }));
        assert_eq!(stage.server.seen().len(), LARGE - 1);
        assert_eq!(stage.context.absent_owners.absent.len(), LARGE - 1);
    });
}
