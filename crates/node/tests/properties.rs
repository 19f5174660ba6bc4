//! Each rule as a property of random worlds. A failure is made small. The test `worlds` judges far more of
//! them, and the invariants.

#![allow(clippy::unwrap_used, reason = "a test panics where something is missing")]

use std::collections::{BTreeMap, HashMap, HashSet};

use kube_gc_node::logs::{c8_log_file, l2_container_id};
use kube_gc_node::plan::{Action, Candidate, Target, What};
use kube_gc_node::pods::{PodState, Pods};
use kube_gc_node::rules::LogRoots;
use kube_gc_node::testing::World;
use kube_gc_node::view::{Container, ContainerState, Extent, PodView, SandboxState, SymlinkState};
use kube_gc_node::{Ledger, Plan, Rule, pods, pressure};
use proptest::prelude::*;

/// A random world; a smaller one has fewer pods.
fn world() -> impl Strategy<Value = World> {
    (any::<u64>(), 0_usize..8).prop_map(|(seed, pods)| World::random(seed, pods))
}

/// A random world in which every container says what it is.
fn ordinary() -> impl Strategy<Value = World> {
    (any::<u64>(), 0_usize..8).prop_map(|(seed, pods)| World::ordinary(seed, pods))
}

fn removed(plan: &Plan, what: What) -> HashSet<&str> {
    plan.removals.iter().filter(|candidate| candidate.what() == what).map(Candidate::id).collect()
}

fn of_rule(plan: &Plan, rule: Rule) -> Vec<&str> {
    plan.removals.iter().filter(|candidate| candidate.rule == rule).map(Candidate::id).collect()
}

fn find<'a>(world: &'a World, id: &str) -> &'a Container {
    world.runtime.containers.iter().find(|container| container.id == id).unwrap()
}

/// The container candidates of each unit (C2), newest first.
fn units(world: &World) -> BTreeMap<(&str, &str), Vec<&Container>> {
    let mut units: BTreeMap<(&str, &str), Vec<&Container>> = BTreeMap::new();
    for container in &world.runtime.containers {
        if container.state != ContainerState::Running {
            units.entry((&container.pod_uid, &container.name)).or_default().push(container);
        }
    }
    for unit in units.values_mut() {
        unit.sort_by_key(|container| {
            std::cmp::Reverse((container.created_at, container.attempt, &container.id))
        });
    }
    units
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_same_world_has_the_same_plan(world in world()) {
        let (once, twice) = (world.plan(), world.plan());
        prop_assert_eq!(once.entries, twice.entries);
        prop_assert_eq!(once.removals, twice.removals);
    }

    #[test]
    fn c1_what_goes_does_not_run_and_is_old_enough(world in world()) {
        let plan = world.plan();
        let limit = world.now.minus(world.rules.containers.min_age);
        for id in removed(&plan, What::Container) {
            let container = find(&world, id);
            prop_assert_ne!(container.state, ContainerState::Running);
            prop_assert!(container.created_at <= limit);
        }
    }

    /// What becomes of the containers of a unit does not depend on another unit.
    #[test]
    fn c2_each_unit_is_decided_about_by_itself(world in ordinary(), which in any::<prop::sample::Index>()) {
        let mut world = world;
        world.rules.containers.max_total = None;
        let units: Vec<(String, String)> = units(&world)
            .into_keys()
            .map(|(uid, name)| (uid.to_owned(), name.to_owned()))
            .collect();
        prop_assume!(!units.is_empty());
        let (uid, name) = which.get(&units);
        let is_of_unit = |container: &Container| container.pod_uid == *uid && container.name == *name;
        let others = |plan: &Plan, world: &World| -> HashSet<String> {
            let gone = removed(plan, What::Container).into_iter();
            gone.filter(|id| !is_of_unit(find(world, id))).map(str::to_owned).collect()
        };
        let with = others(&world.plan(), &world);
        world.runtime.containers.retain(|container| !is_of_unit(container));
        prop_assert_eq!(others(&world.plan(), &world), with);
    }

    #[test]
    fn c4_and_p1_need_pressure(world in world()) {
        let plan = world.plan();
        let known = Pods::of(&world.runtime, &world.pods, &world.files);
        for candidate in plan.removals.iter().filter(|candidate| candidate.rule == Rule::C4) {
            let Target::Container { uid, .. } = &candidate.target else { continue };
            prop_assert_eq!(known.state(uid), PodState::Terminated);
        }
        let usage = world.files.image_usage;
        if usage.and_then(|usage| pressure::p1(&usage, &world.rules)).is_none() {
            for rule in [Rule::C4, Rule::P1] {
                prop_assert_eq!(of_rule(&plan, rule), Vec::<&str>::new());
            }
        }
    }

    /// C2 and C5: within a pod and a name, nothing newer goes while something older stays.
    #[test]
    fn c5_the_oldest_of_a_unit_go(world in ordinary()) {
        let plan = world.plan();
        let gone: HashSet<&str> = of_rule(&plan, Rule::C5).into_iter().collect();
        let kept_by_c5 = |container: &Container| {
            plan.entry(What::Container, &container.id).is_some_and(|entry| {
                entry.decision == Action::Keep && entry.rule == Rule::C5
            })
        };
        for unit in units(&world).values() {
            let first_gone = unit.iter().position(|container| gone.contains(container.id.as_str()));
            let last_kept = unit.iter().rposition(|container| kept_by_c5(container));
            if let (Some(first_gone), Some(last_kept)) = (first_gone, last_kept) {
                prop_assert!(last_kept < first_gone, "an older one stays");
            }
            let kept = unit.iter().filter(|container| kept_by_c5(container)).count();
            if let Some(most) = world.rules.containers.max_per_container {
                prop_assert!(kept <= most as usize);
                prop_assert!(first_gone.is_none() || kept == most as usize || !of_rule(&plan, Rule::C6).is_empty());
            }
        }
    }

    #[test]
    fn c3_and_l1_need_all_pods(world in world()) {
        if !matches!(world.pods, PodView::Listed(_)) {
            let plan = world.plan();
            for rule in [Rule::C3, Rule::C4, Rule::L1] {
                prop_assert_eq!(of_rule(&plan, rule), Vec::<&str>::new());
            }
        }
    }

    #[test]
    fn c6_needs_a_whole_list_and_a_limit(world in world()) {
        let plan = world.plan();
        if world.rules.containers.max_total.is_none() || world.runtime.containers_extent == Extent::Slice {
            prop_assert_eq!(of_rule(&plan, Rule::C6), Vec::<&str>::new());
        }
    }

    #[test]
    fn c7_what_is_unknown_is_stopped_first_and_nothing_else(world in world()) {
        for candidate in world.plan().removals {
            if let Target::Container { id, stop_first, .. } = &candidate.target {
                prop_assert_eq!(*stop_first, find(&world, id).state == ContainerState::Unknown);
            }
        }
    }

    /// C8: whatever the path, what comes out leads back to it, beneath the root, in the pod's directory.
    #[test]
    fn c8_no_path_leads_out(
        path in "(/var/log/pods/)?([a-z_.*/\0-]|\\.\\./|ns_pod_u1/){0,12}",
        uid in "u[12]",
    ) {
        let roots = LogRoots { pods: "/var/log/pods".to_owned(), containers: "/var/log/containers".to_owned() };
        if let Ok(file) = c8_log_file(&path, &uid, &roots) {
            let below = file.directories.join("/") + "/" + &file.name;
            prop_assert_eq!(format!("/var/log/pods/{below}"), path);
            prop_assert!(!below.split('/').any(|part| matches!(part, "" | "." | "..")));
            prop_assert!(file.directories[0].rsplit('_').next() == Some(uid.as_str()));
        }
    }

    #[test]
    fn s1_a_pod_that_is_not_gone_keeps_its_newest_sandbox(world in world()) {
        let plan = world.plan();
        let known = Pods::of(&world.runtime, &world.pods, &world.files);
        let gone = removed(&plan, What::Sandbox);
        let mut newest: HashMap<&str, _> = HashMap::new();
        for sandbox in &world.runtime.sandboxes {
            let newest = newest.entry(sandbox.uid.as_str()).or_insert(sandbox);
            let age = |sandbox: &kube_gc_node::view::Sandbox| (sandbox.created_at, sandbox.attempt, sandbox.id.clone());
            if age(sandbox) > age(newest) {
                *newest = sandbox;
            }
        }
        for (uid, sandbox) in newest {
            use kube_gc_node::pods::PodState::{Gone, Terminated};
            if !matches!(known.state(uid), Gone(_) | Terminated) {
                prop_assert!(!gone.contains(sandbox.id.as_str()));
            }
            prop_assert!(sandbox.state != SandboxState::Ready || !gone.contains(sandbox.id.as_str()));
        }
    }

    #[test]
    fn l2_what_goes_leads_nowhere_and_its_container_has_exited(world in world()) {
        let plan = world.plan();
        let directories = removed(&plan, What::LogDirectory);
        for name in of_rule(&plan, Rule::L2) {
            let symlink = world.files.log_symlinks.iter().find(|symlink| symlink.name == name).unwrap();
            let below = symlink.target.strip_prefix(&world.rules.roots.pods).unwrap_or_default();
            let goes_too = below.split('/').nth(1).is_some_and(|name| directories.contains(name));
            prop_assert!(symlink.state == SymlinkState::Dangling || goes_too, "{:?}", symlink);
            let id = l2_container_id(name);
            let mut of_id = world.runtime.containers.iter().filter(|other| id.is_some_and(|id| other.id.starts_with(id)));
            prop_assert!(of_id.all(|container| container.state == ContainerState::Exited), "{}", name);
        }
    }

    #[test]
    fn i2_no_pinned_image_goes_or_is_in_line(world in world()) {
        let plan = world.plan();
        let pinned: HashSet<&str> =
            world.runtime.images.iter().filter(|image| image.pinned).map(|image| image.id.as_str()).collect();
        let mut images =
            plan.removals.iter().chain(&plan.in_line).filter(|candidate| candidate.what() == What::Image);
        prop_assert!(images.all(|candidate| !pinned.contains(candidate.id())));
    }

    #[test]
    fn i7_without_a_threshold_and_an_age_no_image_goes(world in world()) {
        let mut world = world;
        (world.rules.images.high, world.rules.images.max_age) = (100, None);
        (world.rules.free, world.rules.pressure) = (None, None);
        let plan = world.plan();
        prop_assert!(removed(&plan, What::Image).is_empty() && plan.in_line.is_empty());
    }

    #[test]
    fn i3_images_go_in_the_order_of_their_last_use(world in world()) {
        let plan = world.plan();
        let order = |candidate: &Candidate| {
            let Target::Image { id, purpose, .. } = &candidate.target else { return None };
            let image = world.runtime.images.iter().find(|image| image.id == *id)?;
            let record = world.ledger.record(&image.key());
            let last_used = record.and_then(|record| record.last_used);
            let detected = record.map_or(world.now, |record| record.first_detected);
            Some((*purpose == kube_gc_node::images::Purpose::Space, last_used, detected))
        };
        let orders: Vec<_> = plan.removals.iter().filter_map(order).collect();
        prop_assert!(orders.is_sorted(), "{:?}", orders);
    }

    #[test]
    fn i5_and_i6_hold_for_what_goes_by_age(world in world()) {
        let plan = world.plan();
        for id in of_rule(&plan, Rule::I6) {
            let image = world.runtime.images.iter().find(|image| image.id == id).unwrap();
            let record = world.ledger.record(&image.key()).unwrap();
            let since = record.last_used.unwrap_or(record.first_detected).max(record.first_detected);
            prop_assert!(since < world.now.minus(world.rules.images.max_age.unwrap()));
            prop_assert!(record.first_detected <= world.now.minus(world.rules.images.min_age));
        }
    }

    #[test]
    fn i4_and_p1_free_nothing_without_a_reason(world in world()) {
        let plan = world.plan();
        if plan.goal.is_none() {
            for rule in [Rule::I4, Rule::P1, Rule::Free] {
                prop_assert_eq!(of_rule(&plan, rule), Vec::<&str>::new());
            }
        }
    }

    /// What a pass has asked and been answered needs no second question.
    #[test]
    fn proofs_are_asked_for_once(world in world()) {
        let asked = pods::needing_proof(&world.runtime, &world.pods, &world.files);
        let PodView::Listed(mut listed) = world.pods.clone() else {
            prop_assert!(asked.is_empty());
            return Ok(());
        };
        let answer = kube_gc_node::view::Answer::Failed;
        listed.proofs.extend(asked.into_iter().map(|pod| kube_gc_node::view::Proof { pod, answer: answer.clone() }));
        let again = pods::needing_proof(&world.runtime, &PodView::Listed(listed), &world.files);
        prop_assert!(again.is_empty(), "{:?}", again);
    }

    #[test]
    fn the_ledger_survives_a_state_file(world in world()) {
        let mut ledger = world.ledger.clone();
        ledger.observe(&world.runtime, &world.pods, world.now);
        prop_assert_eq!(Ledger::parse(&ledger.to_json().unwrap()).unwrap(), ledger);
    }

    #[test]
    fn any_state_file_is_read_or_is_an_error(content in any::<Vec<u8>>()) {
        let _ = Ledger::parse(&content);
    }
}
