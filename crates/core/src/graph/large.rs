//! Objects that name many owners.
//!
//! The API server accepts about 10,000 owner references on one object. Each owner that no
//! monitor shows is normally a key of its own in the delete pool, so one object could queue
//! 10,000 keys. The worker of a large object verifies the owners itself, at a limited rate, and
//! the object is queued once.

use super::node::{Edge, EdgeId, NodeId, Presence};
use super::{Effects, Partition};

/// An object with more owner references than this is a large one. Others cost at most this many
/// look-ups whenever they are written, and most objects have one or two owners.
pub const LARGE: usize = 8;

/// How many dependents of an owner are checked to find out who verifies it.
const LOOKED_AT: usize = 16;

impl Partition {
    /// Whether an object names more than [`LARGE`] owners. Visits no more than that.
    pub(super) fn is_large(&self, id: NodeId) -> bool {
        self.store.owners(id).nth(LARGE).is_some()
    }

    /// An owner that has to be verified got another dependent. If all others are large, the
    /// owner is not queued itself, and they may be deleted before they verify it.
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

    /// Whether an owner has few dependents and all are large, so that they verify it.
    pub(super) fn is_verified_by_large(&self, owner: NodeId) -> bool {
        let mut dependents = self.store.dependents(owner).map(|edge| self.store.edges[edge].dependent);
        let mut few = dependents.by_ref().take(LOOKED_AT).peekable();
        few.peek().is_some() && few.all(|dependent| self.is_large(dependent)) && dependents.next().is_none()
    }

    /// An object is no longer large: its owners are queued for verification.
    pub(super) fn no_longer_large(&self, dependent: NodeId, out: &mut Effects) {
        for edge in self.store.owners(dependent) {
            let owner = self.store.edges[edge].owner;
            if self.store.nodes[owner].presence == Presence::Virtual {
                self.queue(owner, out);
            }
        }
    }
}
