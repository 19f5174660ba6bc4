//! The input and the output of a partition.

use crate::object::{DeletionState, Identity, Key, ObjectFacts, OwnerReference, ResourceVersion};

/// One run of a monitor. Epochs grow over the life of the process and over all types, which
/// tells the batches of a stopped monitor from those of its successor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Whether a DELETED event, or an object missing from a list, proves that the object is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletesProve {
    /// The API server serves the type itself: they are proof.
    Absence,
    /// An aggregated API server serves the type and may show anything: an owner that seems gone
    /// is looked up before anything follows from it.
    Nothing,
}

/// One event of a list followed by a watch, in the words of kube's `watcher::Event`.
///
/// A list is an `Init`, its objects as `Apply`, and an `InitDone`. kube calls the objects
/// between the two `InitApply`. One variant is enough here because the partition knows
/// whether a list of the type is in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// A list begins. Objects that it does not contain may be gone.
    Init {
        /// The list's version, or the least that it can be, if it is known before the list is
        /// complete. Then the list is at least as recent as every object of the type that was seen
        /// before.
        resource_version: Option<ResourceVersion>,
    },
    /// An object of a list, or an ADDED or MODIFIED event.
    Apply(ObjectFacts),
    /// A DELETED event, with the object's last state.
    Delete(ObjectFacts),
    /// The list is complete. A node that was not in it is gone, unless the node's version is
    /// greater than the list's: such an object was created after the list was taken.
    InitDone { resource_version: Option<ResourceVersion> },
}

impl WatchEvent {
    /// The object of an `Apply` or a `Delete`.
    pub const fn facts(&self) -> Option<&ObjectFacts> {
        match self {
            Self::Apply(facts) | Self::Delete(facts) => Some(facts),
            Self::Init { .. } | Self::InitDone { .. } => None,
        }
    }
}

/// What partition 0 has to know about the references of a dependent in another partition to one of
/// its owners. It is sent again whenever a fact in it changes, and is idempotent.
#[derive(Clone, Debug)]
pub struct Link {
    /// The owner, with the type that the sender's catalog resolved.
    pub owner: Key,
    pub dependent: Identity,
    pub deletion: DeletionState,
    /// Whether another of the dependent's references has the same uid, to this owner or to one
    /// of another kind.
    pub shares_uid: bool,
    /// Every reference of the dependent to this owner. There are several if duplicates differ in
    /// a field, and none if it no longer refers to the owner, or is gone.
    pub references: Vec<OwnerReference>,
}

/// Everything that followed from the calls since the last [`clear`](Effects::clear), in order.
/// The caller carries it out.
#[derive(Debug, Default)]
pub struct Effects {
    /// Keys for the delete pool.
    pub delete: Vec<Key>,
    /// Further keys for the delete pool: dependents whose owner was deleted.
    pub cascaded: Vec<Key>,
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
    /// For partition 0.
    pub links: Vec<Link>,
    pub reports: Vec<Report>,
}

impl Effects {
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes all keys for the delete pool.
    pub fn take_delete(&mut self) -> impl Iterator<Item = Key> {
        self.cascaded.drain(..).chain(self.delete.drain(..))
    }

    /// The keys in `delete` from `start` on are dependents of a deleted owner.
    pub(super) fn cascade_from(&mut self, start: usize) {
        self.cascaded.extend(self.delete.drain(start..));
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
