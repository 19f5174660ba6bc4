//! The final state must be exactly what the rules require.
//!
//! No object is missing that should exist, because each DELETE was judged. This file checks for
//! what should not exist.

use std::collections::BTreeSet;

use super::Oracle;
use super::classes::{Class, Named};
use super::history::{Life, ORPHAN, Present, is_waiting};
use super::violation::{Rule, Violation};

/// Judges every object.
pub fn judge(oracle: &Oracle, visible: &BTreeSet<String>) -> Result<(), Violation> {
    let held = held_up(oracle);
    for (life, present) in oracle.history.all().filter(|(life, _)| oracle.is_watched(&life.resource)) {
        if present.object.deletion_timestamp().is_none() {
            is_decided(oracle, life, present, visible)?;
        } else if present.object.has_finalizer(ORPHAN) {
            return Err(left(life, present, Rule::StuckFinalizer, "the finalizer orphan is left".into()));
        } else if is_waiting(&present.object) && !held.contains(present.object.uid()) {
            return Err(left(life, present, Rule::StuckFinalizer, "it waits, and nothing blocks it".into()));
        }
    }
    Ok(())
}

/// Rules 4.13 to 4.20, for an object that is not terminating.
fn is_decided(
    oracle: &Oracle,
    life: &Life,
    present: &Present,
    visible: &BTreeSet<String>,
) -> Result<(), Violation> {
    let namespace = life.key.namespace.as_deref();
    let named = |reference| Named { namespace, reference };
    let classes: Vec<_> =
        present.held.iter().map(|held| (oracle.class(named(&held.reference)), &held.reference)).collect();
    let has = |class| classes.iter().any(|(one, _)| *one == class);
    let goes = classes.iter().find(|(class, _)| matches!(class, Class::Absent | Class::Waiting));
    if let Some((class, reference)) = goes {
        let owner = format!("its owner {reference} is {class}");
        if has(Class::Solid) {
            return Err(left(life, present, Rule::LeftReference, format!("{owner}, another one is solid")));
        }
        if !has(Class::Unresolved) && !has(Class::InvalidScope) {
            return Err(left(life, present, Rule::LostGarbage, format!("{owner}, and none keeps it")));
        }
    }
    // A reference that was proved absent while its kind was served stays absent.
    let unknown = |(class, reference): &(Class, _)| {
        *class == Class::Unresolved && !oracle.may_be_absent(named(*reference))
    };
    if classes.iter().any(unknown) && !visible.contains(present.object.uid()) {
        let why = "an owner's kind is unknown, and that shows nowhere".into();
        return Err(left(life, present, Rule::Hidden, why));
    }
    Ok(())
}

/// The waiting objects that wait for a valid reason: for an object that does not wait itself
/// (because of a foreign finalizer, its grace period or another owner), or for one that waits for
/// a valid reason. A ring does not block itself.
///
/// Any object in the namespace that names the owner's uid may count, whatever else its reference
/// says: the rules leave that open.
fn held_up(oracle: &Oracle) -> BTreeSet<&str> {
    let waiting = |present: &Present| is_waiting(&present.object);
    let (mut held, mut open) = (BTreeSet::new(), Vec::new());
    for (_, present) in oracle.history.all().filter(|(_, present)| !waiting(present)) {
        open.push(present);
    }
    while let Some(blocking) = open.pop() {
        for reference in blocking.held.iter().filter(|held| held.blocking_since.is_some()) {
            let Some(owner) = oracle.history.present(&reference.reference.uid) else { continue };
            let (uid, namespace) = (owner.object.uid(), owner.object.key().namespace);
            let counts = uid != blocking.object.uid()
                && (namespace.is_none() || namespace == blocking.object.key().namespace);
            if counts && waiting(owner) && held.insert(uid) {
                open.push(owner);
            }
        }
    }
    held
}

fn left(life: &Life, present: &Present, rule: Rule, why: String) -> Violation {
    let namespace = life.key.namespace.as_deref().unwrap_or("-");
    let what = format!(
        "at rest: {} {namespace}/{} (uid {}, version {})",
        life.resource,
        life.key.name,
        present.object.uid(),
        present.object.resource_version()
    );
    Violation { rule, what, why }
}
