//! The Monitor actor: watches one resource type and feeds the graph.

mod feed;

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
use crate::actors::messages::DiscoveryMessage;
use crate::actors::registry::Registry;
use crate::actors::supervision::Placement;
use kube_gc_client::{Api, Phase};
use kube_gc_core::graph::{DeletesProve, Epoch};
use kube_gc_core::object::ResourceType;
use kube_gc_observe::telemetry::record;

use feed::{Feed, FeedEnd};

/// The delay after which a monitor that panicked starts again. The cause may have passed by then.
const RESTART_AFTER: Duration = Duration::from_secs(5);

/// What every monitor needs.
#[derive(Clone, Debug)]
pub struct MonitorContext {
    pub api: Api,
    pub graph: GraphHandle,
    /// Counts the changes that wait for the graph.
    pub graph_queue: GraphQueue,
    pub registry: Registry,
    pub placement: Placement,
}

/// What a monitor watches, in which epoch, and what it needs for that.
#[derive(Debug, Clone)]
pub struct Subject {
    /// What every monitor needs.
    pub context: MonitorContext,
    /// Learns what the monitor sees of the served types, and how it is.
    pub discovery: Recipient<DiscoveryMessage>,
    pub resource: Arc<ResourceType>,
    pub epoch: Epoch,
    pub deletes_prove: DeletesProve,
}

messages!(Drain => (), Stop => ());

/// The type is no longer served: end when the watch ends, after 30 s at the latest.
#[derive(Debug)]
pub struct Drain;

/// End at once. Answered when its watch is closed.
#[derive(Debug)]
pub struct Stop;

/// Watches one type, for one epoch. The list and watch run as a task on other threads; the actor
/// notices when the task ends.
#[derive(Debug)]
pub struct Monitor {
    subject: Subject,
    draining: watch::Sender<bool>,
    ending: CancellationToken,
    ended: CancellationToken,
}

impl Monitor {
    pub fn start(subject: Subject) -> Addr<Self> {
        let (draining, _) = watch::channel(false);
        let (ending, ended) = (CancellationToken::new(), CancellationToken::new());
        Actor::start(Self { subject, draining, ending, ended })
    }

    fn run(&self, ctx: &mut Context<Self>) {
        let task = follow(self.ending.clone(), self.subject.clone(), self.draining.subscribe());
        ctx.spawn(task.into_actor(self).map(|ended, monitor, ctx| match ended {
            Ok(Ended::Stopped) => ctx.stop(),
            Ok(Ended::Drained) => {
                let Subject { context, discovery, resource, epoch, .. } = &monitor.subject;
                context.registry.ended(&resource.group_resource);
                let drained = DiscoveryMessage::MonitorDrained(resource.group_resource.clone(), *epoch);
                discovery.do_send(drained);
                ctx.stop();
            }
            Err(error) => {
                record::monitor_restarted();
                let resource = &monitor.subject.resource.group_resource;
                tracing::error!(%resource, %error, "the monitor of this type failed unexpectedly; it is restarted");
                monitor.subject.context.registry.failed(resource, format!("the monitor failed: {error}"));
                ctx.run_later(RESTART_AFTER, |monitor, ctx| monitor.run(ctx));
            }
        }));
    }
}

impl Actor for Monitor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.subject.context.registry.started(&self.subject.resource);
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
        let Subject { context, resource, .. } = &self.subject;
        context.registry.update(&resource.group_resource, |state| state.draining = true);
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

/// How the task of a monitor ended.
enum Ended {
    /// From outside, or because the graph took no more events: the process is about to end.
    Stopped,
    Drained,
}

/// Lists and watches a type, each phase on its own thread, until it ends.
///
/// # Errors
/// When the task panicked.
async fn follow(
    ending: CancellationToken,
    subject: Subject,
    draining: watch::Receiver<bool>,
) -> Result<Ended, JoinError> {
    let placement = subject.context.placement.clone();
    let begin = async move { Feed::begin(subject, draining).await?.run(Phase::List).await };
    let mut running = placement.monitor(Phase::List, ending.clone().run_until_cancelled_owned(begin));
    loop {
        running = match running.await? {
            Some(Ok(FeedEnd::PhaseChanged(phase, feed))) => {
                placement.monitor(phase, ending.clone().run_until_cancelled_owned(feed.run(phase)))
            }
            Some(Ok(FeedEnd::Drained)) => return Ok(Ended::Drained),
            Some(Err(PartitionEnded)) | None => return Ok(Ended::Stopped),
        };
    }
}
