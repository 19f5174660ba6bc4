//! What a partition wants done.

use crate::object::{Identity, Key, OwnerReference};

use super::{PartitionId, PeerMessage};

/// Everything that followed from the calls since the last
/// [`clear`](Effects::clear), in order. The caller forwards it; the graph itself
/// does nothing to the outside.
#[derive(Debug, Default)]
pub struct Effects {
    /// Keys for the delete pool.
    pub delete: Vec<Key>,
    /// Keys for the orphan pool.
    pub orphan: Vec<Key>,
    /// Identities proved absent by a delete that proves it; to be remembered.
    pub absent: Vec<Identity>,
    /// Identities that were thought absent and showed up alive (a store restored
    /// from a backup brings uids back); to be forgotten by every cache.
    pub present: Vec<Identity>,
    /// Messages to other partitions.
    pub peers: Vec<(PartitionId, PeerMessage)>,
    /// What people should know.
    pub reports: Vec<Report>,
}

impl Effects {
    /// Empties all lists and keeps their room.
    pub fn clear(&mut self) {
        let Self { delete, orphan, absent, present, peers, reports } = self;
        delete.clear();
        orphan.clear();
        absent.clear();
        present.clear();
        peers.clear();
        reports.clear();
    }
}

/// Something that a person should hear of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The reference names an observed, namespaced owner that lives in another
    /// namespace: event `OwnerRefInvalidNamespace` on the dependent.
    NamespaceMismatch {
        /// The dependent.
        dependent: Identity,
        /// The reference, as written.
        reference: OwnerReference,
    },
    /// Two resources show different objects with one uid (kubernetes#116632).
    /// One object served under two resources is an alias and is not reported.
    UidCollision {
        /// The node that was there.
        first: Identity,
        /// The newcomer.
        second: Identity,
    },
    /// A cluster-scoped dependent names an owner of a namespaced kind.
    InvalidScope {
        /// The dependent.
        dependent: Identity,
        /// The reference, as written.
        reference: OwnerReference,
    },
}
