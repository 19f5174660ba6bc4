//! A read-only view of the whole collector, for HTTP and metrics.

use std::future::pending;
use std::sync::Arc;

use actix::{Addr, MailboxError};
use tokio::sync::watch;

use crate::actors::absent_owner_cache::AbsentOwnerCache;
use crate::actors::discovery::DiscoveryStatus;
use crate::actors::graph::PartitionStatus;
use crate::actors::graph_handle::{GraphHandle, PartitionEnded};
use crate::actors::graph_queue::GraphQueue;
use crate::actors::lifecycle::Phase;
use crate::actors::pool::{AskPool, Pool, PoolStatus};
use crate::actors::registry::Registry;
use crate::api::WriteGate;
use crate::http::{IdleQuery, IdleReport, QueueCounts};
use crate::telemetry::Queue;
use crate::worker::brake::Brake;
use crate::worker::comparison::Comparison;
use crate::worker::delete::DeleteWork;
use crate::worker::orphan::OrphanWork;

/// The number of pools.
const POOLS: usize = Queue::POOLS.len();

/// Access to everything that can be read. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CollectorStatus {
    pub(crate) graph: GraphHandle,
    pub(crate) graph_queue: GraphQueue,
    pub(crate) delete: Addr<Pool<DeleteWork>>,
    pub(crate) orphan: Addr<Pool<OrphanWork>>,
    pub(crate) registry: Registry,
    pub(crate) absent_owners: Arc<AbsentOwnerCache>,
    pub(crate) brake: Brake,
    pub(crate) discovery: watch::Receiver<DiscoveryStatus>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) gate: WriteGate,
    pub(crate) comparison: Option<Comparison>,
}

impl CollectorStatus {
    /// The state of every monitor.
    #[must_use]
    pub const fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Owners that were proved absent, and owners whose dependents were orphaned.
    #[must_use]
    pub fn absent_owners(&self) -> &AbsentOwnerCache {
        &self.absent_owners
    }

    /// The changes that wait for the graph.
    #[must_use]
    pub const fn graph_queue(&self) -> &GraphQueue {
        &self.graph_queue
    }

    /// The graph.
    #[must_use]
    pub const fn graph(&self) -> &GraphHandle {
        &self.graph
    }

    /// The write gate, which knows the role of this replica.
    #[must_use]
    pub const fn gate(&self) -> &WriteGate {
        &self.gate
    }

    /// In a dry run, the comparison of decisions with the writes of the other collector.
    #[must_use]
    pub const fn comparison(&self) -> Option<&Comparison> {
        self.comparison.as_ref()
    }

    /// The brake.
    #[must_use]
    pub const fn brake(&self) -> &Brake {
        &self.brake
    }

    /// Resolves when the workers may start: everything is synced, or the start-up timeout is over.
    pub fn collects(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut phase = self.phase.clone();
        async move {
            if phase.wait_for(|phase| *phase == Phase::Collecting).await.is_err() {
                // Lifecycle, and with it the process, is ending.
                pending::<()>().await;
            }
        }
    }

    /// The status of discovery.
    #[must_use]
    pub fn discovery(&self) -> DiscoveryStatus {
        self.discovery.borrow().clone()
    }

    /// Whether the start-up phase is over, and no rebuild is under way.
    #[must_use]
    pub fn is_collecting(&self) -> bool {
        *self.phase.borrow() == Phase::Collecting
    }

    /// Whether a discovery has succeeded and the workers have started.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.discovery.borrow().discovered && self.is_collecting()
    }

    /// The status of every partition.
    ///
    /// # Errors
    /// When a partition has ended.
    pub async fn partitions(&self) -> Result<Vec<PartitionStatus>, PartitionEnded> {
        self.graph.status().await
    }

    /// The status of every class of each pool. Each names at most `failing` failing keys.
    pub async fn pools(&self, failing: usize) -> Vec<(Queue, PoolStatus)> {
        let delete: Result<_, MailboxError> = self.delete.send(AskPool { failing }).await;
        let orphan: Result<_, MailboxError> = self.orphan.send(AskPool { failing }).await;
        [delete, orphan].into_iter().filter_map(Result::ok).flatten().collect()
    }

    /// Whether the collector has seen these versions and has nothing left to do.
    ///
    /// The order matters: first the monitors, then the graph, then the pools. Changes that a
    /// monitor reports as applied are in the graph, and keys that follow from them are in a pool.
    /// If a pool has received a key in the meantime, the collector counts as busy, because further
    /// work may have followed after the graph was asked.
    pub async fn idleness(&self, query: &IdleQuery) -> IdleReport {
        let before = self.adds().await;
        let mut reasons = self.unsettled();
        let not_seen: Vec<_> = query
            .seen
            .iter()
            .filter(|(resource, version)| !self.registry.has_applied(resource, version))
            .cloned()
            .collect();
        if let Err(error) = self.graph.fence().await {
            reasons.push(error.to_string());
        }
        let partitions = self.partitions().await.unwrap_or_default();
        let links: usize = partitions.iter().map(|partition| partition.outbox).sum();
        if links > 0 {
            reasons.push(format!("{links} links between partitions have not been applied yet"));
        }
        let pools = self.pools(0).await;
        let after: u64 = pools.iter().map(|(_, status)| status.adds).sum();
        if pools.len() != POOLS || before != after {
            reasons.push("keys are being queued".to_owned());
        }
        let queues = pools.iter().map(|(queue, status)| (queue.name().to_owned(), counts(status))).collect();
        let unseen_writes = partitions.iter().map(|partition| partition.stats.unseen_writes).sum();
        IdleReport::judge(query, queues, unseen_writes, &not_seen, reasons)
    }

    /// What is still starting or stopping.
    fn unsettled(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        for monitor in self.registry.all() {
            let resource = &monitor.resource.group_resource;
            if monitor.draining {
                reasons.push(format!("{resource} is being drained"));
            } else if !monitor.synced && monitor.last_error.is_none() {
                reasons.push(format!("{resource} is not synced yet"));
            }
        }
        let changes = self.graph_queue.len();
        if changes > 0 {
            reasons.push(format!("{changes} changes have not been applied to the graph yet"));
        }
        if self.discovery.borrow().busy {
            reasons.push("discovery is in progress".to_owned());
        }
        let namespaces = self.registry.terminating().busy();
        if namespaces > 0 {
            reasons.push(format!("{namespaces} namespaces are being finished"));
        }
        if !self.is_collecting() {
            reasons.push("the workers have not started".to_owned());
        }
        reasons
    }

    async fn adds(&self) -> u64 {
        self.pools(0).await.iter().map(|(_, status)| status.adds).sum()
    }
}

/// The number of keys of a pool in each state.
pub(crate) const fn counts(status: &PoolStatus) -> QueueCounts {
    let PoolStatus { ready, processing, delayed, parked, .. } = *status;
    QueueCounts { ready, processing, delayed, parked }
}
