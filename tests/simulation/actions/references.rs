//! Owner references: correct ones, and every kind of wrong one.

use serde_json::{Value, json};

use super::super::random::Random;
use super::super::types::{Found, Type};
use super::super::world::World;

/// A few references for an object of this type and namespace.
pub fn several(world: &World, random: &mut Random, of: &Type, namespace: Option<&str>) -> Vec<Value> {
    let count = random.weighted(&[20, 60, 15, 5]);
    let objects = world.objects();
    (0..count).filter_map(|_| one(world, random, &objects, of, namespace)).collect()
}

/// One reference for an object of this type and namespace.
pub fn one(
    world: &World,
    random: &mut Random,
    objects: &[Found],
    of: &Type,
    namespace: Option<&str>,
) -> Option<Value> {
    if random.chance(world.plan.mistakes) {
        return wrong(world, random, objects);
    }
    if random.chance(80) {
        // An owner that is deleted or about to be.
        let ghosts: Vec<_> = world.ghosts.iter().cloned().collect();
        return random.pick(&ghosts).cloned().map(|reference| blocking(random, reference));
    }
    let fitting: Vec<_> = objects
        .iter()
        .filter(|owner| owner.key.namespace.as_deref() == namespace && of.namespaced || !owner.of.namespaced)
        .collect();
    random.pick(&fitting).map(|owner| blocking(random, owner.reference()))
}

/// Sets or omits `blockOwnerDeletion`.
fn blocking(random: &mut Random, mut reference: Value) -> Value {
    match random.below(4) {
        0 => {}
        1 => reference["blockOwnerDeletion"] = false.into(),
        _ => reference["blockOwnerDeletion"] = true.into(),
    }
    reference
}

/// A wrong reference.
fn wrong(world: &World, random: &mut Random, objects: &[Found]) -> Option<Value> {
    let owner = random.pick(objects)?;
    let mut reference = blocking(random, owner.reference());
    match random.below(9) {
        0 => reference["uid"] = unused_uid(random).into(),
        1 => reference["name"] = world.name(random).into(),
        2 => {
            let other = random.pick(&world.types)?;
            reference["kind"] = other.kind.into();
            reference["apiVersion"] = other.api_version().into();
        }
        3 => reference["kind"] = owner.of.kind.to_lowercase().into(),
        4 => reference["kind"] = "Nonsense".into(),
        5 => reference["apiVersion"] = owner.of.api_version_of("v9").into(),
        6 => reference["apiVersion"] = "nobody.example.com/v1".into(),
        7 if owner.of.custom => reference["apiVersion"] = owner.of.api_version_of("v1beta1").into(),
        // The owner may be in another namespace, or have a namespace where none is allowed.
        _ => {}
    }
    Some(reference)
}

/// A reference to an owner that never existed, of a type that is served at times.
pub fn nobody(world: &World, random: &mut Random) -> Option<Value> {
    let &of = random.pick(&world.types)?;
    let (name, uid) = (world.name(random), unused_uid(random));
    Some(of.reference(&json!({ "name": name, "uid": uid })))
}

/// A uid that no object has or ever had.
fn unused_uid(random: &mut Random) -> String {
    let (high, low) = (random.next(), random.next());
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        high & 0xffff,
        (high >> 16) & 0xfff,
        low & 0xfff,
        (low >> 16) & 0xffff_ffff_ffff
    )
}

/// The metadata of an object with these references.
pub fn metadata(name: &str, references: &[Value], random: &mut Random) -> Value {
    let mut metadata = json!({ "name": name });
    if !references.is_empty() {
        metadata["ownerReferences"] = references.to_vec().into();
    }
    if random.chance(60) {
        metadata["finalizers"] = json!([FOREIGN[random.below(FOREIGN.len())]]);
    }
    metadata
}

/// Finalizers of other controllers.
pub const FOREIGN: [&str; 2] = ["example.com/hold", "example.com/keep"];
