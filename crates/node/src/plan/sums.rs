//! What a plan comes to: how much is due, how much is only too young, and what fills the file system.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Action, Entry, What};
use crate::rule::Decision;
use crate::view::{ContainerDisk, ContainerState};
use crate::{Files, PodView, Rule, RuntimeView};

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
    pub(super) fn of(entries: &[Entry]) -> Vec<Self> {
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

/// Unused images that only `images.min_age` and `--older-than` keep.
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
    pub(super) fn of(runtime: &RuntimeView, pods: &PodView, decisions: &[Decision], files: &Files) -> Self {
        let mut found = Self::default();
        for (image, decision) in runtime.images.iter().zip(decisions) {
            let sum = match decision.rule {
                Rule::I1 => &mut found.in_use,
                // While no pod is known, none is known to use it.
                Rule::B2 if !matches!(pods, PodView::Unavailable { known: None, .. }) => &mut found.in_use,
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
