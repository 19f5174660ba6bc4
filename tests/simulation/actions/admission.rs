//! Scenes with admission: objects that are being born, denials with any answer, references that come
//! back.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::super::admission::{Answer, Scope};
use super::super::random::Random;
use super::super::world::World;
use super::references::several;
use super::scenes::{Stage, wait};

/// Fewer milliseconds than this after the creation of its dependents, an owner in admission is
/// stored.
const BOUND: u64 = 2_000;

/// Somebody learns the uid of an object that is still in admission, and creates its dependents, or
/// makes one of an older object. In the end it is stored or denied.
pub async fn birth(world: &mut World, random: &mut Random) {
    let Some(stage) = Stage::find(world, random) else { return };
    let name = format!("born-{}", random.next());
    let (of, namespace) = (stage.of_dependents, stage.namespace(stage.of_dependents));
    let mut older = None;
    if random.chance(300) {
        older = world.create(of, namespace, json!({ "generateName": "item-" })).await;
        wait(random, 0, 2 * BOUND).await;
    }
    let (delay, is_denied) = (random.millis(0, BOUND), random.chance(300));
    let Some(mut owner) = in_admission(world, &stage, &name, delay, is_denied).await else { return };
    owner["blockOwnerDeletion"] = random.chance(500).into();
    if let Some(older) = older {
        let path = of.path(namespace, older["metadata"]["name"].as_str());
        let patch = json!({ "metadata": { "ownerReferences": [owner] } });
        world.request(Method::PATCH, &path, &patch).await;
    }
    for _ in 0..1 + random.below(3) {
        let mut references = vec![owner.clone()];
        if random.chance(300) {
            references.extend(several(world, random, of, namespace));
        }
        world.create(of, namespace, json!({ "generateName": "item-", "ownerReferences": references })).await;
        wait(random, 0, 200).await;
    }
}

/// Sends an owner into admission, and returns a reference to it.
async fn in_admission(
    world: &mut World,
    stage: &Stage,
    name: &str,
    delay: Duration,
    is_denied: bool,
) -> Option<Value> {
    let of = stage.of_owner;
    let told = world.webhooks.announce(name, delay, is_denied);
    let object = of.object(stage.namespace(of), json!({ "name": name }));
    world.create_later(of.path(stage.namespace(of), None), object);
    world.network.trace.note(format_args!("{name} is in admission for {delay:?}, denied: {is_denied}"));
    let uid = tokio::select! {
        biased;
        uid = told => uid.ok()?,
        // It has not reached admission, because its type or its namespace does not exist.
        () = tokio::time::sleep(Duration::from_secs(1)) => return None,
    };
    Some(of.reference(&json!({ "name": name, "uid": uid })))
}

/// A chain of owners is deleted, and admission denies the deletion or the change of one of them in
/// any way.
pub async fn deny(world: &mut World, random: &mut Random) {
    let Some((stage, first)) = Stage::with_owner(world, random).await else { return };
    let Some(second) = stage.dependent(world, &first, &[]).await else { return };
    stage.dependent(world, &second, &[]).await;
    wait(random, 0, 2_000).await;
    let of = if random.chance(700) { stage.of_dependents } else { stage.of_owner };
    let scope = Scope {
        deletions: random.chance(500),
        plural: of.plural,
        namespace: stage.namespace(of).map(str::to_owned),
    };
    let policies = ["Background", "Foreground", "Orphan"];
    // The collector sees the deletion before anything is denied, or afterwards.
    if !scope.deletions || of != stage.of_owner {
        deny_with(world, random, &scope);
    }
    stage.delete(world, &first, policies[random.below(policies.len())]).await;
    deny_with(world, random, &scope);
    wait(random, 100, 30_000).await;
    if random.chance(700) {
        world.webhooks.allow(&scope);
        world.network.trace.note(format_args!("{scope:?} is allowed"));
    }
}

fn deny_with(world: &World, random: &mut Random, scope: &Scope) {
    let answer = Answer::ALL[random.below(Answer::ALL.len())];
    world.network.trace.note(format_args!("{scope:?} is denied: {answer:?}"));
    world.webhooks.deny(scope.clone(), answer);
}

/// An owner is deleted with Orphan, and admission brings back the references that the collector
/// removes.
pub async fn bring_back(world: &mut World, random: &mut Random) {
    let Some((stage, owner)) = Stage::with_owner(world, random).await else { return };
    let several: Vec<Value> = vec![owner.clone(); 1 + random.below(3)];
    for owner in &several {
        stage.dependent(world, owner, &[]).await;
    }
    wait(random, 500, 2_000).await;
    let (plural, namespace) = (stage.of_dependents.plural, &stage.namespace);
    world.webhooks.bring_back(plural, namespace);
    world.network.trace.note(format_args!("references of {plural} in {namespace} come back"));
    stage.delete(world, &owner, "Orphan").await;
    // Long enough for retries where other faults meet this one.
    wait(random, 1_000, 300_000).await;
    if random.chance(700) {
        world.webhooks.let_go(plural, namespace);
        world.network.trace.note(format_args!("references of {plural} in {namespace} no longer come back"));
    }
}
