//! A plan: an entry for each item, and what goes in which order.

mod build;

use std::borrow::Cow;

use serde::Serialize;

pub use build::plan;

use crate::images::Purpose;
use crate::pressure::{Goal, Usage};
use crate::rules::Effects;
use crate::view::{ContainerState, RuntimeView};
use crate::{PodRef, Rule, Timestamp};

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

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
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
        /// Why it goes.
        purpose: Purpose,
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
    /// `images` are all entries of images, with whether something uses them and whether only the
    /// usage keeps them.
    fn of<'a>(
        images: impl Iterator<Item = (&'a Entry, bool, bool)>,
        runtime: &RuntimeView,
        usage: Option<&Usage>,
    ) -> Self {
        let mut found = Self::default();
        for (entry, used, waits) in images.filter(|(entry, ..)| entry.what == What::Image) {
            let sum = match entry.decision {
                Action::Keep if used => &mut found.in_use,
                Action::Keep if !waits => &mut found.kept,
                Action::Keep | Action::Remove => &mut found.unused,
            };
            *sum = sum.saturating_add(entry.bytes.unwrap_or_default());
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

#[cfg(test)]
mod tests;
