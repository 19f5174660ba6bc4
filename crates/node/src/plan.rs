//! A plan: an entry for each item, and what goes in which order.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use serde::Serialize;

use crate::containers::{self, c7_stops_first};
use crate::images::{self, Selection};
use crate::logs::{self, Before, parse_directory};
use crate::mutation::{self, Mutation};
use crate::pods::{Pods, is_whole};
use crate::pressure::{self, Goal, Usage};
use crate::rule::{Decision, escaped};
use crate::rules::{Effects, Limits};
use crate::sandboxes;
use crate::view::{Container, ContainerState, Image, LogDirectory, LogSymlink, Sandbox};
use crate::{Files, Ledger, PodRef, PodView, Rule, Rules, RuntimeView, Timestamp};

/// What a plan is made from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The runtime.
    pub runtime: &'a RuntimeView,
    /// The API server.
    pub pods: &'a PodView,
    /// The file system.
    pub files: &'a Files,
    /// The ages of images.
    pub ledger: &'a Ledger,
    /// The settings.
    pub rules: &'a Rules,
    /// The time.
    pub now: Timestamp,
}

/// What a pass would do, and why.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// Every item, whether it goes or stays: first what goes, in its order.
    pub entries: Vec<Entry>,
    /// What goes, in this order.
    #[serde(skip)]
    pub removals: Vec<Candidate>,
    /// Images that go next if those before them free less than it seems.
    #[serde(skip)]
    pub in_line: Vec<Candidate>,
    /// What fills the file system of the images.
    pub breakdown: Breakdown,
    /// How full the file system of the images is; nothing if it is not known.
    pub usage: Option<Usage>,
    /// What is to be free at the end; nothing if there is enough.
    pub goal: Option<Goal>,
    /// What may be done about it.
    pub effects: Effects,
    /// Whether the limits of a pass left something for the next one, which may follow at once.
    pub more: bool,
    /// Whether that includes something that goes however much space is free. Images that go for
    /// space may have been left because enough is free without them.
    #[serde(skip)]
    pub leaves_due: bool,
    /// Whether the API server knows fewer than half of the ready sandboxes (safety 2): readiness
    /// says so.
    pub wrong_node: bool,
}

impl Plan {
    /// The entries of what goes.
    pub fn removed(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.decision == Action::Remove)
    }

    /// The entry of an item; the first one, if several have the same id.
    pub fn entry(&self, what: What, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.what == what && entry.id == id)
    }
}

/// One item, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// What it is.
    pub what: What,
    /// The runtime's id, or the name of the directory or symlink.
    pub id: String,
    /// The name of the container, or a name of the image.
    pub name: Option<String>,
    /// The pod that it belongs to.
    pub pod: Option<PodRef>,
    /// What becomes of it.
    pub decision: Action,
    /// The rule that decided.
    pub rule: Rule,
    /// The reason, for people.
    pub reason: Cow<'static, str>,
    /// Its size, if it is known; that of an image is an estimate.
    pub bytes: Option<u64>,
    /// Its place among what goes, from 1 on. A symlink shares that of its container.
    pub order: Option<u32>,
}

/// What an item is. Output, log and metrics have these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum What {
    /// A container.
    Container,
    /// A pod sandbox.
    Sandbox,
    /// The log directory of a pod.
    LogDirectory,
    /// A symlink to the log of a container.
    LogSymlink,
    /// An image.
    Image,
}

/// What becomes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// It goes.
    Remove,
    /// It stays.
    Keep,
}

/// An item that goes, as it was when the plan was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// What it is, and what it takes to remove it.
    pub target: Target,
    /// The rule that removes it.
    pub rule: Rule,
    /// Its size, if it is known.
    pub bytes: Option<u64>,
}

/// What is to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A container. Its log files and symlink go before it (C8).
    Container {
        /// The runtime's id.
        id: String,
        /// The name in the pod.
        name: String,
        /// The uid of its pod.
        uid: String,
        /// The state.
        state: ContainerState,
        /// When it was created.
        created_at: Timestamp,
        /// Whether it has to be stopped first (C7).
        stop_first: bool,
        /// The name of its symlink, if there is one.
        symlink: Option<String>,
    },
    /// A sandbox: it is stopped, then removed.
    Sandbox {
        /// The runtime's id.
        id: String,
        /// The uid of its pod.
        uid: String,
        /// When it was created.
        created_at: Timestamp,
    },
    /// A log directory, with all that is in it.
    LogDirectory {
        /// The name beneath the root of the pods' logs.
        name: String,
        /// The uid of its pod.
        uid: String,
    },
    /// A symlink to a log.
    LogSymlink {
        /// The name beneath the root of the symlinks.
        name: String,
    },
    /// An image.
    Image {
        /// The runtime's id.
        id: String,
        /// The runtime handler that it was pulled for.
        runtime_handler: Option<String>,
    },
}

impl Candidate {
    /// What it is.
    pub const fn what(&self) -> What {
        match self.target {
            Target::Container { .. } => What::Container,
            Target::Sandbox { .. } => What::Sandbox,
            Target::LogDirectory { .. } => What::LogDirectory,
            Target::LogSymlink { .. } => What::LogSymlink,
            Target::Image { .. } => What::Image,
        }
    }

    /// The runtime's id, or the name of the directory or symlink.
    pub fn id(&self) -> &str {
        match &self.target {
            Target::Container { id, .. } | Target::Sandbox { id, .. } | Target::Image { id, .. } => id,
            Target::LogDirectory { name, .. } | Target::LogSymlink { name } => name,
        }
    }
}

/// What fills the file system of the images (B9), in bytes. Sizes of images count shared layers once for each image, so the sum
/// may be more than is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Breakdown {
    /// Images that something uses.
    pub in_use: u64,
    /// Images that nothing uses, and that go now or when space is needed.
    pub unused: u64,
    /// Images that nothing uses, and that stay nevertheless.
    pub kept: u64,
    /// The writable layers of containers that do not run.
    pub dead_containers: u64,
    /// Everything else.
    pub other: u64,
}

impl Breakdown {
    fn of(runtime: &RuntimeView, decisions: &[Decision], usage: Option<&Usage>) -> Self {
        let mut found = Self::default();
        for (image, decision) in runtime.images.iter().zip(decisions) {
            let sum = match decision.rule {
                Rule::I1 | Rule::B2 => &mut found.in_use,
                // What only usage or the limit keeps is unused.
                Rule::I4 | Rule::I7 | Rule::P1 | Rule::Free | Rule::Safety4 => &mut found.unused,
                _ if decision.removes => &mut found.unused,
                _ => &mut found.kept,
            };
            *sum = sum.saturating_add(image.bytes);
        }
        let dead = runtime.containers.iter().filter(|container| container.state != ContainerState::Running);
        let layers = dead.filter_map(|container| container.layer_bytes);
        found.dead_containers = layers.fold(0, u64::saturating_add);
        let known = [found.in_use, found.unused, found.kept, found.dead_containers];
        let known = known.into_iter().fold(0, u64::saturating_add);
        found.other = usage.map_or(0, |usage| usage.used().saturating_sub(known));
        found
    }
}

/// Decides about every item: the rules of each kind, one after the other.
///
/// The ledger should have observed the same view: an image that it does not know counts as detected
/// now. Each candidate is to be checked by [`crate::still_removable`] right before its removal.
pub fn plan(inputs: &Inputs<'_>) -> Plan {
    let Inputs { runtime, pods, files, rules, now, .. } = *inputs;
    let known = Pods::of(runtime, pods, files);
    let usage = files.image_usage.as_ref();
    let goal = usage.and_then(|usage| pressure::goal(usage, rules));
    let under_pressure = usage.is_some_and(|usage| pressure::p1(usage, rules).is_some());
    let Limits { containers: most, images: most_images } = rules.limits;
    let most = if mutation::is(Mutation::NoContainerLimit) { usize::MAX } else { most };
    let in_slices = !is_whole(runtime);
    let mut list = List::default();

    let mut of_containers = containers::decide(runtime, &known, rules, now, under_pressure);
    overrule(&mut of_containers, None, rules);
    let containers = list.going(&mut of_containers, most, |index, rule| {
        let container = &runtime.containers[index];
        (rule, container.created_at, &container.id)
    });

    let stay = runtime.containers.iter().zip(&of_containers).filter(|(_, decision)| !decision.removes);
    let occupied: HashSet<&str> = stay.map(|(container, _)| container.sandbox_id.as_str()).collect();
    let mut of_sandboxes = sandboxes::decide(runtime, &known, |id| occupied.contains(id), under_pressure);
    overrule(&mut of_sandboxes, in_slices.then_some("sandboxes wait for whole lists"), rules);
    let sandboxes = list.going(&mut of_sandboxes, most, |index, _| {
        let sandbox = &runtime.sandboxes[index];
        (sandbox.created_at, &sandbox.id)
    });

    let mut of_directories = logs::l1(runtime, &known, files, rules, now);
    overrule(&mut of_directories, in_slices.then_some("logs wait for whole lists"), rules);
    let directories = list.going(&mut of_directories, most, |index, _| &files.log_directories[index].name);

    let before = Before {
        containers: containers
            .iter()
            .filter_map(|(&index, &place)| Some((logs::c8_symlink(&runtime.containers[index])?, place)))
            .collect(),
        directories: directories.keys().map(|&index| files.log_directories[index].name.as_str()).collect(),
    };
    let mut of_symlinks = logs::l2(runtime, files, rules, &before);
    overrule(&mut of_symlinks, in_slices.then_some("logs wait for whole lists"), rules);
    let symlinks = list.going(&mut of_symlinks, most, |index, _| &files.log_symlinks[index].name);

    let layers = containers.keys().filter_map(|&index| runtime.containers[index].layer_bytes);
    let freed_before = layers.fold(0, u64::saturating_add);
    let Selection { decisions: mut of_images, removals: selected, in_line } =
        images::decide(inputs, goal.as_ref(), freed_before, |index| containers.contains_key(&index));
    let old_images = selected.iter().filter(|&&index| of_images[index].rule == Rule::I6).count();
    let leaves_due = list.more || old_images > most_images;
    let images = list.number(&selected, most_images, &mut of_images);
    let breakdown = Breakdown::of(runtime, &of_images, usage);
    // What the limit left for the next pass comes first there, so nothing overtakes it here.
    let in_line = if images.len() < selected.len() { Vec::new() } else { in_line };
    let in_line = in_line.into_iter().map(|index| Candidate {
        target: Item::of_image(&runtime.images[index]).target,
        rule: of_images[index].rule,
        bytes: Some(runtime.images[index].bytes),
    });
    let in_line = in_line.collect();

    // Everything is decided; what follows puts it in order.
    let named = files.log_symlinks.iter().map(|symlink| symlink.name.as_str()).zip(&of_symlinks);
    let with_container = named.filter(|(_, decision)| decision.removes && decision.rule == Rule::C8);
    let with_container: HashSet<&str> = with_container.map(|(name, _)| name).collect();
    let items = runtime.containers.iter().map(|it| Item::of_container(it, runtime, &with_container));
    list.enter(items, of_containers, |index| containers.get(&index));
    list.enter(runtime.sandboxes.iter().map(Item::of_sandbox), of_sandboxes, |index| sandboxes.get(&index));
    let items = files.log_directories.iter().map(Item::of_directory);
    list.enter(items, of_directories, |index| directories.get(&index));
    let items = files.log_symlinks.iter().map(Item::of_symlink);
    list.enter(items, of_symlinks, |index| {
        // A symlink that goes before its container shares the place of that.
        let of_container = || before.containers.get(&files.log_symlinks[index].name);
        symlinks.get(&index).or_else(of_container)
    });
    list.enter(runtime.images.iter().map(Item::of_image), of_images, |index| images.get(&index));
    let List { mut entries, mut removals, more, .. } = list;
    // What goes comes first, in its order. What stays keeps the order of the views.
    entries.sort_by_key(|entry| entry.order.unwrap_or(u32::MAX));
    removals.sort_by_key(|(place, _)| *place);
    Plan {
        entries,
        removals: removals.into_iter().map(|(_, candidate)| candidate).collect(),
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

/// What keeps items whatever the rules of their kind say: that they wait for whole lists, or a kubelet. A
/// symlink that goes before its container follows that.
fn overrule(decisions: &mut [Decision], waits: Option<&str>, rules: &Rules) {
    for decision in decisions.iter_mut().filter(|decision| decision.rule != Rule::C8) {
        if let Some(why) = waits {
            decision.overrule(Rule::B1, why);
        }
        if rules.beside_kubelet == Some(Effects::Images) {
            decision.overrule(Rule::Safety3, "beside a kubelet, only images go");
        }
    }
}

/// A plan that grows, kind by kind.
#[derive(Default)]
struct List {
    entries: Vec<Entry>,
    /// What goes, with its place.
    removals: Vec<(u32, Candidate)>,
    /// How many places are taken.
    places: u32,
    more: bool,
}

impl List {
    /// Numbers what goes of one kind, by these keys. A symlink that goes before its container takes no place
    /// of its own.
    fn going<K: Ord>(
        &mut self,
        decisions: &mut [Decision],
        most: usize,
        key: impl Fn(usize, Rule) -> K,
    ) -> HashMap<usize, u32> {
        let goes = |decision: &Decision| decision.removes && decision.rule != Rule::C8;
        let mut indexes: Vec<usize> = (0..decisions.len()).filter(|&index| goes(&decisions[index])).collect();
        indexes.sort_by_key(|&index| key(index, decisions[index].rule));
        self.number(&indexes, most, decisions)
    }

    /// The places of what goes, from 1 on, by its index. Safety 4: a pass removes so many at most, and then
    /// everything is looked at anew.
    fn number(&mut self, indexes: &[usize], most: usize, decisions: &mut [Decision]) -> HashMap<usize, u32> {
        let (now, later) = indexes.split_at(most.min(indexes.len()));
        for &index in later {
            self.more = true;
            decisions[index].overrule(Rule::Safety4, "a pass removes no more than it does before");
        }
        let places: HashMap<usize, u32> = now.iter().copied().zip(self.places + 1..).collect();
        self.places += u32::try_from(places.len()).unwrap_or(u32::MAX);
        places
    }

    /// Enters all items of one kind. `place` is that of an item that goes.
    fn enter<'a>(
        &mut self,
        items: impl Iterator<Item = Item>,
        decisions: Vec<Decision>,
        place: impl Fn(usize) -> Option<&'a u32>,
    ) {
        for (index, (item, decision)) in items.zip(decisions).enumerate() {
            let Item { target, name, pod, bytes } = item;
            let Decision { removes, rule, mut reason } = decision;
            if removes && matches!(target, Target::Container { stop_first: true, .. }) {
                reason.to_mut().push_str("; its state is unknown, so it is stopped first (C7)");
            }
            let candidate = Candidate { target, rule, bytes };
            let order = place(index).copied().filter(|_| removes);
            self.entries.push(Entry {
                what: candidate.what(),
                id: candidate.id().to_owned(),
                name,
                pod,
                decision: if removes { Action::Remove } else { Action::Keep },
                rule,
                reason,
                bytes,
                order,
            });
            if let Some(order) = order.filter(|_| rule != Rule::C8) {
                self.removals.push((order, candidate));
            }
        }
    }
}

/// What an entry and a candidate have of an item.
struct Item {
    target: Target,
    name: Option<String>,
    pod: Option<PodRef>,
    bytes: Option<u64>,
}

impl Item {
    /// `symlinks` go with containers.
    fn of_container(container: &Container, runtime: &RuntimeView, symlinks: &HashSet<&str>) -> Self {
        let Container { id, name, pod_uid, pod_namespace, pod_name, state, created_at, .. } = container;
        // By its label, else by its sandbox.
        let sandbox = || runtime.sandboxes.iter().find(|sandbox| sandbox.id == container.sandbox_id);
        let uid = match pod_uid.as_str() {
            "" => sandbox().map(|sandbox| sandbox.uid.clone()).unwrap_or_default(),
            uid => uid.to_owned(),
        };
        let target = Target::Container {
            id: id.clone(),
            name: name.clone(),
            uid,
            state: *state,
            created_at: *created_at,
            stop_first: c7_stops_first(*state),
            symlink: logs::c8_symlink(container).filter(|name| symlinks.contains(name.as_str())),
        };
        let pod = Some(PodRef::new(pod_namespace, pod_name, pod_uid));
        Self { target, name: Some(escaped(name)), pod, bytes: container.layer_bytes }
    }

    fn of_sandbox(sandbox: &Sandbox) -> Self {
        let Sandbox { id, uid, namespace, name, created_at, .. } = sandbox;
        let target = Target::Sandbox { id: id.clone(), uid: uid.clone(), created_at: *created_at };
        Self { target, name: None, pod: Some(PodRef::new(namespace, name, uid)), bytes: None }
    }

    fn of_directory(directory: &LogDirectory) -> Self {
        let parsed = parse_directory(&directory.name);
        let target = Target::LogDirectory { name: directory.name.clone(), uid: parsed.uid.to_owned() };
        let pod = parsed.named().map(|(namespace, name, uid)| PodRef::new(namespace, name, uid));
        Self { target, name: None, pod, bytes: Some(directory.bytes) }
    }

    fn of_symlink(symlink: &LogSymlink) -> Self {
        let target = Target::LogSymlink { name: symlink.name.clone() };
        Self { target, name: None, pod: None, bytes: None }
    }

    fn of_image(image: &Image) -> Self {
        let target = Target::Image { id: image.id.clone(), runtime_handler: image.runtime_handler.clone() };
        Self { target, name: image.names().next().map(escaped), pod: None, bytes: Some(image.bytes) }
    }
}

#[cfg(test)]
mod tests;
