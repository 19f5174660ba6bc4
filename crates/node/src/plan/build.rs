//! How a plan is made: the rules of each kind of item, one after the other.

use std::collections::{HashMap, HashSet};

use crate::containers::{self, c7_stops_first};
use crate::images::{self, Input, Purpose};
use crate::logs::{self, Before, parse_directory};
use crate::mutation::{self, Mutation};
use crate::pods::Pods;
use crate::pressure;
use crate::rule::{Decision, escaped};
use crate::rules::Limits;
use crate::sandboxes;
use crate::view::{Container, ContainerState, Image, Sandbox};
use crate::{Files, Ledger, PodRef, PodView, Rule, Rules, RuntimeView, Timestamp};

use super::{Action, Breakdown, Candidate, Entry, Plan, Target, What};

/// Decides about every item.
///
/// The ledger should have observed the same view: an image that it does not know counts as detected
/// now. Each candidate is to be checked by [`crate::still_removable`] right before its removal.
pub fn plan(
    runtime: &RuntimeView,
    pods: &PodView,
    files: &Files,
    ledger: &Ledger,
    rules: &Rules,
    now: Timestamp,
) -> Plan {
    let known = Pods::of(runtime, pods, files);
    let usage = files.image_usage.as_ref();
    let goal = usage.and_then(|usage| pressure::goal(usage, rules));
    let under_pressure = usage.is_some_and(|usage| pressure::p1(usage, rules).is_some());
    let mut more = false;
    let Limits { containers: most, images: most_images } = rules.limits;

    let mut of_containers = containers::decide(runtime, &known, rules, now, under_pressure);
    let containers = ordered(&of_containers, |index| {
        let container = &runtime.containers[index];
        (of_containers[index].rule, container.created_at, &container.id)
    });
    let most = if mutation::is(Mutation::NoContainerLimit) { usize::MAX } else { most };
    let containers = limit(containers, most, &mut of_containers, &mut more);

    let occupied = with_containers(runtime, &of_containers);
    let has_containers = |id: &str| occupied.contains(id);
    let mut of_sandboxes = sandboxes::decide(runtime, &known, rules, has_containers, under_pressure);
    let sandboxes = ordered(&of_sandboxes, |index| {
        let sandbox = &runtime.sandboxes[index];
        (sandbox.created_at, &sandbox.id)
    });
    let sandboxes = limit(sandboxes, most, &mut of_sandboxes, &mut more);

    let mut of_directories = logs::l1(runtime, &known, files, rules, now);
    let directories = ordered(&of_directories, |index| &files.log_directories[index].name);
    let directories = limit(directories, most, &mut of_directories, &mut more);
    let before = Before {
        containers: containers
            .iter()
            .filter_map(|&index| Some((logs::c8_symlink(&runtime.containers[index])?, index)))
            .collect(),
        directories: directories.iter().map(|&index| files.log_directories[index].name.as_str()).collect(),
    };
    let mut of_symlinks = logs::l2(runtime, files, rules, &before);
    // Those of containers go with them and take no place of their own.
    let symlinks = ordered(&of_symlinks, |index| &files.log_symlinks[index].name);
    let symlinks = symlinks.into_iter().filter(|&index| of_symlinks[index].rule != Rule::C8).collect();
    let symlinks = limit(symlinks, most, &mut of_symlinks, &mut more);

    let goes: HashSet<usize> = containers.iter().copied().collect();
    let layers = containers.iter().filter_map(|&index| runtime.containers[index].layer_bytes);
    let input = Input {
        runtime,
        pods,
        ledger,
        rules,
        now,
        usage,
        goal: goal.as_ref(),
        freed_before: layers.fold(0, u64::saturating_add),
    };
    let mut of_images = images::decide(&input, |index| goes.contains(&index));
    let most_images = if mutation::is(Mutation::NoImageLimit) { usize::MAX } else { most_images };
    let old_images = of_images.removals.iter().filter(|(_, purpose)| *purpose == Purpose::Age).count();
    let leaves_due = more || old_images > most_images;
    let images = of_images.removals.iter().map(|(index, _)| *index).collect();
    let images = limit(images, most_images, &mut of_images.decisions, &mut more);
    let mut purposes = vec![Purpose::Space; runtime.images.len()];
    for &(index, purpose) in &of_images.removals {
        purposes[index] = purpose;
    }

    // Everything is decided; what follows puts it in order.
    let symlink_names: HashSet<&str> = files
        .log_symlinks
        .iter()
        .zip(&of_symlinks)
        .filter(|(_, decision)| decision.removes && decision.rule == Rule::C8)
        .map(|(symlink, _)| symlink.name.as_str())
        .collect();
    let mut removals = Vec::new();
    let container_order = numbered(&containers, &mut removals, |index| {
        container_candidate(&runtime.containers[index], runtime, &of_containers[index], &symlink_names)
    });
    let sandbox_order = numbered(&sandboxes, &mut removals, |index| {
        let Sandbox { id, uid, created_at, .. } = &runtime.sandboxes[index];
        let target = Target::Sandbox { id: id.clone(), uid: uid.clone(), created_at: *created_at };
        Candidate { target, rule: of_sandboxes[index].rule, bytes: None }
    });
    let directory_order = numbered(&directories, &mut removals, |index| {
        let directory = &files.log_directories[index];
        let uid = parse_directory(&directory.name).uid().to_owned();
        let target = Target::LogDirectory { name: directory.name.clone(), uid };
        Candidate { target, rule: of_directories[index].rule, bytes: Some(directory.bytes) }
    });
    let symlink_order = numbered(&symlinks, &mut removals, |index| {
        let target = Target::LogSymlink { name: files.log_symlinks[index].name.clone() };
        Candidate { target, rule: of_symlinks[index].rule, bytes: None }
    });
    let image_order = numbered(&images, &mut removals, |index| {
        image_candidate(&runtime.images[index], of_images.decisions[index].rule, purposes[index])
    });
    let in_line_of = |index: &usize| {
        image_candidate(&runtime.images[*index], of_images.decisions[*index].rule, Purpose::Space)
    };
    // What the limit left for the next pass comes first there, so nothing overtakes it here.
    let in_line: Vec<Candidate> = if images.len() < of_images.removals.len() {
        Vec::new()
    } else {
        of_images.in_line.iter().map(in_line_of).collect()
    };

    let mut entries = Vec::new();
    for (index, (container, decision)) in runtime.containers.iter().zip(of_containers).enumerate() {
        entries.push(container_entry(container, decision, container_order.get(&index)));
    }
    for (index, (sandbox, decision)) in runtime.sandboxes.iter().zip(of_sandboxes).enumerate() {
        let mut entry = entry(What::Sandbox, &sandbox.id, decision, sandbox_order.get(&index));
        entry.pod = Some(PodRef::new(&sandbox.namespace, &sandbox.name, &sandbox.uid));
        entries.push(entry);
    }
    for (index, (directory, decision)) in files.log_directories.iter().zip(of_directories).enumerate() {
        let mut entry = entry(What::LogDirectory, &directory.name, decision, directory_order.get(&index));
        entry.bytes = Some(directory.bytes);
        let named = parse_directory(&directory.name).named();
        entry.pod = named.map(|(namespace, name, uid)| PodRef::new(namespace, name, uid));
        entries.push(entry);
    }
    for (index, (symlink, decision)) in files.log_symlinks.iter().zip(of_symlinks).enumerate() {
        let with_container = before.containers.get(&symlink.name).filter(|_| decision.rule == Rule::C8);
        let of_container = with_container.and_then(|index| container_order.get(index));
        let order = symlink_order.get(&index).or(of_container);
        entries.push(entry(What::LogSymlink, &symlink.name, decision, order));
    }
    let first_image = entries.len();
    for (index, (image, decision)) in runtime.images.iter().zip(of_images.decisions).enumerate() {
        let mut entry = entry(What::Image, &image.id, decision, image_order.get(&index));
        entry.name = image.names().next().map(escaped);
        entry.bytes = Some(image.bytes);
        entries.push(entry);
    }
    let of_image = entries[first_image..].iter().zip(&of_images.used).map(|(entry, used)| {
        // What only usage or the limit keeps is unused.
        let waits = matches!(entry.rule, Rule::I4 | Rule::I7 | Rule::P1 | Rule::Free | Rule::Safety4);
        (entry, *used, waits)
    });
    let breakdown = Breakdown::of(of_image, runtime, usage);
    // What goes comes first, in its order. What stays keeps the order of the views.
    entries.sort_by_key(|entry| entry.order.unwrap_or(u32::MAX));
    Plan {
        entries,
        removals,
        in_line,
        breakdown,
        usage: usage.copied(),
        goal,
        effects: rules.effects(),
        more,
        leaves_due,
        wrong_node: known.is_on_wrong_node(),
    }
}

/// Adds what goes to the removals. Returns the place of each item among them, from 1 on, by its index in
/// the view.
fn numbered(
    indexes: &[usize],
    removals: &mut Vec<Candidate>,
    candidate: impl Fn(usize) -> Candidate,
) -> HashMap<usize, u32> {
    let mut places = HashMap::new();
    for &index in indexes {
        removals.push(candidate(index));
        places.insert(index, u32::try_from(removals.len()).unwrap_or(u32::MAX));
    }
    places
}

/// The indexes of what goes, in order.
fn ordered<K: Ord>(decisions: &[Decision], key: impl Fn(usize) -> K) -> Vec<usize> {
    let mut indexes: Vec<usize> = (0..decisions.len()).filter(|&index| decisions[index].removes).collect();
    indexes.sort_by_key(|&index| key(index));
    indexes
}

/// Safety 4: a pass removes so many at most, and then everything is looked at anew.
fn limit(mut indexes: Vec<usize>, most: usize, decisions: &mut [Decision], more: &mut bool) -> Vec<usize> {
    if indexes.len() > most {
        *more = true;
        for index in indexes.drain(most..) {
            decisions[index].overrule(Rule::Safety4, "a pass removes no more than it does before");
        }
    }
    indexes
}

/// The ids of sandboxes that have containers when those that go have gone.
fn with_containers<'a>(runtime: &'a RuntimeView, decisions: &[Decision]) -> HashSet<&'a str> {
    let stay = runtime.containers.iter().zip(decisions).filter(|(_, decision)| !decision.removes);
    stay.map(|(container, _)| container.sandbox_id.as_str()).collect()
}

fn container_candidate(
    container: &Container,
    runtime: &RuntimeView,
    decision: &Decision,
    symlinks: &HashSet<&str>,
) -> Candidate {
    let symlink = logs::c8_symlink(container).filter(|name| symlinks.contains(name.as_str()));
    Candidate {
        target: Target::Container {
            id: container.id.clone(),
            name: container.name.clone(),
            uid: uid_of(container, runtime),
            state: container.state,
            created_at: container.created_at,
            stop_first: c7_stops_first(container.state),
            symlink,
        },
        rule: decision.rule,
        bytes: container.layer_bytes,
    }
}

/// The uid of a container's pod: by its label, else by its sandbox.
fn uid_of(container: &Container, runtime: &RuntimeView) -> String {
    if !container.pod_uid.is_empty() {
        return container.pod_uid.clone();
    }
    let sandbox = runtime.sandboxes.iter().find(|sandbox| sandbox.id == container.sandbox_id);
    sandbox.map(|sandbox| sandbox.uid.clone()).unwrap_or_default()
}

fn image_candidate(image: &Image, rule: Rule, purpose: Purpose) -> Candidate {
    let target =
        Target::Image { id: image.id.clone(), runtime_handler: image.runtime_handler.clone(), purpose };
    Candidate { target, rule, bytes: Some(image.bytes) }
}

fn entry(what: What, id: &str, decision: Decision, order: Option<&u32>) -> Entry {
    Entry {
        what,
        id: id.to_owned(),
        name: None,
        pod: None,
        decision: if decision.removes { Action::Remove } else { Action::Keep },
        rule: decision.rule,
        reason: decision.reason,
        bytes: None,
        order: order.copied(),
    }
}

fn container_entry(container: &Container, decision: Decision, order: Option<&u32>) -> Entry {
    let stops_first = decision.removes && container.state == ContainerState::Unknown;
    let mut entry = entry(What::Container, &container.id, decision, order);
    entry.name = Some(escaped(&container.name));
    entry.pod = Some(PodRef::new(&container.pod_namespace, &container.pod_name, &container.pod_uid));
    entry.bytes = container.layer_bytes;
    if stops_first {
        entry.reason.to_mut().push_str("; its state is unknown, so it is stopped first (C7)");
    }
    entry
}
