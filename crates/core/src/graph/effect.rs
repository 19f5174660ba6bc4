//! The output of a partition.

use std::ops::Range;

use crate::object::{Identity, Key, OwnerReference};

use super::{PartitionId, PeerMessage};

/// Everything that followed from the calls since the last [`clear`](Effects::clear), in order.
/// The caller carries it out.
#[derive(Debug, Default)]
pub struct Effects {
    /// Keys for the delete pool.
    pub delete: Vec<Key>,
    /// The ranges of `delete` that are dependents queued because their owner was deleted.
    pub cascaded: Vec<Range<usize>>,
    /// Keys for the orphan pool.
    pub orphan: Vec<Key>,
    /// Identities that were proved absent, for the absent-owner cache to remember.
    pub absent: Vec<Identity>,
    /// Identities that were thought absent and exist (a restored store brings uids back), for
    /// every cache to forget.
    pub present: Vec<Identity>,
    /// Identities that a list shows and that were not in the graph before. For owners among
    /// them, an earlier orphaning of their dependents no longer counts.
    pub revived: Vec<Identity>,
    /// The proof that the store was restored from a backup.
    pub restored: Option<String>,
    /// Messages to other partitions.
    pub peers: Vec<(PartitionId, PeerMessage)>,
    pub reports: Vec<Report>,
}

impl Effects {
    /// Empties all lists and keeps their capacity.
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
    /// Marks the keys in `delete` from `start` on as dependents of a deleted owner.
    pub(super) fn cascade_from(&mut self, start: usize) {
        let end = self.delete.len();
        match self.cascaded.last_mut() {
            _ if start == end => {}
            Some(last) if last.end == start => last.end = end,
            _ => self.cascaded.push(start..end),
        }
    }
}

/// Something that a user should know, for an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// The reference names an observed owner in another namespace: event
    /// `OwnerRefInvalidNamespace` on the dependent.
    NamespaceMismatch { dependent: Identity, reference: OwnerReference },
    /// Two resources show different objects with one uid (kubernetes#116632).
    /// One object served under two resources is an alias and is not reported.
    UidCollision { first: Identity, second: Identity },
    /// A cluster-scoped dependent names an owner of a namespaced kind.
    InvalidScope { dependent: Identity, reference: OwnerReference },
}
