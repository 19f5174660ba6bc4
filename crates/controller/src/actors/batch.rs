//! Batches the changes of one monitor for each partition of the graph.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use crate::actors::graph::TakeInChanges;
use crate::actors::graph_handle::{GraphHandle, PartitionEnded};
use crate::actors::graph_queue::{Arrived, GraphQueue, Waiting};

use kube_gc_core::graph::{Epoch, PartitionId, WatchEvent};
use kube_gc_core::object::ResourceType;

/// Changes in one message.
const CHANGES_PER_MESSAGE: usize = 512;
/// References in one message. Only its first change may exceed it: an object with more owners has a
/// message of its own, so that the partition is never busy for long.
const REFERENCES_PER_MESSAGE: usize = 4096;
/// Changes that may wait in all queues together before the watch is paused.
const CHANGES_WAITING: usize = 8192;

/// One queue for each partition, with at most one message in flight. A busy partition delays
/// neither the other partitions nor, until too many changes wait, the watch.
#[derive(Debug)]
pub struct Batches {
    graph: GraphHandle,
    queues: Vec<PartitionQueue>,
    in_flight: FuturesUnordered<BoxFuture<'static, (PartitionId, Result<(), PartitionEnded>)>>,
    /// The type and the epoch of the monitor.
    source: (Arc<ResourceType>, Epoch),
}

#[derive(Debug)]
struct PartitionQueue {
    changes: VecDeque<Arrived>,
    waiting: Waiting,
    is_in_flight: bool,
    /// List ends that wait, and list ends in flight.
    list_ends: (usize, usize),
}

impl Batches {
    /// Empty queues for all partitions of a graph.
    pub fn new(
        graph: GraphHandle,
        resource: Arc<ResourceType>,
        epoch: Epoch,
        graph_queue: &GraphQueue,
    ) -> Self {
        let queue = |_| PartitionQueue {
            changes: VecDeque::new(),
            waiting: graph_queue.waiting(),
            is_in_flight: false,
            list_ends: (0, 0),
        };
        let queues = graph.partitions().map(queue).collect();
        Self { graph, queues, in_flight: FuturesUnordered::new(), source: (resource, epoch) }
    }

    /// Queues a change that arrived `at` that moment: for the partition of its namespace, or
    /// for every partition if it is about the list as a whole.
    pub fn put(&mut self, change: WatchEvent, at: Instant) {
        match &change {
            WatchEvent::Apply(facts) | WatchEvent::Delete(facts) => {
                let PartitionId(partition) = self.graph.partition_of(facts.namespace.as_ref());
                self.put_in(usize::from(partition), change, at);
            }
            WatchEvent::Init { .. } | WatchEvent::InitDone { .. } => {
                for partition in 0..self.queues.len() {
                    self.put_in(partition, change.clone(), at);
                }
            }
        }
    }

    fn put_in(&mut self, partition: usize, change: WatchEvent, at: Instant) {
        if let Some(queue) = self.queues.get_mut(partition) {
            queue.list_ends.0 += usize::from(matches!(change, WatchEvent::InitDone { .. }));
            queue.changes.push_back((at, change));
            queue.waiting.add();
        }
    }

    /// Sends one message to each partition that has changes waiting and no message in flight.
    pub fn flush(&mut self) {
        for (partition, queue) in self.graph.partitions().zip(&mut self.queues) {
            if queue.is_in_flight || queue.changes.is_empty() {
                continue;
            }
            let changes = queue.next_message();
            queue.is_in_flight = true;
            let is_end = |(_, change): &&Arrived| matches!(change, WatchEvent::InitDone { .. });
            let ends = changes.iter().filter(is_end).count();
            queue.list_ends = (queue.list_ends.0 - ends, ends);
            let waiting = queue.waiting.split(changes.len());
            let (resource, epoch) = self.source.clone();
            let graph = self.graph.clone();
            self.in_flight.push(Box::pin(async move {
                let message = TakeInChanges { resource, epoch, changes, waiting };
                (partition, graph.take_in(partition, message).await)
            }));
        }
    }

    fn waiting(&self) -> usize {
        self.queues.iter().map(|queue| queue.changes.len()).sum()
    }

    /// Whether what waits fits into one message.
    pub fn is_short(&self) -> bool {
        self.waiting() < CHANGES_PER_MESSAGE
    }

    /// Whether the watch may be read on.
    pub fn has_room(&self) -> bool {
        self.waiting() < CHANGES_WAITING
    }

    /// Whether the graph has applied every list that has ended, even if later changes still wait.
    pub fn lists_are_applied(&self) -> bool {
        self.queues.iter().all(|queue| queue.list_ends == (0, 0))
    }

    /// Whether everything has been applied.
    pub fn is_empty(&self) -> bool {
        self.waiting() == 0 && self.in_flight.is_empty()
    }

    /// Waits until a partition has applied a message; forever if none is in flight. Cancel
    /// safe.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn next_applied(&mut self) -> Result<(), PartitionEnded> {
        match self.in_flight.next().await {
            None => std::future::pending().await,
            Some((partition, result)) => {
                if let Some(queue) = self.queues.get_mut(usize::from(partition.0)) {
                    queue.is_in_flight = false;
                    queue.list_ends.1 = 0;
                }
                self.flush();
                result
            }
        }
    }

    /// Waits until everything has been applied.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn drain(&mut self) -> Result<(), PartitionEnded> {
        self.flush();
        while !self.is_empty() {
            self.next_applied().await?;
        }
        Ok(())
    }
}

impl PartitionQueue {
    fn next_message(&mut self) -> Vec<Arrived> {
        let (mut is_first, mut room) = (true, REFERENCES_PER_MESSAGE);
        let fits = |(_, change): &&Arrived| {
            let references = references(change);
            let fits = std::mem::take(&mut is_first) || references <= room;
            room = room.saturating_sub(references);
            fits
        };
        let count = self.changes.iter().take(CHANGES_PER_MESSAGE).take_while(fits).count();
        self.changes.drain(..count).collect()
    }
}

/// How many references a change has. The graph removes them when the object is deleted.
fn references(change: &WatchEvent) -> usize {
    match change {
        WatchEvent::Apply(facts) | WatchEvent::Delete(facts) => facts.owners.len(),
        WatchEvent::Init { .. } | WatchEvent::InitDone { .. } => 0,
    }
}
