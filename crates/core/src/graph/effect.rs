//! What a partition wants done.

use std::ops::Range;

use crate::object::{Identity, Key, OwnerReference};

use super::{PartitionId, PeerMessage};

/// Everything that followed from the calls since the last
/// [`clear`](Effects::clear), in order. The caller forwards it; the graph itself
/// does nothing to the outside.
#[derive(Debug, Default)]
pub struct Effects {
    /// Keys for the delete pool.
    pub delete: Vec<Key>,
    /// Which of these follow from an owner's deletion: they are its dependents.
    pub cascaded: Vec<Range<usize>>,
    /// Keys for the orphan pool.
    pub orphan: Vec<Key>,
    /// Identities proved absent by a delete that proves it; to be remembered.
    pub absent: Vec<Identity>,
    /// Identities that were thought absent and showed up alive (a store restored
    /// from a backup brings uids back); to be forgotten by every cache.
    pub present: Vec<Identity>,
    /// Identities that a list shows alive and that were not there before: owners
    /// among them whose dependents were orphaned are back, and that is over.
    pub revived: Vec<Identity>,
    /// The store was restored from a backup; what proves it.
    pub restored: Option<String>,
    /// Messages to other partitions.
    pub peers: Vec<(PartitionId, PeerMessage)>,
    /// What people should know.
    pub reports: Vec<Report>,
}

impl Effects {
    /// Empties all lists and keeps their room.
    pub fn clear(&mut self) {
        let Self { delete, cascaded, orphan, absent, present, revived, restored, peers, reports } = self;
        delete.clear();
        cascaded.clear();
        orphan.clear();
        absent.clear();
        present.clear();
        revived.clear();
        *restored = None;
        peers.clear();
        reports.clear();
    }
}

impl Effects {
    /// The keys for the delete pool from here on are those of dependents whose owner
    /// is gone or deletes them.
    pub(super) fn cascade_from(&mut self, start: usize) {
        let end = self.delete.len();
        match self.cascaded.last_mut() {
            _ if start == end => {}
            Some(last) if last.end == start => last.end = end,
            _ => self.cascaded.push(start..end),
        }
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
