//! The end of a run: faults end, and the collector finishes what was begun.

use std::collections::BTreeSet;
use std::time::Duration;

use super::actions::FOREIGN;
use super::collector::{Collector, REQUEST_TIMEOUT};
use super::world::World;

/// An object counts as stuck if it takes longer than expected by this factor.
const TRIES: u32 = 20;
/// How many failing keys are requested.
const ALL: usize = 10_000;

/// Ends all faults, waits until nothing happens any more, and judges the final state.
pub async fn come_to_rest(world: &mut World, collector: &Collector) -> Result<(), String> {
    world.are_born().await;
    world.heal();
    world.network.trace.note(format_args!("all faults are over"));
    // Judged twice: while foreign finalizers still hold objects, and after they were removed.
    quiet_down(world, collector).await?;
    judge(world, collector).await?;
    if release_all(world).await {
        quiet_down(world, collector).await?;
        judge(world, collector).await?;
    }
    Ok(())
}

/// Waits until nothing has changed for longer than any backoff.
async fn quiet_down(world: &World, collector: &Collector) -> Result<(), String> {
    let plan = &world.plan;
    // The retry of what was last tried before the faults ended, what that waits for, and what
    // follows from it: a watch waits before it checks its type, finds that the type must be
    // listed, and waits once more.
    let longest = plan.longest_retry.max(plan.discovery).max(Duration::from_secs(120)) + REQUEST_TIMEOUT * 2;
    let mut reasons = Vec::new();
    for attempt in 1..=TRIES {
        let head = world.head();
        // An interval that is not a multiple of those of the retries.
        tokio::time::sleep(longest + Duration::from_millis(7 * u64::from(attempt))).await;
        let report = collector.idleness().await;
        reasons = report.reasons;
        // A type that waits for its next list counts as idle, because the list may never succeed.
        // Here all faults are over, so wait for it.
        for monitor in collector.status().registry().all() {
            reasons.extend(
                monitor.last_error.map(|error| format!("{}: {error}", monitor.resource.group_resource)),
            );
        }
        if reasons.is_empty() && head == world.head() {
            return Ok(());
        }
        if world.network.runaway().is_some() {
            break;
        }
    }
    Err(format!("it does not come to rest: {}", reasons.join("; ")))
}

async fn judge(world: &World, collector: &Collector) -> Result<(), String> {
    world.judge.look();
    if let Some(violation) = world.judge.violation() {
        return Err(violation.to_string());
    }
    let mut visible = BTreeSet::new();
    for (_, status) in collector.status().pools(ALL).await {
        visible.extend(status.failing.iter().map(|item| item.key.uid.to_string()));
    }
    world.judge.at_rest(&visible).map_err(|violation| violation.to_string())
}

/// Removes all foreign finalizers. Returns whether there were any.
async fn release_all(world: &mut World) -> bool {
    let mut any = false;
    let mut all = world.objects();
    all.extend(world.fleeting_namespaces());
    for found in all {
        let finalizers = found.finalizers();
        let (foreign, others): (Vec<_>, Vec<_>) =
            finalizers.into_iter().partition(|finalizer| FOREIGN.contains(&finalizer.as_str()));
        if !foreign.is_empty() {
            any = true;
            world.merge(&found, &serde_json::json!({ "metadata": { "finalizers": others } })).await;
        }
    }
    any
}
