//! The Node actor: looks at a node, plans, acts and records, again and again.
//!
//! It owns the collector of the node. A pass runs as a task that takes the collector along, so
//! passes never overlap.

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, ActorFutureExt, AsyncContext, Context, WrapFuture};
use futures::future::BoxFuture;
use kube_gc_core::object::{self, GroupResource, Identity, ResourceType, Uid};
use kube_gc_node::pass::Scope;
use kube_gc_node::plan::{Breakdown, What};
use kube_gc_node::pressure::Bytes;
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Api;
use crate::node::{
    NodeCollector, NodeError, NodeOptions, PassResult, Presence, Report, Saved, blocking, now,
};
use crate::telemetry::record;

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

/// A pass that has ended.
struct Passed {
    /// The node, for the next pass.
    node: Node,
    /// The plan and what came of it; nothing if the node could not be looked at.
    report: Option<Report>,
    /// Why not.
    error: Option<String>,
    /// Whether the limits of a pass have left something that another one can remove at once.
    more: bool,
}

/// Makes a pass. `last` is what the pass before has come to: the log does not repeat it.
async fn pass(
    mut node: Node,
    scope: Scope,
    events: Option<NodeEvents>,
    cancel: CancellationToken,
    last: NodeStatus,
) -> Passed {
    let start = Instant::now();
    let made = attempt(&mut node, scope, &cancel).await;
    let succeeded = made.as_ref().is_ok_and(is_success);
    for (name, is_in_scope) in
        [("containers", scope != Scope::Images), ("images", scope != Scope::Containers)]
    {
        if is_in_scope {
            record::node_pass(name, start.elapsed(), succeeded);
        }
    }
    match made {
        Ok(report) => {
            if last.error.is_some() {
                tracing::info!("the node can be looked at again");
            }
            summarize(&report, last.report.as_deref());
            if let Some(events) = events.filter(|_| report.dry_run.is_none()) {
                events.tell(&report).await;
            }
            let removed = report.result.as_ref().is_some_and(|result| result.removed > 0);
            let more = report.plan.more && removed;
            Passed { node, report: Some(report), error: None, more }
        }
        Err(error) => {
            let error = error.to_string();
            if last.error.as_ref() == Some(&error) {
                tracing::debug!(error, "the node still cannot be looked at");
            } else {
                tracing::warn!(error, "the node cannot be looked at; nothing is removed");
            }
            Passed { node, report: None, error: Some(error), more: false }
        }
    }
}

async fn attempt(node: &mut Node, scope: Scope, cancel: &CancellationToken) -> Result<Report, NodeError> {
    let mut look = node.collector.look(now()).await?;
    if !look.plan.removals.is_empty() && meets_kubelet(node).await {
        look = node.collector.look(now()).await?;
    }
    let Node { collector, options, saved } = node;
    saved.save(&options.state, collector.ledger());
    let report = Report::new(options, collector.runtime(), &look);
    measure(&report);
    if report.dry_run.is_some() {
        record::node_wanted(0);
        return Ok(report);
    }
    let carried = collector.carry_out(&look, scope, cancel).await?;
    if let Some(usage) = carried.usage {
        record::node_filesystem("free", usage.available);
    }
    // A pass of containers measures nothing, so it says nothing of what a pass of images has left.
    if scope != Scope::Containers || report.plan.goal.is_none() {
        record::node_wanted(carried.summary.missing.map_or(0, |missing| missing.bytes));
    }
    Ok(report.with(&carried))
}

/// Looks for a kubelet that has come since the start, before anything is removed (safety 3).
async fn meets_kubelet(node: &mut Node) -> bool {
    let mut options = node.options.clone();
    let looked = blocking(move || {
        let has_come = options.meets_kubelet();
        (has_come, options)
    });
    let options = match looked.await {
        Ok((false, _)) => return false,
        Ok((true, options)) => options,
        Err(error) => {
            let mut options = node.options.clone();
            // What cannot be ruled out counts as present.
            options.is_beside(Presence::Present { why: format!("whether one does is not known: {error}") });
            options
        }
    };
    tracing::warn!(beside_kubelet = ?options.beside, "a kubelet has come to this node");
    node.collector.set_rules(&options.rules);
    node.options = options;
    true
}

fn is_success(report: &Report) -> bool {
    report.result.as_ref().is_none_or(|result| result.failed == 0 && result.interrupted.is_none())
}

/// Records what fills the file system of the images.
fn measure(report: &Report) {
    let Breakdown { in_use, unused, kept, dead_containers, other } = report.plan.breakdown;
    let free = report.plan.usage.map_or(0, |usage| usage.available);
    for (state, bytes) in [
        ("in_use", in_use),
        ("unused", unused),
        ("kept", kept),
        ("dead_containers", dead_containers),
        ("other", other),
        ("free", free),
    ] {
        record::node_filesystem(state, bytes);
    }
}

/// Logs a pass in one line, and what the one before it did not say.
fn summarize(report: &Report, last: Option<&Report>) {
    let images = |report: &Report| report.plan.removed().filter(|entry| entry.what == What::Image).count();
    let counts = |report: &Report| (report.plan.removals.len(), images(report));
    match &report.result {
        None if last.map(counts) == Some(counts(report)) => tracing::debug!("dry run: the same plan again"),
        None => {
            let (planned, images) = counts(report);
            tracing::info!(planned, images, "dry run: /debug/node shows the plan");
        }
        Some(result) if result.items.is_empty() => tracing::debug!("nothing to remove"),
        Some(result) => tracing::info!(
            removed = result.removed,
            refused = result.refused,
            failed = result.failed,
            freed_bytes = result.freed_bytes,
            missing_bytes = result.missing_bytes,
            seconds = result.seconds,
            "pass ended"
        ),
    }
    // Without an API server, no event says it.
    if let Some(missing) = report.result.as_ref().and_then(|result| missing(report, result)) {
        tracing::warn!("{missing}");
    }
    let known = last.map(|last| last.notes.as_slice()).unwrap_or_default();
    for note in report.notes.iter().filter(|note| !known.contains(note)) {
        tracing::warn!("{note}");
    }
}

/// Tells what could not be removed or freed, by events about the node.
#[derive(Clone, Debug)]
pub struct NodeEvents {
    api: Api,
    node: Identity,
}

impl NodeEvents {
    /// Events about the node of this name; nothing if no node can have it.
    pub fn new(api: Api, name: &str) -> Option<Self> {
        let resource = Arc::new(ResourceType {
            group_resource: GroupResource::new("", "nodes"),
            version: "v1".into(),
            kind: "Node".into(),
            scope: object::Scope::Cluster,
        });
        // As the kubelet's own events have it: kubectl finds them by this uid.
        let uid = Uid::parse(name)?;
        Some(Self { api, node: Identity { resource, namespace: None, name: name.into(), uid } })
    }

    /// Tells what a pass could not do.
    async fn tell(&self, report: &Report) {
        let Some(result) = &report.result else { return };
        let failed = |images: bool| failure(result, |what| (what == What::Image) == images);
        let messages = [
            ("FreeDiskSpaceFailed", missing(report, result)),
            ("ImageGCFailed", failed(true)),
            ("ContainerGCFailed", failed(false)),
        ];
        for (reason, message) in messages {
            let Some(message) = message else { continue };
            if let Err(error) = self.api.warn(&self.node, reason, &message).await {
                tracing::debug!(%error, reason, "an event could not be recorded");
            }
        }
    }
}

/// What could not be freed, and what fills the file system (B9).
fn missing(report: &Report, result: &PassResult) -> Option<String> {
    let PassResult { freed_bytes, missing_bytes, missing_inodes, .. } = *result;
    if missing_bytes == 0 && missing_inodes == 0 {
        return None;
    }
    let Breakdown { in_use, unused, kept, dead_containers, other } = report.plan.breakdown;
    let inodes = if missing_inodes > 0 { format!(" and {missing_inodes} inodes") } else { String::new() };
    Some(format!(
        "Freed {} on the file system of the images; {}{inodes} are still missing. Images in use have {}, unused {}, \
         kept {}, dead containers {}, the rest {}",
        Bytes(freed_bytes),
        Bytes(missing_bytes),
        Bytes(in_use),
        Bytes(unused),
        Bytes(kept),
        Bytes(dead_containers),
        Bytes(other),
    ))
}

/// How many items could not be removed, and the first reason.
fn failure(result: &PassResult, counts: impl Fn(What) -> bool) -> Option<String> {
    let mut failed = result.items.iter().filter(|item| item.outcome == "failed" && counts(item.what));
    let first = failed.next()?;
    let reason = first.reason.as_deref().unwrap_or_default();
    Some(format!("{} could not be removed; the first: {}: {reason}", 1 + failed.count(), first.id))
}
