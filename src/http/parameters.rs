//! Parameters that several pages have.

use kube_gc_core::object::{GroupResource, Namespace};

/// How many entries a page has at most, unless told otherwise.
pub(super) const LIMIT: usize = 1000;
/// How many it may be asked for.
const GREATEST_LIMIT: usize = 100_000;

/// A mistyped parameter would be ignored, and the answer be taken for another.
pub(super) fn unknown(name: &str) -> String {
    format!("unknown parameter {name:?}; / lists those that there are")
}

/// Sets what may be set once: of two, one would be ignored.
pub(super) fn set<T>(slot: &mut Option<T>, name: &str, value: Result<T, String>) -> Result<(), String> {
    match slot.replace(value?) {
        None => Ok(()),
        Some(_) => Err(format!("{name}= is there twice")),
    }
}

pub(super) fn namespace(value: &str) -> Result<Namespace, String> {
    Namespace::parse(value).ok_or_else(|| "namespace= needs the name of a namespace".to_owned())
}

pub(super) fn resource(value: &str) -> Result<GroupResource, String> {
    if value.is_empty() {
        return Err("resource= needs RESOURCE, as in pods, or RESOURCE.GROUP, as in jobs.batch".to_owned());
    }
    Ok(GroupResource::parse(value))
}

pub(super) fn word(name: &str, value: &str) -> Result<String, String> {
    if value.is_empty() { Err(format!("{name}= needs a word")) } else { Ok(value.to_owned()) }
}

pub(super) fn limit(value: &str) -> Result<usize, String> {
    let limit = value.parse().ok().filter(|limit| (1..=GREATEST_LIMIT).contains(limit));
    limit.ok_or_else(|| format!("limit={value:?} is not a whole number from 1 to {GREATEST_LIMIT}"))
}
