//! What a person can do about a finding, in a few words.

use kube_gc_core::object::OwnerReference;

use super::finding::{CheckEffect, Class};

/// What a hint depends on.
#[derive(Debug)]
pub(super) struct Facts<'a> {
    pub effect: CheckEffect,
    pub reference: &'a OwnerReference,
    pub served_as: Option<&'a str>,
    /// The number of objects in the circle.
    pub circle: usize,
    /// Whether another object has the uid.
    pub has_found: bool,
    /// Whether that part of the API does not answer.
    pub is_unread: bool,
}

pub(super) fn hint(class: Class, facts: &Facts<'_>) -> String {
    match class {
        Class::Absent => match facts.effect {
            CheckEffect::Deletes => "remove the reference to keep the object".to_owned(),
            CheckEffect::Odd => "the collector removes this reference".to_owned(),
            CheckEffect::Leaks | CheckEffect::Unknown => "remove the reference".to_owned(),
        },
        Class::Recreated => "restored? name the new uid".to_owned(),
        Class::OtherNamespace => "an owner must be in the same namespace".to_owned(),
        Class::OtherName => "name the owner as it is".to_owned(),
        Class::OtherKind => "name the owner's apiVersion and kind".to_owned(),
        Class::Unresolved | Class::UnservedVersion => match facts.served_as {
            _ if facts.is_unread => "this API does not answer".to_owned(),
            Some(version) if *version == *facts.reference.api_version => {
                "the case of the kind is wrong".to_owned()
            }
            Some(version) => format!("served as {version}"),
            None => "install its API again, or remove the reference".to_owned(),
        },
        Class::InvalidScope => "a cluster-scoped object needs a cluster-scoped owner".to_owned(),
        Class::Collision if facts.has_found => "different objects have this uid".to_owned(),
        Class::Collision => "another reference with this uid names another object".to_owned(),
        Class::Duplicate => "an earlier reference names the same owner".to_owned(),
        Class::Itself => "the object keeps itself: remove the reference".to_owned(),
        Class::Ring => format!("{} objects keep each other: remove a reference", facts.circle),
    }
}
