//! One object as a worker would see it, and what the collector would decide about it.

use std::sync::Arc;

use kube_gc_core::graph::{
    DependentSummary, ForegroundProgress, Generation, NodePresence, NodeView, ObjectSnapshot,
};
use kube_gc_core::object::{Catalog, DeletionState, Identity, Key, ObjectFacts};
use kube_gc_core::verdict::{Decision, Precheck, decide, precheck};

use super::classify::{classify, resolve};
use super::knowledge::{Asker, Live};

/// The object as a worker would see it; without a monitor for its type, from a live read.
pub(super) fn snapshot(asker: &mut Asker<'_>, identity: &Identity) -> Option<ObjectSnapshot> {
    let key = identity.key();
    let (object, view) = (asker.object(&key), asker.node(&key));
    if let Some(object) = object?.filter(|object| object.identity == *identity) {
        return Some(object.clone());
    }
    let view = view?;
    if view.is_some_and(|view| view.presence == NodePresence::Absent && view.identity == *identity) {
        return None;
    }
    match asker.live(identity)? {
        Live::Found(live) => Some(from_facts(asker.catalog(), identity, &live.facts, view)),
        Live::Absent(_) | Live::Failed(_) | Live::NotAsked => None,
    }
}

/// An object that no monitor shows, with what the graph knows of its dependents.
fn from_facts(
    catalog: &Arc<Catalog>,
    identity: &Identity,
    facts: &ObjectFacts,
    view: Option<&NodeView>,
) -> ObjectSnapshot {
    let references = facts.owners.iter().map(|owner| resolve(catalog, facts.namespace.as_ref(), owner));
    let deletes = |dependent: &DependentSummary| dependent.deletion == DeletionState::DeletingDependents;
    ObjectSnapshot {
        identity: identity.clone(),
        resource_version: facts.resource_version.clone(),
        generation: Generation(0),
        deletion: facts.deletion_state(),
        finalizers: facts.finalizers,
        references: references.collect(),
        has_dependents: view.is_some_and(|view| !view.by_type.is_empty()),
        has_dependent_deleting_dependents: view.is_some_and(|view| view.dependents.iter().any(deletes)),
        foreground: match view.map_or(0, |view| view.blocking) {
            0 if catalog.has_unread() => ForegroundProgress::PerhapsBlocked,
            0 => ForegroundProgress::Unblocked,
            blocking => ForegroundProgress::Blocked(blocking),
        },
    }
}

/// What the collector decides about an object whose owners decide.
pub(super) fn verdict(asker: &mut Asker<'_>, key: &Key) -> Option<Option<Decision>> {
    let Some(object) = asker.object(key)? else { return Some(None) };
    if precheck(object) != Precheck::Classify {
        return Some(None);
    }
    let all: Vec<_> = object.references.iter().map(|seen| classify(asker, seen)).collect();
    let judged: Option<Vec<_>> = all.into_iter().collect();
    let classes: Vec<_> = judged?.iter().map(|reference| reference.class).collect();
    Some(Some(decide(object, &classes)))
}
