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

/// Enough changes for several messages.
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

/// Batches for a small graph that knows the monitor.
async fn start() -> Batches {
    let resource: Arc<ResourceType> = identity("a", "any").resource;
    let epoch = Epoch(1);
    let sharding = sharding();
    // Both partitions share a thread, so neither answers all its messages before the other begins.
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

/// Fails if a list counts as applied only when later changes are, too: a type whose objects change
/// all the time would never be synced.
#[test]
fn a_list_is_applied_while_later_changes_still_wait() {
    in_system(async {
        let mut batches = start().await;
        batches.put(WatchEvent::Init { resource_version: None }, Instant::now());
        (0..10).for_each(|number| batches.put(seen(number), Instant::now()));
        batches.put(WatchEvent::InitDone { resource_version: ResourceVersion::parse("10") }, Instant::now());
        assert!(!batches.lists_are_applied(), "the list is queued");
        (10..MANY).for_each(|number| batches.put(seen(number), Instant::now()));
        batches.flush();
        assert!(!batches.lists_are_applied(), "the list is in flight");
        while !batches.lists_are_applied() {
            batches.next_applied().await.unwrap();
        }
        assert!(!batches.is_empty());
        batches.drain().await.unwrap();
        assert!(batches.is_empty() && batches.lists_are_applied());
    });
}

/// The reverse: the answers so far belong to the beginning of the list.
#[test]
fn a_list_is_not_applied_before_its_end() {
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
