use std::sync::Arc;

use tokio::time::Instant;

use super::{EPOCH, graph_on, identity, in_system};
use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::batch::Batches;
use crate::actors::graph_queue::GraphQueue;
use crate::actors::supervision::Threads;
use kube_gc_core::graph::WatchEvent;
use kube_gc_core::object::{ObjectFacts, ResourceVersion};

/// Enough changes for several messages.
const MANY: usize = 6000;

fn seen(number: usize) -> WatchEvent {
    WatchEvent::Apply(facts(number, 0))
}

fn facts(number: usize, references: usize) -> ObjectFacts {
    let owners = (0..references).map(|place| identity("a", &format!("nobody-{place}")).reference());
    super::seen(&identity("a", &format!("object-{number}")), number as u64 + 1, owners.collect())
}

/// Batches for a small graph that knows the monitor.
async fn start() -> Batches {
    // The partitions share a thread, so neither answers all its messages before the other begins.
    let thread = Threads::default().start("graph partitions").unwrap();
    let graph = graph_on(Some(&thread), &Arc::new(AbsentOwnerCache::new(10))).await;
    Batches::new(graph, identity("a", "any").resource, EPOCH, &GraphQueue::default())
}

impl Batches {
    fn put_all(&mut self, changes: impl IntoIterator<Item = WatchEvent>) {
        changes.into_iter().for_each(|change| self.put(change, Instant::now()));
    }
}

fn list(objects: usize) -> impl Iterator<Item = WatchEvent> {
    let resource_version = ResourceVersion::parse("9000");
    std::iter::once(WatchEvent::Init { resource_version: None })
        .chain((0..objects).map(seen))
        .chain([WatchEvent::InitDone { resource_version }])
}

/// Fails if a list counts as applied only when later changes are, too: a type whose objects change
/// all the time would never be synced.
#[test]
fn a_list_is_applied_while_later_changes_still_wait() {
    in_system(async {
        let mut batches = start().await;
        batches.put_all(list(10));
        assert!(!batches.lists_are_applied(), "the list is queued");
        batches.put_all((10..MANY).map(seen));
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
        batches.put_all(list(MANY));
        batches.flush();
        while !batches.is_empty() {
            assert!(!batches.lists_are_applied());
            batches.next_applied().await.unwrap();
        }
        assert!(batches.lists_are_applied());
    });
}

/// The number of messages for changes with this many references each.
async fn messages(changes: &[usize], change: fn(ObjectFacts) -> WatchEvent) -> usize {
    let mut batches = start().await;
    let facts = |(number, references): (usize, &usize)| change(facts(number, *references));
    batches.put_all(changes.iter().enumerate().map(facts));
    batches.flush();
    let mut count = 0;
    while !batches.is_empty() {
        batches.next_applied().await.unwrap();
        count += 1;
    }
    count
}

/// A partition works on one message at a time, so the references in a message limit how long all
/// others wait for it. Fails if thousands of references precede or follow those of a large object.
#[test]
fn a_message_has_at_most_4096_references_unless_its_first_change_has_more() {
    in_system(async {
        for change in [WatchEvent::Apply, WatchEvent::Delete] {
            for (changes, expected) in [
                (&[4096][..], 1),
                (&[4095, 1], 1),
                (&[0, 4096, 0], 1),
                (&[1, 4096], 2),
                (&[4095, 2], 2),
                (&[4095, 10_000], 2),
                (&[10_000, 1], 2),
                (&[10_000, 10_000], 2),
                (&[1, 10_000, 1], 3),
                (&[2000; 10], 5),
            ] {
                assert_eq!(messages(changes, change).await, expected, "{changes:?}");
            }
            assert_eq!(messages(&[8; 1024], change).await, 2, "a message has at most 512 changes");
        }
    });
}
