//! The Node actor: looks at a node, plans, acts and records, again and again.
//!
//! It owns the collector of the node. A pass runs as a task that takes the collector along, so
//! passes never overlap.

mod events;
mod pass;

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, WrapFuture};
use futures::future::BoxFuture;
use kube_gc_node::pass::Scope;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use events::NodeEvents;
use pass::{Passed, pass};

use crate::node::{NodeCollector, NodeOptions, Report, Saved};

/// What the actor needs.
#[derive(Debug)]
pub struct NodeContext {
    /// Where failures are reported; nothing without an API server.
    pub events: Option<NodeEvents>,
    /// Where the last pass is published.
    pub status: watch::Sender<NodeStatus>,
    /// Ends a pass after the removal in progress.
    pub cancel: CancellationToken,
    /// The passes under way: at most one.
    pub passes: TaskTracker,
    /// Cancelled if a pass fails unexpectedly.
    pub broken: CancellationToken,
}

/// What the last pass has come to.
#[derive(Clone, Debug, Default)]
pub struct NodeStatus {
    /// The last plan, and what came of it.
    pub report: Option<Arc<Report>>,
    /// Why the node cannot be looked at now.
    pub error: Option<String>,
}

/// One node, and how it is collected.
#[derive(Debug)]
struct Node {
    collector: NodeCollector,
    options: NodeOptions,
    saved: Saved,
}

/// Collects one node.
#[derive(Debug)]
pub struct NodeActor {
    context: NodeContext,
    /// Absent during a pass.
    node: Option<Node>,
    containers_due: Instant,
    images_due: Instant,
}

impl NodeActor {
    /// An actor that begins with a pass of everything.
    #[must_use]
    pub fn new(context: NodeContext, options: NodeOptions, collector: NodeCollector) -> Self {
        let now = Instant::now();
        Self {
            context,
            node: Some(Node { collector, options, saved: Saved::default() }),
            containers_due: now,
            images_due: now,
        }
    }

    /// Begins the pass that is due, or waits for it.
    fn proceed(&mut self, ctx: &mut Context<Self>) {
        let now = Instant::now();
        let (containers, images) = (self.containers_due <= now, self.images_due <= now);
        let scope = match (containers, images) {
            (true, true) => Scope::All,
            (true, false) => Scope::Containers,
            (false, true) => Scope::Images,
            (false, false) => {
                let due = self.containers_due.min(self.images_due);
                ctx.run_later(due - now, Self::proceed);
                return;
            }
        };
        let Some(node) = self.node.take() else { return };
        if self.context.cancel.is_cancelled() {
            return;
        }
        let rules = node.collector.rules();
        let (container_period, image_period) = (rules.containers.period, rules.images.period);
        let NodeContext { events, status, cancel, passes, .. } = &self.context;
        let last = status.borrow().clone();
        let task: BoxFuture<'static, Passed> =
            Box::pin(pass(node, scope, events.clone(), cancel.clone(), last));
        let task = passes.spawn(task);
        ctx.spawn(task.into_actor(self).map(move |ended, actor: &mut Self, ctx| {
            let more = actor.ended(ended);
            let now = Instant::now();
            let next = |period: Duration| if more { now } else { now + period };
            if scope != Scope::Images {
                actor.containers_due = next(container_period);
            }
            if scope != Scope::Containers {
                actor.images_due = next(image_period);
            }
            actor.proceed(ctx);
        }));
    }

    /// Publishes what came of a pass. Returns whether another one is to follow at once.
    fn ended(&mut self, ended: Result<Passed, JoinError>) -> bool {
        match ended {
            Ok(Passed { node, report, error, more }) => {
                self.node = Some(node);
                self.context.status.send_modify(|status| {
                    status.error = error;
                    if report.is_some() {
                        status.report = report.map(Arc::new);
                    }
                });
                more
            }
            Err(error) => {
                tracing::error!(%error, "a pass failed unexpectedly; restart kube-gc");
                self.context.broken.cancel();
                false
            }
        }
    }
}

impl Actor for NodeActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.proceed(ctx);
    }
}
