//! A plan: an entry for each item, and what goes in which order.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};

use serde::Serialize;

use crate::containers;
use crate::images::{self, Selection};
use crate::logs::{self, Before};
use crate::mutation::{self, Mutation};
use crate::pass::{Outcome, Record};
use crate::pods::{Pods, is_whole};
use crate::pressure::{self, Goal, Usage};
use crate::rule::Decision;
use crate::rules::{Effects, Limits};
use crate::sandboxes;
use crate::view::{ContainerDisk, ContainerState};
use crate::{Clock, Files, Ledger, PodRef, PodView, Rule, Rules, RuntimeView, Timestamp};
use list::{Item, List};

mod list;

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
    /// What earlier passes have tried to remove.
    pub tried: &'a Tried,
    /// The time of day.
    pub now: Timestamp,
}

/// What a pass would do, and why.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Every item, whether it goes or stays: first what goes, in its order.
    pub entries: Vec<Entry>,
    /// What goes, in this order.
    #[serde(skip)]
    pub removals: Vec<Candidate>,
    /// Images that go next if those before them free less than it seems.
    #[serde(skip)]
    pub in_line: Vec<Candidate>,
    /// How much is due of each kind of which something is.
    pub due: Vec<Due>,
    /// The unused images that stay only because they were detected just now; nothing if there are none.
    pub young: Option<Young>,
    /// The patterns of `keep` that name no image.
    pub unmatched_keep: Vec<String>,
    /// What fills the file system of the images.
    pub breakdown: Breakdown,
    /// How full the file system of the images is; nothing if it is not known.
    pub usage: Option<Usage>,
    /// How full the file system of the containers' layers is; nothing if it is not known, or that of the images.
    pub container_usage: Option<Usage>,
    /// What is to be free at the end; nothing if there is enough.
    pub goal: Option<Goal>,
    /// What may be done about it.
    pub effects: Effects,
    /// Whether the limits of a pass left something for the next one, which may follow at once. What has failed
    /// before is no reason to.
    pub more: bool,
    /// Whether that includes something that goes however much space is free. Images that go for
    /// space may have been left because enough is free without them.
    #[serde(skip)]
    pub leaves_due: bool,
    /// Whether the API server knows fewer than half of the ready sandboxes (safety 2): readiness
    /// says so.
    pub wrong_node: bool,
    /// Where the layers of containers are.
    #[serde(skip)]
    pub container_disk: ContainerDisk,
    /// The most that a pass removes (safety 4).
    #[serde(skip)]
    pub limits: Limits,
}

/// How much of one kind is due, and how much of that a pass removes: its limits may leave the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Due {
    /// The kind.
    pub what: What,
    /// How many are due in all.
    pub count: usize,
    /// What is known of their sizes.
    pub bytes: u64,
    /// How many of them this pass removes.
    pub now: usize,
    /// What is known of the sizes of those.
    pub now_bytes: u64,
}

impl Due {
    fn of(entries: &[Entry]) -> Vec<Self> {
        let mut kinds: BTreeMap<What, Self> = BTreeMap::new();
        for Entry { what, decision, rule, bytes, .. } in entries {
            let goes = *decision == Action::Remove;
            if !goes && *rule != Rule::Safety4 {
                continue;
            }
            let new = Self { what: *what, count: 0, bytes: 0, now: 0, now_bytes: 0 };
            let (due, bytes) = (kinds.entry(*what).or_insert(new), bytes.unwrap_or_default());
            due.count += 1;
            due.bytes = due.bytes.saturating_add(bytes);
            if goes {
                due.now += 1;
                due.now_bytes = due.now_bytes.saturating_add(bytes);
            }
        }
        kinds.into_values().collect()
    }
}

/// Unused images that only `images.min_age` keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Young {
    /// How many there are.
    pub count: usize,
    /// Their sizes.
    pub bytes: u64,
    /// After how many seconds the last of them is old enough.
    pub wait_seconds: u64,
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
#[serde(rename_all = "camelCase")]
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
    /// What else is known of it.
    #[serde(flatten)]
    pub details: Details,
}

/// What people want to know of an item beside the decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    /// The names with tags of an image, at most [`MOST_TAGS`] of them.
    pub tags: Vec<String>,
    /// How many seconds ago a container or sandbox was created.
    pub created_seconds: Option<u64>,
    /// How many seconds ago an image was first seen.
    pub detected_seconds: Option<u64>,
    /// How many seconds ago an image was last seen in use.
    pub last_used_seconds: Option<u64>,
    /// The state of a container or sandbox.
    pub state: Option<&'static str>,
    /// Whether the runtime asks not to remove an image.
    pub pinned: bool,
    /// The runtime handler that an image was pulled for.
    pub runtime_handler: Option<String>,
    /// Whether an earlier pass could not remove it.
    pub has_failed: bool,
}

/// The most tags of an image that an entry has.
pub const MOST_TAGS: usize = 100;

/// What earlier passes have tried to remove. What is in it and listed again has failed, whatever the runtime has
/// said: it comes last, so that it starves nothing else.
#[derive(Clone, Debug, Default)]
pub struct Tried(HashSet<(What, String)>);

impl Tried {
    /// Enters what came of a pass, and forgets what its plan no longer found.
    pub fn update(&mut self, plan: &Plan, records: &[Record]) {
        let tried = |record: &&Record| !matches!(record.outcome, Outcome::Refused(_));
        let new =
            records.iter().filter(tried).map(|Record { candidate, .. }| (candidate.what(), candidate.id()));
        let known = plan.entries.iter().map(|entry| (entry.what, entry.id.as_str()));
        let known = known.filter(|(what, id)| self.has_failed(*what, id));
        self.0 = known.chain(new).map(|(what, id)| (what, id.to_owned())).collect();
    }

    /// Whether something that is still there was to be removed before.
    pub fn has_failed(&self, what: What, id: &str) -> bool {
        // Usually there is nothing in it, and nothing to copy then.
        !self.0.is_empty() && self.0.contains(&(what, id.to_owned()))
    }
}

/// What an item is. Output, log and metrics have these names.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    strum::EnumCount,
    strum::IntoStaticStr,
)]
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
    /// Its name for people: `NAMESPACE/POD/CONTAINER`, `NAMESPACE/POD`, the tags or a digest of the image; else the id.
    pub name: String,
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
#[serde(rename_all = "camelCase")]
pub struct Breakdown {
    /// Images that something uses.
    pub in_use: u64,
    /// Images that nothing uses, and that go now or when space is needed.
    pub unused: u64,
    /// Images that nothing uses, and that stay nevertheless.
    pub kept: u64,
    /// The writable layers of containers that do not run, if they are on this file system.
    pub dead_containers: u64,
    /// Everything else.
    pub other: u64,
}

impl Breakdown {
    fn of(runtime: &RuntimeView, decisions: &[Decision], files: &Files) -> Self {
        let mut found = Self::default();
        for (image, decision) in runtime.images.iter().zip(decisions) {
            let sum = match decision.rule {
                Rule::I1 | Rule::B2 => &mut found.in_use,
                // What only usage or the limit keeps is unused.
                Rule::I4 | Rule::I7 | Rule::P1 | Rule::Free | Rule::All | Rule::Safety4 => &mut found.unused,
                _ if decision.removes => &mut found.unused,
                _ => &mut found.kept,
            };
            *sum = sum.saturating_add(image.bytes);
        }
        let dead = runtime.containers.iter().filter(|container| container.state != ContainerState::Running);
        let layers = dead.filter_map(|container| container.layer_bytes);
        if files.container_disk == ContainerDisk::OfImages {
            found.dead_containers = layers.fold(0, u64::saturating_add);
        }
        let known = [found.in_use, found.unused, found.kept, found.dead_containers];
        let known = known.into_iter().fold(0, u64::saturating_add);
        found.other = files.image_usage.map_or(0, |usage| usage.used().saturating_sub(known));
        found
    }
}

/// Decides about every item: the rules of each kind, one after the other.
///
/// The ledger should have observed the same view: an image that it does not know counts as detected
/// now. Each candidate is to be checked by [`crate::still_removable`] right before its removal.
pub fn plan(inputs: &Inputs<'_>) -> Plan {
    let Inputs { runtime, pods, files, ledger, rules, tried, now } = *inputs;
    let known = Pods::of(runtime, pods, files);
    let usage = files.image_usage.as_ref();
    // What takes all has no goal that it could miss.
    let goal = usage.filter(|_| !rules.all).and_then(|usage| pressure::goal(usage, rules));
    let under_pressure = files.container_usage().is_some_and(|usage| pressure::p1(usage, rules).is_some());
    let clock = Clock { now, steady: ledger.steady() };
    let Limits { containers: most, images: most_images } = rules.most();
    let most = if mutation::is(Mutation::NoContainerLimit) { usize::MAX } else { most };
    let in_slices = !is_whole(runtime);
    let mut list = List::default();

    let mut of_containers = containers::decide(runtime, &known, rules, clock, under_pressure);
    overrule(&mut of_containers, None, rules);
    let containers = list.going(&mut of_containers, most, |index, rule| {
        let container = &runtime.containers[index];
        let has_failed = tried.has_failed(What::Container, &container.id);
        (has_failed, rule, container.created_at, &container.id)
    });

    let stay = runtime.containers.iter().zip(&of_containers).filter(|(_, decision)| !decision.removes);
    let occupied: HashSet<&str> = stay.map(|(container, _)| container.sandbox_id.as_str()).collect();
    let mut of_sandboxes = sandboxes::decide(runtime, &known, |id| occupied.contains(id), under_pressure);
    overrule(&mut of_sandboxes, in_slices.then_some("sandboxes wait for whole lists"), rules);
    let sandboxes = list.going(&mut of_sandboxes, most, |index, _| {
        let sandbox = &runtime.sandboxes[index];
        (tried.has_failed(What::Sandbox, &sandbox.id), sandbox.created_at, &sandbox.id)
    });

    let mut of_directories = logs::l1(runtime, &known, files, rules, clock);
    overrule(&mut of_directories, in_slices.then_some("logs wait for whole lists"), rules);
    let directories = list.going(&mut of_directories, most, |index, _| {
        let name = &files.log_directories[index].name;
        (tried.has_failed(What::LogDirectory, name), name)
    });

    let before = Before {
        containers: containers
            .now
            .iter()
            .filter_map(|(&index, &place)| Some((logs::c8_symlink(&runtime.containers[index])?, place)))
            .collect(),
        directories: directories
            .now
            .keys()
            .map(|&index| files.log_directories[index].name.as_str())
            .collect(),
    };
    let mut of_symlinks = logs::l2(runtime, files, rules, &before);
    overrule(&mut of_symlinks, in_slices.then_some("logs wait for whole lists"), rules);
    let symlinks = list.going(&mut of_symlinks, most, |index, _| {
        let name = &files.log_symlinks[index].name;
        (tried.has_failed(What::LogSymlink, name), name)
    });

    let shares_disk = files.container_disk == ContainerDisk::OfImages;
    let layers = containers.now.keys().filter_map(|&index| runtime.containers[index].layer_bytes);
    let freed_before = layers.filter(|_| shares_disk).fold(0, u64::saturating_add);
    let Selection { decisions: mut of_images, removals: selected, in_line, young } =
        images::decide(inputs, goal.as_ref(), freed_before, |index| containers.now.contains_key(&index));
    let for_space = selected.iter().filter(|&&index| is_for_space(of_images[index].rule)).count();
    let leaves_images = selected.len() - for_space > most_images;
    let mut images = list.number(&selected, most_images, &mut of_images);
    let places = (images.later.len()..).zip(in_line);
    images.later.extend(places.map(|(place, index)| (index, (place, of_images[index].rule))));
    let breakdown = Breakdown::of(runtime, &of_images, files);

    // Everything is decided; what follows puts it in order.
    let named = files.log_symlinks.iter().map(|symlink| symlink.name.as_str()).zip(&of_symlinks);
    let with_container = named.filter(|(_, decision)| decision.removes && decision.rule == Rule::C8);
    let with_container: HashSet<&str> = with_container.map(|(name, _)| name).collect();
    let items = runtime.containers.iter().map(|it| Item::of_container(it, runtime, &with_container, now));
    list.enter(items, of_containers, &containers, tried, |_| None);
    let items = runtime.sandboxes.iter().map(|sandbox| Item::of_sandbox(sandbox, now));
    list.enter(items, of_sandboxes, &sandboxes, tried, |_| None);
    list.enter(
        files.log_directories.iter().map(Item::of_directory),
        of_directories,
        &directories,
        tried,
        |_| None,
    );
    list.enter(files.log_symlinks.iter().map(Item::of_symlink), of_symlinks, &symlinks, tried, |index| {
        // A symlink that goes before its container shares the place of that.
        before.containers.get(&files.log_symlinks[index].name).copied()
    });
    let items = runtime.images.iter().map(|image| Item::of_image(image, ledger));
    list.enter(items, of_images, &images, tried, |_| None);
    let List { mut entries, mut removals, mut in_line, .. } = list;
    // What goes comes first, in its order. What stays keeps the order of the views.
    entries.sort_by_key(|entry| entry.order.unwrap_or(u32::MAX));
    removals.sort_by_key(|(place, _)| *place);
    in_line.sort_by_key(|(place, candidate)| (candidate.what(), *place));
    let is_left = |entry: &&Entry| entry.rule == Rule::Safety4;
    Plan {
        due: Due::of(&entries),
        more: entries.iter().filter(is_left).any(|entry| !entry.details.has_failed),
        leaves_due: leaves_images || entries.iter().filter(is_left).any(|entry| entry.what != What::Image),
        entries,
        removals: removals.into_iter().map(|(_, candidate)| candidate).collect(),
        in_line: in_line.into_iter().map(|(_, candidate)| candidate).collect(),
        young,
        unmatched_keep: images::unmatched_keep(runtime, rules),
        breakdown,
        usage: usage.copied(),
        container_usage: files.container_usage().filter(|_| !shares_disk).copied(),
        goal,
        effects: rules.effects(),
        wrong_node: known.is_on_wrong_node(),
        container_disk: files.container_disk,
        limits: rules.most(),
    }
}

/// Whether an image with this rule goes only until enough is free.
pub(crate) const fn is_for_space(rule: Rule) -> bool {
    matches!(rule, Rule::I4 | Rule::P1 | Rule::Free)
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

#[cfg(test)]
mod tests;
