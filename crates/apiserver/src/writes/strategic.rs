//! Strategic merge patches: lists are merged by the keys of their entries, and entries with a directive
//! are deleted. What a patch says of the order of a list is ignored: neither a garbage collector nor
//! `kubectl apply` depends on it.

use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// The key by which the entries of a list are merged; empty for a set of plain values, and `None` for a
/// list that is replaced.
fn merge_key(field: &str, parent: &str) -> Option<&'static str> {
    match (parent, field) {
        ("metadata", "finalizers") => Some(""),
        ("metadata", "ownerReferences") => Some("uid"),
        ("status", "conditions") => Some("type"),
        ("spec", "containers" | "initContainers" | "volumes" | "imagePullSecrets") | (_, "env") => {
            Some("name")
        }
        (_, "volumeMounts") => Some("mountPath"),
        ("containers" | "initContainers", "ports") => Some("containerPort"),
        _ => None,
    }
}

/// Merges the patch of a field into its value. Old releases take directives about absent fields for content
/// (`literal`).
pub(super) fn merge(
    original: &mut Value,
    mut patch: Map<String, Value>,
    parent: &str,
    literal: bool,
) -> Result<(), String> {
    match patch.remove(DIRECTIVE).as_ref().map(Value::as_str) {
        None => {}
        Some(Some("replace")) => *original = Value::Null,
        Some(directive) => return Err(format!("unknown patch type: {directive:?}")),
    }
    if !original.is_object() {
        *original = Map::new().into();
    }
    let Some(fields) = original.as_object_mut() else { return Ok(()) };
    for (field, value) in patch {
        if let Some(field) = field.strip_prefix(DELETE_FROM) {
            match (fields.get_mut(field), value) {
                (Some(Value::Array(entries)), Value::Array(gone)) => {
                    entries.retain(|entry| !gone.contains(entry));
                }
                (None, value) if literal => _ = fields.insert(field.to_owned(), value),
                _ => {}
            }
        } else if field.starts_with('$') {
            // `$setElementOrder` and `$retainKeys`.
        } else if value.is_null() {
            fields.remove(&field);
        } else if literal && !fields.contains_key(&field) {
            fields.insert(field, value);
        } else {
            let original = fields.entry(field.as_str()).or_insert(Value::Null);
            match (value, merge_key(&field, parent)) {
                (Value::Object(patch), _) => merge(original, patch, &field, literal)?,
                (Value::Array(patch), Some(key)) => merge_list(original, patch, key, &field, literal)?,
                (value, _) => *original = value,
            }
        }
    }
    Ok(())
}

/// Merges the entries of a patch into a list. All entries with the key of one to delete are deleted.
fn merge_list(
    original: &mut Value,
    patch: Vec<Value>,
    key: &str,
    field: &str,
    literal: bool,
) -> Result<(), String> {
    let mut entries = original.as_array_mut().map(std::mem::take).unwrap_or_default();
    if key.is_empty() {
        // A set loses the duplicates that it had, too.
        let mut merged: Vec<Value> = Vec::new();
        for entry in entries.into_iter().chain(patch) {
            if !merged.contains(&entry) {
                merged.push(entry);
            }
        }
        *original = merged.into();
        return Ok(());
    }
    for entry in patch {
        let Value::Object(fields) = &entry else {
            return Err(format!("list element types are not identical: {entry}"));
        };
        let identity = fields
            .get(key)
            .ok_or_else(|| format!("map: {entry} does not contain declared merge key: {key}"))?;
        let same = |one: &Value| one.get(key) == Some(identity);
        match (fields.get(DIRECTIVE).map(Value::as_str), entries.iter_mut().find(|one| same(one))) {
            (Some(Some("delete")), _) => entries.retain(|one| !same(one)),
            (Some(directive), _) => return Err(format!("unknown patch type: {directive:?}")),
            (None, Some(one)) => merge(one, fields.clone(), field, literal)?,
            (None, None) => entries.push(entry),
        }
    }
    *original = entries.into();
    Ok(())
}
