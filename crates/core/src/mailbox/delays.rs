//! The delayed entries, ordered by their due time.
//!
//! A list for each time keeps entries that are due in the same millisecond in the order in which
//! they were added. It uses the links of the entries, so a delay needs no memory of its own beyond
//! that of its time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::list::{Linked, List, Slot};
use super::time::Time;

#[derive(Debug, Default)]
pub(super) struct Delays(BTreeMap<Time, List>);

impl Delays {
    /// Adds a node that is on no list.
    pub(super) fn insert<T: Linked>(&mut self, nodes: &mut [T], slot: Slot, due: Time) {
        self.0.entry(due).or_default().push_back(nodes, slot);
    }

    /// Removes a node before it is due.
    pub(super) fn remove<T: Linked>(&mut self, nodes: &mut [T], slot: Slot, due: Time) {
        if let Entry::Occupied(mut entry) = self.0.entry(due) {
            entry.get_mut().remove(nodes, slot);
            if entry.get().is_empty() {
                entry.remove();
            }
        }
    }

    /// Updates the links of a node that moved to `slot`.
    pub(super) fn moved<T: Linked>(&mut self, nodes: &mut [T], slot: Slot, due: Time) {
        if let Some(list) = self.0.get_mut(&due) {
            list.moved(nodes, slot);
        }
    }

    /// Removes a node that is due by `now`, earliest first.
    pub(super) fn pop<T: Linked>(&mut self, nodes: &mut [T], now: Time) -> Option<Slot> {
        let mut earliest = self.0.first_entry().filter(|entry| *entry.key() <= now)?;
        let slot = earliest.get_mut().pop_front(nodes);
        if earliest.get().is_empty() {
            earliest.remove();
        }
        slot
    }

    /// When the first node is due.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.0.first_key_value().map(|(due, _)| *due)
    }
}
