//! Faults, and the passage of time.

use std::time::Duration;

use super::super::network::{Refusal, Refused};
use super::super::random::Random;
use super::super::world::World;

/// A random type for a fault. CRDs are a type like any other.
fn some_type(world: &World, random: &mut Random) -> Option<String> {
    if random.chance(100) {
        return Some("customresourcedefinitions".to_owned());
    }
    random.pick(&world.types).map(|of| of.plural.to_owned())
}

/// Breaks all watches, or those of one type.
pub async fn cut(world: &mut World, random: &mut Random) {
    let plural = if random.chance(300) { None } else { some_type(world, random) };
    let clean = random.chance(500);
    world.network.trace.note(format_args!("watches of {plural:?} are cut, clean: {clean}"));
    world.network.cut(plural, clean);
}

/// Stalls the watches of a type for a while.
pub async fn stall(world: &mut World, random: &mut Random) {
    let Some(plural) = some_type(world, random) else { return };
    let time = random.millis(50, 20_000);
    world.network.trace.note(format_args!("watches of {plural} stall for {time:?}"));
    world.network.stall(&plural, time);
}

/// Denies writes of a type, or allows them again.
pub async fn deny(world: &mut World, random: &mut Random) {
    let Some(plural) = some_type(world, random) else { return };
    let denied = world.network.toggle_refused(Refused::Writes, &plural, Refusal::Code(403));
    world.network.trace.note(format_args!("writes of {plural} are denied: {denied}"));
}

/// Adds a webhook that hangs, fails or says that objects are gone, for one verb, type and namespace, or
/// removes it.
pub async fn webhook(world: &mut World, random: &mut Random) {
    let (Some(of), Some(namespace)) = (random.pick(&world.types), random.pick(&world.namespaces)) else {
        return;
    };
    let method = if random.chance(700) { "DELETE" } else { "PATCH" };
    let how = match random.below(4) {
        0 => Refusal::Code(500),
        1 => Refusal::SaysGone,
        _ => Refusal::Silence,
    };
    let is_there = world.network.toggle_webhook(method, of.plural, namespace, how);
    world.network.trace.note(format_args!(
        "a webhook for {method} of {} in {namespace} says {how:?}: {is_there}",
        of.plural
    ));
}

/// Makes lists of a type fail, or work again.
pub async fn unlistable(world: &mut World, random: &mut Random) {
    let Some(plural) = some_type(world, random) else { return };
    let how = match random.below(4) {
        0 => Refusal::Code(403),
        1 => Refusal::Silence,
        _ => Refusal::Code(500),
    };
    let fails = world.network.toggle_refused(Refused::Lists, &plural, how);
    world.network.trace.note(format_args!("lists of {plural} fail: {fails}, with {how:?}"));
    if fails && random.chance(500) {
        world.network.cut(Some(plural), false);
    }
}

/// Stops the watch cache of a type, or lets it continue.
pub async fn freeze(world: &mut World, random: &mut Random) {
    let Some(&of) = random.pick(&world.types) else { return };
    world.toggle_frozen(of);
}

/// Compacts the history of the store.
pub async fn compact(world: &mut World, _: &mut Random) {
    world.network.trace.note(format_args!("compaction"));
    world.server.with(|server| server.store.compact(u64::MAX));
}

/// Makes everything unreachable for a while, and breaks open connections.
pub async fn blackout(world: &mut World, random: &mut Random) {
    let time = random.millis(100, 60_000);
    world.network.trace.note(format_args!("nothing can be reached for {time:?}"));
    world.network.darken(time);
    world.network.cut(None, false);
}

/// Gives the lease to another replica for a while.
pub async fn lose_lease(world: &mut World, random: &mut Random) {
    let (time, notified) = (random.millis(100, 60_000), random.chance(500));
    world.network.trace.note(format_args!("another replica leads for {time:?}, notified: {notified}"));
    world.lease.lose(time, notified);
}

/// Lets time pass: mostly little, so that steps overlap with requests in flight.
pub async fn pass(_: &mut World, random: &mut Random) {
    let time = match random.weighted(&[20, 40, 25, 15]) {
        0 => Duration::from_millis(1),
        1 => random.millis(1, 100),
        2 => random.millis(100, 3_000),
        _ => random.millis(3_000, 60_000),
    };
    tokio::time::sleep(time).await;
}

/// Advances the clock at once by minutes or hours.
pub async fn jump(world: &mut World, random: &mut Random) {
    // An owner that is late by minutes is not kept waiting for.
    world.are_born().await;
    let time =
        if random.chance(700) { random.millis(60_000, 600_000) } else { random.millis(600_000, 14_400_000) };
    world.judge.jump(time);
    tokio::time::advance(time).await;
}

/// Kills the collector, which starts again.
pub async fn crash(world: &mut World, _: &mut Random) {
    world.is_killed = true;
}
