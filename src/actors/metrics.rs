//! The Metrics actor: samples what cannot be counted as it happens.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, WrapFuture};
use tokio::runtime::Handle;

use crate::actors::discovery::Failing;
use crate::actors::supervision::task;
use crate::introspect::status::CollectorStatus;
use crate::telemetry::{
    Exporter, GraphSize, MonitorState, Queue, QueueMetrics, QueueSample, logging, record,
};
use kube_gc_core::object::GroupResource;

/// How often the gauges are set. Prometheus scrapes less often than this.
const EVERY: Duration = Duration::from_secs(1);

/// Exports queue depths, the size of the graph and the state of the monitors.
#[derive(Debug)]
pub struct MetricsActor {
    collector: CollectorStatus,
    exporter: Exporter,
    queues: Arc<[(Queue, QueueMetrics)]>,
    unsynced: Unsynced,
    /// Samples until the next look at what is still watched.
    tidies_in: u32,
}

/// Every so many samples it is seen to that series of types that are gone end.
const TIDY_EVERY: u32 = 30;

/// Types that are reported as not synced, with their version.
type Unsynced = BTreeSet<(GroupResource, Box<str>)>;

impl MetricsActor {
    /// Samples this collector.
    #[must_use]
    pub fn new(collector: CollectorStatus, exporter: Exporter) -> Self {
        let queues = Queue::POOLS.into_iter().map(|queue| (queue, QueueMetrics::new(queue))).collect();
        Self { collector, exporter, queues, unsynced: Unsynced::new(), tidies_in: TIDY_EVERY }
    }

    fn sample(&mut self, ctx: &mut Context<Self>) {
        let (collector, exporter) = (self.collector.clone(), self.exporter.clone());
        let queues = Arc::clone(&self.queues);
        let mut unsynced = std::mem::take(&mut self.unsynced);
        self.tidies_in = self.tidies_in.checked_sub(1).unwrap_or(TIDY_EVERY);
        let tidies = self.tidies_in == 0;
        let sampling = async move {
            let sampled = task(async move {
                set_gauges(&collector, &queues, &mut unsynced).await;
                if tidies {
                    keep_series(&collector, &exporter);
                }
                unsynced
            });
            sampled.await.unwrap_or_else(|error| {
                tracing::error!(%error, "metrics could not be sampled");
                Unsynced::new()
            })
        };
        let sampling = sampling.into_actor(self).map(|unsynced, actor: &mut Self, ctx| {
            actor.unsynced = unsynced;
            // From here on, and not at fixed times: after a pause nothing is to be made up for.
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
    collector.brake().sample(pools.iter().map(|(_, status)| status.held).sum());
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
        .filter(|monitor| !monitor.synced)
        .map(|monitor| (monitor.resource.group_resource.clone(), monitor.resource.version.clone()))
        .collect();
    // Only types that are, or were, unsynced have a series; one that is gone is
    // nobody's problem any more.
    for (resource, version) in reported.difference(&unsynced) {
        record::resource_synced(&resource.group, version, &resource.resource, true);
    }
    for (resource, version) in &unsynced {
        record::resource_synced(&resource.group, version, &resource.resource, false);
    }
    *reported = unsynced;
    // Again and again, or their series would fall asleep.
    for Failing { failure, .. } in collector.discovery().failing {
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

/// The series of types that are watched stay, and of what is no resource type of the
/// graph: discovery, and the events that are written.
fn keep_series(collector: &CollectorStatus, exporter: &Exporter) {
    let all = collector.registry().all();
    let watched: BTreeSet<String> =
        all.iter().map(|monitor| monitor.resource.group_resource.to_string()).collect();
    exporter.keep(|resource| matches!(resource, "" | "events") || watched.contains(resource));
}

const fn state_of(monitor: &super::registry::MonitorState) -> MonitorState {
    match monitor {
        monitor if monitor.draining => MonitorState::Draining,
        monitor if monitor.last_error.is_some() => MonitorState::Failing,
        monitor if monitor.synced => MonitorState::Synced,
        _ => MonitorState::Syncing,
    }
}
