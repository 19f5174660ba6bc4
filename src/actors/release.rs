//! Cutting the tie between one dependent and an owner that lets it live.

use super::context::{Interrupted, WorkerContext};
use super::decision::DecisionLine;
use crate::api::{ErrorClass, Patched};
use crate::graph::ExpectedChange;
use crate::object::{Identity, OwnerReference};

/// How often one dependent is tried before its owner is put back into the queue.
const TRIES: u32 = 3;

/// Takes the references to an owner out of a dependent, whatever else has changed
/// about it: only its uid must be the same.
///
/// # Errors
/// When the API server refuses or fails. A dependent that is gone is none.
pub async fn release(
    context: &WorkerContext,
    owner: &Identity,
    dependent: &Identity,
    references: &[OwnerReference],
    to_owner: &[OwnerReference],
) -> Result<(), Interrupted> {
    let line = DecisionLine::new(dependent, "orphan").owner(owner);
    let mut tries = 0;
    let patched = loop {
        tries += 1;
        let patched = context.api.remove_references(dependent, references, to_owner, None).await;
        match &patched {
            Err(error) if matches!(error.class, ErrorClass::Conflict) && tries < TRIES => {}
            _ => break patched,
        }
    };
    line.finish(patched.as_ref().map(Patched::as_str));
    if let Patched::Changed(facts) = patched?
        && let Some(version) = facts.resource_version
    {
        context.graph.expect(&dependent.key(), ExpectedChange::Version(version)).await?;
    }
    Ok(())
}
