//! The loop of a node: looks at it, plans, acts and records, again and again. Passes never overlap.

use std::sync::Arc;
use std::time::Duration;

use kube_gc_core::object::{self, GroupResource, Identity, ResourceType, Uid};
use kube_gc_node::pass::{Outcome, Scope};
use kube_gc_node::plan::{Breakdown, What};
use kube_gc_node::pressure::Bytes;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::node::report::Says;
use crate::node::{NodeCollector, NodeError, NodeOptions, Note, PassResult, Report, amount};
use kube_gc_client::{Api, EventType};
use kube_gc_observe::telemetry::record;

/// What the loop needs.
#[derive(Debug)]
pub struct NodeContext {
    /// Where failures are reported; nothing without an API server.
    pub events: Option<NodeEvents>,
    /// Where the last pass is published.
    pub status: watch::Sender<NodeStatus>,
    /// Ends a pass after the removal in progress, and the loop.
    pub cancel: CancellationToken,
}

/// What the last pass has come to.
#[derive(Clone, Debug, Default)]
pub struct NodeStatus {
    /// The last plan, and what came of it.
    pub report: Option<Arc<Report>>,
    /// Why the node cannot be looked at now.
    pub error: Option<NodeError>,
}

/// One node, and how it is collected.
#[derive(Debug)]
struct Node {
    collector: NodeCollector,
    options: NodeOptions,
    /// Whether the last pass of images could not remove one.
    images_failed: bool,
}

/// Collects a node until it is cancelled, and begins with a pass of everything.
///
/// # Errors
/// The runtime does not answer, and the symlink to its socket leads to another one now.
pub async fn collect(
    context: NodeContext,
    options: NodeOptions,
    collector: NodeCollector,
) -> Result<(), NodeError> {
    let NodeContext { events, status, cancel } = context;
    let mut node = Node { collector, options, images_failed: false };
    let (mut containers_due, mut images_due) = (Instant::now(), Instant::now());
    loop {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(()),
            () = sleep_until(containers_due.min(images_due)) => {}
        }
        let now = Instant::now();
        let scope = match (containers_due <= now, images_due <= now) {
            (true, true) => Scope::All,
            (true, false) => Scope::Containers,
            (false, _) => Scope::Images,
        };
        let rules = node.collector.rules();
        let (container_period, image_period) = (rules.containers.period, rules.images.period);
        let last = status.borrow().clone();
        let passed = pass(&mut node, scope, events.as_ref(), &cancel, last).await;
        if let Err(error @ NodeError::Moved { .. }) = passed {
            return Err(error);
        }
        let more = matches!(passed, Ok((_, true)));
        let now = Instant::now();
        let next = |period: Duration| if more { now } else { now + period };
        if scope != Scope::Images {
            containers_due = next(container_period);
        }
        if scope != Scope::Containers {
            images_due = next(image_period);
        }
        status.send_modify(|status| match passed {
            Ok((report, _)) => *status = NodeStatus { report: Some(Arc::new(report)), error: None },
            Err(error) => status.error = Some(error),
        });
    }
}

/// Makes a pass. `last` is what the pass before has come to: the log does not repeat it. Returns what
/// came of it, and whether its limits have left something that another one can remove at once; or why
/// the node cannot be looked at.
async fn pass(
    node: &mut Node,
    scope: Scope,
    events: Option<&NodeEvents>,
    cancel: &CancellationToken,
    last: NodeStatus,
) -> Result<(Report, bool), NodeError> {
    let start = Instant::now();
    let made = attempt(node, scope, cancel).await;
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
            let result = report.result.as_ref();
            // As with the kubelet, a single failure is no event: the next pass may do it.
            let unmeasured = Some(&report).filter(|_| scope != Scope::Containers).and_then(unmeasured);
            let failed = result.and_then(|result| failure(result, |what| what == What::Image)).or(unmeasured);
            let failed_before = node.images_failed;
            if scope != Scope::Containers {
                node.images_failed = failed.is_some();
            }
            if let Some(events) = events.filter(|_| report.dry_run.is_none()) {
                events.tell(&report, failed.filter(|_| failed_before)).await;
            }
            let removed = report.result.as_ref().is_some_and(|result| result.removed > 0);
            let more = report.plan.more && removed;
            Ok((report, more))
        }
        Err(error) => {
            let is_same = last.error.is_some_and(|last| last.is_like(&error));
            if is_same || cancel.is_cancelled() {
                tracing::debug!(%error, "the node still cannot be looked at");
            } else {
                tracing::warn!(%error, "the node cannot be looked at; nothing is removed");
            }
            Err(error)
        }
    }
}

async fn attempt(node: &mut Node, scope: Scope, cancel: &CancellationToken) -> Result<Report, NodeError> {
    let Node { collector, options, .. } = node;
    let look = cancel.run_until_cancelled(Box::pin(collector.look_beside(options))).await;
    let look =
        look.unwrap_or(Err(NodeError::Ended)).map_err(|error| match (error, options.endpoint.moved()) {
            (NodeError::Runtime(error), Some((link, now))) => {
                NodeError::Moved { error, link: link.to_owned(), now }
            }
            (error, _) => error,
        })?;
    collector.save();
    let report = Report::new(options, collector.runtime(), &look);
    measure(&report);
    if report.dry_run.is_some() {
        record::node_wanted(0);
        return Ok(report);
    }
    let result = collector.carry_out(&look, scope, cancel).await?;
    if let Some(usage) = result.usage {
        record::node_filesystem("free", usage.available);
    }
    // A pass of containers measures nothing, so it says nothing of what a pass of images has left.
    if scope != Scope::Containers || report.plan.goal.is_none() {
        record::node_wanted(result.missing_bytes);
    }
    Ok(report.with(result))
}

fn is_success(report: &Report) -> bool {
    report.result.as_ref().is_none_or(|result| result.failed == 0 && result.interrupted.is_none())
}

/// Why nothing is known of the file system of the images. To the kubelet, too, a pass of images has failed then.
fn unmeasured(report: &Report) -> Option<String> {
    let why = report.notes.iter().find(|note| note.says == Says::Unmeasured);
    why.filter(|_| report.plan.usage.is_none()).map(|note| note.text.clone())
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
    if let Some(why) = report.result.as_ref().and_then(|result| result.interrupted.as_ref()) {
        tracing::warn!(why, "the pass ended early");
    }
    // Without an API server, no event says it.
    if let Some(missing) = report.result.as_ref().and_then(|result| missing(report, result)) {
        tracing::warn!("{missing}");
    }
    let known = last.map(|last| last.notes.as_slice()).unwrap_or_default();
    for note in report.notes.iter().filter(|note| is_new(note, known)) {
        tracing::warn!("{}", note.text);
    }
}

/// Whether no note of the last pass is of this kind. The error in it may be another one each time.
pub(super) fn is_new(note: &Note, known: &[Note]) -> bool {
    known.iter().all(|known| known.kind != note.kind)
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

    /// Tells what a pass could not do. `images` is what to say about images that could not be removed.
    async fn tell(&self, report: &Report, images: Option<String>) {
        let Some(result) = &report.result else { return };
        let messages = [
            ("FreeDiskSpaceFailed", missing(report, result)),
            ("ImageGCFailed", images),
            ("ContainerGCFailed", failure(result, |what| what != What::Image)),
        ];
        for (reason, message) in messages {
            let Some(message) = message else { continue };
            if let Err(error) = self.api.tell(&self.node, EventType::Warning, reason, &message).await {
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
    let Breakdown { in_use, unused, kept, dead_containers, other } = result.left(&report.plan.breakdown);
    Some(format!(
        "Freed {} on the file system of the images; still missing: {}. Images in use have {}, unused {}, \
         kept {}, dead containers {}, the rest {}",
        Bytes(freed_bytes),
        amount(missing_bytes, missing_inodes),
        Bytes(in_use),
        Bytes(unused),
        Bytes(kept),
        Bytes(dead_containers),
        Bytes(other),
    ))
}

/// How many items could not be removed, and the first reason.
fn failure(result: &PassResult, counts: impl Fn(What) -> bool) -> Option<String> {
    let mut failed = result.items.iter().filter_map(|item| match &item.outcome {
        Outcome::Failed(error) if counts(item.candidate.what()) => Some((&item.candidate, error)),
        Outcome::Failed(_) | Outcome::Refused(_) | Outcome::Removed => None,
    });
    let (candidate, error) = failed.next()?;
    let (name, id) = (&candidate.name, candidate.id());
    Some(format!("{} could not be removed; the first: {name} ({id}): {error}", 1 + failed.count()))
}
