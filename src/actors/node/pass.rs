//! One pass: look, plan, act, record.

use kube_gc_node::pass::Scope;
use kube_gc_node::plan::{Breakdown, What};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::events::{NodeEvents, missing};
use super::{Node, NodeStatus};
use crate::node::{NodeError, Presence, Report, blocking, now};
use crate::telemetry::record;

/// A pass that has ended.
pub(super) struct Passed {
    /// The node, for the next pass.
    pub(super) node: Node,
    /// The plan and what came of it; nothing if the node could not be looked at.
    pub(super) report: Option<Report>,
    /// Why not.
    pub(super) error: Option<String>,
    /// Whether the limits of a pass have left something that another one can remove at once.
    pub(super) more: bool,
}

/// Makes a pass. `last` is what the pass before has come to: the log does not repeat it.
pub(super) async fn pass(
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
