//! How a monitor's changes reach the partitions: one lane for each.

use std::collections::VecDeque;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

use tokio::time::Instant;

use crate::actors::graph_handle::{GraphHandle, PartitionEnded};
use crate::actors::graph_queue::{Arrival, GraphQueue};
use crate::actors::messages::TakeInChanges;
use kube_gc_core::graph::{PartitionId, WatchEvent};

/// Changes in one message.
const CHANGES_PER_MESSAGE: usize = 512;
/// References in one message, but for the last change: objects that name thousands of owners
/// go alone, so that nobody waits long for the partition.
const REFERENCES_PER_MESSAGE: usize = 4096;
/// Changes that may wait over all lanes before the watch is held back.
const CHANGES_WAITING: usize = 8192;

/// One lane to each partition, with at most one message on its way in each: a busy
/// partition holds up neither the others nor, until its lane is full, the watch.
#[derive(Debug)]
pub struct Lanes {
    graph: GraphHandle,
    lanes: Vec<Lane>,
    waiting: usize,
    on_their_way: FuturesUnordered<BoxFuture<'static, Answered>>,
    make: Envelope,
    queue: GraphQueue,
}

/// A message that was answered.
struct Answered {
    lane: PartitionId,
    result: Result<(), PartitionEnded>,
}

/// Puts changes into the envelope of their monitor: its type and its epoch.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// The type.
    pub resource: std::sync::Arc<kube_gc_core::object::ResourceType>,
    /// The epoch.
    pub epoch: kube_gc_core::graph::Epoch,
}

#[derive(Debug, Default)]
struct Lane {
    arrivals: VecDeque<Arrival>,
    /// Whether a message is on its way.
    sent: bool,
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
    /// a whole, into every lane. It came at that moment.
    pub fn put(&mut self, change: WatchEvent, at: Instant) {
        match &change {
            WatchEvent::Apply(facts) | WatchEvent::Delete(facts) => {
                let PartitionId(lane) = self.graph.partition_of(facts.namespace.as_ref());
                self.put_in(usize::from(lane), change, at);
            }
            WatchEvent::Init { .. } | WatchEvent::InitDone { .. } => {
                for lane in 0..self.lanes.len() {
                    self.put_in(lane, change.clone(), at);
                }
            }
        }
    }

    fn put_in(&mut self, lane: usize, change: WatchEvent, at: Instant) {
        if let Some(lane) = self.lanes.get_mut(lane) {
            lane.list_ends.0 += usize::from(matches!(change, WatchEvent::InitDone { .. }));
            match lane.arrivals.back_mut().filter(|last| last.at() == at) {
                Some(last) => last.push(change),
                None => {
                    let mut arrival = self.queue.arrival(at);
                    arrival.push(change);
                    lane.arrivals.push_back(arrival);
                }
            }
            self.waiting += 1;
        }
    }

    /// Sends what can be sent.
    pub fn flush(&mut self) {
        for (index, lane) in self.graph.partitions().zip(&mut self.lanes) {
            if lane.sent || lane.arrivals.is_empty() {
                continue;
            }
            let arrivals = lane.next_message();
            lane.sent = true;
            let changes = || arrivals.iter().flat_map(Arrival::changes);
            let ends = changes().filter(|change| matches!(change, WatchEvent::InitDone { .. })).count();
            lane.list_ends = (lane.list_ends.0 - ends, ends);
            self.waiting -= changes().count();
            let Envelope { resource, epoch } = self.make.clone();
            let graph = self.graph.clone();
            self.on_their_way.push(Box::pin(async move {
                let result = graph.take_in(index, TakeInChanges { resource, epoch, arrivals }).await;
                Answered { lane: index, result }
            }));
        }
    }

    /// Whether what waits fits into one message.
    #[must_use]
    pub const fn is_short(&self) -> bool {
        self.waiting < CHANGES_PER_MESSAGE
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
            Some(Answered { lane, result }) => {
                if let Some(lane) = self.lanes.get_mut(usize::from(lane.0)) {
                    lane.sent = false;
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

impl Lane {
    /// Takes out what goes into one message.
    fn next_message(&mut self) -> Vec<Arrival> {
        let (mut arrivals, mut room) = (Vec::new(), CHANGES_PER_MESSAGE);
        let mut room_for_references = REFERENCES_PER_MESSAGE;
        while room > 0
            && room_for_references > 0
            && let Some(first) = self.arrivals.front_mut()
        {
            let fit = |change: &&WatchEvent| {
                let has_room = room_for_references > 0;
                room_for_references = room_for_references.saturating_sub(references(change));
                has_room
            };
            let arrival = first.split_to(first.changes().iter().take(room).take_while(fit).count());
            if first.changes().is_empty() {
                self.arrivals.pop_front();
            }
            room -= arrival.changes().len();
            arrivals.push(arrival);
        }
        arrivals
    }
}

/// How many references a change has.
fn references(change: &WatchEvent) -> usize {
    match change {
        WatchEvent::Apply(facts) => facts.owners.len(),
        WatchEvent::Delete(_) | WatchEvent::Init { .. } | WatchEvent::InitDone { .. } => 0,
    }
}
