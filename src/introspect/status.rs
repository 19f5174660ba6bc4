//! A read-only view of the whole collector, for HTTP and metrics.

use std::future::pending;
use std::sync::Arc;

use actix::{Addr, MailboxError};
use tokio::sync::watch;

use crate::actors::discovery::DiscoveryStatus;
use crate::actors::graph_handle::{GraphHandle, PartitionEnded};
use crate::actors::graph_queue::GraphQueue;
use crate::actors::lifecycle::Phase;
use crate::actors::messages::PartitionStatus;
use crate::actors::pool::{AskPool, Pool, PoolStatus};
use crate::actors::registry::Registry;
use crate::api::WriteGate;
use crate::http::{IdleQuery, IdleReport, QueueCounts};
use crate::telemetry::Queue;
use crate::worker::absent_owner_cache::AbsentOwnerCache;
use crate::worker::brake::Brake;
use crate::worker::comparison::Comparison;
use crate::worker::delete::{DeleteWork, LargeWork};
use crate::worker::orphan::OrphanWork;
use kube_gc_core::object::{GroupResource, ResourceVersion};

/// The pools.
const POOLS: usize = Queue::POOLS.len();

/// Everything that can be asked. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CollectorStatus {
    pub(crate) graph: GraphHandle,
    pub(crate) graph_queue: GraphQueue,
    pub(crate) delete: Addr<Pool<DeleteWork>>,
    pub(crate) large: Addr<Pool<LargeWork>>,
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

    /// What is on its way into the graph.
    #[must_use]
    pub const fn graph_queue(&self) -> &GraphQueue {
        &self.graph_queue
    }

    /// The graph.
    #[must_use]
    pub const fn graph(&self) -> &GraphHandle {
        &self.graph
    }

    /// Whether this replica writes.
    #[must_use]
    pub const fn gate(&self) -> &WriteGate {
        &self.gate
    }

    /// In a dry run: what others do of that which would have been done.
    #[must_use]
    pub const fn comparison(&self) -> Option<&Comparison> {
        self.comparison.as_ref()
    }

    /// What keeps it from deleting too much.
    #[must_use]
    pub const fn brake(&self) -> &Brake {
        &self.brake
    }

    /// Resolves when the workers may begin: everything is synced, or the start-up
    /// timeout is over.
    pub fn collects(&self) -> impl Future<Output = ()> + Send + 'static + use<> {
        let mut phase = self.phase.clone();
        async move {
            if phase.wait_for(|phase| *phase == Phase::Collecting).await.is_err() {
                // Lifecycle, and with it the process, is ending.
                pending::<()>().await;
            }
        }
    }

    /// What discovery knows.
    #[must_use]
    pub fn discovery(&self) -> DiscoveryStatus {
        self.discovery.borrow().clone()
    }

    /// Whether the start-up phase is over, and no rebuild is under way.
    #[must_use]
    pub fn is_collecting(&self) -> bool {
        *self.phase.borrow() == Phase::Collecting
    }

    /// Whether discovery has worked, and the workers have begun.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.discovery.borrow().discovered && self.is_collecting()
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
        let large: Result<_, MailboxError> = self.large.send(AskPool { failing }).await;
        let orphan: Result<_, MailboxError> = self.orphan.send(AskPool { failing }).await;
        // The delete pool hands keys over to the one for large objects, so it is asked first.
        Queue::POOLS
            .into_iter()
            .zip([delete, large, orphan])
            .filter_map(|(queue, status)| Some((queue, status.ok()?)))
            .collect()
    }

    /// Whether the collector has seen these versions and has nothing left to do.
    ///
    /// The order matters. First the monitors: what they have applied was put into
    /// the graph before. Then the graph, then the pools: a key that followed from it
    /// is in its pool by then. If a pool took in anything meanwhile, it counts as
    /// busy, since what follows from that key may have come after the graph was asked.
    pub async fn idleness(&self, query: &IdleQuery) -> IdleReport {
        let before = self.adds().await;
        let mut reasons = self.unsettled();
        let not_seen: Vec<_> = query
            .seen
            .iter()
            .filter(|(resource, version)| !self.has_seen(resource, version))
            .cloned()
            .collect();
        if let Err(error) = self.graph.fence().await {
            reasons.push(error.to_string());
        }
        let partitions = self.partitions().await.unwrap_or_default();
        let links: usize = partitions.iter().map(|partition| partition.outbox).sum();
        if links > 0 {
            reasons.push(format!("{links} links between partitions are on their way"));
        }
        let pools = self.pools(0).await;
        let after: u64 = pools.iter().map(|(_, status)| status.adds).sum();
        if pools.len() != POOLS || before != after {
            reasons.push("the queues are moving".to_owned());
        }
        let queues = pools.iter().map(|(queue, status)| (queue.name().to_owned(), counts(status))).collect();
        let unseen_writes = partitions.iter().map(|partition| partition.stats.unseen_writes).sum();
        IdleReport::judge(query, queues, unseen_writes, &not_seen, reasons)
    }

    fn has_seen(&self, resource: &GroupResource, version: &ResourceVersion) -> bool {
        self.registry.applied(resource).is_some_and(|applied| !version.is_after(&applied))
    }

    /// What is still being set up or taken down.
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
            reasons.push(format!("{changes} changes are on their way into the graph"));
        }
        if self.discovery.borrow().busy {
            reasons.push("discovery is looking".to_owned());
        }
        if !self.is_collecting() {
            reasons.push("the workers have not begun".to_owned());
        }
        reasons
    }

    async fn adds(&self) -> u64 {
        self.pools(0).await.iter().map(|(_, status)| status.adds).sum()
    }
}

/// How many of a pool's keys are where.
pub(crate) const fn counts(status: &PoolStatus) -> QueueCounts {
    let PoolStatus { ready, processing, delayed, parked, .. } = *status;
    QueueCounts { ready, processing, delayed, parked }
}
