//! Very many owners that are stored after their dependents: none of these is lost, whatever the delay
//! below the bound is.

use std::time::Duration;

use kube_gc_observe::telemetry::Exporter;
use tokio::task::LocalSet;

use super::actions::{BOUND, Stage, in_admission};
use super::collector::Collector;
use super::plan::Plan;
use super::random::Random;
use super::trace::Trace;
use super::world::World;

/// The number of owners.
const BIRTHS: usize = 10_000;
/// How many of them are in admission at a time.
const AT_ONCE: usize = 500;
/// Determines their types.
const SEED: u64 = 1;
/// The distance of two delays. It has no divisor in common with [`BOUND`], so that every millisecond
/// below that is a delay.
const STRIDE: u64 = 7;

/// Lets all owners be born, and checks that all dependents are left.
pub fn none_is_lost(exporter: &Exporter) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(LocalSet::new().run_until(births(exporter)))
}

async fn births(exporter: &Exporter) -> Result<(), String> {
    let mut plan = Plan::new(SEED);
    (plan.qps, plan.is_leased, plan.history, plan.page) = (0, false, 10 * BIRTHS, 500);
    let mut world = World::start(SEED, plan, Trace::new(false)).await;
    let _collector = Collector::start(&world, SEED, exporter).map_err(|error| error.to_string())?;
    let random = &mut Random::new(SEED);
    let mut delays = (0..BOUND).cycle().step_by(STRIDE as usize).map(Duration::from_millis);
    for turn in 0..BIRTHS / AT_ONCE {
        let stage = Stage::find(&world, random).ok_or("no types")?;
        for (number, delay) in delays.by_ref().take(AT_ONCE).enumerate() {
            let name = format!("born-{turn}-{number}");
            let owner = in_admission(&mut world, &stage, &name, delay, false).await.ok_or("not admitted")?;
            if stage.dependent(&mut world, &owner, &[]).await.is_none() {
                return Err(format!("no dependent of {name}"));
            }
        }
        world.are_born().await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    world.judge.look();
    let is_left = |name: &str| name.starts_with("item-");
    let left = world.objects().iter().filter(|found| is_left(&found.key.name)).count();
    match world.judge.violation() {
        Some(violation) => Err(violation.to_string()),
        None if left == BIRTHS => Ok(()),
        None => Err(format!("{left} of {BIRTHS} dependents are left")),
    }
}
