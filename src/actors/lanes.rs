//! How a monitor's changes reach the partitions: one lane for each.

use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

use tokio::time::Instant;

use super::graph_handle::{GraphHandle, PartitionEnded};
use super::graph_queue::GraphQueue;
use super::messages::TakeIn;
use crate::graph::{Change, Intake, PartitionId};

/// Changes in one message.
const CHANGES_PER_MESSAGE: usize = 512;
/// Changes that may wait over all lanes before the watch is held back.
const CHANGES_WAITING: usize = 8192;

/// One lane to each partition, with at most one message on its way in each: a busy
/// partition holds up neither the others nor, until its lane is full, the watch.
#[derive(Debug)]
pub struct Lanes {
    graph: GraphHandle,
    lanes: Vec<Lane>,
    waiting: usize,
    on_their_way: FuturesUnordered<BoxFuture<'static, Arrival>>,
    make: Envelope,
    queue: GraphQueue,
}

/// A message that was answered.
struct Arrival {
    lane: PartitionId,
    changes: usize,
    took: Duration,
    result: Result<(), PartitionEnded>,
}

/// Puts changes into the envelope of their monitor: its type and its epoch.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The type.
    pub resource: std::sync::Arc<crate::object::ResourceType>,
    /// The epoch.
    pub epoch: crate::graph::Epoch,
}

#[derive(Debug, Default)]
struct Lane {
    changes: Vec<Change>,
    /// When the first of the changes came.
    since: Option<Instant>,
    /// How many changes are on their way.
    sent: usize,
    /// Ends of lists that wait, and that are on their way.
    list_ends: (usize, usize),
}

impl Lanes {
    /// Lanes to all partitions of a graph.
    #[must_use]
    pub fn new(graph: GraphHandle, make: Envelope, queue: GraphQueue) -> Self {
        let lanes = graph.partitions().map(|_| Lane::default()).collect();
        Self { graph, lanes, waiting: 0, on_their_way: FuturesUnordered::new(), make, queue }
    }

    /// Puts a change into the lane of its namespace, or, if it is about the list as
    /// a whole, into every lane.
    pub fn put(&mut self, change: Change) {
        match &change {
            Change::Seen(facts) | Change::Deleted(facts) => {
                let PartitionId(lane) = self.graph.partition_of(facts.namespace.as_ref());
                self.put_in(usize::from(lane), change);
            }
            Change::ListBegan | Change::ListEnded { .. } => {
                for lane in 0..self.lanes.len() {
                    self.put_in(lane, change.clone());
                }
            }
        }
    }

    fn put_in(&mut self, lane: usize, change: Change) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.list_ends.0 += usize::from(matches!(change, Change::ListEnded { .. }));
            lane.changes.push(change);
            lane.since.get_or_insert_with(Instant::now);
            self.waiting += 1;
            self.queue.added();
        }
    }

    /// Sends what can be sent.
    pub fn flush(&mut self) {
        for (index, lane) in self.graph.partitions().zip(&mut self.lanes) {
            if lane.sent > 0 || lane.changes.is_empty() {
                continue;
            }
            let rest = lane.changes.split_off(lane.changes.len().min(CHANGES_PER_MESSAGE));
            let changes = std::mem::replace(&mut lane.changes, rest);
            let now = Instant::now();
            let waited = lane.since.map(|since| now - since).unwrap_or_default();
            lane.since = (!lane.changes.is_empty()).then_some(now);
            lane.sent = changes.len();
            let ends = changes.iter().filter(|change| matches!(change, Change::ListEnded { .. })).count();
            lane.list_ends = (lane.list_ends.0 - ends, ends);
            self.waiting -= changes.len();
            self.queue.sent(changes.len(), waited);
            let Envelope { resource, epoch } = self.make.clone();
            let graph = self.graph.clone();
            self.on_their_way.push(Box::pin(async move {
                let count = changes.len();
                let intake = Intake::Changes { resource, epoch, changes };
                let result = graph.take_in(index, TakeIn(vec![intake])).await;
                Arrival { lane: index, changes: count, took: now.elapsed(), result }
            }));
        }
    }

    /// Whether the watch may be read on.
    #[must_use]
    pub const fn has_room(&self) -> bool {
        self.waiting < CHANGES_WAITING
    }

    /// Whether every list that has ended is in the graph, whatever came after it.
    #[must_use]
    pub fn lists_are_applied(&self) -> bool {
        self.lanes.iter().all(|lane| lane.list_ends == (0, 0))
    }

    /// Whether everything has been applied.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.waiting == 0 && self.on_their_way.is_empty()
    }

    /// Waits until the next message has been applied; for ever if none is on its
    /// way. Dropping the wait loses nothing.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn next_applied(&mut self) -> Result<(), PartitionEnded> {
        match self.on_their_way.next().await {
            None => std::future::pending().await,
            Some(Arrival { lane, changes, took, result }) => {
                self.queue.applied(changes, took);
                if let Some(lane) = self.lanes.get_mut(usize::from(lane.0)) {
                    lane.sent = 0;
                    lane.list_ends.1 = 0;
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

impl Drop for Lanes {
    fn drop(&mut self) {
        let sent = self.lanes.iter().map(|lane| lane.sent).sum();
        self.queue.dropped(self.waiting, sent);
    }
}
