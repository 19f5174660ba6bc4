//! The Metrics actor: samples what cannot be counted when it happens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, WrapFuture};
use tokio::runtime::Handle;

use crate::actors::discovery::DiscoveryFailure;
use crate::actors::registry;
use crate::actors::supervision::task;
use crate::introspect::status::CollectorStatus;
use crate::telemetry::{
    Exporter, GraphSize, MonitorState, Queue, QueueMetrics, QueueSample, logging, record,
};
use kube_gc_core::object::GroupResource;

/// The interval at which gauges are set. Prometheus scrapes less often.
const EVERY: Duration = Duration::from_secs(1);

/// Exports queue depths, the size of the graph and the state of the monitors.
#[derive(Debug)]
pub struct MetricsActor {
    collector: CollectorStatus,
    exporter: Exporter,
    queues: Arc<[(Queue, QueueMetrics)]>,
    unsynced: Unsynced,
    /// Samples until the series of types that are gone are removed.
    samples_until_cleanup: u32,
}

/// The number of samples after which the series of types that are gone are removed.
const CLEANUP_INTERVAL: u32 = 30;

/// Types that are reported as not synced, with their versions.
type Unsynced = BTreeSet<(GroupResource, Box<str>)>;

impl MetricsActor {
    /// An actor that samples this collector.
    #[must_use]
    pub fn new(collector: CollectorStatus, exporter: Exporter) -> Self {
        let queues = Queue::POOLS.into_iter().map(|queue| (queue, QueueMetrics::new(queue))).collect();
        Self {
            collector,
            exporter,
            queues,
            unsynced: Unsynced::new(),
            samples_until_cleanup: CLEANUP_INTERVAL,
        }
    }

    fn sample(&mut self, ctx: &mut Context<Self>) {
        let (collector, exporter) = (self.collector.clone(), self.exporter.clone());
        let queues = Arc::clone(&self.queues);
        let mut unsynced = std::mem::take(&mut self.unsynced);
        self.samples_until_cleanup = self.samples_until_cleanup.checked_sub(1).unwrap_or(CLEANUP_INTERVAL);
        let cleans_up = self.samples_until_cleanup == 0;
        let sampling = async move {
            let sampled = task(async move {
                set_gauges(&collector, &queues, &mut unsynced).await;
                if cleans_up {
                    keep_series(&collector, &exporter);
                }
                unsynced
            });
            sampled.await.unwrap_or_else(|error| {
                tracing::error!(%error, "cannot sample the metrics of queues, types and graph; kube-gc tries again");
                Unsynced::new()
            })
        };
        let sampling = sampling.into_actor(self).map(|unsynced, actor: &mut Self, ctx| {
            actor.unsynced = unsynced;
            // A delay, not a fixed schedule: samples that were missed during a pause are not made
            // up for.
            ctx.run_later(EVERY, Self::sample);
        });
        ctx.spawn(sampling);
    }
}

impl Actor for MetricsActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_later(EVERY, Self::sample);
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
    collector.brake().sample(pools.iter().map(|(_, status)| status.braked).sum());
    collector.graph_queue().sample();
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
    let all = collector.registry().all();
    for state in MonitorState::ALL {
        record::monitors(state, all.iter().filter(|monitor| state_of(monitor) == state).count());
    }
    let unsynced: Unsynced = all
        .iter()
        .filter(|monitor| is_incomplete(monitor))
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
    record::lease_remaining(collector.gate().time_left().unwrap_or_default());
    record::ready(collector.is_ready());
    record::lease_age(collector.gate().lease_age().unwrap_or_default());
    record::tasks(Handle::current().metrics().num_alive_tasks());
    record::log_waiting(logging::waiting());
    record::absent_owner_entries(collector.absent_owners().absent.len());
    record::orphaned_owner_entries(collector.absent_owners().orphaned.len());
}

/// Keeps the series of watched types, and those without a watched type: discovery, and events.
fn keep_series(collector: &CollectorStatus, exporter: &Exporter) {
    let all = collector.registry().all();
    let watched: BTreeSet<String> =
        all.iter().map(|monitor| monitor.resource.group_resource.to_string()).collect();
    exporter.keep(|resource| matches!(resource, "" | "events") || watched.contains(resource));
}

/// Whether the graph may lack changes of a type. A watch that cannot be opened counts, too: its
/// type may have been synced long ago.
const fn is_incomplete(monitor: &registry::MonitorState) -> bool {
    !monitor.synced || monitor.last_error.is_some()
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
    use crate::actors::registry::Registry;
    use crate::actors::tests::identity;

    #[test]
    fn a_type_whose_watch_fails_counts_as_not_synced() {
        let registry = Registry::default();
        let resource = identity("a", "x").resource;
        let is_incomplete = || registry.all().iter().any(is_incomplete);
        registry.started(&resource);
        assert!(is_incomplete());
        registry.synced(&resource.group_resource, None);
        assert!(!is_incomplete());
        registry.failed(&resource.group_resource, "403 Forbidden".to_owned());
        assert!(is_incomplete());
        registry.synced(&resource.group_resource, None);
        assert!(!is_incomplete());
    }
}
