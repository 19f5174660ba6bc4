//! Removes the references of one dependent to an owner that orphans its dependents.

use super::context::OrphanContext;
use crate::api::{ErrorClass, Patched, References};
use crate::worker::decision::DecisionLine;
use crate::worker::interrupted::Interrupted;
use kube_gc_core::graph::ExpectedChange;
use kube_gc_core::object::{Identity, ObjectFacts, ResourceVersion};

/// How often one dependent is tried before its owner is retried.
const TRIES: u32 = 3;

/// Removes the references of a dependent to an owner. Only the uid of the dependent must be the
/// same, whatever else has changed. Returns the new version if the patch changed the dependent.
///
/// # Errors
/// When the API server denies the patch or fails. A dependent that is gone is no error.
pub async fn orphan_dependent(
    context: &OrphanContext,
    owner: &Identity,
    dependent: &Identity,
    references: References<'_>,
) -> Result<Option<ResourceVersion>, Interrupted> {
    let line = DecisionLine::new(&context.decisions, dependent, "orphan").owner(owner);
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
        // Treated as done, so that a dry run also decides what follows.
        return Ok(None);
    }
    let Patched::Changed(ObjectFacts { resource_version: Some(version), .. }) = patched? else {
        return Ok(None);
    };
    context.graph.expect(&dependent.key(), ExpectedChange::Version(version.clone()));
    Ok(Some(version))
}
