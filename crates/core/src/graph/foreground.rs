//! How far foreground deletions are, counted as things change.
//!
//! A node that is deleting dependents is woken when the last dependent that
//! blocks it goes, and when the last of these starts deleting dependents itself
//! (a possible cycle). Waking it with every one of n dependents would make a
//! cascade cost n² looks.

use smallvec::SmallVec;

use super::node::{Edge, EdgeId, NodeId};
use super::{Effects, Partition};
use crate::mutation::{self, Mutation};

/// The references that block a node which is deleting dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// All of them.
    pub(super) blocking: u32,
    /// Those whose dependent is not itself deleting dependents.
    pub(super) active: u32,
}

/// Of more owners than this, one may be named twice until they are woken: to search all of
/// them for each of thousands of references would take their square.
const FEW: usize = 16;

/// The owners whose counters a change of a dependent may move, with what they were.
pub(super) type Touched = SmallVec<[(NodeId, Progress); 2]>;

impl Partition {
    /// Whether the dependent of an edge counts as one. An alias does not: the
    /// object counts under its primary name. Nor does the owner itself. Nor does
    /// an object in another namespace, whose reference is invalid: whether it
    /// shares this partition is chance, and one namespace must not be able to
    /// hold up a deletion in another.
    pub(super) fn counts_as_dependent(&self, edge: EdgeId) -> bool {
        let Edge { dependent, owner, .. } = self.store.edges[edge];
        !self.is_alias(dependent)
            && !self.same_object(dependent, owner)
            && self.store.same_namespace(edge, owner)
    }

    /// Whether an edge holds up its owner's foreground deletion.
    pub(super) fn blocks(&self, edge: EdgeId) -> bool {
        self.store.edges[edge].blocking && self.counts_as_dependent(edge)
    }

    pub(super) fn count_progress(&self, owner: NodeId) -> Progress {
        let mut progress = Progress::default();
        for edge in self.store.dependents(owner).filter(|&edge| self.blocks(edge)) {
            progress.blocking += 1;
            progress.active += u32::from(self.is_active(edge));
        }
        progress
    }

    fn is_active(&self, edge: EdgeId) -> bool {
        !self.store.nodes[self.store.edges[edge].dependent].is_deleting_dependents()
    }

    /// Counts anew what blocks an object that is deleting dependents by any of
    /// its views, and stops counting for one that is not.
    pub(super) fn recount(&mut self, owner: NodeId) {
        let group = self.group(owner);
        let deleting = group.iter().any(|&member| self.store.nodes[member].is_deleting_dependents());
        for member in group {
            if deleting {
                let progress = self.count_progress(member);
                self.progress.insert(member, progress);
                self.may_close_cycle(member);
            } else {
                self.progress.remove(&member);
                self.cycles.leaves(member);
            }
        }
    }

    /// Takes a dependent out of its owners' counters, before it changes.
    pub(super) fn subtract_from_owners(&mut self, dependent: NodeId) -> Touched {
        let mut touched = Touched::new();
        if !self.progress.is_empty() {
            self.cycles.changes(dependent);
            self.adjust(dependent, &mut touched, |count, by| *count -= by);
        }
        touched
    }

    /// Puts a dependent back after the change and wakes the owners for whom that
    /// was the change they waited for.
    pub(super) fn add_to_owners(&mut self, dependent: NodeId, mut touched: Touched, out: &mut Effects) {
        if !self.progress.is_empty() {
            self.adjust(dependent, &mut touched, |count, by| *count += by);
            self.may_close_cycle(dependent);
        }
        self.wake(touched, out);
    }

    /// Wakes the owners that no longer wait for anything but each other.
    pub(super) fn wake(&self, mut touched: Touched, out: &mut Effects) {
        if touched.len() > FEW {
            // The first of each says what was before.
            touched.sort_by_key(|&(owner, _)| owner);
            touched.dedup_by_key(|&mut (owner, _)| owner);
        }
        for (owner, before) in touched {
            let Some(&now) = self.progress.get(&owner) else { continue };
            let unblocked =
                before.blocking > 0 && now.blocking == 0 && !mutation::is(Mutation::DropUnblockWakeUp);
            let all_deleting = before.active > 0 && now.active == 0;
            if unblocked || all_deleting {
                self.queue(owner, out);
            }
        }
    }

    fn adjust(&mut self, dependent: NodeId, touched: &mut Touched, apply: impl Fn(&mut u32, u32)) {
        let blocking: SmallVec<[EdgeId; 4]> = self
            .store
            .owners(dependent)
            .filter(|&edge| self.progress.contains_key(&self.store.edges[edge].owner) && self.blocks(edge))
            .collect();
        for edge in blocking {
            let active = u32::from(self.is_active(edge));
            let owner = self.store.edges[edge].owner;
            let Some(progress) = self.progress.get_mut(&owner) else { continue };
            let mut others = touched.iter().inspect(|_| {
                #[cfg(test)]
                crate::object::steps::count();
            });
            if others.len() > FEW || others.all(|&(other, _)| other != owner) {
                touched.push((owner, *progress));
            }
            apply(&mut progress.blocking, 1);
            apply(&mut progress.active, active);
        }
    }
}
