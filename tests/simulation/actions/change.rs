//! Changes of objects.

use http::Method;
use serde_json::{Value, json};

use super::super::random::Random;
use super::super::types::Found;
use super::super::world::World;
use super::references::{self, FOREIGN};

/// Sets the references of an object: with a patch that overwrites them, with a patch that has the
/// version read as a precondition, or with an update.
async fn set_references(world: &mut World, random: &mut Random, found: &Found, references: Vec<Value>) {
    let references = if references.is_empty() { Value::Null } else { Value::Array(references) };
    match random.below(3) {
        0 => {
            let mut object = found.object.to_value();
            object["metadata"]["ownerReferences"] = references;
            world.request(Method::PUT, &found.path(), &object).await;
        }
        1 => {
            let version = found.object.resource_version().to_string();
            let metadata = json!({ "ownerReferences": references, "resourceVersion": version });
            world.merge(found, &json!({ "metadata": metadata })).await;
        }
        _ => {
            world.merge(found, &json!({ "metadata": { "ownerReferences": references } })).await;
        }
    }
}

/// Adds an owner to an object.
pub async fn adopt(world: &mut World, random: &mut Random) {
    let objects = world.objects();
    let Some(found) = random.pick(&objects) else { return };
    let namespace = found.key.namespace.as_deref();
    let Some(reference) = references::one(world, random, &objects, found.of, namespace) else { return };
    let mut references = found.references();
    if references.len() < 5 {
        references.push(reference);
    }
    set_references(world, random, found, references).await;
}

/// Removes an owner from an object.
pub async fn release(world: &mut World, random: &mut Random) {
    let Some(found) = owned(world, random) else { return };
    let mut references = found.references();
    references.remove(random.below(references.len()));
    set_references(world, random, &found, references).await;
}

/// Replaces all owners of an object.
pub async fn change_owners(world: &mut World, random: &mut Random) {
    let objects = world.objects();
    let Some(found) = random.pick(&objects) else { return };
    let references = references::several(world, random, found.of, found.key.namespace.as_deref());
    set_references(world, random, found, references).await;
}

/// Makes a reference block the deletion of its owner, or stop blocking it.
pub async fn flip_blocking(world: &mut World, random: &mut Random) {
    let Some(found) = owned(world, random) else { return };
    let mut references = found.references();
    let place = random.below(references.len());
    if let Some(reference) = references.get_mut(place) {
        let blocks = reference["blockOwnerDeletion"] == true;
        reference["blockOwnerDeletion"] = (!blocks).into();
    }
    set_references(world, random, &found, references).await;
}

fn owned(world: &World, random: &mut Random) -> Option<Found> {
    let mut objects = world.objects();
    objects.retain(|found| !found.object.owner_references().is_empty());
    random.pick(&objects).cloned()
}

/// Adds a finalizer of another controller.
pub async fn add_finalizer(world: &mut World, random: &mut Random) {
    let objects = world.objects();
    let Some(found) = random.pick(&objects) else { return };
    let mut finalizers = found.finalizers();
    let new = FOREIGN[random.below(FOREIGN.len())];
    if !finalizers.iter().any(|finalizer| finalizer == new) {
        finalizers.insert(random.below(finalizers.len() + 1), new.to_owned());
    }
    world.merge(found, &json!({ "metadata": { "finalizers": finalizers } })).await;
}

fn held(world: &World, random: &mut Random) -> Option<Found> {
    let mut objects = world.objects();
    objects.extend(world.fleeting_namespaces());
    objects.retain(|found| found.object.finalizers().next().is_some());
    random.pick(&objects).cloned()
}

/// Removes a finalizer of another controller. Sometimes a user removes one of the collector's
/// finalizers by hand.
pub async fn remove_finalizer(world: &mut World, random: &mut Random) {
    let Some(found) = held(world, random) else { return };
    let mut finalizers = found.finalizers();
    let foreign: Vec<_> =
        finalizers.iter().filter(|finalizer| FOREIGN.contains(&finalizer.as_str())).collect();
    let Some(gone) = random.pick(&foreign).map(|gone| (**gone).clone()) else { return };
    finalizers.retain(|finalizer| *finalizer != gone);
    world.merge(&found, &json!({ "metadata": { "finalizers": finalizers } })).await;
}

/// Removes every finalizer, as an impatient user does.
pub async fn clear_finalizers(world: &mut World, random: &mut Random) {
    let Some(found) = held(world, random) else { return };
    if random.chance(700) {
        world.merge(&found, &json!({ "metadata": { "finalizers": null } })).await;
    } else {
        let finalizers = if random.chance(500) { json!(["orphan"]) } else { json!(["foregroundDeletion"]) };
        world.merge(&found, &json!({ "metadata": { "finalizers": finalizers } })).await;
    }
}

/// Changes a label, which does not matter to the collector.
pub async fn label(world: &mut World, random: &mut Random) {
    let objects = world.objects();
    for _ in 0..1 + random.below(3) {
        let Some(found) = random.pick(&objects) else { return };
        let label = json!({ "metadata": { "labels": { "churn": random.below(1000).to_string() } } });
        world.merge(found, &label).await;
    }
}
