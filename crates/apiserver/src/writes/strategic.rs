//! Strategic merge patches: lists are merged by the keys of their entries.
//!
//! Lists in the metadata are merged exactly as in Kubernetes, including duplicates, order and
//! directives. Of other lists, those with named entries are merged.

use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";
const ORDER: &str = "$setElementOrder/";
const RETAIN: &str = "$retainKeys";

/// The variant of the format.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strategic {
    /// Whether directives about absent fields have no effect. Old releases treat them as content.
    pub(super) drops_directives: bool,
}

/// How a list is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lists {
    /// Replaced as a whole.
    Atomic,
    /// A set of plain values.
    Set,
    /// Objects with this key.
    By(&'static str),
}

/// How the list in a field is merged.
fn lists(field: &str, parent: &str) -> Lists {
    match (parent, field) {
        ("metadata", "finalizers") => Lists::Set,
        ("metadata", "ownerReferences") => Lists::By("uid"),
        ("status", "conditions") => Lists::By("type"),
        (
            "spec",
            "containers" | "initContainers" | "ephemeralContainers" | "volumes" | "imagePullSecrets",
        )
        | (_, "env") => Lists::By("name"),
        (_, "volumeMounts") => Lists::By("mountPath"),
        (_, "hostAliases") => Lists::By("ip"),
        ("containers" | "initContainers", "ports") => Lists::By("containerPort"),
        _ => Lists::Atomic,
    }
}

/// Merges a patch into an object.
///
/// # Errors
///
/// If a part of the patch cannot be applied.
pub(super) fn merge(
    language: Strategic,
    object: &mut Value,
    patch: Map<String, Value>,
) -> Result<(), String> {
    let original = std::mem::take(object);
    let original = if let Value::Object(original) = original { original } else { Map::new() };
    *object = merge_map(language, original, patch, "")?.into();
    Ok(())
}

fn merge_map(
    language: Strategic,
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    parent: &str,
) -> Result<Map<String, Value>, String> {
    match patch.remove(DIRECTIVE) {
        None => {}
        Some(Value::String(directive)) if directive == "replace" => return Ok(patch),
        Some(Value::String(directive)) if directive == "delete" => return Ok(Map::new()),
        Some(directive) => return Err(unknown_directive(&directive, &patch)),
    }
    patch.remove(RETAIN);
    for (field, order) in take_prefixed(&mut patch, ORDER) {
        merge_ordered(language, &mut original, &mut patch, &field, parent, &order)?;
    }
    for (field, gone) in take_prefixed(&mut patch, DELETE_FROM) {
        match (original.get_mut(&field), gone) {
            (Some(Value::Array(entries)), Value::Array(gone)) => {
                entries.retain(|entry| !gone.contains(entry));
            }
            // Treated as content, like other directives about absent fields.
            (None, gone) if !language.drops_directives => _ = original.insert(field, gone),
            _ => {}
        }
    }
    for (field, value) in patch {
        merge_field(language, &mut original, field, value, parent)?;
    }
    Ok(original)
}

/// The directives with this prefix, and their fields.
fn take_prefixed(patch: &mut Map<String, Value>, prefix: &str) -> Vec<(String, Value)> {
    let fields: Vec<String> =
        patch.keys().filter_map(|key| key.strip_prefix(prefix).map(str::to_owned)).collect();
    fields
        .into_iter()
        .filter_map(|field| {
            let value = patch.remove(&format!("{prefix}{field}"))?;
            Some((field, value))
        })
        .collect()
}

fn merge_field(
    language: Strategic,
    original: &mut Map<String, Value>,
    field: String,
    value: Value,
    parent: &str,
) -> Result<(), String> {
    if value.is_null() {
        original.remove(&field);
        return Ok(());
    }
    let merged = match (original.remove(&field), value) {
        (Some(Value::Object(old)), Value::Object(patch)) => merge_map(language, old, patch, &field)?.into(),
        (Some(Value::Array(old)), Value::Array(patch)) => {
            merge_list(language, old, patch, lists(&field, parent), &field)?.into()
        }
        (_, value) if language.drops_directives => match without_directives(value) {
            Some(value) => value,
            None => return Ok(()),
        },
        (_, value) => value,
    };
    original.insert(field, merged);
    Ok(())
}

/// A new value without directives and nulls; `None` if all of it was a directive to delete.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(mut entries) => {
            match entries.remove(DIRECTIVE) {
                Some(Value::String(directive)) if directive == "delete" => return None,
                _ => entries.retain(|field, value| !is_directive(field) && !value.is_null()),
            }
            let kept =
                entries.into_iter().filter_map(|(field, value)| Some((field, without_directives(value)?)));
            Some(Value::Object(kept.collect()))
        }
        Value::Array(entries) => {
            let directive_only = |entry: &Value| {
                entry.as_object().is_some_and(|one| one.len() == 1 && one.contains_key(DIRECTIVE))
            };
            let entries = entries.into_iter().filter(|entry| !directive_only(entry));
            Some(Value::Array(entries.filter_map(without_directives).collect()))
        }
        value => Some(value),
    }
}

fn is_directive(field: &str) -> bool {
    field == RETAIN || field.starts_with(DELETE_FROM) || field.starts_with(ORDER)
}

fn merge_list(
    language: Strategic,
    original: Vec<Value>,
    patch: Vec<Value>,
    lists: Lists,
    field: &str,
) -> Result<Vec<Value>, String> {
    match lists {
        Lists::Atomic => Ok(patch),
        Lists::Set => {
            let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
            for entry in original.iter().chain(&patch) {
                if !merged.contains(entry) {
                    merged.push(entry.clone());
                }
            }
            Ok(ordered(merged, &patch, &original, None))
        }
        Lists::By(key) => {
            let (original, patch) = obey_directives(original, patch, key)?;
            let mut merged = original.clone();
            for entry in &patch {
                let identity = identity(entry, key)?;
                match merged.iter_mut().find(|one| one.get(key) == Some(identity)) {
                    Some(one) => merge_entry(language, one, entry, field)?,
                    None => merged.push(entry.clone()),
                }
            }
            Ok(ordered(merged, &patch, &original, Some(key)))
        }
    }
}

fn merge_entry(language: Strategic, original: &mut Value, patch: &Value, field: &str) -> Result<(), String> {
    if let (Value::Object(old), Value::Object(patch)) = (std::mem::take(original), patch.clone()) {
        *original = merge_map(language, old, patch, field)?.into();
    }
    Ok(())
}

/// Removes the directives from the patch, and the entries that they delete from the list.
fn obey_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), String> {
    let mut left = Vec::with_capacity(patch.len());
    let mut replaces = false;
    for entry in patch {
        let Some(fields) = entry.as_object() else {
            return Err(format!("list element types are not identical: {entry}"));
        };
        match fields.get(DIRECTIVE) {
            None => left.push(entry),
            Some(Value::String(directive)) if directive == "replace" => replaces = true,
            // All entries with this key are deleted.
            Some(Value::String(directive)) if directive == "delete" => {
                let identity = identity(&entry, key)?;
                original.retain(|one| one.get(key) != Some(identity));
            }
            Some(directive) => return Err(unknown_directive(directive, fields)),
        }
    }
    Ok(if replaces { (left, Vec::new()) } else { (original, left) })
}

fn identity<'a>(entry: &'a Value, key: &str) -> Result<&'a Value, String> {
    let missing = || format!("map: {entry} does not contain declared merge key: {key}");
    entry.get(key).ok_or_else(missing)
}

fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> String {
    let directive = directive.as_str().map_or_else(|| directive.to_string(), str::to_owned);
    format!("unknown patch type: {directive} in map: {}", Value::Object(map.clone()))
}

/// The position of an entry in a list.
fn position(list: &[Value], entry: &Value, key: Option<&str>) -> Option<usize> {
    let identity = |one: &Value| key.map_or_else(|| Some(one.clone()), |key| one.get(key).cloned());
    let wanted = identity(entry);
    list.iter().position(|one| identity(one) == wanted)
}

/// Orders a merged list. Entries of the patch are in the order of the patch, all others in their
/// previous order. Between the two, the previous order decides where it can.
fn ordered(merged: Vec<Value>, patch: &[Value], before: &[Value], key: Option<&str>) -> Vec<Value> {
    let (mut named, mut rest): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|entry| position(patch, entry, key).is_some());
    named.sort_by_key(|entry| position(patch, entry, key));
    rest.sort_by_key(|entry| position(before, entry, key));
    let (mut named, mut rest) = (named.into_iter().peekable(), rest.into_iter().peekable());
    let mut all = Vec::new();
    loop {
        let first = match (rest.peek(), named.peek()) {
            (None, None) => return all,
            (Some(_), None) => rest.next(),
            (None, Some(_)) => named.next(),
            (Some(one), Some(other)) => match (position(before, one, key), position(before, other, key)) {
                (Some(one), Some(other)) if one < other => rest.next(),
                _ => named.next(),
            },
        };
        all.extend(first);
    }
}

/// Merges a list whose order the patch defines.
fn merge_ordered(
    language: Strategic,
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    field: &str,
    parent: &str,
    order: &Value,
) -> Result<(), String> {
    let lists = lists(field, parent);
    let (key, order) = match (lists, order) {
        (Lists::Set, Value::Array(order)) => (None, order),
        (Lists::By(key), Value::Array(order)) => (Some(key), order),
        _ => return Ok(()),
    };
    let list = |value: Option<Value>| if let Some(Value::Array(list)) = value { Some(list) } else { None };
    if patch.get(field).is_some_and(|value| !value.is_array()) {
        return Ok(());
    }
    let before = list(original.get(field).cloned());
    let merged = match (before.clone(), list(patch.remove(field))) {
        (None, None) => return Ok(()),
        (Some(before), None) => before,
        (before, Some(entries)) => {
            check_order(&entries, order, key)?;
            match before {
                Some(before) => merge_list(language, before, entries, lists, field)?,
                None if language.drops_directives => {
                    list(without_directives(entries.into())).unwrap_or_default()
                }
                None => entries,
            }
        }
    };
    let merged = ordered(merged, order, &before.unwrap_or_default(), key);
    original.insert(field.to_owned(), merged.into());
    Ok(())
}

/// Checks that the entries of a patch are in the order that it defines.
fn check_order(entries: &[Value], order: &[Value], key: Option<&str>) -> Result<(), String> {
    let kept = entries.iter().filter(|entry| entry.get(DIRECTIVE).is_none());
    let positions: Option<Vec<usize>> = kept.map(|entry| position(order, entry, key)).collect();
    if positions.is_some_and(|positions| positions.is_sorted()) {
        return Ok(());
    }
    let text = |list: &[Value]| Value::from(list.to_vec()).to_string();
    Err(format!(
        "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
        text(entries),
        text(order)
    ))
}
