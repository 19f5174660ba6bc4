//! Work on an object that names thousands of owners.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::time::Instant;

use super::scene::{Scene, Thing};
use crate::actors::pool::{Outcome, Work as _, WorkerSlot};
use crate::actors::tests::{identity, in_system};
use kube_gc_client::ApiSettings;
use kube_gc_client::testing::{Reply, Server};
use kube_gc_core::graph::{LARGE, Partition};
use kube_gc_core::mailbox::{Completion, Wait};
use kube_gc_core::object::OwnerReference;
use kube_gc_core::text::LONGEST;
use kube_gc_observe::telemetry::StuckReason;

const MANY: usize = 8000;

/// A reference to an owner that never existed.
fn nobody(kind: &str, number: usize) -> OwnerReference {
    OwnerReference { kind: kind.into(), ..identity("a", &format!("nobody-{number}")).reference() }
}

fn nobodies(numbers: std::ops::Range<usize>) -> Vec<OwnerReference> {
    numbers.map(|number| nobody("ConfigMap", number)).collect()
}

/// A graph in which one object has these references. The API server knows no owner, and the object is
/// gone when it is to be deleted.
async fn stage(owners: Vec<OwnerReference>) -> (Server, Scene, Thing) {
    let (server, scene, mut objects) = stage_of(vec![owners]).await;
    (server, scene, objects.remove(0))
}

async fn stage_of(owners: Vec<Vec<OwnerReference>>) -> (Server, Scene, Vec<Thing>) {
    let server = Server::answering(|request| {
        let name = request.path.rsplit('/').next().unwrap();
        Reply::status(404, "not found", &format!(r#"{{"name":"{name}","kind":"configmaps"}}"#))
    });
    let owners = owners.into_iter().enumerate();
    let objects: Vec<_> = owners
        .map(|(number, owners)| Thing { owners, ..Thing::new(&format!("large-{number}"), 5, &[]) })
        .collect();
    let scene = Scene::set(&server, ApiSettings::default(), &objects.iter().collect::<Vec<_>>()).await;
    (server, scene, objects)
}

async fn attempt(scene: &Scene, object: &Thing) -> Outcome {
    scene.work.work(object.identity.key(), WorkerSlot::none()).await
}

/// Fails if nothing else on the thread is polled while thousands of references are classified (rule
/// 7.6). All owners are known, so that no lookup interrupts the work.
#[test]
fn classifying_thousands_of_references_yields_to_other_tasks() {
    in_system(async {
        let (server, scene, object) =
            stage((0..MANY).map(|number| nobody("Unserved", number)).collect()).await;
        let turns = Rc::new(Cell::new(0));
        let others = Rc::clone(&turns);
        let others = actix::spawn(async move {
            loop {
                others.set(others.get() + 1);
                tokio::task::yield_now().await;
            }
        });
        let outcome = attempt(&scene, &object).await;
        others.abort();
        let Completion::Later { reason: StuckReason::Unresolved, error, wait: Wait::Backoff } = outcome
        else {
            panic!("{outcome:?}")
        };
        assert!(error.len() <= LONGEST && error.ends_with("; and 7,984 more"), "{error}");
        assert!(turns.get() > MANY / 300, "{} turns in {MANY} references", turns.get());
        assert_eq!(server.seen().len(), 0);
    });
}

/// Rule 7.10. Fails if the look-ups of an object that names more owners than usual are not limited:
/// one object that somebody writes costs as many requests as it names owners.
#[test]
fn the_look_ups_of_many_objects_with_many_absent_owners_share_one_rate() {
    const OBJECTS: usize = 10;
    let owners = |object: usize| nobodies(64 * object..64 * (object + 1));
    in_system(async {
        let (server, scene, objects) = stage_of((0..OBJECTS).map(owners).collect()).await;
        let began = Instant::now();
        for object in &objects {
            while !matches!(attempt(&scene, object).await, Completion::Done) {}
        }
        // After 250 at once, 250 a second.
        assert!(began.elapsed() >= Duration::from_millis(1500), "{:?}", began.elapsed());
        assert_eq!(server.seen().len(), 64 * OBJECTS + 2 * OBJECTS, "a DELETE and a GET for each");
    });
}

/// Rule 7.10. The workers for all other objects leave such an object to those for large ones.
#[test]
fn an_object_with_nine_owners_is_large() {
    in_system(async {
        for (owners, is_left) in [(LARGE, false), (LARGE + 1, true)] {
            let (_, scene, object) = stage(nobodies(0..owners)).await;
            let key = object.identity.key();
            let small = scene.graph.ask_about(&key, Partition::snapshot_and_queue_small).await.unwrap();
            assert_eq!(small.is_none(), is_left, "{owners}");
        }
        assert_eq!(LARGE, 8, "the documented limit");
    });
}

/// Fails if requests are sent whose answers cannot change the decision. If an object names few owners,
/// all are looked up: one may be solid, so that the references to absent ones are removed.
#[test]
fn an_unresolvable_owner_prevents_all_other_lookups() {
    in_system(async {
        for (others, look_ups) in [(1000, 0), (LARGE - 1, LARGE - 1)] {
            let (server, scene, object) =
                stage([nobodies(0..others), vec![nobody("Unserved", others)]].concat()).await;
            let outcome = attempt(&scene, &object).await;
            assert!(
                matches!(
                    outcome,
                    Completion::Later { reason: StuckReason::Unresolved, wait: Wait::Backoff, .. }
                ),
                "{outcome:?}"
            );
            assert_eq!(server.seen().len(), look_ups);
            assert_eq!(scene.work.context.absent_owners.absent.len(), look_ups);
        }
    });
}
