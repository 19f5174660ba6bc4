//! A plan: an entry for each item, and what goes in which order.

use std::collections::HashSet;

use serde::Serialize;

use crate::containers;
use crate::images::{self, Selection};
use crate::logs::{self, Before};
use crate::mutation::{self, Mutation};
use crate::pods::{Pods, is_whole};
use crate::pressure::{self, Goal, Usage};
use crate::rule::Decision;
use crate::rules::{Effects, Limits};
use crate::sandboxes;
use crate::view::ContainerDisk;
use crate::{Clock, Files, Ledger, PodView, Rule, Rules, RuntimeView, Timestamp};
use list::{Item, List};

mod item;
mod list;
mod sums;
mod tried;

pub use item::{Action, Candidate, Details, Entry, MOST_TAGS, Target, What};
pub use sums::{Breakdown, Due, Young};
pub use tried::Tried;

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
    /// The unused images that would go now if they were not too young; nothing if there are none.
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
    let breakdown = Breakdown::of(runtime, pods, &of_images, files);

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
