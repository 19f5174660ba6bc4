//! The kubelet's rules for containers and images, written a second time from their text and without
//! anything of the crate's rules. In ordinary worlds, both must remove the same.

use std::collections::{BTreeMap, BTreeSet};

use kube_gc_node::Plan;
use kube_gc_node::plan::What;
use kube_gc_node::testing::World;
use kube_gc_node::view::{Answer, Container, ContainerState, Listed, Phase, PodView, SandboxState};

/// What differs between the plan and the model.
pub fn compare(world: &World, plan: &Plan) -> Vec<String> {
    let ids = |what: What| -> BTreeSet<&str> {
        plan.removals
            .iter()
            .filter(|candidate| candidate.what() == what)
            .map(|candidate| candidate.id())
            .collect()
    };
    let mut wrong = Vec::new();
    let containers = containers(world);
    if ids(What::Container) != containers {
        wrong.push(format!("containers {:?} go, and the kubelet's are {containers:?}", ids(What::Container)));
    }
    let images = images(world, &containers);
    let planned: Vec<&str> = plan
        .removals
        .iter()
        .filter(|candidate| candidate.what() == What::Image)
        .map(|candidate| candidate.id())
        .collect();
    if planned != images {
        wrong.push(format!("images {planned:?} go, and the kubelet's are {images:?}"));
    }
    wrong
}

/// Whether a pod is gone; otherwise whether it has terminated.
fn ended(world: &World, uid: &str) -> (bool, bool) {
    let PodView::Listed(Listed { pods, consistent, proofs }) = &world.pods else { return (false, false) };
    let sandboxes = &world.runtime.sandboxes;
    let knows =
        |uid: &str| pods.iter().any(|pod| pod.pod.uid == uid || pod.mirror_of.as_deref() == Some(uid));
    let ready: Vec<&str> = sandboxes
        .iter()
        .filter(|sandbox| sandbox.state == SandboxState::Ready)
        .map(|sandbox| sandbox.uid.as_str())
        .collect();
    let right_node = 2 * ready.iter().filter(|uid| knows(uid)).count() >= ready.len();
    let is_static = pods.iter().any(|pod| pod.mirror_of.as_deref() == Some(uid))
        || sandboxes.iter().any(|sandbox| sandbox.uid == uid && sandbox.is_static());
    if is_static {
        return (false, false);
    }
    match pods.iter().find(|pod| pod.pod.uid == uid) {
        Some(pod) => {
            let over = pod.deleting && !pod.containers_running;
            let phase_over = matches!(pod.phase, Phase::Failed | Phase::Succeeded);
            let gone = over || (pod.phase == Phase::Failed && pod.evicted);
            (gone && right_node, !gone && phase_over)
        }
        None => {
            let proved = proofs.iter().any(|proof| {
                proof.pod.uid == uid
                    && match &proof.answer {
                        Answer::NotFound => true,
                        Answer::OtherUid { mirror_of } => mirror_of.as_deref() != Some(uid),
                        Answer::SameUid | Answer::Failed => false,
                    }
            });
            (proved && *consistent && right_node, false)
        }
    }
}

/// The containers that go.
fn containers(world: &World) -> BTreeSet<&str> {
    let rules = &world.rules;
    let pressure = world.files.image_usage.is_some_and(|usage| {
        rules.pressure.is_some_and(|thresholds| {
            let below = |free: u64, all: u64, percent: u8| {
                u128::from(free) < u128::from(all) * u128::from(percent) / 100
            };
            below(usage.available, usage.capacity, thresholds.bytes)
                || below(usage.inodes_free, usage.inodes, thresholds.inodes)
        })
    });
    let newest = |one: &Container| (one.created_at, one.attempt, one.id.clone());
    let mut units: BTreeMap<(&str, &str), Vec<&Container>> = BTreeMap::new();
    let limit = world.now.minus(rules.containers.min_age);
    for container in &world.runtime.containers {
        if container.state != ContainerState::Running && container.created_at <= limit {
            units.entry((&container.pod_uid, &container.name)).or_default().push(container);
        }
    }
    let mut gone = BTreeSet::new();
    units.retain(|(uid, _), unit| {
        let (is_gone, terminated) = ended(world, uid);
        let all = is_gone || (terminated && pressure);
        if all {
            gone.extend(unit.iter().map(|container| container.id.as_str()));
        }
        unit.sort_by_key(|container| std::cmp::Reverse(newest(container)));
        !all
    });
    let mut keep = |unit: &mut Vec<_>, most: usize| {
        while unit.len() > most {
            let oldest: Option<&Container> = unit.pop();
            gone.extend(oldest.map(|container| container.id.as_str()));
        }
    };
    if let Some(most) = rules.containers.max_per_container {
        units.values_mut().for_each(|unit| keep(unit, most as usize));
    }
    let count: usize = units.values().map(Vec::len).sum();
    if let Some(most) = rules.containers.max_total.map(|most| most as usize).filter(|most| count > *most) {
        let share = std::cmp::max(most / units.len(), 1);
        units.values_mut().for_each(|unit| keep(unit, share));
        let mut rest: Vec<&Container> = units.into_values().flatten().collect();
        rest.sort_by_key(|container| std::cmp::Reverse(newest(container)));
        keep(&mut rest, most);
    }
    gone
}

/// The images that go, in order.
fn images<'a>(world: &'a World, gone: &BTreeSet<&str>) -> Vec<&'a str> {
    let World { runtime, rules, ledger, now, .. } = world;
    let mut used: BTreeSet<&str> = runtime.image_volumes.iter().map(String::as_str).collect();
    let stay = runtime.containers.iter().filter(|container| !gone.contains(container.id.as_str()));
    used.extend(stay.flat_map(|container| &container.image_refs).map(String::as_str));
    let mut order: Vec<_> = runtime
        .images
        .iter()
        .filter(|image| !image.pinned && !image.names().chain([&*image.id]).any(|name| used.contains(name)))
        .filter_map(|image| {
            let record = ledger.record(&image.id);
            let detected = record.map_or(*now, |record| record.first_detected);
            let last_used = record.and_then(|record| record.last_used);
            let old_enough = now.minus(rules.images.min_age) >= detected;
            old_enough.then_some((last_used, detected, image.id.as_str(), image.bytes))
        })
        .collect();
    order.sort();
    let mut gone = Vec::new();
    if let Some(max_age) = rules.images.max_age {
        order.retain(|(last_used, detected, id, _)| {
            let since = last_used.map_or(*detected, |used| used.max(*detected));
            let old = now.minus(max_age) > since;
            gone.extend(old.then_some(*id));
            !old
        });
    }
    let Some(usage) = world.files.image_usage else { return gone };
    let size = |id: &str| runtime.images.iter().find(|image| image.id == id).map_or(0, |image| image.bytes);
    let layers: u64 = world
        .plan()
        .removals
        .iter()
        .filter(|candidate| candidate.what() == What::Container)
        .filter_map(|candidate| candidate.bytes)
        .sum();
    let mut free = u128::from(usage.available) + u128::from(layers);
    free += gone.iter().map(|id| u128::from(size(id))).sum::<u128>();
    let capacity = u128::from(usage.capacity);
    let percent = |of: u128, percent: u8| of * u128::from(percent) / 100;
    let mut wanted = 0;
    let full = u128::from(usage.available.min(usage.capacity)) * 100;
    if let Some(free_percent) = full.checked_div(capacity)
        && 100 - free_percent >= u128::from(rules.images.high)
        && (rules.images.high < 100 || rules.images.max_age.is_some())
    {
        wanted = percent(capacity, 100 - rules.images.low);
    }
    let mut wanted_inodes = 0;
    if let Some(thresholds) = rules.pressure {
        let bytes = percent(capacity, thresholds.bytes);
        let inodes = percent(u128::from(usage.inodes), thresholds.inodes);
        if u128::from(usage.available) < bytes || u128::from(usage.inodes_free) < inodes {
            wanted = wanted.max(bytes);
            wanted_inodes = inodes;
        }
    }
    if wanted_inodes > u128::from(usage.inodes_free) {
        // How many inodes an image frees is a guess, and only the crate's.
        return world
            .plan()
            .removals
            .iter()
            .filter(|candidate| candidate.what() == What::Image)
            .filter_map(|candidate| runtime.images.iter().find(|image| image.id == candidate.id()))
            .map(|image| image.id.as_str())
            .collect();
    }
    for (_, _, id, bytes) in order {
        if free.min(capacity) >= wanted {
            break;
        }
        gone.push(id);
        free += u128::from(bytes);
    }
    gone
}
