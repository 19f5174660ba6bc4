//! Cutting the tie between one dependent and an owner that lets it live.

use std::collections::HashSet;

use super::context::{Interrupted, WorkerContext};
use super::decision::DecisionLine;
use crate::api::{Api, ApiError, ErrorClass, Patched, References};
use crate::graph::ExpectedChange;
use crate::object::{Identity, OwnerReference, ResourceVersion};

/// How often one dependent is tried before its owner is put back into the queue.
const TRIES: u32 = 3;

/// Patches references away. The strategic merge patch goes by uid; where two of
/// the object's references share one, it would take out the wrong entry, so the
/// exact ones are named.
///
/// # Errors
/// When the API server refuses or fails.
pub async fn remove_references<'a>(
    api: &Api,
    object: &Identity,
    all: impl IntoIterator<Item = &'a OwnerReference>,
    remove: &[OwnerReference],
    version: Option<&ResourceVersion>,
) -> Result<Patched, ApiError> {
    let mut seen = HashSet::new();
    if all.into_iter().all(|reference| seen.insert(&reference.uid)) {
        let uids: Vec<_> = remove.iter().map(|reference| reference.uid.clone()).collect();
        api.remove_references(object, References::OfOwners(&uids), version).await
    } else {
        api.remove_references(object, References::Exactly(remove), version).await
    }
}

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
        let patched = remove_references(&context.api, dependent, references, to_owner, None).await;
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
