//! Cutting the tie between one dependent and an owner that lets it live.

use std::collections::HashSet;

use crate::api::References;
use kube_gc_core::graph::{ExpectedChange, ObjectSnapshot};
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{ObjectFacts, OwnerReference, Uid};

/// Which references to patch away. The strategic merge patch goes by uid; where
/// two of the object's references share one, it would take out the wrong entry, so
/// the exact ones are named.
#[derive(Debug)]
pub enum ReferenceRemoval {
    /// By their uids.
    ByUid(Vec<Uid>),
    /// Exactly these.
    Exact(Vec<OwnerReference>),
}

impl ReferenceRemoval {
    /// Takes these references out of all of an object's.
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

/// What to expect after one of our finalizers was removed: the object's end if
/// nothing else holds it, else its next version.
#[must_use]
pub fn after_finalizer_removal(item: &ObjectSnapshot, returned: &ObjectFacts) -> ExpectedChange {
    match &returned.resource_version {
        Some(version) if item.resource_version.as_ref().is_none_or(|old| version.is_after(old)) => {
            ExpectedChange::Version(version.clone())
        }
        _ => ExpectedChange::Removed,
    }
}
