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
use kube_gc_controller::actors::pool::{AskPool, Only, Pool, PoolStatus};
use kube_gc_controller::actors::registry;
use kube_gc_controller::actors::registry::Registry;
use kube_gc_controller::worker::brake::Brake;
use kube_gc_controller::worker::comparison::Comparison;
use kube_gc_controller::worker::delete::DeleteWork;
use kube_gc_controller::worker::orphan::OrphanWork;
use kube_gc_core::graph::Below;
use kube_gc_core::object::{GroupResource, Key, Namespace};
use kube_gc_observe::telemetry::{
    Exporter, GraphSize, MonitorState, Queue, QueueMetrics, QueueSample, logging, record,
};

use super::queries::IdleQuery;
use super::view::{IdleReport, QueueCounts};

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
    pub(crate) rediscover: Recipient<DiscoveryMessage>,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) gate: WriteGate,
    pub(crate) comparison: Option<Comparison>,
    /// The types that are not in the graph, because the settings say so; without events.
    pub(crate) ignored: Arc<[GroupResource]>,
    /// The same, with events.
    pub(crate) unwatched: Arc<[GroupResource]>,
}

/// Whether versions of a type will be seen.
#[derive(Debug, PartialEq, Eq)]
pub enum Sought {
    /// This type is watched.
    Watched(GroupResource),
    /// It may be watched soon.
    Coming,
    /// The last discovery has not shown it.
    Unserved,
    /// They will never be, for this reason.
    Never(String),
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

    async fn ask_pools(&self, ask: AskPool) -> Vec<(Queue, PoolStatus)> {
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

    /// Whether versions of a type will be seen. The group may be left out if only one type has this plural.
    pub fn sought(&self, resource: &GroupResource) -> Sought {
        let meant = self.registry.meant(resource);
        match &meant[..] {
            [meant] => return Sought::Watched(meant.clone()),
            [one, another, ..] => {
                let why = format!("{resource} may mean {one} or {another}; name the group, too");
                return Sought::Never(why);
            }
            [] => {}
        }
        if self.unwatched.iter().any(|unwatched| resource.may_mean(unwatched)) {
            return Sought::Never(format!("the collector ignores {resource} (`discovery.ignored`)"));
        }
        let discovery = self.discovery.borrow();
        let may_be_hidden = discovery.failing.iter().any(|failing| failing.may_hide(resource));
        // The monitor of a type that was discovered just now is about to start.
        let mut watchable = discovery.discovered.iter().flat_map(|discovered| &discovered.watchable);
        let is_about_to_be = watchable.any(|watchable| resource.may_mean(&watchable.resource.group_resource));
        let may_come = discovery.discovered.is_none() || may_be_hidden || is_about_to_be;
        if may_come || !self.is_collecting() { Sought::Coming } else { Sought::Unserved }
    }

    /// Whether the collector has seen these versions and has nothing left to do.
    ///
    /// The order matters: first the monitors, then the graph, then the pools. Changes that a
    /// monitor reports as applied are in the graph, and keys that follow from them are in a pool.
    /// Terminating namespaces are around all of it: their events come before those of the graph, and
    /// the graph expects what the work on them writes before that work ends.
    pub async fn idleness(&self, query: &IdleQuery) -> IdleReport {
        let changes = self.registry.terminating().changes();
        let mut reasons = self.unsettled(query);
        let (mut not_seen, mut unknown) = (Vec::new(), None);
        for (resource, version) in &query.seen {
            match self.sought(resource) {
                Sought::Watched(meant) if self.registry.has_applied(&meant, version) => continue,
                Sought::Watched(_) => {}
                Sought::Never(why) => unknown = Some(why),
                Sought::Coming | Sought::Unserved => reasons.push(not_watched(resource)),
            }
            not_seen.push((resource.clone(), version.clone()));
        }
        let left = self.work_left(query, changes, &mut reasons, &mut unknown).await;
        let (pools, unseen_writes) = left.unwrap_or_else(|error| {
            reasons.push(error.to_string());
            (Vec::new(), 0)
        });
        reasons.extend(unknown.clone());
        let queues = pools.iter().map(|(queue, status)| (queue.name().to_owned(), counts(status))).collect();
        let report = IdleReport::judge(query, queues, unseen_writes, &not_seen, reasons);
        IdleReport { unknown, ..report }
    }

    /// The pools, and how many own writes the watches have not shown.
    ///
    /// The pools are asked before the graph, too: no worker may have ended its work after the graph was
    /// asked, because the graph did not expect the event of its write yet. Only the graph knows the keys
    /// below an owner, so it is asked twice: work on one that came and ended meanwhile changes the answer.
    async fn work_left(
        &self,
        query: &IdleQuery,
        changes: u64,
        reasons: &mut Vec<String>,
        unknown: &mut Option<String>,
    ) -> Result<(Vec<(Queue, PoolStatus)>, usize), PartitionEnded> {
        let (only, below) = self.concern(query).await?;
        let ask = AskPool { only: only.clone(), ..AskPool::default() };
        let before = self.ask_pools(ask.clone()).await;
        let unseen = if let Some(only) = only.clone() {
            self.graph.ask_all(move |graph, _| graph.unseen_writes_in(&only.namespaces)).await?
        } else {
            self.partitions().await?.iter().map(|partition| partition.stats.unseen_writes).collect()
        };
        let unseen_writes = below.unseen_writes + unseen.into_iter().sum::<usize>();
        // Whatever the graph was told before is applied now, and the keys that follow from it are in a pool.
        self.graph.fence().await?;
        if let Some(owner) = &query.owner {
            if below.is_cut_off {
                reasons.push("too many objects are below the owner; ask for its namespace".to_owned());
            }
            if self.graph.below(owner).await? != below {
                reasons.push("objects below the owner changed during the look".to_owned());
            }
            if below.keys.is_empty() && !owner.is_usual() && self.is_collecting() {
                *unknown = Some(format!(
                    "{:?} is no uid of an object; pass metadata.uid of the owner",
                    owner.shown()
                ));
            }
        }
        let pools = self.ask_pools(ask).await;
        if !rested(&before, &pools) {
            reasons.push("workers were at work during the look".to_owned());
        }
        if self.finishes(only.as_deref()).await? || self.registry.terminating().changes() != changes {
            reasons.push("namespaces, or claims and volumes, are being finished".to_owned());
        }
        Ok((pools, unseen_writes))
    }

    /// The keys that concern who asks, `None` for all, and what is below an owner.
    async fn concern(&self, query: &IdleQuery) -> Result<(Option<Arc<Only>>, Below), PartitionEnded> {
        let (mut only, mut below) = (Only::default(), Below::default());
        if let Some(owner) = &query.owner {
            below = self.graph.below(owner).await?;
            only.keys = below.keys.iter().map(|(key, _)| key.clone()).collect();
            // A namespace goes when its content has.
            let is_namespace =
                |key: &&Key| key.resource.group_resource == GroupResource::new("", "namespaces");
            let namespaces: Vec<Key> = only.keys.iter().filter(is_namespace).cloned().collect();
            let named = self.graph.identify_all(&namespaces).await?.into_iter().flatten();
            only.namespaces = named.map(|namespace| Namespace::parse(&namespace.name)).collect();
        } else if let Some(namespace) = &query.namespace {
            // Objects without a namespace may have dependents in any.
            only.namespaces = [None, Some(namespace.clone())].into();
        } else {
            return Ok((None, below));
        }
        Ok((Some(Arc::new(only)), below))
    }

    /// Whether there is work on terminating namespaces, claims or volumes that concerns who asks about these
    /// keys. That on claims and volumes may concern everybody, and that on a namespace with dependents every
    /// namespace.
    async fn finishes(&self, only: Option<&Only>) -> Result<bool, PartitionEnded> {
        for (of, uid) in self.registry.terminating().busy() {
            let (Some(only), Some(name), Some(uid)) = (only, of.namespace(), uid) else { return Ok(true) };
            let is_of_namespace = only.namespaces.contains(&None);
            if only.touches(name) || (is_of_namespace && self.graph.below(&uid).await?.keys.len() > 1) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// What is still starting or stopping.
    fn unsettled(&self, IdleQuery { namespace, owner, .. }: &IdleQuery) -> Vec<String> {
        let mut reasons = Vec::new();
        let is_all = namespace.is_none() && owner.is_none();
        for monitor in self.registry.all() {
            let resource = &monitor.resource.group_resource;
            if monitor.draining {
                reasons.push(format!("{resource} is being drained"));
            } else if !monitor.synced && monitor.last_error.is_none() {
                reasons.push(format!("{resource} is not synced yet"));
            }
        }
        // Changes of other objects, and new types, may always be under way. That those that matter have been
        // applied, the versions in the query show.
        let changes = if is_all { self.graph_queue.len() } else { 0 };
        if changes > 0 {
            reasons.push(format!("{changes} changes have not been applied to the graph yet"));
        }
        if is_all && self.discovery.borrow().busy {
            reasons.push("discovery is in progress".to_owned());
        }
        if !self.is_collecting() {
            reasons.push("the workers have not started".to_owned());
        }
        reasons
    }
}

/// Why versions of a type are not seen.
pub(super) fn not_watched(resource: &GroupResource) -> String {
    format!("no type {resource} is watched; a type is named RESOURCE.GROUP, in the plural")
}

/// Whether no worker worked between two looks at the pools. Each start of a worker follows the
/// addition of a key, or the end of a delay.
fn rested(before: &[(Queue, PoolStatus)], after: &[(Queue, PoolStatus)]) -> bool {
    let began = |pools: &[(Queue, PoolStatus)]| -> Vec<_> {
        pools.iter().map(|(_, status)| (status.adds, status.delayed + status.parked)).collect()
    };
    let is_at_rest = |(_, status): &(Queue, PoolStatus)| status.ready + status.processing == 0;
    before.len() == POOLS
        && after.len() == POOLS
        && before.iter().all(is_at_rest)
        && began(before) == began(after)
}

/// The number of keys of a pool in each state.
pub(crate) const fn counts(status: &PoolStatus) -> QueueCounts {
    let PoolStatus { ready, processing, delayed, parked, .. } = *status;
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
        metrics.sample(&QueueSample {
            ready: status.ready,
            processing: status.processing,
            delayed: status.delayed,
            parked: status.parked,
            error_bytes: status.error_bytes,
            unfinished: status.unfinished,
            longest_running: status.longest_running,
        });
    }
    collector.brake.sample(pools.iter().map(|(_, status)| status.braked).sum());
    collector.graph_queue.sample();
    // An error means that the process is ending.
    for (reason, tally) in collector.stuck_tallies().await.unwrap_or_default() {
        record::stuck(reason, tally.count, tally.oldest);
    }
    for (partition, status) in collector.partitions().await.unwrap_or_default().iter().enumerate() {
        record::graph(
            partition,
            &GraphSize {
                nodes: status.stats.nodes,
                virtual_nodes: status.stats.virtual_nodes,
                edges: status.stats.edges,
                bytes: status.stats.bytes,
                unresolved: status.stats.unresolved,
                outbox: status.outbox,
            },
        );
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

    /// The answer to a DELETE may come after the graph was asked and before the pools are.
    #[test]
    fn a_worker_that_ended_its_work_during_a_look_counts_as_busy() {
        let look = |delete: PoolStatus| -> Vec<_> {
            Queue::POOLS
                .into_iter()
                .map(|queue| {
                    (
                        queue,
                        if queue == Queue::AttemptToDelete { delete.clone() } else { PoolStatus::default() },
                    )
                })
                .collect()
        };
        let at_rest = look(PoolStatus { adds: 1, ..PoolStatus::default() });
        assert!(rested(&at_rest, &at_rest));
        let at_work = look(PoolStatus { adds: 1, processing: 1, ..PoolStatus::default() });
        assert!(!rested(&at_work, &at_rest), "it was in progress");
        let more = look(PoolStatus { adds: 2, ..PoolStatus::default() });
        assert!(!rested(&at_rest, &more), "it was queued and done in between");
        let delayed = look(PoolStatus { adds: 1, delayed: 1, ..PoolStatus::default() });
        assert!(!rested(&delayed, &at_rest), "of single keys, additions are not counted");
        assert!(!rested(&at_rest, &[]), "a pool has ended");
    }

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
