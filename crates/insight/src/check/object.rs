//! What is wrong with the references of one object.

use std::collections::{HashMap, HashSet};

use crate::check::survey::{Circles, Suspect};
use crate::check::{CheckEffect, Class, Finding};
use crate::judge::{Evidence, JudgedReference, judged, same_kind};
use crate::knowledge::Asker;
use crate::name::ObjectName;
use kube_gc_core::graph::{ObjectSnapshot, ReferenceSnapshot};
use kube_gc_core::object::{Catalog, Identity, Namespace, OwnerReference, Uid, split_api_version};
use kube_gc_core::verdict::{Decision, ReferenceClass};

/// What is wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedObject {
    /// Meaningful if there are findings.
    pub effect: CheckEffect,
    pub findings: Vec<Finding>,
    /// The number of owners that the verdict needs and that were not looked up, because there are too many.
    pub not_asked: usize,
}

/// Something that is wrong with a reference.
#[derive(Debug)]
struct Wrong {
    class: Class,
    /// What the reference may mean.
    found: Option<ObjectName>,
    served_as: Option<String>,
    /// The number of objects in its circle, if that is what is wrong.
    circle: usize,
}

impl Wrong {
    const fn new(class: Class, found: Option<ObjectName>) -> Self {
        Self { class, found, served_as: None, circle: 0 }
    }
}

/// Checks the references of an object. `None` if more facts are needed.
pub fn check_object(asker: &mut Asker<'_>, suspect: &Suspect, circles: &Circles) -> Option<CheckedObject> {
    let object = &suspect.object;
    if object.deletion.is_being_deleted() {
        return Some(CheckedObject { effect: CheckEffect::Odd, findings: Vec::new(), not_asked: 0 });
    }
    let mut judged = judged(asker, &object.references)?;
    for missing in judged.iter_mut().filter(|owner| owner.is_missing_in_a_namespace()) {
        missing.found = missing.identity.as_ref().and_then(|owner| asker.elsewhere(owner)).cloned();
    }
    let (catalog, effect) = (asker.catalog(), effect(&judged));
    let name = ObjectName::from(&object.identity);
    let each = judged.iter().zip(&object.references).zip(&suspect.holders).enumerate();
    let broken = each.filter_map(|(place, ((judged, seen), holders))| {
        Some((place, broken(catalog, judged, &seen.reference, holders)?))
    });
    let findings = broken.chain(odd(object, &suspect.holders, circles)).map(|(place, wrong)| {
        let seen = &object.references[place];
        let is_unread = catalog.is_unread(&seen.reference.api_version);
        let hint = hint(&wrong, effect, &seen.reference, is_unread);
        let Wrong { class, found, served_as, .. } = wrong;
        let (object, owner) = (name.clone(), owner_name(seen));
        Finding { effect, class, object, owner, found, served_as, hint, place }
    });
    let findings = findings.collect();
    let not_asked = judged.iter().filter(|reference| reference.evidence == Evidence::NotAsked).count();
    Some(CheckedObject { effect, findings, not_asked })
}

/// What is known of a reference, whose part of the API answers or does not. It advises no change of it, because the
/// collector would decide by the others.
fn hint(wrong: &Wrong, effect: CheckEffect, of: &OwnerReference, is_unread: bool) -> String {
    let hint = match wrong.class {
        Class::Absent if effect == CheckEffect::Odd => "the collector removes this reference",
        Class::Absent => "the owner does not exist",
        Class::Recreated => "a restored owner has a new uid",
        Class::OtherNamespace => "an owner is only looked for in the same namespace",
        Class::OtherName => "the owner has another name",
        Class::OtherKind => "the owner has another apiVersion or kind",
        Class::Unresolved | Class::UnservedVersion => match &wrong.served_as {
            _ if is_unread => "this API does not answer",
            None => "the server does not have this kind",
            Some(version) if *version == *of.api_version => "the case of the kind is wrong",
            Some(version) => return format!("served as {version}"),
        },
        Class::InvalidScope => "a cluster-scoped object cannot have a namespaced owner",
        Class::Collision if wrong.found.is_some() => "different objects have this uid",
        Class::Collision => "another reference with this uid names another object",
        Class::Duplicate => "an earlier reference names the same owner",
        Class::Itself => "the object keeps itself",
        Class::Ring => return format!("{} objects keep each other", wrong.circle),
    };
    hint.to_owned()
}

/// The owner as a reference names it, and where it would be.
fn owner_name(seen: &ReferenceSnapshot) -> ObjectName {
    let ObjectName { resource, namespace, .. } = ObjectName::of_owner(seen);
    ObjectName { resource, namespace, ..ObjectName::of_reference(&seen.reference) }
}

/// What follows for an object, by the collector's verdict.
fn effect(judged: &[JudgedReference]) -> CheckEffect {
    let classes: Vec<ReferenceClass> = judged.iter().map(|reference| reference.class).collect();
    let is_seen = |reference: &JudgedReference| match reference.class {
        ReferenceClass::InvalidScope => true,
        ReferenceClass::Unresolved => !reference.evidence.is_unseen(),
        _ => false,
    };
    match Decision::unless_garbage(&classes) {
        Some(Decision::RemoveReferences { remove, .. }) => {
            // After that, the collector decides by the rest.
            let stays = (0..judged.len()).filter(|place| !remove.contains(place));
            effect(&stays.map(|place| judged[place].clone()).collect::<Vec<_>>())
        }
        // An object of which the owner waits for its dependents goes because a user wants it.
        None if classes.contains(&ReferenceClass::Absent) => CheckEffect::Deletes,
        Some(Decision::Report { .. }) => CheckEffect::Leaks,
        Some(Decision::Park(_)) if judged.iter().any(is_seen) => CheckEffect::Leaks,
        Some(Decision::Park(_)) => CheckEffect::Unknown,
        Some(Decision::Delete { .. } | Decision::Keep(_)) | None => CheckEffect::Odd,
    }
}

fn broken(
    catalog: &Catalog,
    judged: &JudgedReference,
    reference: &OwnerReference,
    holders: &[Identity],
) -> Option<Wrong> {
    let wrong = |class, found| Some(Wrong::new(class, found));
    match judged.class {
        ReferenceClass::Solid | ReferenceClass::Waiting | ReferenceClass::Orphaned => None,
        ReferenceClass::InvalidScope => wrong(Class::InvalidScope, None),
        ReferenceClass::Unresolved if judged.evidence.is_unseen() => None,
        ReferenceClass::Unresolved => {
            let (class, served_as) = unserved(catalog, reference);
            Some(Wrong { served_as, ..Wrong::new(class, holders.first().map(ObjectName::from)) })
        }
        ReferenceClass::Absent => {
            let identity = judged.identity.as_ref();
            if let Some((class, holder)) = identity.and_then(|identity| elsewhere(identity, holders)) {
                return wrong(class, Some(holder.into()));
            }
            let Evidence::OtherUid { uid } = &judged.evidence else {
                let class = if judged.found.is_some() { Class::OtherNamespace } else { Class::Absent };
                return wrong(class, judged.found.clone());
            };
            wrong(
                Class::Recreated,
                identity.map(|identity| ObjectName { uid: uid.clone(), ..identity.into() }),
            )
        }
    }
}

/// The object that has the uid of an absent identity. The one that differs least is meant.
fn elsewhere<'a>(identity: &Identity, holders: &'a [Identity]) -> Option<(Class, &'a Identity)> {
    let class = |holder: &Identity| {
        if holder.resource.group_resource != identity.resource.group_resource {
            (2, Class::OtherKind)
        } else if holder.namespace != identity.namespace {
            (1, Class::OtherNamespace)
        } else {
            (0, Class::OtherName)
        }
    };
    // It was read as absent, and is in a list: it was deleted in between.
    let others = holders.iter().filter(|&holder| holder != identity);
    let ((_, class), holder) =
        others.map(|holder| (class(holder), holder)).min_by_key(|((rank, _), _)| *rank)?;
    Some((class, holder))
}

/// Why a kind does not resolve, and an `apiVersion` in which it would.
fn unserved(catalog: &Catalog, reference: &OwnerReference) -> (Class, Option<String>) {
    if catalog.is_unread(&reference.api_version) {
        return (Class::Unresolved, None);
    }
    let (group, _) = split_api_version(&reference.api_version);
    let Some(served) = same_kind(catalog, reference) else { return (Class::Unresolved, None) };
    let is_kind = *reference.kind == *served.kind || *reference.kind == *reference.kind.to_lowercase();
    let is_in_group = *served.group_resource.group == *group;
    let class = if is_in_group && is_kind { Class::UnservedVersion } else { Class::Unresolved };
    (class, Some(served.api_version()))
}

/// What two views of one object have in common: the server can show it under two groups. A kind that does
/// not resolve also has its `apiVersion`.
type Looks<'a> = (Option<&'a str>, &'a str, Option<&'a Namespace>, &'a str, &'a Uid);

fn looks(identity: &Identity) -> Looks<'_> {
    (None, &identity.resource.kind, identity.namespace.as_ref(), &identity.name, &identity.uid)
}

/// The owner that a reference names. Two references that differ in the version, or in the case of
/// the kind, name one owner.
fn named(seen: &ReferenceSnapshot) -> Looks<'_> {
    let OwnerReference { api_version, kind, name, uid, .. } = &seen.reference;
    seen.owner.identity().map_or((Some(api_version), kind, None, name, uid), looks)
}

/// Whether two identities are one object.
pub(super) fn is_same(one: &Identity, other: &Identity) -> bool {
    looks(one) == looks(other)
}

/// All that is odd about the references of an object, by their places.
fn odd(object: &ObjectSnapshot, holders: &[Vec<Identity>], circles: &Circles) -> Vec<(usize, Wrong)> {
    let references = &object.references;
    let key = object.identity.key();
    let mut found = Vec::new();
    let mut note = |place, wrong| found.push((place, wrong));
    let mut owners: HashSet<Looks<'_>> = HashSet::new();
    let mut of_uid: HashMap<&Uid, HashSet<(String, &str)>> = HashMap::new();
    for OwnerReference { uid, kind, name, .. } in references.iter().map(|seen| &seen.reference) {
        of_uid.entry(uid).or_default().insert((kind.to_lowercase(), name));
    }
    for (place, (seen, holders)) in references.iter().zip(holders).enumerate() {
        let several = of_uid.get(&seen.reference.uid).is_some_and(|owners| owners.len() > 1);
        let other = holders.iter().find(|&holder| !is_same(holder, &holders[0]));
        if several || other.is_some() {
            note(place, Wrong::new(Class::Collision, other.map(ObjectName::from)));
        }
        if !owners.insert(named(seen)) {
            note(place, Wrong::new(Class::Duplicate, None));
        }
        // A key has no name, so only an owner that exists can be in a circle.
        let Some(owner) = seen.owner.identity().filter(|&owner| holders.contains(owner)) else { continue };
        if is_same(owner, &object.identity) {
            note(place, Wrong::new(Class::Itself, None));
        } else if let Some(circle) = circles.with_both(&key, &owner.key()) {
            note(place, Wrong { circle, ..Wrong::new(Class::Ring, None) });
        }
    }
    found
}
