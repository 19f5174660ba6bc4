//! How a plan is made: the rules of each kind of item, one after the other.

use std::cell::LazyCell;
use std::collections::{BTreeMap, HashSet};

use crate::containers::{self, c7_stops_first};
use crate::decision::Decision;
use crate::identity::escaped;
use crate::images::{self, Input, Purpose};
use crate::log_directory::parse_directory;
use crate::logs::{self, Before};
use crate::mutation::{self, Mutation};
use crate::pods::Pods;
use crate::pressure;
use crate::rules::Limits;
use crate::sandboxes;
use crate::view::{Container, ContainerState, Image, Sandbox};
use crate::{Files, Ledger, PodRef, PodView, Rule, Rules, RuntimeView, Timestamp};

use super::{Action, Breakdown, Candidate, Entry, Plan, Target, What};

/// Decides about every item.
///
/// The ledger should have observed the same view: an image that it does not know counts as detected
/// now. Each candidate is to be checked by [`crate::still_removable`] right before its removal.
#[must_use]
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

    // Most sandboxes are ready, and nobody asks for their containers.
    let occupied = LazyCell::new(|| with_containers(runtime, &of_containers));
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
    let mut orders = Orders::default();
    for &index in &containers {
        let container = &runtime.containers[index];
        removals.push(container_candidate(container, runtime, &of_containers[index], &symlink_names));
        orders.containers.insert(index, removals.len());
    }
    for &index in &sandboxes {
        removals.push(sandbox_candidate(&runtime.sandboxes[index], of_sandboxes[index].rule));
        orders.sandboxes.insert(index, removals.len());
    }
    for &index in &directories {
        let directory = &files.log_directories[index];
        let uid = parse_directory(&directory.name).uid().to_owned();
        let target = Target::LogDirectory { name: directory.name.clone(), uid };
        removals.push(Candidate { target, rule: of_directories[index].rule, bytes: Some(directory.bytes) });
        orders.directories.insert(index, removals.len());
    }
    for &index in &symlinks {
        let target = Target::LogSymlink { name: files.log_symlinks[index].name.clone() };
        removals.push(Candidate { target, rule: of_symlinks[index].rule, bytes: None });
        orders.symlinks.insert(index, removals.len());
    }
    for &index in &images {
        let rule = of_images.decisions[index].rule;
        removals.push(image_candidate(&runtime.images[index], rule, purposes[index]));
        orders.images.insert(index, removals.len());
    }
    let in_line_of = |index: &usize| {
        image_candidate(&runtime.images[*index], of_images.decisions[*index].rule, Purpose::Space)
    };
    // What the limit left for the next pass comes first there, so nothing overtakes it here.
    let in_line: Vec<Candidate> = if images.len() < of_images.removals.len() {
        Vec::new()
    } else {
        of_images.in_line.iter().map(in_line_of).collect()
    };

    let mut entries = Vec::with_capacity(
        runtime.containers.len()
            + runtime.sandboxes.len()
            + files.log_directories.len()
            + files.log_symlinks.len()
            + runtime.images.len(),
    );
    for (index, (container, decision)) in runtime.containers.iter().zip(of_containers).enumerate() {
        entries.push(container_entry(container, decision, orders.containers.get(&index)));
    }
    for (index, (sandbox, decision)) in runtime.sandboxes.iter().zip(of_sandboxes).enumerate() {
        let mut entry = entry(What::Sandbox, &sandbox.id, decision, orders.sandboxes.get(&index));
        entry.pod = Some(PodRef::new(&sandbox.namespace, &sandbox.name, &sandbox.uid));
        entries.push(entry);
    }
    for (index, (directory, decision)) in files.log_directories.iter().zip(of_directories).enumerate() {
        let mut entry = entry(What::LogDirectory, &directory.name, decision, orders.directories.get(&index));
        entry.bytes = Some(directory.bytes);
        let named = parse_directory(&directory.name).named();
        entry.pod = named.map(|(namespace, name, uid)| PodRef::new(namespace, name, uid));
        entries.push(entry);
    }
    for (index, (symlink, decision)) in files.log_symlinks.iter().zip(of_symlinks).enumerate() {
        let with_container = before.containers.get(&symlink.name).filter(|_| decision.rule == Rule::C8);
        let of_container = with_container.and_then(|index| orders.containers.get(index));
        let order = orders.symlinks.get(&index).or(of_container);
        entries.push(entry(What::LogSymlink, &symlink.name, decision, order));
    }
    let first_image = entries.len();
    for (index, (image, decision)) in runtime.images.iter().zip(of_images.decisions).enumerate() {
        let mut entry = entry(What::Image, &image.id, decision, orders.images.get(&index));
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
    Plan {
        // In most passes, nothing goes.
        entries: if removals.is_empty() { entries } else { what_goes_first(entries) },
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

/// The place of each item among what goes, by its index in the view.
#[derive(Default)]
struct Orders {
    containers: BTreeMap<usize, usize>,
    sandboxes: BTreeMap<usize, usize>,
    directories: BTreeMap<usize, usize>,
    symlinks: BTreeMap<usize, usize>,
    images: BTreeMap<usize, usize>,
}

/// Puts what goes first, in its order. What stays keeps the order of the views.
fn what_goes_first(entries: Vec<Entry>) -> Vec<Entry> {
    let mut places: Vec<usize> = (0..entries.len()).collect();
    places.sort_by_key(|&place| entries[place].order.unwrap_or(u32::MAX));
    let mut entries: Vec<Option<Entry>> = entries.into_iter().map(Some).collect();
    places.into_iter().filter_map(|place| entries[place].take()).collect()
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

fn sandbox_candidate(sandbox: &Sandbox, rule: Rule) -> Candidate {
    let Sandbox { id, uid, created_at, .. } = sandbox;
    let target = Target::Sandbox { id: id.clone(), uid: uid.clone(), created_at: *created_at };
    Candidate { target, rule, bytes: None }
}

fn image_candidate(image: &Image, rule: Rule, purpose: Purpose) -> Candidate {
    let target =
        Target::Image { id: image.id.clone(), runtime_handler: image.runtime_handler.clone(), purpose };
    Candidate { target, rule, bytes: Some(image.bytes) }
}

fn entry(what: What, id: &str, decision: Decision, order: Option<&usize>) -> Entry {
    Entry {
        what,
        id: id.to_owned(),
        name: None,
        pod: None,
        decision: if decision.removes { Action::Remove } else { Action::Keep },
        rule: decision.rule,
        reason: decision.reason,
        bytes: None,
        order: order.and_then(|order| u32::try_from(*order).ok()),
    }
}

fn container_entry(container: &Container, decision: Decision, order: Option<&usize>) -> Entry {
    let stops_first = decision.removes && container.state == ContainerState::Unknown;
    let mut entry = entry(What::Container, &container.id, decision, order);
    entry.name = Some(containers::title(container));
    entry.pod = Some(PodRef::new(&container.pod_namespace, &container.pod_name, &container.pod_uid));
    entry.bytes = container.layer_bytes;
    if stops_first {
        entry.reason.to_mut().push_str("; its state is unknown, so it is stopped first (C7)");
    }
    entry
}
