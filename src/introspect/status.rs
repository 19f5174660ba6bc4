//! A read-only view of the whole collector, and the metrics that cannot be counted when something happens.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;

use actix::{Addr, MailboxError, Recipient};
use tokio::runtime::Handle;
use tokio::sync::watch;

use kube_gc_client::WriteGate;
use kube_gc_controller::actors::absent_owner_cache::AbsentOwnerCache;
use kube_gc_controller::actors::discovery::{DiscoveryFailure, DiscoveryStatus};
use kube_gc_controller::actors::graph::PartitionStatus;
use kube_gc_controller::actors::graph_handle::{GraphHandle, PartitionEnded};
use kube_gc_controller::actors::graph_queue::GraphQueue;
use kube_gc_controller::actors::lifecycle::Phase;
use kube_gc_controller::actors::messages::DiscoveryMessage;
use kube_gc_controller::actors::metrics::Sample;
use kube_gc_controller::actors::pool::{AskPool, Pool, PoolStatus};
use kube_gc_controller::actors::registry;
use kube_gc_controller::actors::registry::Registry;
use kube_gc_controller::worker::brake::Brake;
use kube_gc_controller::worker::comparison::Comparison;
use kube_gc_controller::worker::delete::DeleteWork;
use kube_gc_controller::worker::orphan::OrphanWork;
use kube_gc_core::object::GroupResource;
use kube_gc_observe::telemetry::{Exporter, MonitorState, Queue, QueueMetrics, QueueSample, logging, record};

use super::view::QueueCounts;

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
    pub(crate) rediscover: Recipient<DiscoveryMessage>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) gate: WriteGate,
    pub(crate) comparison: Option<Comparison>,
    /// The types that are not in the graph, because the settings say so; without events.
    pub(crate) ignored: Arc<[GroupResource]>,
    /// The same, with events.
    pub(crate) unwatched: Arc<[GroupResource]>,
}

impl CollectorStatus {
    /// The state of every monitor.
    pub const fn registry(&self) -> &Registry {
        &self.registry
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
    pub fn discovery(&self) -> DiscoveryStatus {
        self.discovery.borrow().clone()
    }

    /// Whether the start-up phase is over, and no rebuild is under way.
    pub fn is_collecting(&self) -> bool {
        *self.phase.borrow() == Phase::Collecting
    }

    /// Whether a discovery has succeeded and the workers have started.
    pub fn is_ready(&self) -> bool {
        self.discovery.borrow().discovered.is_some() && self.is_collecting()
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
        self.ask_pools(AskPool { failing, ..AskPool::default() }).await
    }

    pub(super) async fn ask_pools(&self, ask: AskPool) -> Vec<(Queue, PoolStatus)> {
        let delete: Result<_, MailboxError> = self.delete.send(ask.clone()).await;
        let orphan: Result<_, MailboxError> = self.orphan.send(ask).await;
        [delete, orphan].into_iter().filter_map(Result::ok).flatten().collect()
    }

    /// Waits for the end of a discovery that begins now, which shows a type that was created a moment ago.
    pub async fn rediscovered(&self) {
        if self.rediscover.send(DiscoveryMessage::Rediscover).await.is_ok() {
            // An error means that discovery, and with it the collector, is ending.
            let _ = self.discovery.clone().wait_for(|discovery| !discovery.busy).await;
        }
    }
}

/// The number of keys of a pool in each state.
pub(crate) const fn counts(status: &PoolStatus) -> QueueCounts {
    let QueueSample { ready, processing, delayed, parked, .. } = status.sample;
    QueueCounts { ready, processing, delayed, parked }
}

/// The number of samples after which the series of types that are gone are removed.
const CLEANUP_INTERVAL: usize = 30;

/// Types that are reported as not synced, with their versions.
type Unsynced = BTreeSet<(GroupResource, Box<str>)>;

/// Sets the gauges of the collector.
#[derive(Clone, Debug)]
pub struct Sampler {
    collector: CollectorStatus,
    exporter: Exporter,
    queues: Arc<[(Queue, QueueMetrics)]>,
    unsynced: Unsynced,
    samples: usize,
}

impl Sampler {
    /// Samples this collector.
    pub fn new(collector: CollectorStatus, exporter: Exporter) -> Self {
        let queues = Queue::POOLS.into_iter().map(|queue| (queue, QueueMetrics::new(queue))).collect();
        Self { collector, exporter, queues, unsynced: Unsynced::new(), samples: 0 }
    }
}

impl Sample for Sampler {
    async fn sample(&mut self) {
        set_gauges(&self.collector, &self.queues, &mut self.unsynced).await;
        self.samples += 1;
        if self.samples.is_multiple_of(CLEANUP_INTERVAL) {
            keep_series(&self.collector, &self.exporter);
        }
    }
}

async fn set_gauges(collector: &CollectorStatus, metrics: &[(Queue, QueueMetrics)], reported: &mut Unsynced) {
    let pools = collector.pools(0).await;
    for (queue, metrics) in metrics {
        let Some((_, status)) = pools.iter().find(|(of, _)| of == queue) else { continue };
        metrics.sample(&status.sample);
    }
    collector.brake.sample(pools.iter().map(|(_, status)| status.braked).sum());
    collector.graph_queue.sample();
    // An error means that the process is ending.
    for (reason, tally) in collector.stuck_tallies().await.unwrap_or_default() {
        record::stuck(reason, tally.count, tally.oldest);
    }
    for (partition, status) in collector.partitions().await.unwrap_or_default().iter().enumerate() {
        record::graph(partition, &status.stats, status.unapplied_links);
    }
    let all = collector.registry.all();
    for state in MonitorState::ALL {
        record::monitors(state, all.iter().filter(|monitor| state_of(monitor) == state).count());
    }
    let unsynced: Unsynced = all
        .iter()
        .filter(|monitor| !monitor.is_up_to_date())
        .map(|monitor| (monitor.resource.group_resource.clone(), monitor.resource.version.clone()))
        .collect();
    // Only types that are or were unsynced have a series. A type that is gone needs none.
    for (resource, version) in reported.difference(&unsynced) {
        record::resource_synced(&resource.group, version, &resource.resource, true);
    }
    for (resource, version) in &unsynced {
        record::resource_synced(&resource.group, version, &resource.resource, false);
    }
    *reported = unsynced;
    // Repeated, because the exporter drops series that are not updated.
    for DiscoveryFailure { failure, .. } in collector.discovery().failing {
        record::undiscovered(&failure.group, failure.version.as_deref(), true);
    }
    record::lease_remaining(collector.gate.time_left().unwrap_or_default());
    record::ready(collector.is_ready());
    record::lease_age(collector.gate.lease_age().unwrap_or_default());
    record::tasks(Handle::current().metrics().num_alive_tasks());
    record::log_waiting(logging::waiting());
    record::absent_owner_entries(collector.absent_owners.absent.len());
    record::orphaned_owner_entries(collector.absent_owners.orphaned.len());
}

/// Keeps the series of watched types, and those without a watched type: discovery, and events.
fn keep_series(collector: &CollectorStatus, exporter: &Exporter) {
    let all = collector.registry.all();
    let watched: BTreeSet<String> =
        all.iter().map(|monitor| monitor.resource.group_resource.to_string()).collect();
    exporter.keep(|resource| matches!(resource, "" | "events") || watched.contains(resource));
}

const fn state_of(monitor: &registry::MonitorState) -> MonitorState {
    match monitor {
        monitor if monitor.draining => MonitorState::Draining,
        monitor if monitor.last_error.is_some() => MonitorState::Failing,
        monitor if monitor.synced => MonitorState::Synced,
        _ => MonitorState::Syncing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_gc_controller::actors::registry::Registry;
    use kube_gc_core::object::config_map;

    #[test]
    fn a_type_whose_watch_fails_counts_as_not_synced() {
        let registry = Registry::default();
        let resource = config_map("a", "x", "x").resource;
        let is_incomplete = || !registry.all().iter().all(registry::MonitorState::is_up_to_date);
        registry.started(&resource);
        assert!(is_incomplete());
        registry.synced(&resource.group_resource);
        assert!(!is_incomplete());
        registry.failed(&resource.group_resource, "403 Forbidden".to_owned());
        assert!(is_incomplete());
        registry.succeeded(&resource.group_resource);
        assert!(!is_incomplete());
    }
}
