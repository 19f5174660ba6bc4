//! What must hold for a world and its plan.

use std::collections::{BTreeMap, BTreeSet};

use kube_gc_node::plan::{Action, What};
use kube_gc_node::safety;
use kube_gc_node::testing::{Random, World};
use kube_gc_node::view::{Image, Listed, Phase, PodView};
use kube_gc_node::{Plan, Rule};

use crate::{clock, live};

/// How many pods a world has at most.
const PODS: usize = 6;

/// Everything that is wrong with the world of a seed, in the plan or while it is carried out.
pub fn judge(seed: u64) -> Vec<String> {
    let world = World::random(seed, PODS);
    let plan = world.plan();
    let mut wrong: Vec<String> =
        safety::check(&world.inputs(), &plan).iter().map(ToString::to_string).collect();
    wrong.extend(every_item_has_its_entry(&world, &plan));
    wrong.extend(images_are_held_by_pods_that_may_start(&world, &plan));
    wrong.extend(images_go_in_their_order(&world, &plan));
    wrong.extend(live::carry_out(&world, &plan, &mut Random::new(!seed)));
    wrong.extend(clock::judge(&mut Random::new(seed)));
    wrong
}

/// Each item has exactly one entry, and what goes has a place of its own.
fn every_item_has_its_entry(world: &World, plan: &Plan) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut count: BTreeMap<What, usize> = BTreeMap::new();
    for entry in &plan.entries {
        *count.entry(entry.what).or_default() += 1;
        if (entry.decision == Action::Remove) != entry.order.is_some() {
            wrong.push(format!("{:?} {:?} has order {:?}", entry.what, entry.id, entry.order));
        }
        if entry.reason.is_empty() {
            wrong.push(format!("{:?} {:?} has no reason", entry.what, entry.id));
        }
    }
    let expected = BTreeMap::from([
        (What::Container, world.runtime.containers.len()),
        (What::Sandbox, world.runtime.sandboxes.len()),
        (What::LogDirectory, world.files.log_directories.len()),
        (What::LogSymlink, world.files.log_symlinks.len()),
        (What::Image, world.runtime.images.len()),
    ]);
    if expected.iter().any(|(what, expected)| count.get(what).copied().unwrap_or_default() != *expected) {
        wrong.push(format!("there are {expected:?}, and entries for {count:?}"));
    }
    let orders: BTreeSet<u32> = plan.entries.iter().filter_map(|entry| entry.order).collect();
    let places = u32::try_from(plan.removals.len()).unwrap_or(u32::MAX);
    if !orders.iter().copied().eq(1..=places) {
        wrong.push(format!("the places are {orders:?}, of {places}"));
    }
    wrong
}

/// The images of a world that have this id.
fn images<'a>(world: &'a World, id: &'a str) -> impl Iterator<Item = &'a Image> {
    world.runtime.images.iter().filter(move |image| image.id == id)
}

/// A pod that has ended holds no image.
fn images_are_held_by_pods_that_may_start(world: &World, plan: &Plan) -> Vec<String> {
    let PodView::Listed(Listed { pods, .. }) = &world.pods else { return Vec::new() };
    let may_start = pods.iter().filter(|pod| {
        let has_ended = matches!(pod.phase, Phase::Failed | Phase::Succeeded);
        pod.mirror_of.is_some() || !(has_ended || (pod.deleting && !pod.containers_running))
    });
    let held: BTreeSet<&String> = may_start.flat_map(|pod| &pod.images).collect();
    let is_held =
        |image: &Image| image.names().chain([&*image.id]).any(|name| held.contains(&name.to_owned()));
    let kept = plan.entries.iter().filter(|entry| entry.what == What::Image && entry.rule == Rule::B2);
    // The list may be another node's.
    let kept = kept.filter(|entry| !entry.reason.starts_with("the pods of this node are not known"));
    let wrong = kept.filter(|entry| !images(world, &entry.id).any(is_held));
    wrong.map(|entry| format!("image {} stays: {}", entry.id, entry.reason)).collect()
}

/// What could not be removed comes last, and what has no name first.
fn images_go_in_their_order(world: &World, plan: &Plan) -> Vec<String> {
    let removals = plan.removals.iter().filter(|candidate| candidate.what() == What::Image);
    let keys: Vec<_> = removals
        .map(|candidate| {
            let has_name = images(world, candidate.id()).any(|image| image.names().next().is_some());
            (candidate.rule != Rule::I6, world.tried.has_failed(What::Image, candidate.id()), has_name)
        })
        .collect();
    let wrong = (!keys.is_sorted()).then(|| format!("images go in the wrong order: {keys:?}"));
    wrong.into_iter().collect()
}
