//! The Monitor actor: watches one resource type and feeds the graph.

use std::sync::Arc;
use std::time::Duration;

use actix::{
    Actor, ActorContext, ActorFutureExt, Addr, AsyncContext, Context, Handler, Recipient, ResponseFuture,
    WrapFuture,
};
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use crate::actors::graph_handle::{GraphHandle, PartitionEnded};
use crate::actors::graph_queue::GraphQueue;
use crate::actors::messages::{
    Drain, MonitorDrained, ServedTypesChanged, Stop, StoreRestored, SyncChanged, TypesListed,
};
use crate::actors::registry::Registry;
use crate::actors::supervision::Placement;
use crate::api::{Api, HighWater, Phase};
use crate::telemetry::record;
use kube_gc_core::graph::{DeletesProve, Epoch};
use kube_gc_core::object::ResourceType;

mod feed;
mod progress;
mod trouble;

use feed::{Fed, Feed, Subject};

/// How long a monitor that failed unexpectedly waits: what it failed at may be
/// there again.
const RESTART_AFTER: Duration = Duration::from_secs(5);

/// What every monitor needs.
#[derive(Debug, Clone)]
pub struct MonitorContext {
    /// The API server.
    pub api: Api,
    /// The graph.
    pub graph: GraphHandle,
    /// Counts what is on its way into the graph.
    pub graph_queue: GraphQueue,
    /// The last version seen of every type; outlives the monitors.
    pub high_water: HighWater,
    /// Where it says how it is doing.
    pub registry: Registry,
    /// Where its list and watch runs.
    pub placement: Placement,
    /// Whom it tells that it is synced, or no longer.
    pub synced: Recipient<SyncChanged>,
    /// Whom it tells that it has been drained.
    pub drained: Recipient<MonitorDrained>,
    /// Whom it tells that other types may be served now.
    pub types_changed: Recipient<ServedTypesChanged>,
    /// Whom it tells which types are defined.
    pub types_listed: Recipient<TypesListed>,
    /// Whom it tells that the store went back in time.
    pub restored: Recipient<StoreRestored>,
}

/// Watches one type, for one epoch. Thin: the list and watch runs as a task on other
/// threads, and the actor notices when it ends.
#[derive(Debug)]
pub struct Monitor {
    context: MonitorContext,
    resource: Arc<ResourceType>,
    epoch: Epoch,
    deletes_prove: DeletesProve,
    draining: watch::Sender<bool>,
    ending: CancellationToken,
    ended: CancellationToken,
}

impl Monitor {
    /// Starts a monitor.
    #[must_use]
    pub fn start(
        context: MonitorContext,
        resource: Arc<ResourceType>,
        epoch: Epoch,
        deletes_prove: DeletesProve,
    ) -> Addr<Self> {
        let (draining, _) = watch::channel(false);
        let (ending, ended) = (CancellationToken::new(), CancellationToken::new());
        Actor::start(Self { context, resource, epoch, deletes_prove, draining, ending, ended })
    }

    fn run(&self, ctx: &mut Context<Self>) {
        let subject = Subject {
            context: self.context.clone(),
            resource: Arc::clone(&self.resource),
            epoch: self.epoch,
            deletes_prove: self.deletes_prove,
            draining: self.draining.subscribe(),
        };
        let task = follow(self.context.placement.clone(), self.ending.clone(), subject);
        ctx.spawn(task.into_actor(self).map(|ended, monitor, ctx| match ended {
            // Or the graph has ended, and the process is about to.
            Ok(Ended::Stopped | Ended::ByTheGraph) => ctx.stop(),
            Ok(Ended::Drained) => {
                monitor.context.registry.ended(&monitor.resource.group_resource);
                monitor
                    .context
                    .drained
                    .do_send(MonitorDrained(monitor.resource.group_resource.clone(), monitor.epoch));
                ctx.stop();
            }
            Err(error) => {
                record::monitor_restarted();
                let resource = &monitor.resource.group_resource;
                tracing::error!(%resource, %error, "monitor failed; it starts anew");
                monitor.context.registry.failed(resource, format!("the monitor failed: {error}"));
                ctx.run_later(RESTART_AFTER, |monitor, ctx| monitor.run(ctx));
            }
        }));
    }
}

impl Actor for Monitor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.context.registry.started(&self.resource);
        self.run(ctx);
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.ending.cancel();
        self.ended.cancel();
    }
}

impl Handler<Drain> for Monitor {
    type Result = ();

    fn handle(&mut self, Drain: Drain, _: &mut Self::Context) {
        self.context.registry.update(&self.resource.group_resource, |state| state.draining = true);
        self.draining.send_replace(true);
    }
}

impl Handler<Stop> for Monitor {
    type Result = ResponseFuture<()>;

    fn handle(&mut self, Stop: Stop, _: &mut Self::Context) -> Self::Result {
        self.ending.cancel();
        Box::pin(self.ended.clone().cancelled_owned())
    }
}

/// How the following of a type has ended.
enum Ended {
    /// From outside.
    Stopped,
    Drained,
    ByTheGraph,
}

/// Follows a type, each phase on the thread that is for it, until that has ended.
///
/// # Errors
/// When it panicked.
async fn follow(
    placement: Placement,
    ending: CancellationToken,
    subject: Subject,
) -> Result<Ended, JoinError> {
    let begin = async move { Feed::begin(subject).await?.go_on(Phase::List).await };
    let mut under_way = placement.monitor(Phase::List, ending.clone().run_until_cancelled_owned(begin));
    loop {
        under_way = match under_way.await? {
            Some(Ok(Fed::Turned(phase, feed))) => {
                placement.monitor(phase, ending.clone().run_until_cancelled_owned(feed.go_on(phase)))
            }
            Some(Ok(Fed::Drained)) => return Ok(Ended::Drained),
            Some(Err(PartitionEnded)) => return Ok(Ended::ByTheGraph),
            None => return Ok(Ended::Stopped),
        };
    }
}
