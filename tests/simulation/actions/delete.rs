//! Deletion of objects, types and namespaces.

use http::Method;
use serde_json::{Value, json};

use super::super::random::Random;
use super::super::types::Found;
use super::super::world::World;
use super::references::{metadata, several};

/// The options of a DELETE: with or without a policy and preconditions.
fn options(random: &mut Random, found: Option<&Found>) -> Value {
    let mut options = json!({ "apiVersion": "v1", "kind": "DeleteOptions" });
    if let Some(policy) = [None, Some("Background"), Some("Foreground"), Some("Foreground"), Some("Orphan")]
        .get(random.below(5))
        .copied()
        .flatten()
    {
        options["propagationPolicy"] = policy.into();
    }
    if let Some(found) = found {
        if random.chance(150) {
            options["preconditions"]["uid"] = found.object.uid().into();
        }
        if random.chance(100) {
            options["preconditions"]["resourceVersion"] = found.object.resource_version().to_string().into();
        }
        if random.chance(30) {
            options["preconditions"]["resourceVersion"] = "1".into();
        }
    }
    options
}

async fn delete(world: &mut World, random: &mut Random, found: &Found) {
    world.remember(found);
    let body = if random.chance(100) { Value::Null } else { options(random, Some(found)) };
    world.request(Method::DELETE, &found.path(), &body).await;
}

/// Deletes one object, usually an owner.
pub async fn one(world: &mut World, random: &mut Random) {
    let objects = world.objects();
    let owners: Vec<_> = objects
        .iter()
        .filter(|found| {
            objects.iter().any(|other| {
                other.object.owner_references().iter().any(|reference| reference["uid"] == found.object.uid())
            })
        })
        .collect();
    let found = if random.chance(700) { random.pick(&owners).copied() } else { None };
    let Some(found) = found.or_else(|| random.pick(&objects)) else { return };
    delete(world, random, found).await;
}

/// Deletes an object that is being deleted already, perhaps with another policy.
pub async fn again(world: &mut World, random: &mut Random) {
    let mut objects = world.objects();
    objects.retain(|found| found.object.deletion_timestamp().is_some());
    let Some(found) = random.pick(&objects) else { return };
    delete(world, random, found).await;
}

/// Deletes all objects of a type in a namespace.
pub async fn collection(world: &mut World, random: &mut Random) {
    let Some(&of) = random.pick(&world.types) else { return };
    let namespace = world.place(of, random);
    for found in world.objects().iter().filter(|found| found.of == of) {
        world.remember(found);
    }
    let options = options(random, None);
    let path = of.path(namespace.as_deref(), None);
    world.request(Method::DELETE, &path, &options).await;
}

/// Deletes an object and at once creates another one with its name.
pub async fn recreate(world: &mut World, random: &mut Random) {
    let objects = world.objects();
    let Some(found) = random.pick(&objects) else { return };
    delete(world, random, found).await;
    let (of, namespace) = (found.of, found.key.namespace.as_deref());
    let references =
        if random.chance(500) { found.references() } else { several(world, random, of, namespace) };
    world.create(of, namespace, metadata(&found.key.name, &references, random)).await;
}

/// Removes a custom type.
pub async fn definition(world: &mut World, random: &mut Random) {
    let custom: Vec<_> = world.types.iter().filter(|of| of.custom).copied().collect();
    let Some(of) = random.pick(&custom) else { return };
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{}", of.definition_name());
    world.request(Method::DELETE, &path, &Value::Null).await;
}

/// Deletes a namespace.
pub async fn namespace(world: &mut World, random: &mut Random) {
    let namespaces = world.fleeting_namespaces();
    let Some(found) = random.pick(&namespaces) else { return };
    world.remember(found);
    let options = options(random, Some(found));
    world.request(Method::DELETE, &found.path(), &options).await;
}
