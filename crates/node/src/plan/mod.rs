//! A plan: an entry for each item, and what goes in which order.

mod breakdown;
mod build;
mod candidate;

use serde::Serialize;

pub use breakdown::Breakdown;
pub use build::plan;
pub use candidate::{Candidate, Target};

use crate::pressure::{Goal, Usage};
use crate::rules::Effects;
use crate::{PodRef, Rule};

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
    /// How full the file system of the images is; nothing if nobody knows.
    pub usage: Option<Usage>,
    /// What is to be free at the end; nothing if there is enough.
    pub goal: Option<Goal>,
    /// What may be done about it.
    pub effects: Effects,
    /// Whether the limits of a pass left something for the next one, which may follow at once.
    pub more: bool,
    /// Whether the API server knows fewer than half of the ready sandboxes (safety 2): readiness
    /// says so.
    pub wrong_node: bool,
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
    pub decision: Decision,
    /// The rule that decided.
    pub rule: Rule,
    /// The reason, for people.
    pub reason: String,
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
pub enum Decision {
    /// It goes.
    Remove,
    /// It stays.
    Keep,
}

impl Plan {
    /// The entries of what goes.
    pub fn removed(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.decision == Decision::Remove)
    }

    /// The entry of an item; the first one, if several have the same id.
    #[must_use]
    pub fn entry(&self, what: What, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.what == what && entry.id == id)
    }
}

#[cfg(test)]
mod tests;
