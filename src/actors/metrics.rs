//! The Metrics actor: samples what cannot be counted as it happens.

use std::time::Duration;

use actix::{Actor, AsyncContext, Context, ContextFutureSpawner, WrapFuture};

use super::view::View;
use crate::telemetry::{self, MetricsHandle, PartitionGauges, Queue, QueueGauges};

/// How often the gauges are set. Prometheus scrapes less often than this.
const EVERY: Duration = Duration::from_secs(1);

/// Exports queue depths, the size of the graph and the state of the monitors.
#[derive(Debug)]
pub struct MetricsActor {
    view: View,
    handle: MetricsHandle,
}

impl MetricsActor {
    /// Samples this view.
    #[must_use]
    pub const fn new(view: View, handle: MetricsHandle) -> Self {
        Self { view, handle }
    }

    fn sample(&mut self, ctx: &mut Context<Self>) {
        let (view, handle) = (self.view.clone(), self.handle.clone());
        let sampling = async move {
            // On the thread pool: histograms are compacted here.
            let sampled = tokio::spawn(async move {
                set_gauges(&view).await;
                handle.run_upkeep();
            });
            if let Err(error) = sampled.await {
                tracing::error!(%error, "metrics could not be sampled");
            }
        };
        sampling.into_actor(self).wait(ctx);
    }
}

impl Actor for MetricsActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.run_interval(EVERY, Self::sample);
    }
}

async fn set_gauges(view: &View) {
    for (queue, status) in view.pools(0).await {
        telemetry::set_queue_gauges(
            queue,
            QueueGauges {
                depth: status.ready,
                processing: status.processing,
                delayed: status.delayed,
                parked: status.parked,
                unfinished: status.unfinished,
                longest_running: status.longest_running,
            },
        );
    }
    let Ok(partitions) = view.partitions().await else { return };
    let waiting: usize = partitions.iter().map(|partition| partition.outbox).sum();
    telemetry::set_queue_gauges(Queue::GraphChanges, QueueGauges { depth: waiting, ..QueueGauges::default() });
    for (id, partition) in partitions.iter().enumerate() {
        telemetry::set_partition_gauges(
            id,
            PartitionGauges {
                nodes: partition.stats.nodes,
                virtual_nodes: partition.stats.virtual_nodes,
                edges: partition.stats.edges,
                bytes: partition.stats.bytes,
            },
        );
    }
    let monitors = view.registry().all();
    let synced = monitors.iter().filter(|monitor| monitor.synced).count();
    telemetry::set_monitors(synced, monitors.len() - synced);
    for monitor in &monitors {
        telemetry::set_monitor_failing(&monitor.resource.group_resource, monitor.last_error.is_some());
    }
    telemetry::set_remembered(view.memory().absent.len(), view.memory().orphaned.len());
}
