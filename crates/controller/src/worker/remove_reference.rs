//! Removes owner references from an object that stays.

use std::collections::HashSet;

use kube_gc_client::{FinalizerRemoval, MANY_REFERENCES, References};
use kube_gc_core::graph::{DependentView, ExpectedChange};
use kube_gc_core::object::{ObjectFacts, OwnerReference, ResourceVersion, Uid};

/// Which references a patch removes. A strategic merge patch identifies a reference by its uid.
/// Where two references of the object share a uid, it would remove the wrong one, so the patch
/// names the exact references instead, and also among more than [`MANY_REFERENCES`], where it would
/// cost the API server much.
#[derive(Debug)]
pub enum ReferenceRemoval {
    /// By their uids.
    ByUid(Vec<Uid>),
    /// Exactly these.
    Exact(Vec<OwnerReference>),
}

impl ReferenceRemoval {
    /// Removes these of all references of an object.
    pub fn of<'a>(all: impl IntoIterator<Item = &'a OwnerReference>, remove: Vec<OwnerReference>) -> Self {
        let mut seen = HashSet::new();
        let is_unique = all.into_iter().all(|reference| seen.insert(&reference.uid));
        if !is_unique || seen.len() > MANY_REFERENCES {
            return Self::Exact(remove);
        }
        Self::ByUid(remove.into_iter().map(|reference| reference.uid).collect())
    }

    /// Removes the reference of a dependent to an owner that orphans it.
    pub fn of_dependent(dependent: &DependentView) -> Self {
        let DependentView { reference, shares_uid, reference_count, .. } = dependent;
        if *shares_uid || *reference_count > MANY_REFERENCES {
            Self::Exact(vec![reference.clone()])
        } else {
            Self::ByUid(vec![reference.uid.clone()])
        }
    }

    /// As the API takes it.
    pub fn references(&self) -> References<'_> {
        match self {
            Self::ByUid(uids) => References::OfOwners(uids),
            Self::Exact(references) => References::Exactly(references),
        }
    }
}

/// What the watch will show after the removal of a finalizer from an object whose version was
/// `known`: the end of the object, or the version that the server returned. Without this
/// expectation, the object would be processed again as if it still had the finalizer.
pub fn after_finalizer_removal(
    known: Option<&ResourceVersion>,
    removal: &FinalizerRemoval,
) -> Option<ExpectedChange> {
    let newer = |facts: &ObjectFacts, if_unknown| {
        let version = facts.resource_version.as_ref()?;
        let is_newer = known.map_or(if_unknown, |known| version.is_after(known));
        is_newer.then(|| ExpectedChange::Version(version.clone()))
    };
    match removal {
        FinalizerRemoval::Removed(facts) => Some(newer(facts, true).unwrap_or(ExpectedChange::Removed)),
        // Somebody else changed the object. If the versions cannot be compared, the event may
        // have arrived, and no other may follow.
        FinalizerRemoval::NotPresent(facts) | FinalizerRemoval::NotBeingDeleted(facts) => newer(facts, false),
        FinalizerRemoval::Gone(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::tests::{identity, reference, seen};
    use kube_gc_client::AbsenceProof;

    fn facts(version: &str) -> ObjectFacts {
        let resource_version = ResourceVersion::parse(version);
        ObjectFacts { resource_version, being_deleted: true, ..seen(&identity("a", "w"), 1, Vec::new()) }
    }

    fn version(version: &str) -> Option<ExpectedChange> {
        ResourceVersion::parse(version).map(ExpectedChange::Version)
    }

    fn owner(number: usize) -> OwnerReference {
        reference(&identity("a", &format!("owner-{number}")))
    }

    #[test]
    fn one_of_many_references_is_not_removed_by_a_strategic_patch() {
        let removal = |count: usize| {
            let all: Vec<_> = (0..count).map(owner).collect();
            ReferenceRemoval::of(&all, vec![owner(1)])
        };
        assert!(matches!(removal(MANY_REFERENCES).references(), References::OfOwners([_])));
        assert!(matches!(removal(MANY_REFERENCES + 1).references(), References::Exactly([_])));
    }

    #[test]
    fn a_dependent_with_many_references_is_orphaned_without_a_strategic_patch() {
        let removal = |reference_count: usize, shares_uid: bool| {
            let (identity, reference) = (identity("a", "x"), owner(1));
            let view = DependentView { identity, reference, shares_uid, reference_count };
            ReferenceRemoval::of_dependent(&view)
        };
        assert!(matches!(removal(MANY_REFERENCES, false).references(), References::OfOwners([_])));
        assert!(matches!(removal(MANY_REFERENCES + 1, false).references(), References::Exactly([_])));
        for count in [2, MANY_REFERENCES + 1] {
            assert!(matches!(removal(count, true).references(), References::Exactly([_])));
        }
    }

    #[test]
    fn the_next_event_after_a_finalizer_is_the_end_of_the_object_or_another_version() {
        use FinalizerRemoval::{Gone, NotBeingDeleted, NotPresent, Removed};
        for (known, removal, expected) in [
            ("7", Removed(facts("8")), version("8")),
            ("7", Removed(facts("7")), Some(ExpectedChange::Removed)),
            ("7", Gone(AbsenceProof::of_test()), None),
            // Removed by another client. An event that is known is not expected again.
            ("7", NotPresent(facts("8")), version("8")),
            ("7", NotBeingDeleted(facts("8")), version("8")),
            ("7", NotPresent(facts("7")), None),
            ("7", NotBeingDeleted(facts("7")), None),
            // Nobody knows which is newer.
            ("a", NotPresent(facts("b")), None),
        ] {
            let known = ResourceVersion::parse(known);
            assert_eq!(after_finalizer_removal(known.as_ref(), &removal), expected, "{removal:?}");
        }
    }
}
