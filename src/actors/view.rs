//! A read-only view of the whole collector, for HTTP and metrics.

use std::sync::Arc;

use actix::{Addr, MailboxError};
use tokio::sync::watch;

use super::delete::DeleteWork;
use super::discovery::{DiscoveryStatus, Phase};
use super::graph_handle::{GraphHandle, PartitionEnded};
use super::memory::Memory;
use super::messages::PartitionStatus;
use super::orphan::OrphanWork;
use super::pool::{AskPool, Pool, PoolStatus};
use super::registry::Registry;
use crate::object::{GroupResource, ResourceVersion};
use crate::telemetry::Queue;

/// Everything that can be asked. Cheap to clone.
#[derive(Clone, Debug)]
pub struct View {
    pub(super) graph: GraphHandle,
    pub(super) delete: Addr<Pool<DeleteWork>>,
    pub(super) orphan: Addr<Pool<OrphanWork>>,
    pub(super) registry: Registry,
    pub(super) memory: Arc<Memory>,
    pub(super) discovery: watch::Receiver<DiscoveryStatus>,
}

/// Why the collector is not idle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Idleness {
    /// What is still going on; empty when nothing is.
    pub reasons: Vec<String>,
    /// Writes of ours whose event has not arrived.
    pub unseen_writes: usize,
    /// What was asked for and has not been seen.
    pub not_seen: Vec<String>,
    /// Keys that wait for the world to change.
    pub parked: usize,
}

impl View {
    /// The state of every monitor.
    #[must_use]
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// What the workers remember.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The graph.
    #[must_use]
    pub const fn graph(&self) -> &GraphHandle {
        &self.graph
    }

    /// What discovery knows.
    #[must_use]
    pub fn discovery(&self) -> DiscoveryStatus {
        self.discovery.borrow().clone()
    }

    /// Every partition's status.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn partitions(&self) -> Result<Vec<PartitionStatus>, PartitionEnded> {
        self.graph.status().await
    }

    /// Every pool's status, naming at most so many failing items each.
    pub async fn pools(&self, failing: usize) -> Vec<(Queue, PoolStatus)> {
        let delete: Result<_, MailboxError> = self.delete.send(AskPool { failing }).await;
        let orphan: Result<_, MailboxError> = self.orphan.send(AskPool { failing }).await;
        [(Queue::AttemptToDelete, delete), (Queue::AttemptToOrphan, orphan)]
            .into_iter()
            .filter_map(|(queue, status)| Some((queue, status.ok()?)))
            .collect()
    }

    /// Whether the collector has seen these versions and has nothing left to do.
    ///
    /// The order matters. First the monitors: what they have applied was put into
    /// the graph before. Then the graph, then the pools: a key that followed from it
    /// is in its pool by then. If a pool took in anything meanwhile, it counts as
    /// busy, since what follows from that key may have come after the graph was asked.
    pub async fn idleness(&self, seen: &[(GroupResource, ResourceVersion)]) -> Idleness {
        let mut idleness = Idleness::default();
        let before = self.adds().await;
        let monitors = self.registry.all();
        for (resource, version) in seen {
            let applied = monitors
                .iter()
                .find(|monitor| monitor.resource.group_resource == *resource)
                .and_then(|monitor| monitor.applied.clone());
            if applied.as_ref().is_none_or(|applied| version.is_after(applied)) {
                let applied = applied.map_or("nothing".to_owned(), |applied| applied.to_string());
                idleness.not_seen.push(format!("{resource} {version} (seen: {applied})"));
            }
        }
        for monitor in &monitors {
            if !monitor.synced && monitor.last_error.is_none() {
                idleness.reasons.push(format!("{} is not synced yet", monitor.resource.group_resource));
            }
            if monitor.draining {
                idleness.reasons.push(format!("{} is being drained", monitor.resource.group_resource));
            }
        }
        let discovery = self.discovery();
        if discovery.busy {
            idleness.reasons.push("discovery is looking".to_owned());
        }
        if discovery.phase != Phase::Collecting {
            idleness.reasons.push("the workers have not begun".to_owned());
        }
        match self.graph.fence().await {
            Ok(()) => {}
            Err(error) => idleness.reasons.push(error.to_string()),
        }
        for partition in self.partitions().await.unwrap_or_default() {
            idleness.unseen_writes += partition.stats.unseen_writes;
            if partition.outbox > 0 {
                idleness.reasons.push(format!("{} links are on their way", partition.outbox));
            }
        }
        let pools = self.pools(0).await;
        let after: u64 = pools.iter().map(|(_, status)| status.adds).sum();
        for (queue, status) in &pools {
            let PoolStatus { ready, processing, delayed, parked, .. } = status;
            idleness.parked += parked;
            if ready + processing + delayed > 0 {
                idleness.reasons.push(format!(
                    "{}: {ready} ready, {processing} being worked on, {delayed} waiting to be retried",
                    queue.as_str()
                ));
            }
        }
        if pools.len() != 2 || before != after {
            idleness.reasons.push("the queues are moving".to_owned());
        }
        idleness
    }

    async fn adds(&self) -> u64 {
        self.pools(0).await.iter().map(|(_, status)| status.adds).sum()
    }
}
