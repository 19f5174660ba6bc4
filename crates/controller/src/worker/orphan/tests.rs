//! Orphaning on a small graph, and what follows from the answer to its last request.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use tokio::task::yield_now;

use kube_gc_core::graph::{Effects, Partition, WatchEvent};
use kube_gc_core::object::{Finalizers, ObjectFacts, ResourceVersion};
use tokio::sync::watch;

use super::*;
use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::registry::RoundTypes;
use crate::actors::tests::{EPOCH, bare_context, graph_on, identity, in_system, seen};
use kube_gc_client::AbsenceProof;
use kube_gc_client::testing::{Reply, Server};

fn failed(class: ErrorClass) -> Result<Patched, ApiError> {
    let (action, target) = ("PATCH", "secrets a/b".into());
    Err(ApiError { class, action, target, message: "says the server".into(), code: None })
}

/// Work on a graph that has seen these objects.
async fn work(objects: Vec<ObjectFacts>, page: usize) -> OrphanWork {
    let absent_owners = Arc::new(AbsentOwnerCache::new(10));
    let graph = graph_on(None, &absent_owners).await;
    let server = Server::answering(|_| Reply::never());
    let context = bare_context(server.api(), graph, absent_owners);
    let (_, types) = watch::channel(Arc::new(RoundTypes::default()));
    let work = OrphanWork::new(context.clone(), Rounds::new(context, types, Duration::ZERO), page);
    work.see(objects).await;
    work
}

impl OrphanWork {
    async fn see(&self, objects: Vec<ObjectFacts>) {
        let any = identity("a", "any");
        let here = self.context.graph.partition_of(any.namespace.as_ref());
        let events: Vec<_> = objects.into_iter().map(WatchEvent::Apply).collect();
        let see = move |graph: &mut Partition, effects: &mut Effects| {
            graph.apply_events(&any.resource, EPOCH, &events, effects)
        };
        assert!(self.context.graph.ask(here, see).await.unwrap());
    }
}

/// Fails if the dependents of an owner are taken from the graph as a whole, which would need memory
/// for each of them, and would release those that a later policy deletes (rule 5.3).
#[test]
fn dependents_are_taken_in_pages_while_the_owner_orphans_them() {
    in_system(async {
        let owner = identity("a", "owner");
        let deleted = ObjectFacts { being_deleted: true, ..seen(&owner, 1, Vec::new()) };
        let orphan = Finalizers { orphan: true, ..Finalizers::default() };
        let dependent = |number: u64| {
            seen(&identity("a", &format!("dependent-{number}")), 2 + number, vec![owner.reference()])
        };
        let mut objects = vec![ObjectFacts { finalizers: orphan, ..deleted.clone() }];
        objects.extend((0..5).map(dependent));
        let work = work(objects, 2).await;

        let mut dependents = pin!(work.dependents(owner.key()));
        for _ in 0..2 {
            assert!(matches!(dependents.next().await, Some(Ok(_))));
        }
        let version = Some(ResourceVersion::number(10));
        work.see(vec![ObjectFacts { resource_version: version, ..deleted }]).await;
        assert!(matches!(dependents.next().await, Some(Err(Interrupted::Changed(_)))));
    });
}

#[test]
fn an_owner_whose_finalizer_may_have_been_removed_without_an_answer_is_remembered() {
    assert!(may_have_orphaned(&failed(ErrorClass::Transient)));
    assert!(may_have_orphaned(&Ok(Patched::Gone(AbsenceProof::of_test()))));
    assert!(may_have_orphaned(&failed(ErrorClass::DryRun)), "the other collector removes it");
    assert!(!may_have_orphaned(&failed(ErrorClass::Conflict)), "somebody else was faster");
    let live = ObjectFacts { being_deleted: true, ..seen(&identity("a", "a"), 1, Vec::new()) };
    assert!(!may_have_orphaned(&Ok(Patched::Unneeded(live))));
}

#[tokio::test]
async fn owners_share_the_patch_slots_and_take_turns() {
    let releases = Releases::new(4);
    let (under_way, most, order) = (Cell::new(0), Cell::new(0), RefCell::new(Vec::new()));
    let release = async |owner: char| {
        under_way.set(under_way.get() + 1);
        most.set(most.get().max(under_way.get()));
        yield_now().await;
        under_way.set(under_way.get() - 1);
        order.borrow_mut().push(owner);
    };
    let of = |owner, count| releases.each(stream::iter(vec![owner; count]), &release).collect::<Vec<_>>();
    let (many, few) = tokio::join!(of('m', 1000), of('f', 10));
    assert_eq!((many.len(), few.len(), most.get()), (1000, 10, 4));
    let last = order.borrow().iter().rposition(|owner| *owner == 'f').expect("it was released");
    assert!(last < 100, "the few waited for {last}");
}

#[tokio::test]
async fn a_cancelled_owner_returns_its_patch_slots() {
    let releases = Releases::new(2);
    let taken = Cell::new(0);
    let dependents = stream::iter(0..100).inspect(|_| taken.set(taken.get() + 1));
    let mut hanging = Box::pin(releases.each(dependents, async |_| std::future::pending::<()>().await));
    assert!(futures::poll!(hanging.next()).is_pending());
    assert!(taken.get() <= 3, "{} were taken for two places", taken.get());
    let mut waiting = Box::pin(releases.each(stream::iter([()]), async |()| ()));
    assert!(futures::poll!(waiting.next()).is_pending());
    drop(hanging);
    assert_eq!(waiting.next().await, Some(()));
}
