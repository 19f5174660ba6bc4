//! What single rules keep in a partition or in its store from one call to the next.
//!
//! These types are apart from their rules, because [`Partition`](super::Partition) contains the
//! types, and the rules are parts of `impl Partition`.

use crate::object::Keyed;

use super::keyed::KeyedSet;
use super::node::{EdgeId, NodeId};

/// The references that block a node which is deleting dependents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub(super) blocking: u32,
    /// How many of the blocking dependents are not deleting dependents themselves.
    pub(super) active: u32,
}

/// The cached results of searches for cycles, for nodes whose progress is counted.
#[derive(Debug)]
pub(super) struct Cycles {
    pub(super) acyclic: KeyedSet<NodeId>,
    pub(super) cyclic: KeyedSet<NodeId>,
}

impl Cycles {
    pub(super) fn new(hasher: Keyed) -> Self {
        Self { acyclic: KeyedSet::with_hasher(hasher), cyclic: KeyedSet::with_hasher(hasher) }
    }

    /// A node changes.
    pub(super) fn changes(&mut self, id: NodeId) {
        if self.cyclic.contains(&id) {
            self.cyclic.clear();
        }
    }

    /// A node is no longer deleting dependents.
    pub(super) fn leaves(&mut self, id: NodeId) {
        self.changes(id);
        self.acyclic.remove(&id);
    }

    pub(super) fn forget(&mut self) {
        self.acyclic.clear();
        self.cyclic.clear();
    }

    pub(super) fn knows(&self, id: NodeId) -> bool {
        self.acyclic.contains(&id) || self.cyclic.contains(&id)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.acyclic.is_empty() && self.cyclic.is_empty()
    }
}

/// Where the next page of an owner's dependents begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    /// Advanced when this reference is removed.
    pub(super) next: Option<EdgeId>,
    pub(super) pages: u32,
}
