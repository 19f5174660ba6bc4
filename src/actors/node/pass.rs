//! One pass: look, plan, act, record.

use std::sync::Arc;

use kube_gc_node::pass::Scope;
use kube_gc_node::plan::{Breakdown, What};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::events::NodeEvents;
use crate::node::{NodeCollector, NodeError, NodeOptions, Report, now};
use crate::telemetry::record;

/// A pass that has ended.
pub(super) struct Passed {
    /// The collector, for the next pass.
    pub(super) collector: NodeCollector,
    /// The plan and what came of it; nothing if the node could not be looked at.
    pub(super) report: Option<Report>,
    /// Why not.
    pub(super) error: Option<String>,
    /// Whether the limits of a pass have left something that another one can remove at once.
    pub(super) more: bool,
}

/// Makes a pass. `last_error` is that of the pass before, so that an outage has one line in the log.
pub(super) async fn pass(
    mut collector: NodeCollector,
    scope: Scope,
    options: Arc<NodeOptions>,
    events: Option<NodeEvents>,
    cancel: CancellationToken,
    last_error: Option<String>,
) -> Passed {
    let start = Instant::now();
    let made = attempt(&mut collector, scope, &options, &cancel).await;
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
            if last_error.is_some() {
                tracing::info!("the node can be looked at again");
            }
            summarize(&report);
            if let Some(events) = events.filter(|_| report.dry_run.is_none()) {
                events.tell(&report).await;
            }
            let removed = report.result.as_ref().is_some_and(|result| result.removed > 0);
            let more = report.plan.more && removed;
            Passed { collector, report: Some(report), error: None, more }
        }
        Err(error) => {
            let error = error.to_string();
            if last_error.as_ref() == Some(&error) {
                tracing::debug!(error, "the node still cannot be looked at");
            } else {
                tracing::warn!(error, "the node cannot be looked at; nothing is removed");
            }
            Passed { collector, report: None, error: Some(error), more: false }
        }
    }
}

async fn attempt(
    collector: &mut NodeCollector,
    scope: Scope,
    options: &NodeOptions,
    cancel: &CancellationToken,
) -> Result<Report, NodeError> {
    let look = collector.look(now()).await?;
    if let Err(problem) = options.state.write(collector.ledger()) {
        tracing::warn!("{problem}");
    }
    let report = Report::new(options, collector.runtime(), &look);
    measure(&report);
    if report.dry_run.is_some() {
        return Ok(report);
    }
    let carried = collector.carry_out(&look, scope, cancel).await?;
    if let Some(usage) = carried.usage {
        record::node_filesystem("free", usage.available);
    }
    record::node_wanted(carried.summary.missing.map_or(0, |missing| missing.bytes));
    Ok(report.with(&carried))
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

/// Logs a pass in one line.
fn summarize(report: &Report) {
    let plan = &report.plan;
    let images = plan.removed().filter(|entry| entry.what == What::Image).count();
    let planned = plan.removals.len();
    match &report.result {
        None => tracing::info!(planned, images, "dry run: /debug/node shows the plan"),
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
    for note in &report.notes {
        tracing::warn!("{note}");
    }
}
