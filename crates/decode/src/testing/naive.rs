//! Reads a complete document: slow, simple, and strict about shapes. `null` equals a missing
//! field.

use serde_json::{Map, Value};

use super::fuzzing::Event;
use crate::watch::INITIAL_EVENTS_END;
use crate::{Bookmark, Change, Envelope};
use kube_gc_core::object::{Finalizers, Namespace, ObjectFacts, OwnerReference, ResourceVersion, Uid};

/// Something is not of the type that its place asks for.
#[derive(Debug)]
pub struct Misshapen;

/// What was read, unless something in it is misshapen.
pub type Read<T> = Result<T, Misshapen>;

fn text(of: &Map<String, Value>, field: &str) -> Read<String> {
    match of.get(field) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(Misshapen),
    }
}

fn flag(of: &Map<String, Value>, field: &str) -> Read<bool> {
    match of.get(field) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(_) => Err(Misshapen),
    }
}

/// The elements of a list that may be missing.
fn elements<'a>(of: &'a Map<String, Value>, field: &str) -> Read<&'a [Value]> {
    match of.get(field) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(elements)) => Ok(elements),
        Some(_) => Err(Misshapen),
    }
}

/// The fields of an object.
fn fields(value: &Value) -> Read<&Map<String, Value>> {
    value.as_object().ok_or(Misshapen)
}

/// The fields of a part that may be missing.
fn part(of: &Map<String, Value>, field: &str) -> Read<Map<String, Value>> {
    match of.get(field) {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(value) => fields(value).cloned(),
    }
}

fn metadata(object: &Value) -> Read<Map<String, Value>> {
    part(fields(object)?, "metadata")
}

pub(super) fn resource_version(object: &Value) -> Read<Option<ResourceVersion>> {
    Ok(ResourceVersion::parse(&text(&metadata(object)?, "resourceVersion")?))
}

fn grace_period(metadata: &Map<String, Value>) -> Read<Option<i64>> {
    match metadata.get("deletionGracePeriodSeconds") {
        None | Some(Value::Null) => Ok(None),
        Some(seconds) => seconds.as_i64().map(Some).ok_or(Misshapen),
    }
}

fn is_being_deleted(metadata: &Map<String, Value>) -> bool {
    metadata.get("deletionTimestamp").is_some_and(|timestamp| !timestamp.is_null())
}

pub(super) fn is_held(object: &Value) -> Read<bool> {
    let metadata = metadata(object)?;
    let waits = !elements(&metadata, "finalizers")?.is_empty() || grace_period(&metadata)? != Some(0);
    Ok(is_being_deleted(&metadata) && waits)
}

/// The facts of an object; `None` when it has no uid.
pub(super) fn facts(object: &Value) -> Read<Option<ObjectFacts>> {
    let metadata = metadata(object)?;
    grace_period(&metadata)?;
    let mut owners = Vec::new();
    for owner in elements(&metadata, "ownerReferences")? {
        let owner = fields(owner)?;
        let (api_version, kind, name) =
            (text(owner, "apiVersion")?, text(owner, "kind")?, text(owner, "name")?);
        let (controller, block_owner_deletion) =
            (flag(owner, "controller")?, flag(owner, "blockOwnerDeletion")?);
        owners.extend(Uid::parse(&text(owner, "uid")?).map(|uid| OwnerReference {
            api_version: api_version.into(),
            kind: kind.into(),
            name: name.into(),
            uid,
            controller,
            block_owner_deletion,
        }));
    }
    let (mut finalizers, mut held_by_others) = (Finalizers::default(), false);
    for finalizer in elements(&metadata, "finalizers")? {
        match finalizer {
            Value::String(name) if name == "foregroundDeletion" => finalizers.foreground = true,
            Value::String(name) if name == "orphan" => finalizers.orphan = true,
            Value::String(_) | Value::Null => held_by_others = true,
            _ => return Err(Misshapen),
        }
    }
    let (namespace, name) = (text(&metadata, "namespace")?, text(&metadata, "name")?);
    let resource_version = ResourceVersion::parse(&text(&metadata, "resourceVersion")?);
    Ok(Uid::parse(&text(&metadata, "uid")?).map(|uid| ObjectFacts {
        uid,
        namespace: Namespace::parse(&namespace),
        name: name.into(),
        resource_version,
        owners,
        being_deleted: is_being_deleted(&metadata),
        finalizers,
        held_by_others,
    }))
}

/// The items of a list, and what is around them.
pub(super) fn list(list: &Value) -> Read<(Vec<Value>, Envelope)> {
    let list = fields(list)?;
    if !text(list, "kind")?.ends_with("List") {
        return Err(Misshapen);
    }
    let items = elements(list, "items")?.to_vec();
    for item in &items {
        facts(item)?;
    }
    let metadata = part(list, "metadata")?;
    let resource_version = ResourceVersion::parse(&text(&metadata, "resourceVersion")?);
    Ok((items, Envelope { resource_version, next: text(&metadata, "continue")? }))
}

/// An event of a watch.
pub(super) fn event(event: &Value) -> Read<Event> {
    let event = fields(event)?;
    let object = event.get("object").ok_or(Misshapen)?;
    let version = || resource_version(object);
    let changed = |change| -> Read<Event> {
        Ok(match facts(object)? {
            Some(facts) => Event::Object { change, facts },
            None => Event::Nameless(version()?),
        })
    };
    match &*text(event, "type")? {
        "ERROR" => status(object),
        "BOOKMARK" => {
            let annotations = part(&metadata(object)?, "annotations")?;
            let ends_list = text(&annotations, INITIAL_EVENTS_END)? == "true";
            Ok(Event::Bookmark(Bookmark { version: version()?, ends_list }))
        }
        "ADDED" => changed(Change::Added),
        "MODIFIED" => changed(Change::Modified),
        "DELETED" => changed(Change::Deleted),
        _ => Err(Misshapen),
    }
}

fn status(status: &Value) -> Read<Event> {
    let number = |of: &Map<String, Value>, field: &str| match of.get(field) {
        None | Some(Value::Null) => Ok(0),
        Some(number) => number.as_u64().ok_or(Misshapen),
    };
    let status = fields(status)?;
    text(status, "reason")?;
    let details = part(status, "details")?;
    number(&details, "retryAfterSeconds")?;
    for field in ["name", "group", "kind"] {
        text(&details, field)?;
    }
    for cause in elements(&details, "causes")? {
        text(fields(cause)?, "reason")?;
        text(fields(cause)?, "field")?;
    }
    let code = u16::try_from(number(status, "code")?).map_err(|_| Misshapen)?;
    Ok(Event::Error { code, message: text(status, "message")? })
}
