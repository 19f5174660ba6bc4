//! Finalizers that are removed (rules 4.2, 5.1, 5.5 and 6.6).

use kube_gc_apiserver::object::Object;
use kube_gc_apiserver::store::Change;
use serde_json::Value;

use super::Oracle;
use super::classes::Named;
use super::history::{FOREGROUND, ORPHAN};
use super::violation::{Rule, Violation};

/// The finalizer that a patch removed, if it was about finalizers.
///
/// If it was the last one of a terminating object, the object is removed in its previous state,
/// and only the body of the request tells what was asked for.
pub fn removed(change: &Change) -> Result<Option<&'static str>, Violation> {
    let old: Vec<&str> = change.before.iter().flat_map(Object::finalizers).collect();
    let asked = &change.cause.body["metadata"];
    let left: Vec<&str> = match asked.get("finalizers") {
        Some(list) if change.removed => {
            list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
        }
        _ => change.after.finalizers().collect(),
    };
    if left == old {
        return Ok(None);
    }
    for finalizer in [FOREGROUND, ORPHAN] {
        if old.iter().filter(|one| **one != finalizer).eq(&left) {
            return Ok(Some(finalizer));
        }
    }
    Err(Violation::of(change, Rule::ForeignWrite, format!("it changed the finalizers {old:?} to {left:?}")))
}

/// Whether a change completed an orphan deletion.
pub fn orphaned(change: &Change) -> bool {
    change.cause.method == "PATCH" && removed(change) == Ok(Some(ORPHAN))
}

/// Judges the removal of one of the two finalizers.
pub fn judge(
    oracle: &Oracle,
    change: &Change,
    before: &Object,
    finalizer: &'static str,
) -> Result<(), Violation> {
    let wrong = |why: &str| Err(Violation::of(change, Rule::WaitedTooShort, why.to_owned()));
    if before.deletion_timestamp().is_none() {
        return wrong("it is not being deleted");
    }
    if before.owner_references() != change.after.owner_references() {
        return Err(Violation::of(change, Rule::ForeignWrite, "references went with the finalizer".into()));
    }
    match finalizer {
        ORPHAN => keeps_orphans(oracle, change, before),
        _ if before.has_finalizer(ORPHAN) => wrong("its dependents are to be orphaned first"),
        _ => is_unblocked(oracle, change, before),
    }
}

/// Before the finalizer is removed, no object may be left that named the owner before its
/// deletion began (rule 5.5). Objects that were not shown before are excused if their type could
/// not be listed, or if the collector cannot know the type yet. A group that has not answered since
/// the start is no excuse until it has held the owner for long (rule 5.14).
fn keeps_orphans(oracle: &Oracle, change: &Change, before: &Object) -> Result<(), Violation> {
    let Some(deletion_began) = oracle.history.life(before.uid()).and_then(|owner| owner.deletion_began)
    else {
        return Ok(());
    };
    for (dependent, _, held) in oracle.history.dependents(before.uid()) {
        let named = Named { namespace: dependent.key.namespace.as_deref(), reference: &held.reference };
        let can_wait = oracle.knowledge.away_since(&dependent.resource);
        let must_wait = can_wait.is_some_and(|since| oracle.is_within(oracle.bounds.orphan_wait, since));
        let shown = oracle.knowledge.shown_before(&dependent.resource, oracle.since());
        let is_known = held.since <= shown || oracle.knowledge.can_list(&dependent.resource, oracle.sent);
        let excused = !oracle.is_watched(&dependent.resource) || !must_wait && !is_known;
        if held.since < deletion_began && oracle.owner_now(named).is_some() && !excused {
            let (resource, name) = (&dependent.resource, &dependent.key.name);
            let why = format!("{resource} {name} has named it since version {}", held.since);
            return Err(Violation::of(change, Rule::LostOrphan, why));
        }
    }
    Ok(())
}

/// Nothing may block the object any more (rule 4.2). A dependent does not count if the collector
/// could not know that it blocks; it is collected later.
fn is_unblocked(oracle: &Oracle, change: &Change, before: &Object) -> Result<(), Violation> {
    for (dependent, _, held) in oracle.history.dependents(before.uid()) {
        let named = Named { namespace: dependent.key.namespace.as_deref(), reference: &held.reference };
        let shown = oracle.knowledge.shown_before(&dependent.resource, oracle.since());
        let was_known = held.blocking_since.is_some_and(|since| since <= shown);
        if was_known && oracle.is_watched(&dependent.resource) && oracle.owner_now(named).is_some() {
            let why = format!("{} {} still blocks it", dependent.resource, dependent.key.name);
            return Err(Violation::of(change, Rule::WaitedTooShort, why));
        }
    }
    Ok(())
}
