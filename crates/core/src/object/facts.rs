//! The metadata of an object that matters to a garbage collector.

use super::{Namespace, OwnerReference, ResourceVersion, Uid};

/// Which of the garbage collector's two finalizers an object has. Others are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Finalizers {
    pub foreground: bool,
    pub orphan: bool,
}

/// The state of an object's deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeletionState {
    /// No `deletionTimestamp`.
    Live,
    /// Being deleted, and waiting for its grace period or other finalizers only.
    Terminating,
    /// Being deleted in the foreground, after its blocking dependents.
    DeletingDependents,
    /// Being deleted with the policy Orphan. This takes precedence if both finalizers are set,
    /// because orphaned dependents can still be deleted, but not the reverse.
    Orphaning,
}

impl DeletionState {
    /// Derives the state from the deletion timestamp and the finalizers. It is always derived and
    /// never updated by transitions, which made objects hang in Kubernetes
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

    #[must_use]
    pub const fn is_being_deleted(self) -> bool {
        !matches!(self, Self::Live)
    }
}

/// The metadata that a garbage collector needs, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectFacts {
    /// Objects without a uid are skipped.
    pub uid: Uid,
    /// `None` for cluster-scoped objects.
    pub namespace: Option<Namespace>,
    pub name: Box<str>,
    /// Some aggregated APIs give none.
    pub resource_version: Option<ResourceVersion>,
    /// `metadata.ownerReferences`, in order, without those that have no uid.
    pub owners: Vec<OwnerReference>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub being_deleted: bool,
    /// The garbage collector's own finalizers.
    pub finalizers: Finalizers,
    /// Whether it has finalizers of others. The collector decides nothing by them; people want to
    /// know what will hold an object.
    pub held_by_others: bool,
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
    fn orphaning_takes_precedence_over_foreground() {
        let both = Finalizers { foreground: true, orphan: true };
        assert_eq!(DeletionState::derive(true, both), DeletionState::Orphaning);
        assert_eq!(DeletionState::derive(false, both), DeletionState::Live);
        let foreground = Finalizers { foreground: true, orphan: false };
        assert_eq!(DeletionState::derive(true, foreground), DeletionState::DeletingDependents);
        assert_eq!(DeletionState::derive(true, Finalizers::default()), DeletionState::Terminating);
    }
}
