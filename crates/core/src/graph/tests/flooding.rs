//! Users choose the uids, kinds and names in references. No choice may cost more than others.

use super::Bed;
use crate::graph::PartitionId;
use crate::graph::testing::world::{Obj, config};
use crate::object::{OwnerReference, Uid, random_uid, steps};

/// References of one object, about as many as the API server accepts.
const EACH: u64 = 8_000;
/// References in all.
const ALL: u64 = 152_000;

fn reference(kind: &str, name: &str, uid: &str) -> OwnerReference {
    OwnerReference {
        kind: kind.into(),
        name: name.into(),
        uid: Uid::parse(uid).unwrap(),
        ..config("o").reference()
    }
}

/// Adds large objects, updates them to have no references, and returns the number of comparisons.
fn flood(refer: impl Fn(u64) -> OwnerReference) -> u64 {
    let mut bed = Bed::new(PartitionId(1));
    let fat: Vec<Obj> = (0..ALL / EACH)
        .map(|fat| (fat * EACH..(fat + 1) * EACH).map(&refer).fold(config(&format!("fat-{fat}")), Obj::with))
        .collect();
    steps::of(|| {
        for object in fat.iter().cloned().chain(fat.iter().map(|fat| fat.clone().unowned().at(11))) {
            bed.see(&object);
        }
        assert_eq!((bed.partition.stats().edges, bed.partition.stats().nodes), (0, fat.len()));
    })
}

#[test]
fn one_uid_with_many_kinds_or_names_costs_no_more_than_many_uids() {
    let usual = flood(|number| reference(&format!("Kind{number}"), "owner", &random_uid(number)));
    let one = random_uid(0);
    // A search for one uid always passes the same places, of which some may look like a hit.
    let cost = flood(|number| reference(&format!("Kind{number}"), "owner", &one));
    assert!(cost <= 2 * usual, "{cost} comparisons, {usual} with random uids");
    // Each finds its node with one comparison.
    let cost = flood(|number| reference("ConfigMap", &format!("owner-{number}"), &one));
    assert!(cost <= 2 * usual, "{cost} comparisons, {usual} with random uids");
}
