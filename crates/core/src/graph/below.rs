//! What is below an owner, for clients that wait until it is settled.

use super::node::{NodeId, Presence};
use super::{Generation, Partition};
use crate::object::{Key, KeyedSet, Uid};

/// The most objects that are looked at, because a partition has other work.
const MOST_BELOW: usize = 100_000;
/// The most owners that are remembered of an object that is gone.
const MOST_ABOVE: usize = 32;

/// An owner and all objects below it. Two equal answers mean that none of them changed in between.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Below {
    /// If two partitions know an object, it is in here twice.
    pub keys: Vec<(Key, Generation)>,
    /// Own writes to them whose events have not arrived.
    pub unseen_writes: usize,
    /// There are too many to look at all.
    pub is_cut_off: bool,
}

impl Below {
    /// Adds what another partition has.
    pub fn extend(&mut self, other: Self) {
        self.keys.extend(other.keys);
        self.unseen_writes += other.unseen_writes;
        self.is_cut_off |= other.is_cut_off;
    }
}

impl Partition {
    /// What this partition has below an owner, and below objects that another one has found there.
    pub fn below(&self, owner: &Uid, found: &[Key]) -> Below {
        let is_above = |above: &Option<Vec<Uid>>| above.as_ref().is_none_or(|above| above.contains(owner));
        let gone = self.store.above.iter().filter(|(_, above)| is_above(above)).map(|(&id, _)| id);
        let found = found.iter().filter_map(|key| self.store.find_key(key));
        let mut left: Vec<NodeId> = self.store.with_uid(owner).chain(found).chain(gone).collect();
        left.sort_unstable();
        let mut seen = KeyedSet::with_hasher(self.store.hasher);
        let mut below = Below::default();
        while let Some(id) = left.pop() {
            if !seen.insert(id) {
                continue;
            }
            below.is_cut_off = seen.len() > MOST_BELOW;
            if below.is_cut_off {
                break;
            }
            let node = &self.store.nodes[id];
            if !node.is_unresolved() {
                below.keys.push((self.store.key(self.primary(id)), Generation(node.generation)));
            }
            below.unseen_writes += usize::from(self.expected.contains_key(&id));
            left.extend(self.store.dependents(id).map(|edge| self.store.edges[edge].dependent));
        }
        below
    }

    /// Remembers what is above an object that goes, for as long as dependents name it: the rest of a
    /// cascade is still below the owner with which it began.
    pub(super) fn remember_above(&mut self, id: NodeId) {
        if self.store.nodes[id].first_dependent.is_some() {
            let above = self.above(id);
            self.store.above.insert(id, above);
        }
    }

    /// What is above a node; `None` if it is much, or if only partition 0 knows the rest.
    fn above(&self, id: NodeId) -> Option<Vec<Uid>> {
        let (mut nodes, mut above, mut next) = (vec![id], Vec::new(), 0);
        while let Some(&node) = nodes.get(next) {
            next += 1;
            for owner in self.store.owners(node).map(|edge| self.store.edges[edge].owner) {
                if nodes.contains(&owner) {
                    continue;
                }
                nodes.push(owner);
                above.push(self.store.nodes[owner].uid.clone());
                if let Some(remembered) = self.store.above.get(&owner) {
                    above.extend(remembered.as_ref()?.iter().cloned());
                }
                if above.len() > MOST_ABOVE || self.store.nodes[owner].presence == Presence::Remote {
                    return None;
                }
            }
        }
        Some(above)
    }
}
