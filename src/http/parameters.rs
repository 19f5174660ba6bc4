//! Query parameters that several pages share.

use kube_gc_core::object::{GroupResource, Namespace};

/// The default limit on the entries of a page.
pub(super) const DEFAULT_LIMIT: usize = 1000;
/// The highest limit that a request may set.
const MAX_LIMIT: usize = 100_000;

/// The error for an unknown parameter. Ignoring a mistyped filter would return a misleading
/// answer.
pub(super) fn unknown(name: &str) -> String {
    format!("unknown parameter {name:?}; / lists all parameters")
}

/// Sets a parameter that may occur only once.
pub(super) fn set<T>(slot: &mut Option<T>, name: &str, value: Result<T, String>) -> Result<(), String> {
    match slot.replace(value?) {
        None => Ok(()),
        Some(_) => Err(format!("{name}= is set twice")),
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
    if value.is_empty() { Err(format!("{name}= needs a value")) } else { Ok(value.to_owned()) }
}

pub(super) fn limit(value: &str) -> Result<usize, String> {
    let limit = value.parse().ok().filter(|limit| (1..=MAX_LIMIT).contains(limit));
    limit.ok_or_else(|| format!("limit={value:?} is not a whole number from 1 to {MAX_LIMIT}"))
}
