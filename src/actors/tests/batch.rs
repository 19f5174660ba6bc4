use std::sync::Arc;

use tokio::time::Instant;

use super::{identity, in_system, sharding, start_partition_on};
use crate::actors::batch::{BatchSource, Batches};
use crate::actors::graph_handle::GraphHandle;
use crate::actors::graph_queue::GraphQueue;
use crate::actors::messages::TakeIn;
use crate::actors::supervision::Threads;
use kube_gc_core::graph::{DeletesProve, Epoch, Intake, PartitionId, WatchEvent};
use kube_gc_core::object::{Finalizers, ObjectFacts, ResourceType, ResourceVersion};

/// Changes for a good many messages.
const MANY: usize = 6000;

fn seen(number: usize) -> WatchEvent {
    let identity = identity("a", &format!("object-{number}"));
    WatchEvent::Apply(ObjectFacts {
        uid: identity.uid,
        namespace: identity.namespace,
        name: identity.name,
        resource_version: ResourceVersion::parse(&(number + 1).to_string()),
        owners: Vec::new(),
        being_deleted: false,
        finalizers: Finalizers::default(),
    })
}

/// Batches to a small graph in which the type is being monitored.
async fn start() -> Batches {
    let resource: Arc<ResourceType> = identity("a", "any").resource;
    let epoch = Epoch(1);
    let sharding = sharding();
    // One thread for both: neither has answered all of its messages before the other has begun.
    let thread = Threads::default().start("graph partitions").unwrap();
    let partitions = (0..sharding.count()).map(|id| start_partition_on(&thread, PartitionId(id))).collect();
    let graph = GraphHandle::new(sharding, partitions);
    let started = || {
        let resource = Arc::clone(&resource);
        TakeIn(vec![Intake::MonitorStarted { resource, epoch, deletes_prove: DeletesProve::Absence }])
    };
    graph.take_in_everywhere(started).await.unwrap();
    Batches::new(graph, BatchSource { resource, epoch }, GraphQueue::new())
}

/// A type whose objects change all the time is never without changes that wait:
/// were its list in the graph only once they are applied, it would not be synced.
#[test]
fn a_list_is_applied_although_later_changes_still_wait() {
    in_system(async {
        let mut batches = start().await;
        batches.put(WatchEvent::Init { resource_version: None }, Instant::now());
        (0..10).for_each(|number| batches.put(seen(number), Instant::now()));
        batches.put(WatchEvent::InitDone { resource_version: ResourceVersion::parse("10") }, Instant::now());
        assert!(!batches.lists_are_applied(), "it waits");
        (10..MANY).for_each(|number| batches.put(seen(number), Instant::now()));
        batches.flush();
        assert!(!batches.lists_are_applied(), "it is on its way");
        while !batches.lists_are_applied() {
            batches.next_applied().await.unwrap();
        }
        assert!(!batches.is_empty());
        batches.drain().await.unwrap();
        assert!(batches.is_empty() && batches.lists_are_applied());
    });
}

/// The reverse: what was answered so far was only the list's beginning.
#[test]
fn a_list_is_not_applied_before_its_end_is() {
    in_system(async {
        let mut batches = start().await;
        batches.put(WatchEvent::Init { resource_version: None }, Instant::now());
        (0..MANY).for_each(|number| batches.put(seen(number), Instant::now()));
        batches
            .put(WatchEvent::InitDone { resource_version: ResourceVersion::parse("9000") }, Instant::now());
        batches.flush();
        while !batches.is_empty() {
            assert!(!batches.lists_are_applied());
            batches.next_applied().await.unwrap();
        }
        assert!(batches.lists_are_applied());
    });
}
