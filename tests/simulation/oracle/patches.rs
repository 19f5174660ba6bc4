//! PATCHes (rules 1.10, 4.15, 4.19, 5.1 and 6.6): references are removed or stop blocking, or one
//! of the two finalizers is removed. Nothing else may change.

use kube_gc_apiserver::object::Object;
use kube_gc_apiserver::store::Change;
use serde_json::Value;

use super::Oracle;
use super::classes::Named;
use super::finalizers;
use super::history::is_waiting;
use super::reference::Reference;
use super::violation::{Rule, Violation};

/// Judges a PATCH of the collector.
pub fn judge(oracle: &Oracle, change: &Change) -> Result<(), Violation> {
    let wrong = |rule, why: &str| Err(Violation::of(change, rule, why.to_owned()));
    let Some(before) = &change.before else { return wrong(Rule::ForeignWrite, "it created something") };
    let bound = &change.cause.body["metadata"];
    if bound["uid"] != before.uid() {
        return wrong(Rule::Precondition, "it was not bound to the uid");
    }
    let version = bound["resourceVersion"].as_str();
    if version.is_some_and(|version| version != before.resource_version().to_string()) {
        return wrong(Rule::Precondition, "it took effect on another version than it was bound to");
    }
    if others(before) != others(&change.after) {
        return wrong(Rule::ForeignWrite, "it changed more than references and finalizers");
    }
    if let Some(finalizer) = finalizers::removed(change)? {
        return match version {
            None => wrong(Rule::Precondition, "a finalizer went without regard to the version"),
            Some(_) => finalizers::judge(oracle, change, before, finalizer),
        };
    }
    judge_references(oracle, change, before, version.is_some())
}

/// Everything that the collector must not change.
fn others(object: &Object) -> Value {
    let mut value = object.to_value();
    // The version in which the object was last written.
    value["apiVersion"].take();
    if let Some(metadata) = value["metadata"].as_object_mut() {
        for field in ["resourceVersion", "managedFields", "ownerReferences", "finalizers"] {
            metadata.remove(field);
        }
    }
    value
}

fn judge_references(
    oracle: &Oracle,
    change: &Change,
    before: &Object,
    to_version: bool,
) -> Result<(), Violation> {
    let (old, new) = (before.owner_references(), change.after.owner_references());
    // If several references have one uid, the server moves them together in any case.
    if old.len() == new.len() && without(old, new).is_some() {
        return Ok(());
    }
    // Checked first, because references that differ only in blocking become one.
    if is_released(old, new) {
        judge_release(oracle, change, before, to_version)
    } else if let Some(gone) = without(old, new) {
        judge_removal(oracle, change, before, &gone, to_version)
    } else {
        Err(Violation::of(change, Rule::ForeignWrite, "it rewrote owner references".into()))
    }
}

/// The references that must be removed from one list to get the other, if that is the only
/// difference.
fn without(old: &[Value], new: &[Value]) -> Option<Vec<Reference>> {
    let mut gone: Vec<&Value> = old.iter().collect();
    for kept in new {
        let place = gone.iter().position(|one| *one == kept)?;
        gone.remove(place);
    }
    Some(gone.into_iter().map(Reference::of).collect())
}

/// Whether all references have stopped blocking, and nothing else has changed. The server then
/// drops identical duplicates.
fn is_released(old: &[Value], new: &[Value]) -> bool {
    let mut released: Vec<Value> = Vec::new();
    for reference in old {
        let mut reference = reference.clone();
        if reference["blockOwnerDeletion"] == true {
            reference["blockOwnerDeletion"] = false.into();
        }
        if !released.contains(&reference) {
            released.push(reference);
        }
    }
    without(&released, new).is_some_and(|gone| gone.is_empty())
}

/// Absent and waiting references are removed beside a solid one (rule 4.15). References to an
/// owner that orphans its dependents are removed in any case (rule 5.1).
fn judge_removal(
    oracle: &Oracle,
    change: &Change,
    before: &Object,
    gone: &[Reference],
    to_version: bool,
) -> Result<(), Violation> {
    let wrong = |rule, why: String| Err(Violation::of(change, rule, why));
    let namespace = change.key.namespace.as_deref();
    let kept = Reference::all(&change.after);
    let stays = |since| kept.iter().any(|reference| oracle.was_solid(Named { namespace, reference }, since));
    let looked_up = oracle.since().saturating_sub(oracle.bounds.look_up);
    for reference in gone {
        let named = Named { namespace, reference };
        if is_orphaned(oracle, before, named) {
            continue;
        }
        if !to_version {
            return wrong(
                Rule::Precondition,
                "a verdict was carried out without regard to the version".into(),
            );
        }
        // A solid owner that a monitor shows may no longer be solid: if that view is stale, the
        // event of the owner's deletion follows. If a waiting reference is removed, a solid owner
        // is confirmed live.
        if oracle.may_be_absent(named) {
            if oracle.may_be_unborn(named) {
                return wrong(Rule::WrongfulPatch, format!("{reference} went, which may be in admission"));
            }
            if !stays(std::time::Duration::ZERO) {
                return wrong(Rule::WrongfulPatch, format!("{reference} went, and no solid one stays"));
            }
        } else if !oracle.may_be_waiting(named, looked_up) {
            return wrong(Rule::WrongfulPatch, format!("{reference} went, which is {}", oracle.class(named)));
        } else if !stays(oracle.since()) {
            return wrong(Rule::WrongfulPatch, format!("{reference} waits; it went, and no solid one stays"));
        }
    }
    Ok(())
}

/// Whether the owner orphans or has orphaned its dependents. The name in the reference does not
/// matter: an object with the right uid and type is released.
fn is_orphaned(oracle: &Oracle, dependent: &Object, named: Named<'_>) -> bool {
    let Some(owner) = oracle.history.life(&named.reference.uid) else { return false };
    let is_in_reach = owner.key.namespace.is_none() || owner.key.namespace.as_deref() == named.namespace;
    owner.has_orphaned && is_in_reach && named.reference.uid != dependent.uid()
}

/// References stop blocking only if deletions may wait for each other in a ring: the object waits
/// itself, or it is about to and one of its dependents waits.
fn judge_release(
    oracle: &Oracle,
    change: &Change,
    before: &Object,
    to_version: bool,
) -> Result<(), Violation> {
    let wrong = |rule, why: &str| Err(Violation::of(change, rule, why.to_owned()));
    if !to_version {
        return wrong(Rule::Precondition, "references stopped blocking without regard to the version");
    }
    if is_waiting(before) {
        return Ok(());
    }
    let namespace = change.key.namespace.as_deref();
    let looked_up = oracle.since().saturating_sub(oracle.bounds.look_up);
    let owners = Reference::all(before);
    let waits_above =
        owners.iter().any(|reference| oracle.may_be_waiting(Named { namespace, reference }, looked_up));
    let waits_below = oracle.history.had_waiting_dependents(before.uid());
    if waits_above && waits_below && before.deletion_timestamp().is_none() {
        Ok(())
    } else {
        wrong(Rule::WrongfulPatch, "references stopped blocking where nothing waits in a ring")
    }
}
