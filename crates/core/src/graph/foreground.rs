//! The progress of foreground deletions, counted incrementally.
//!
//! A node that is deleting dependents is queued when its last blocking dependent goes, and when
//! the last of them starts deleting dependents itself (a possible cycle). Queueing it for each
//! of n dependents would make a cascade cost n² evaluations.

use smallvec::SmallVec;

use super::node::{Edge, EdgeId, NodeId};
use super::state::Progress;
use super::{Effects, Partition};
use crate::mutation::{self, Mutation};

/// Up to this many entries, [`Touched`] is kept free of duplicates by searching it. A search
/// for each of thousands of references would be quadratic, so longer ones are sorted once.
const FEW: usize = 16;

/// Owners whose counters a change to a dependent may affect, with their counters before it.
pub(super) type Touched = SmallVec<[(NodeId, Progress); 2]>;

impl Partition {
    /// Whether an edge makes its object a dependent. Three kinds do not:
    ///
    /// - those of an alias: the object counts through its primary;
    /// - those of an object to itself;
    /// - those across namespaces, which are invalid. Which namespaces share a partition is
    ///   arbitrary, and one namespace must not be able to block a deletion in another.
    pub(super) fn counts_as_dependent(&self, edge: EdgeId) -> bool {
        let Edge { dependent, owner, .. } = self.store.edges[edge];
        !self.is_alias(dependent)
            && !self.same_object(dependent, owner)
            && self.store.same_namespace(edge, owner)
    }

    /// Whether an edge blocks its owner's foreground deletion.
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

    /// Recounts what blocks an object if any of its views is deleting dependents, and drops its
    /// counters otherwise.
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

    /// Subtracts a dependent from its owners' counters, before it changes.
    pub(super) fn subtract_from_owners(&mut self, dependent: NodeId) -> Touched {
        let mut touched = Touched::new();
        if !self.progress.is_empty() {
            self.cycles.changes(dependent);
            self.adjust(dependent, &mut touched, |count, by| *count -= by);
        }
        touched
    }

    /// Adds a dependent back after the change, and queues the owners that were waiting for it.
    pub(super) fn add_to_owners(&mut self, dependent: NodeId, mut touched: Touched, out: &mut Effects) {
        if !self.progress.is_empty() {
            self.adjust(dependent, &mut touched, |count, by| *count += by);
            self.may_close_cycle(dependent);
        }
        self.wake(touched, out);
    }

    /// Queues the owners that nothing blocks any more, or only objects that are deleting dependents.
    pub(super) fn wake(&self, mut touched: Touched, out: &mut Effects) {
        if touched.len() > FEW {
            // The sort is stable: the first entry of each owner has its counters before the change.
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
