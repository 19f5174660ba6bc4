//! Objects that name very many owners.
//!
//! The API server accepts some 10,000 owner references on one object. Each owner that no
//! monitor shows would be a key of its own in the delete pool, to be looked up by itself:
//! one object would put 10,000 keys into the queue. Such an object verifies its owners
//! itself instead, a few at a time, and stands in the queue once.

use super::node::{Edge, EdgeId, NodeId, Presence};
use super::{Effects, Partition};

/// An object with more owner references than this is a large one.
pub const LARGE: usize = 64;

/// So many dependents of an owner are looked at to find out who verifies it.
const LOOKED_AT: usize = 16;

impl Partition {
    /// Whether an object names more than [`LARGE`] owners. Costs no more than that.
    pub(super) fn is_large(&self, id: NodeId) -> bool {
        self.store.owners(id).nth(LARGE).is_some()
    }

    /// A dependent has joined those of an owner that is still to be verified. As long as
    /// these were large ones, the owner is in no queue itself, and they may go before they
    /// come to it.
    pub(super) fn dependent_joined(&self, edge: EdgeId, is_large: bool, out: &mut Effects) {
        let Edge { dependent, owner, .. } = self.store.edges[edge];
        if is_large {
            self.queue(dependent, out);
            return;
        }
        let mut others = self.store.dependents(owner).filter(|&other| other != edge).take(LOOKED_AT);
        if !others.any(|other| !self.is_large(self.store.edges[other].dependent)) {
            self.queue(owner, out);
        }
    }

    /// Whether all dependents of an owner are large ones, which verify it. Where it has many,
    /// it is verified by itself.
    pub(super) fn is_verified_by_large(&self, owner: NodeId) -> bool {
        let mut dependents = self.store.dependents(owner).map(|edge| self.store.edges[edge].dependent);
        let mut few = dependents.by_ref().take(LOOKED_AT).peekable();
        few.peek().is_some() && few.all(|dependent| self.is_large(dependent)) && dependents.next().is_none()
    }

    /// An object was large and is so no more: its owners are verified as those of any other.
    pub(super) fn no_longer_large(&self, dependent: NodeId, out: &mut Effects) {
        for edge in self.store.owners(dependent) {
            let owner = self.store.edges[edge].owner;
            if self.store.nodes[owner].presence == Presence::Virtual {
                self.queue(owner, out);
            }
        }
    }
}
