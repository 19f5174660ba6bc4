//! Small scenes: a user's actions and a fault in the same place, at the wrong moment. By chance
//! alone, they would meet once in many thousand runs.

use http::Method;
use serde_json::{Value, json};

use super::super::network::{Refusal, Refused};
use super::super::random::Random;
use super::super::types::Type;
use super::super::world::World;
use super::references::FOREIGN;
use super::restore;

/// The place of a scene: two types and a namespace.
pub struct Stage {
    pub of_owner: &'static Type,
    pub of_dependents: &'static Type,
    pub namespace: String,
}

impl Stage {
    pub fn find(world: &World, random: &mut Random) -> Option<Self> {
        let &of_owner = random.pick(&world.types)?;
        let others: Vec<_> =
            world.types.iter().filter(|of| of.namespaced && **of != of_owner).copied().collect();
        let &of_dependents = random.pick(&others)?;
        let namespace = random.pick(&world.namespaces).cloned()?;
        Some(Self { of_owner, of_dependents, namespace })
    }

    /// A place with an owner, and a reference to that.
    pub async fn with_owner(world: &mut World, random: &mut Random) -> Option<(Self, Value)> {
        let stage = Self::find(world, random)?;
        let owner = stage.owner(world).await?;
        Some((stage, owner))
    }

    pub fn namespace(&self, of: &Type) -> Option<&str> {
        of.namespaced.then_some(&*self.namespace)
    }

    /// Creates the owner and returns a reference to it.
    pub async fn owner(&self, world: &mut World) -> Option<Value> {
        let of = self.of_owner;
        let metadata = json!({ "generateName": "owner-" });
        create(world, of, self.namespace(of), metadata).await.map(|owner| reference(of, &owner))
    }

    /// Creates a dependent and returns a reference to it.
    pub async fn dependent(&self, world: &mut World, owner: &Value, finalizers: &[&str]) -> Option<Value> {
        let of = self.of_dependents;
        let metadata =
            json!({ "generateName": "item-", "ownerReferences": [owner], "finalizers": finalizers });
        create(world, of, self.namespace(of), metadata).await.map(|dependent| reference(of, &dependent))
    }

    /// Deletes the owner.
    pub async fn delete(&self, world: &mut World, owner: &Value, policy: &str) {
        let path = self.of_owner.path(self.namespace(self.of_owner), owner["name"].as_str());
        let options = json!({ "propagationPolicy": policy });
        world.request(Method::DELETE, &path, "application/json", &options).await;
    }
}

/// A reference to an object, which blocks its deletion.
fn reference(of: &Type, object: &Value) -> Value {
    json!({
        "apiVersion": of.api_version(), "kind": of.kind, "blockOwnerDeletion": true,
        "name": object["metadata"]["name"], "uid": object["metadata"]["uid"],
    })
}

pub(super) async fn create(
    world: &mut World,
    of: &Type,
    namespace: Option<&str>,
    mut metadata: Value,
) -> Option<Value> {
    if let Some(namespace) = namespace {
        metadata["namespace"] = namespace.into();
    }
    let object = json!({ "apiVersion": of.api_version(), "kind": of.kind, "metadata": metadata });
    world.create(of, namespace, &object).await
}

pub(super) async fn wait(random: &mut Random, from: u64, to: u64) {
    tokio::time::sleep(random.millis(from, to)).await;
}

/// An owner is deleted in the foreground, and a dependent blocks it. Then it is deleted again
/// with Orphan, but its watch is late, and another dependent appears.
pub async fn change_of_mind(world: &mut World, random: &mut Random) {
    let Some((stage, owner)) = Stage::with_owner(world, random).await else { return };
    stage.dependent(world, &owner, &FOREIGN[..1]).await;
    wait(random, 0, 500).await;
    stage.delete(world, &owner, "Foreground").await;
    wait(random, 100, 1_000).await;
    world.network.stall(stage.of_owner.plural, random.millis(2_000, 10_000));
    stage.delete(world, &owner, "Orphan").await;
    wait(random, 500, 5_000).await;
    stage.dependent(world, &owner, &[]).await;
}

/// An owner of many dependents is deleted in the foreground. While they wait for the collector's
/// rate limit, the owner is deleted again with Orphan.
pub async fn change_of_mind_in_a_queue(world: &mut World, random: &mut Random) {
    let Some((stage, owner)) = Stage::with_owner(world, random).await else { return };
    for _ in 0..10 {
        stage.dependent(world, &owner, &[]).await;
    }
    wait(random, 500, 2_000).await;
    stage.delete(world, &owner, "Foreground").await;
    wait(random, 500, 5_000).await;
    stage.delete(world, &owner, "Orphan").await;
    wait(random, 5_000, 20_000).await;
}

/// The collector knows some dependents of an owner, the watch of their type is stalled, and
/// another dependent appears before the owner is deleted with Orphan.
pub async fn late_among_many(world: &mut World, random: &mut Random) {
    let Some((stage, owner)) = Stage::with_owner(world, random).await else { return };
    for _ in 0..3 {
        stage.dependent(world, &owner, &[]).await;
    }
    wait(random, 500, 2_000).await;
    world.network.stall(stage.of_dependents.plural, random.millis(1_000, 10_000));
    stage.dependent(world, &owner, &[]).await;
    stage.delete(world, &owner, "Orphan").await;
    wait(random, 100, 5_000).await;
}

/// The collector does not know a dependent and cannot list its type when it orphans the owner.
/// Later the type can be listed.
pub async fn unseen_orphan(world: &mut World, random: &mut Random) {
    let Some((stage, owner)) = Stage::with_owner(world, random).await else { return };
    let plural = stage.of_dependents.plural;
    let fails = world.network.toggle_refused(Refused::Lists, plural, Refusal::Code(500));
    world.network.expire(plural);
    wait(random, 0, 1_000).await;
    stage.dependent(world, &owner, &[]).await;
    stage.delete(world, &owner, "Orphan").await;
    wait(random, 100, 60_000).await;
    if fails && random.chance(700) {
        world.network.toggle_refused(Refused::Lists, plural, Refusal::Code(500));
    }
}

/// An owner and its dependent appear, and then the owner's type has to be listed again, by a
/// server that has seen neither of them.
pub async fn behind_the_times(world: &mut World, random: &mut Random) {
    let Some(stage) = Stage::find(world, random) else { return };
    let before = world.head();
    let Some(owner) = stage.owner(world).await else { return };
    stage.dependent(world, &owner, &[]).await;
    wait(random, 1, 1_000).await;
    world.fall_behind(stage.of_owner, before);
    world.network.expire(stage.of_owner.plural);
    wait(random, 1, 2_000).await;
}

/// Deletes an owner that is in the backup of this moment, while writes to its dependents are
/// denied. Returns the dependents' type, if its writes were allowed before.
pub async fn pending_deletion(world: &mut World, random: &mut Random) -> Option<&'static str> {
    let (stage, owner) = Stage::with_owner(world, random).await?;
    stage.dependent(world, &owner, &[]).await;
    wait(random, 100, 1_000).await;
    restore::back_up(world, random).await;
    let plural = stage.of_dependents.plural;
    let denied = world.network.toggle_refused(Refused::Writes, plural, Refusal::Code(403));
    stage.delete(world, &owner, "Background").await;
    wait(random, 100, 2_000).await;
    denied.then_some(plural)
}

/// An owner is deleted in the foreground, a dependent blocks it, and discovery omits the type of
/// the dependent for a while.
pub async fn omit_type(world: &mut World, random: &mut Random) {
    let Some(stage) = Stage::find(world, random) else { return };
    let of = stage.of_dependents;
    let time = random.millis(1_000, 300_000);
    if random.chance(500) {
        let Some(owner) = stage.owner(world).await else { return };
        stage.dependent(world, &owner, &FOREIGN[..1]).await;
        wait(random, 100, 1_000).await;
        stage.delete(world, &owner, "Foreground").await;
        wait(random, 0, 1_000).await;
    }
    world.network.omit(of.group, of.plural, time);
    world.network.trace.note(format_args!("discovery leaves {} out for {time:?}", of.plural));
    wait(random, 100, 1_000).await;
}

/// An owner is deleted with Orphan, and its dependents are in an API group that does not answer when
/// the collector starts again. The groups of custom types may go and come back, so they are left
/// out: a group that the API server does not announce cannot hold an owner.
pub async fn group_away(world: &mut World, random: &mut Random) {
    let Some(mut stage) = Stage::find(world, random) else { return };
    let types = world.types.iter().copied();
    let groups: Vec<_> = types
        .filter(|of| of.namespaced && !of.custom && !of.group.is_empty() && *of != stage.of_owner)
        .collect();
    let Some(&of) = random.pick(&groups) else { return };
    stage.of_dependents = of;
    let Some(owner) = stage.owner(world).await else { return };
    for _ in 0..1 + random.below(3) {
        stage.dependent(world, &owner, &[]).await;
    }
    wait(random, 0, 2_000).await;
    let time = random.millis(60_000, 400_000);
    world.network.leave(of.group, time);
    world.network.trace.note(format_args!("the group {} does not answer for {time:?}", of.group));
    stage.delete(world, &owner, "Orphan").await;
    world.is_killed = true;
}

/// Dependents that are in the backup of this moment lose their owner. The owner's path is
/// answered once the collector has seen that.
pub async fn released_since(world: &mut World, random: &mut Random) -> Option<String> {
    let (stage, owner) = Stage::with_owner(world, random).await?;
    let (of, namespace) = (stage.of_dependents, stage.namespace(stage.of_dependents));
    let mut paths = Vec::new();
    // Several dependents, so that other steps before the end of the run do not affect all of
    // them.
    for _ in 0..4 {
        let metadata = json!({ "generateName": "item-", "ownerReferences": [owner] });
        let item = create(world, of, namespace, metadata).await?;
        paths.push(of.path(namespace, item["metadata"]["name"].as_str()));
    }
    wait(random, 100, 1_000).await;
    restore::back_up(world, random).await;
    let patch = json!({ "metadata": { "ownerReferences": null } });
    for path in paths {
        world.request(Method::PATCH, &path, "application/merge-patch+json", &patch).await;
    }
    let released = world.head();
    for _ in 0..20 {
        wait(random, 100, 500).await;
        if world.judge.seen(&of.name()) >= released {
            return Some(stage.of_owner.path(stage.namespace(stage.of_owner), owner["name"].as_str()));
        }
    }
    None
}
