//! The end of a run: nothing goes wrong any more, and everything that was begun is
//! brought to its end.

use std::collections::BTreeSet;
use std::time::Duration;

use super::actions::FOREIGN;
use super::collector::{Collector, REQUEST_TIMEOUT};
use super::world::World;

/// How many times everything may take longer than expected before it counts as stuck.
const TRIES: u32 = 20;
/// How many failing items are asked for.
const ALL: usize = 10_000;

/// Ends all faults and lets time pass until nothing happens any more; then the state
/// is judged.
pub async fn come_to_rest(world: &mut World, collector: &Collector) -> Result<(), String> {
    world.heal();
    world.network.trace.note(format_args!("all faults are over"));
    // Once with whatever people have held back still held back, and once without.
    quiet_down(world, collector).await?;
    judge(world, collector).await?;
    if release_all(world).await {
        quiet_down(world, collector).await?;
        judge(world, collector).await?;
    }
    Ok(())
}

/// Nothing has changed for longer than anything waits.
async fn quiet_down(world: &World, collector: &Collector) -> Result<(), String> {
    let plan = &world.plan;
    // What was last tried before the faults were over, what it is waiting for, and
    // what follows from it: a watch that waits before it looks at what has become of
    // its type, finds that it must list it, and waits once more.
    let longest = plan.longest_retry.max(plan.discovery).max(Duration::from_secs(120)) + REQUEST_TIMEOUT * 2;
    let mut reasons = Vec::new();
    for attempt in 1..=TRIES {
        let head = world.head();
        // Not in step with what is tried again and again.
        tokio::time::sleep(longest + Duration::from_millis(7 * u64::from(attempt))).await;
        let report = collector.idleness().await;
        reasons = report.reasons;
        // A type that waits for its next list counts as idle: it may never answer. Here
        // nothing is broken any more.
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

/// People let go of everything that they have held; whether there was anything.
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
