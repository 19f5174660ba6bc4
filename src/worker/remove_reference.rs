//! Cutting the tie between one dependent and an owner that lets it live.

use std::collections::HashSet;

use crate::api::{ErrorClass, Patched, References};
use crate::worker::context::{Interrupted, WorkerContext};
use crate::worker::decision::DecisionLine;
use kube_gc_core::graph::{ExpectedChange, ObjectSnapshot};
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{Identity, ObjectFacts, OwnerReference, ResourceVersion, Uid};

/// How often one dependent is tried before its owner is put back into the queue.
const TRIES: u32 = 3;

/// Which references to patch away. The strategic merge patch goes by uid; where
/// two of the object's references share one, it would take out the wrong entry, so
/// the exact ones are named.
#[derive(Debug)]
pub enum Removal {
    /// By their uids.
    ByUid(Vec<Uid>),
    /// Exactly these.
    Exact(Vec<OwnerReference>),
}

impl Removal {
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

/// Takes references to an owner out of a dependent, whatever else has changed
/// about it: only its uid must be the same. Returns the version that it has now, if
/// the patch changed it.
///
/// # Errors
/// When the API server refuses or fails. A dependent that is gone is none.
pub async fn release(
    context: &WorkerContext,
    owner: &Identity,
    dependent: &Identity,
    references: References<'_>,
) -> Result<Option<ResourceVersion>, Interrupted> {
    let line = DecisionLine::new(context, dependent, "orphan").owner(owner);
    let mut tries = 0;
    let patched = loop {
        tries += 1;
        let patched = context.api.remove_references(dependent, references, None).await;
        match &patched {
            Err(error) if error.class == ErrorClass::Conflict && tries < TRIES => {}
            _ => break patched,
        }
    };
    line.finish(&patched);
    if patched.as_ref().is_err_and(|error| error.class == ErrorClass::DryRun) {
        // As good as released: what follows from it is to be decided as well.
        return Ok(None);
    }
    let Patched::Changed(ObjectFacts { resource_version: Some(version), .. }) = patched? else {
        return Ok(None);
    };
    context.graph.expect(&dependent.key(), ExpectedChange::Version(version.clone()));
    Ok(Some(version))
}

/// What to expect after one of our finalizers was removed: the object's end if
/// nothing else holds it, else its next version.
#[must_use]
pub fn after_removal(item: &ObjectSnapshot, returned: &ObjectFacts) -> ExpectedChange {
    match &returned.resource_version {
        Some(version) if item.resource_version.as_ref().is_none_or(|old| version.is_after(old)) => {
            ExpectedChange::Version(version.clone())
        }
        _ => ExpectedChange::Removed,
    }
}
