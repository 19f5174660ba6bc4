//! The facts of an object that matter to a garbage collector.

use super::{Namespace, OwnerReference, ResourceVersion, Uid};

/// Which of the two finalizers of the garbage collector an object carries.
/// Foreign finalizers are other controllers' business.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Finalizers {
    pub foreground: bool,
    pub orphan: bool,
}

/// How far an object's deletion has come, for its dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeletionState {
    /// No `deletionTimestamp`.
    Live,
    /// Being deleted, held by grace or by foreign finalizers only.
    Terminating,
    /// Being deleted in the foreground: its blocking dependents go first.
    DeletingDependents,
    /// Being deleted, its dependents are to live on. Wins when both finalizers
    /// are there: orphaning can be followed by a deletion, not the reverse.
    Orphaning,
}

impl DeletionState {
    /// The state that a deletion timestamp and the finalizers amount to. Always
    /// derived afresh: an edge-triggered copy is what makes objects hang
    /// (kubernetes/kubernetes#115570).
    #[must_use]
    pub const fn derive(has_deletion_timestamp: bool, finalizers: Finalizers) -> Self {
        match (has_deletion_timestamp, finalizers) {
            (false, _) => Self::Live,
            (true, Finalizers { orphan: true, .. }) => Self::Orphaning,
            (true, Finalizers { foreground: true, .. }) => Self::DeletingDependents,
            (true, Finalizers { foreground: false, orphan: false }) => Self::Terminating,
        }
    }

    /// True for every state but [`Live`](Self::Live).
    #[must_use]
    pub const fn is_being_deleted(self) -> bool {
        !matches!(self, Self::Live)
    }
}

/// The metadata that a garbage collector needs, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// The uid; an object without one is never turned into facts.
    pub uid: Uid,
    /// The namespace; `None` for cluster-scoped objects.
    pub namespace: Option<Namespace>,
    pub name: Box<str>,
    /// The resource version; some aggregated APIs give none.
    pub resource_version: Option<ResourceVersion>,
    /// `metadata.ownerReferences`, in order, without those that have no uid.
    pub owners: Vec<OwnerReference>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub being_deleted: bool,
    /// The garbage collector's own finalizers.
    pub finalizers: Finalizers,
}

impl ObjectFacts {
    #[must_use]
    pub const fn deletion_state(&self) -> DeletionState {
        DeletionState::derive(self.being_deleted, self.finalizers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orphaning_wins_over_foreground() {
        let both = Finalizers { foreground: true, orphan: true };
        assert_eq!(DeletionState::derive(true, both), DeletionState::Orphaning);
        assert_eq!(DeletionState::derive(false, both), DeletionState::Live);
        let foreground = Finalizers { foreground: true, orphan: false };
        assert_eq!(DeletionState::derive(true, foreground), DeletionState::DeletingDependents);
        assert_eq!(DeletionState::derive(true, Finalizers::default()), DeletionState::Terminating);
    }
}
