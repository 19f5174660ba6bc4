//! Creation of objects, types and namespaces.

use http::Method;
use serde_json::{Value, json};

use super::super::random::Random;
use super::super::types::NAMESPACES;
use super::super::world::World;
use super::references::{metadata, nobody, several};

/// Whether the maximum number of objects is reached.
fn is_full(world: &World) -> bool {
    world.objects().len() >= world.plan.population
}

/// Creates one object with any references.
pub async fn one(world: &mut World, random: &mut Random) {
    if is_full(world) {
        return;
    }
    let Some(&of) = random.pick(&world.types) else { return };
    let namespace = world.place(of, random);
    let name = world.name(random);
    let references = several(world, random, of, namespace.as_deref());
    world.create(of, namespace.as_deref(), metadata(&name, &references, random)).await;
}

/// Creates one object with some hundreds of owners. A few existing ones are among many that never
/// existed, at random positions.
pub async fn large(world: &mut World, random: &mut Random) {
    if is_full(world) {
        return;
    }
    let Some(&of) = random.pick(&world.types) else { return };
    let namespace = world.place(of, random);
    let name = world.name(random);
    let mut references = Vec::new();
    for _ in 0..65 + random.below(200) {
        references.extend(nobody(world, random));
    }
    for reference in several(world, random, of, namespace.as_deref()) {
        let is_new = references.iter().all(|other| other["uid"] != reference["uid"]);
        let place = random.below(references.len() + 1);
        references.splice(place..place, is_new.then_some(reference));
    }
    world.create(of, namespace.as_deref(), metadata(&name, &references, random)).await;
}

/// Creates owners and dependents on several levels.
pub async fn tree(world: &mut World, random: &mut Random) {
    let Some(&root) = random.pick(&world.types) else { return };
    let namespace = world.place(root, random).or_else(|| random.pick(&world.namespaces).cloned());
    let mut level: Vec<Value> = Vec::new();
    for depth in 0..2 + random.below(3) {
        let mut next = Vec::new();
        for _ in 0..1 + random.below(3) {
            if is_full(world) {
                return;
            }
            let Some(&of) = (if depth == 0 { Some(&root) } else { random.pick(&world.types) }) else {
                return;
            };
            let namespace = if of.namespaced { namespace.clone() } else { None };
            let mut references: Vec<_> = random.pick(&level).cloned().into_iter().collect();
            if random.chance(200) {
                references.extend(random.pick(&level).filter(|other| !references.contains(other)).cloned());
            }
            if random.chance(700) {
                for reference in &mut references {
                    reference["blockOwnerDeletion"] = true.into();
                }
            }
            let name = world.name(random);
            let created = metadata(&name, &references, random);
            if let Some(created) = world.create(of, namespace.as_deref(), created).await {
                next.push(of.reference(&created["metadata"]));
            }
        }
        if !next.is_empty() {
            level = next;
        }
    }
}

/// Creates one to three objects that own each other in a ring. One object alone owns itself.
pub async fn cycle(world: &mut World, random: &mut Random) {
    let objects = world.objects();
    let namespaced: Vec<_> = objects.iter().filter(|found| found.of.namespaced).collect();
    let Some(&first) = random.pick(&namespaced) else { return };
    let mut members = vec![first];
    for _ in 0..random.below(3) {
        let near = namespaced.iter().filter(|found| found.key.namespace == first.key.namespace);
        let near: Vec<_> =
            near.filter(|found| !members.iter().any(|member| member.key == found.key)).collect();
        members.extend(random.pick(&near).map(|found| **found));
    }
    for (place, member) in members.iter().enumerate() {
        let Some(owner) = members.get((place + 1) % members.len()) else { continue };
        let mut reference = owner.reference();
        reference["blockOwnerDeletion"] = random.chance(800).into();
        let mut references = member.references();
        references.retain(|old| old["uid"] != reference["uid"]);
        references.push(reference);
        world.merge(member, &json!({ "metadata": { "ownerReferences": references } })).await;
    }
}

/// Creates a custom type, which may have existed before.
pub async fn definition(world: &mut World, random: &mut Random) {
    let custom: Vec<_> = world.types.iter().filter(|of| of.custom).copied().collect();
    let Some(of) = random.pick(&custom) else { return };
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    world.request(Method::POST, path, &of.definition()).await;
}

/// Creates a namespace.
pub async fn namespace(world: &mut World, random: &mut Random) {
    let Some(name) = random.pick(&world.namespaces).cloned() else { return };
    world.create(&NAMESPACES, None, json!({ "name": name })).await;
}
