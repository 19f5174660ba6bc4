//! Removes owner references from an object that stays.

use std::collections::HashSet;

use crate::api::References;
use kube_gc_core::graph::{ExpectedChange, ObjectSnapshot};
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{ObjectFacts, OwnerReference, Uid};

/// Which references a patch removes. A strategic merge patch identifies a reference by its uid.
/// Where two references of the object share a uid, it would remove the wrong one, so the patch
/// names the exact references instead.
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
        if is_unique || mutation::is(Mutation::PatchByUidAlone) {
            Self::ByUid(remove.into_iter().map(|reference| reference.uid).collect())
        } else {
            Self::Exact(remove)
        }
    }

    /// As the API takes it.
    #[must_use]
    pub fn references(&self) -> References<'_> {
        match self {
            Self::ByUid(uids) => References::OfOwners(uids),
            Self::Exact(references) => References::Exactly(references),
        }
    }
}

/// What the watch will show after a finalizer was removed: the object's end, or its next version
/// if another finalizer is left.
#[must_use]
pub fn after_finalizer_removal(item: &ObjectSnapshot, returned: &ObjectFacts) -> ExpectedChange {
    match &returned.resource_version {
        Some(version) if item.resource_version.as_ref().is_none_or(|old| version.is_after(old)) => {
            ExpectedChange::Version(version.clone())
        }
        _ => ExpectedChange::Removed,
    }
}
