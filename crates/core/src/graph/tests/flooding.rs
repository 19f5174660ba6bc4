//! Users choose the uids, kinds and names in references. No choice may cost more than others.

use std::num::NonZeroU16;
use std::sync::Arc;

use crate::graph::testing::world::{catalog, config, resource};
use crate::graph::*;
use crate::object::*;

/// References of one object, about as many as the API server accepts.
const EACH: u64 = 8_000;
/// References in all.
const ALL: u64 = 152_000;

fn partition() -> Partition {
    let sharding = Sharding::new(NonZeroU16::MIN, HashSeed::new(3));
    let mut partition = Partition::new(PartitionId(1), sharding, Arc::clone(catalog()));
    let started = Intake::MonitorStarted {
        resource: resource("configmaps"),
        epoch: Epoch(1),
        deletes_prove: DeletesProve::Absence,
    };
    partition.intake(started, &mut Effects::default());
    partition
}

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
    let mut partition = partition();
    let fat: Vec<ObjectFacts> = (0..ALL / EACH)
        .map(|fat| {
            let mut facts = config(&format!("fat-{fat}")).facts;
            facts.owners = (fat * EACH..(fat + 1) * EACH).map(&refer).collect();
            facts
        })
        .collect();
    let lean = fat.iter().cloned().map(|mut facts| {
        facts.resource_version = Some(ResourceVersion::number(11));
        facts.owners.clear();
        facts
    });
    steps::of(|| {
        for facts in fat.iter().cloned().chain(lean) {
            let change = Intake::Events {
                resource: resource("configmaps"),
                epoch: Epoch(1),
                events: vec![WatchEvent::Apply(facts)],
            };
            partition.intake(change, &mut Effects::default());
        }
        assert_eq!((partition.stats().edges, partition.stats().nodes), (0, fat.len()));
    })
}

#[test]
fn crafted_uids_cost_the_graph_no_more_than_random_uids() {
    let usual = flood(|number| reference("ConfigMap", "owner", &crafted::random(number)));
    for (family, make) in crafted::FAMILIES {
        let cost = flood(|number| reference("ConfigMap", "owner", &make(number)));
        assert!(cost <= usual * 11 / 10, "{family}: {cost} comparisons, {usual} with random uids");
    }
}

#[test]
fn one_uid_with_many_kinds_or_names_costs_no_more_than_many_uids() {
    let usual = flood(|number| reference(&format!("Kind{number}"), "owner", &crafted::random(number)));
    let one = crafted::random(0);
    // A search for one uid always passes the same places, of which some may look like a hit.
    let cost = flood(|number| reference(&format!("Kind{number}"), "owner", &one));
    assert!(cost <= 2 * usual, "{cost} comparisons, {usual} with random uids");
    // Each finds its node with one comparison.
    let cost = flood(|number| reference("ConfigMap", &format!("owner-{number}"), &one));
    assert!(cost <= 2 * usual, "{cost} comparisons, {usual} with random uids");
}
