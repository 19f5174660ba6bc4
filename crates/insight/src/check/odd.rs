//! What is odd about an object's references, whether their owners exist or not.

use std::collections::{HashMap, HashSet};

use kube_gc_core::graph::{ObjectSnapshot, ReferenceSnapshot};
use kube_gc_core::object::{Identity, Namespace, Uid};

use super::finding::Class;
use super::rings::Circles;

/// Something odd about a reference.
#[derive(Debug)]
pub(super) struct Odd {
    /// The place of the reference.
    pub place: usize,
    pub class: Class,
    /// The number of objects in its circle, if that is what is odd.
    pub circle: usize,
    /// Another object that has the same uid.
    pub other: Option<Identity>,
}

/// The owner that a reference names. Two references that differ in the version, or in the case of
/// the kind, name one owner.
#[derive(PartialEq, Eq, Hash)]
enum Named<'a> {
    Resolved(Looks<'a>),
    Unresolved(&'a str, &'a str, &'a str, &'a Uid),
}

/// What two views of one object have in common: the server can show it under two groups.
type Looks<'a> = (&'a str, Option<&'a Namespace>, &'a str, &'a Uid);

fn looks(identity: &Identity) -> Looks<'_> {
    (&identity.resource.kind, identity.namespace.as_ref(), &identity.name, &identity.uid)
}

fn named(seen: &ReferenceSnapshot) -> Named<'_> {
    let reference = &seen.reference;
    match seen.owner.identity() {
        Some(identity) => Named::Resolved(looks(identity)),
        None => Named::Unresolved(&reference.api_version, &reference.kind, &reference.name, &reference.uid),
    }
}

/// Whether two identities are one object.
pub(super) fn is_same(one: &Identity, other: &Identity) -> bool {
    looks(one) == looks(other)
}

/// All that is odd about the references of an object.
pub(super) fn odd(object: &ObjectSnapshot, holders: &[Vec<Identity>], circles: &Circles) -> Vec<Odd> {
    let references = &object.references;
    let key = object.identity.key();
    let mut found = Vec::new();
    let mut note = |place, class, circle, other| found.push(Odd { place, class, circle, other });
    let mut owners: HashSet<Named<'_>> = HashSet::new();
    let mut of_uid: HashMap<&Uid, HashSet<Named<'_>>> = HashMap::new();
    for seen in references {
        of_uid.entry(&seen.reference.uid).or_default().insert(named(seen));
    }
    for (place, (seen, holders)) in references.iter().zip(holders).enumerate() {
        let several = of_uid.get(&seen.reference.uid).is_some_and(|owners| owners.len() > 1);
        let other = holders.iter().find(|&holder| !is_same(holder, &holders[0]));
        if several || other.is_some() {
            note(place, Class::Collision, 0, other.cloned());
        }
        if !owners.insert(named(seen)) {
            note(place, Class::Duplicate, 0, None);
        }
        // A key has no name, so only an owner that exists can be in a circle.
        let Some(owner) = seen.owner.identity().filter(|&owner| holders.contains(owner)) else { continue };
        if is_same(owner, &object.identity) {
            note(place, Class::Itself, 0, None);
        } else if let Some(circle) = circles.with_both(&key, &owner.key()) {
            note(place, Class::Ring, circle, None);
        }
    }
    found
}
