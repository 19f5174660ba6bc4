//! DELETEs (rules 4.13, 4.18 to 4.21 and 10.1). Each DELETE that the API server accepted is
//! judged at the version at which it took effect.

use kube_gc_apiserver::object::Object;
use kube_gc_apiserver::store::Change;

use super::Oracle;
use super::classes::Named;
use super::history::{FOREGROUND, ORPHAN};
use super::reference::Reference;
use super::violation::{Rule, Violation};

/// The number of versions after which the uid alone may be the precondition: five DELETEs with
/// conflicts over unrelated fields, each at another version, and the version read after the last
/// one.
const VERSIONS_BEFORE_UID_ALONE: u32 = 6;

/// Judges a DELETE of the collector.
pub fn judge(oracle: &Oracle, change: &Change) -> Result<(), Violation> {
    let wrong = |rule, why: String| Err(Violation::of(change, rule, why));
    let Some(before) = &change.before else { return wrong(Rule::WrongfulDelete, "of nothing".into()) };
    let conditions = &change.cause.body["preconditions"];
    if conditions["uid"] != before.uid() {
        return wrong(Rule::Precondition, "it was not bound to the uid".into());
    }
    match conditions["resourceVersion"].as_str() {
        Some(version) if version != before.resource_version().to_string() => {
            wrong(Rule::Precondition, format!("bound to version {version}, it took effect on another"))
        }
        Some(_) => judge_version(oracle, change, before),
        None => judge_uid_alone(oracle, change, before),
    }
}

/// The exception of rule 4.27: after five conflicts over unrelated fields, with equal references
/// at each reading, only the uid is bound. Then what was right at the last reading is right.
fn judge_uid_alone(oracle: &Oracle, change: &Change, before: &Object) -> Result<(), Violation> {
    let read = oracle.history.present(before.uid()).into_iter().flat_map(|it| it.versions(oracle.since()));
    let mut judged =
        Err(Violation::of(change, Rule::Precondition, "it was not bound to a version, without need".into()));
    for (version, _) in read.filter(|(_, unchanged)| *unchanged >= VERSIONS_BEFORE_UID_ALONE) {
        judged = judge_version(oracle, change, version);
        if judged.is_ok() {
            break;
        }
    }
    judged
}

fn judge_version(oracle: &Oracle, change: &Change, object: &Object) -> Result<(), Violation> {
    let wrong = |why: String| Err(Violation::of(change, Rule::WrongfulDelete, why));
    if !oracle.is_watched(&change.resource) {
        return wrong("objects of this type are not the collector's business".into());
    }
    if object.deletion_timestamp().is_some() {
        return wrong("it was being deleted already".into());
    }
    let references = Reference::all(object);
    if references.is_empty() {
        return wrong("it names no owner".into());
    }
    let mut may_have_to_wait = false;
    for reference in &references {
        let named = Named { namespace: change.key.namespace.as_deref(), reference };
        let waiting = oracle.may_be_waiting(named, oracle.since());
        may_have_to_wait |= waiting;
        if !waiting && !oracle.may_be_absent(named) {
            return wrong(format!("its owner {reference} is {}", oracle.class(named)));
        }
        if !waiting && oracle.may_be_unborn(named) {
            return wrong(format!("its owner {reference} may be in admission"));
        }
        keeps_orphans(oracle, change, named)?;
    }
    judge_policy(change, object, may_have_to_wait && oracle.history.had_dependents(object.uid()))
}

/// An object that named an owner before its orphan deletion began loses the reference, however
/// late it appears, and must not be deleted for it (rules 5.11 and 10.3). The collector's memory
/// of such owners ends with its run, and is bounded.
fn keeps_orphans(oracle: &Oracle, change: &Change, named: Named<'_>) -> Result<(), Violation> {
    let Some(owner) = oracle.owner_now(named) else { return Ok(()) };
    let Some(object) = oracle.history.present(change.after.uid()) else { return Ok(()) };
    let held = object.held.iter().find(|held| held.reference.is_same(named.reference));
    let named_in_time =
        held.zip(owner.deletion_began).is_some_and(|(held, deletion_began)| held.since < deletion_began);
    let known = |(run, at)| run == oracle.knowledge.run() && at <= oracle.sent;
    let remembered =
        owner.orphaned.is_some_and(known) && oracle.history.orphaning() <= oracle.bounds.remembered;
    if named_in_time && remembered {
        let why = format!("its owner {} was deleted with the policy Orphan", named.reference);
        return Err(Violation::of(change, Rule::LostOrphan, why));
    }
    Ok(())
}

/// Rules 4.18 and 4.20. A DELETE replaces the finalizers by those of its policy, so the policy
/// must repeat what the object asks for. The collector may learn late of dependents, so
/// Background is accepted in their place.
fn judge_policy(change: &Change, object: &Object, may_go_in_foreground: bool) -> Result<(), Violation> {
    let sent = change.cause.body["propagationPolicy"].as_str().unwrap_or("none");
    let right = match (object.has_finalizer(ORPHAN), object.has_finalizer(FOREGROUND)) {
        (true, _) => sent == "Orphan",
        (false, true) => sent == "Foreground",
        (false, false) => sent == "Background" || (sent == "Foreground" && may_go_in_foreground),
    };
    if right { Ok(()) } else { Err(Violation::of(change, Rule::Policy, format!("with the policy {sent}"))) }
}
