//! A plan: an entry for each item, and what goes in which order.

mod breakdown;
mod build;
mod candidate;
mod entry;

use serde::Serialize;

pub use breakdown::Breakdown;
pub use build::plan;
pub use candidate::{Candidate, Target};
pub use entry::{Action, Entry, What};

use crate::pressure::{Goal, Usage};
use crate::rules::Effects;

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
    #[must_use]
    pub fn entry(&self, what: What, id: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.what == what && entry.id == id)
    }
}

#[cfg(test)]
mod tests;
