//! Backups and restores of the store.

use std::time::Duration;

use kube_gc_apiserver::store::Snapshot;
use serde_json::json;

use super::super::network::{Refusal, Refused};
use super::super::random::Random;
use super::super::types::NAMESPACES;
use super::super::world::World;
use super::{delete, scenes};

/// The minimum number of versions by which a restored store is behind what the collector has
/// seen.
///
/// The only sign of a restore is that versions go back (rule 1.21). If as many changes as before
/// follow a restore while no watch works, no client can notice it. The simulation does not
/// produce this case.
const BEHIND: u64 = 1_000;

/// Takes a backup, which replaces the previous one.
pub async fn back_up(world: &mut World, _: &mut Random) {
    let backup = world.server.snapshot();
    world.judge.backed_up();
    world.network.trace.note(format_args!("a backup at version {}", backup.version()));
    world.backup = Some(backup);
}

/// Stops the server, restores the store, and starts the server again.
pub async fn restore(world: &mut World, random: &mut Random) {
    let Some(backup) = world.backup.clone().filter(|_| !world.is_restored) else { return };
    pass_versions(world, random).await;
    // The version of these types counts. A type that may be served by an aggregated API says
    // nothing about the store.
    if world.judge.seen(&NAMESPACES.name()) < backup.version() + BEHIND {
        world.network.trace.note(format_args!("a restore would not be seen"));
        return;
    }
    let stopped = stop(world, random).await;
    world.server.restore(&backup, None);
    world.judge.restored(backup.version(), stopped);
    start(world, &backup);
}

/// As [`restore`], with a version that is higher than all earlier ones: only the versions of
/// objects go back.
pub async fn restore_raised(world: &mut World, random: &mut Random) {
    // An owner is deleted right before, and the decisions that follow are still waiting.
    let (mut denied, mut released) = (None, None);
    match random.below(2) {
        _ if world.is_restored => {}
        0 => released = scenes::released_since(world, random).await,
        _ => denied = scenes::pending_deletion(world, random).await,
    }
    let Some(backup) = world.backup.clone().filter(|_| !world.is_restored) else { return };
    let stopped = stop(world, random).await;
    world.server.restore(&backup, Some(BEHIND));
    world.judge.restored_raised(stopped);
    if let Some(plural) = denied {
        world.network.toggle_refused(Refused::Writes, plural, Refusal::Code(403));
    }
    start(world, &backup);
    if let Some(path) = released {
        tokio::time::sleep(random.millis(100, 5_000)).await;
        let options = json!({ "propagationPolicy": "Background" });
        world.request(http::Method::DELETE, &path, "application/json", &options).await;
    }
}

/// Stops the server for a while, and returns when.
async fn stop(world: &mut World, random: &mut Random) -> Duration {
    world.is_restored = true;
    world.are_born().await;
    // Usually, something is in flight.
    if random.chance(700) {
        delete::one(world, random).await;
        tokio::time::sleep(random.millis(0, 60)).await;
    }
    let clean = random.chance(500);
    world.network.trace.note(format_args!("the server is stopped, clean: {clean}"));
    let stopped = world.judge.now();
    world.network.stop_server(clean);
    tokio::time::sleep(down(random)).await;
    world.judge.look();
    stopped
}

fn start(world: &mut World, backup: &Snapshot) {
    world.frozen.clear();
    world.network.start_server();
    world.network.trace.note(format_args!(
        "the store is as it was at version {}, and at version {}",
        backup.version(),
        world.head()
    ));
}

/// Lets time pass in which others change the store and the collector sees it.
async fn pass_versions(world: &mut World, random: &mut Random) {
    world.server.with(|server| server.store.skip(BEHIND));
    let path = NAMESPACES.path(None, Some("default"));
    let label = json!({ "metadata": { "labels": { "passed": random.below(1000).to_string() } } });
    world.request(http::Method::PATCH, &path, "application/merge-patch+json", &label).await;
    tokio::time::sleep(random.millis(1, 1_000)).await;
}

/// How long the server is down. A restore always takes some time.
fn down(random: &mut Random) -> Duration {
    match random.below(3) {
        0 => random.millis(100, 500),
        1 => random.millis(500, 5_000),
        _ => random.millis(5_000, 60_000),
    }
}
