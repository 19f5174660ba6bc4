use std::pin::pin;
use std::sync::{Arc, mpsc};

use actix::{Arbiter, System};
use futures::poll;
use tokio::time::Instant;

use super::child::{as_child, is_child};
use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::graph::{Question, TakeInChanges};
use crate::actors::graph_handle::GraphHandle;
use crate::actors::graph_queue::GraphQueue;
use crate::actors::supervision::{FATAL_EXIT_CODE, Threads};
use kube_gc_core::graph::{DeletesProve, PartitionId, Sharding, WatchEvent};
use kube_gc_core::object::{OwnerReference, ResourceType, Scope};

/// Rule 8.13.
#[test]
fn a_panic_in_a_partition_ends_the_process() {
    if is_child() {
        System::new().block_on(async {
            let thread = Threads::default().start("graph partition 0").unwrap();
            let cache = Arc::new(AbsentOwnerCache::new(10));
            let partition = super::start_partition(Some(&thread), PartitionId(0), cache);
            partition.do_send(Question::new(|_| panic!("half an update")));
            std::future::pending::<()>().await;
        });
        return;
    }
    let (code, said) = as_child("actors::tests::graph::a_panic_in_a_partition_ends_the_process");
    assert_eq!(code, Some(FATAL_EXIT_CODE), "{said}");
    assert!(said.contains("half an update"), "{said}");
    assert!(said.contains("can no longer be trusted"), "{said}");
}

#[test]
fn a_thread_that_ends_ends_the_process() {
    if is_child() {
        System::new().block_on(async {
            let threads = Threads::default();
            let thread = threads.start("graph partition 0").unwrap();
            thread.stop();
            std::future::pending::<()>().await;
        });
        return;
    }
    let (code, said) = as_child("actors::tests::graph::a_thread_that_ends_ends_the_process");
    assert_eq!(code, Some(FATAL_EXIT_CODE), "{said}");
    assert!(said.contains("graph partition 0"), "{said}");
}

/// Rule 3.23.
#[test]
fn links_are_applied_before_the_changes_they_follow_from_are_done() {
    super::in_system(async {
        let (cache, thread) = (Arc::new(AbsentOwnerCache::new(10)), Arbiter::new());
        let (elsewhere, here) = (Sharding::CLUSTER, PartitionId(1));
        let cluster = super::start_partition(Some(&thread.handle()), elsewhere, Arc::clone(&cache));
        let partitions = vec![cluster.clone(), super::start_partition(None, here, cache)];
        let graph = GraphHandle::new(super::sharding(), partitions);
        let object = super::identity("a", "object");
        let resource = Arc::clone(&object.resource);
        let node = ResourceType::of("nodes", "v1", "Node", Scope::Cluster);
        let catalog = Arc::new(super::catalog([("v1", Arc::clone(&resource)), ("v1", node)]));
        let begin = {
            let resource = Arc::clone(&resource);
            graph.ask_all(move |graph, effects| {
                graph.set_catalog(Arc::clone(&catalog), effects);
                graph.monitor_started(&resource, super::EPOCH, DeletesProve::Absence);
            })
        };
        begin.await.unwrap();

        let (open, opened) = mpsc::channel();
        cluster.do_send(Question::new(move |_| opened.recv().unwrap()));
        let owner = OwnerReference { kind: "Node".into(), ..super::identity("", "node").reference() };
        let change = WatchEvent::Apply(super::seen(&object, 1, vec![owner]));
        let waiting = GraphQueue::default().waiting();
        let changes = vec![(Instant::now(), change)];
        let mut taken =
            pin!(graph.take_in(here, TakeInChanges { resource, epoch: super::EPOCH, changes, waiting }));
        assert!(poll!(&mut taken).is_pending());
        assert_eq!(graph.ask(here, |graph, _| graph.stats().edges).await.unwrap(), 1);
        let mut fence = pin!(graph.fence());
        assert!(poll!(&mut fence).is_pending());
        graph.ask(here, |_, _| ()).await.unwrap();
        assert!(poll!(&mut taken).is_pending() && poll!(&mut fence).is_pending(), "partition 0 is busy");

        open.send(()).unwrap();
        taken.await.unwrap();
        assert_eq!(graph.ask(elsewhere, |graph, _| graph.stats().edges).await.unwrap(), 1);
        fence.await.unwrap();
        assert!(graph.status().await.unwrap().iter().all(|status| status.unapplied_links == 0));
    });
}
