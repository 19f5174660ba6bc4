//! Removes the references of one dependent to an owner that orphans its dependents.

use super::context::OrphanContext;
use crate::api::{ErrorClass, Patched, References};
use crate::worker::decision::DecisionLine;
use crate::worker::interrupted::Interrupted;
use kube_gc_core::graph::ExpectedChange;
use kube_gc_core::object::{Identity, ObjectFacts, ResourceVersion};

/// How often one dependent is tried before its owner is put back into the queue.
const TRIES: u32 = 3;

/// Takes references to an owner out of a dependent, whatever else has changed
/// about it: only its uid must be the same. Returns the version that it has now, if
/// the patch changed it.
///
/// # Errors
/// When the API server refuses or fails. A dependent that is gone is none.
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
        // As good as released: what follows from it is to be decided as well.
        return Ok(None);
    }
    let Patched::Changed(ObjectFacts { resource_version: Some(version), .. }) = patched? else {
        return Ok(None);
    };
    context.graph.expect(&dependent.key(), ExpectedChange::Version(version.clone()));
    Ok(Some(version))
}
