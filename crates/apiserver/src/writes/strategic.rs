//! Strategic merge patches: lists are merged by the keys of their entries, and entries with a directive are
//! deleted. What a patch itself says of the order of a list (`$setElementOrder`) is ignored: nothing that a
//! garbage collector or `kubectl apply` does depends on it.

use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// How the list in a field is merged: as a set of plain values, by this key of its entries, or not at all.
enum Lists {
    Atomic,
    Set,
    By(&'static str),
}

fn lists(field: &str, parent: &str) -> Lists {
    match (parent, field) {
        ("metadata", "finalizers") => Lists::Set,
        ("metadata", "ownerReferences") => Lists::By("uid"),
        ("status", "conditions") => Lists::By("type"),
        ("spec", "containers" | "initContainers" | "volumes" | "imagePullSecrets") | (_, "env") => {
            Lists::By("name")
        }
        (_, "volumeMounts") => Lists::By("mountPath"),
        ("containers" | "initContainers", "ports") => Lists::By("containerPort"),
        _ => Lists::Atomic,
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
        Some(Some("replace")) => {
            *original = patch.into();
            return Ok(());
        }
        Some(Some("delete")) => {
            *original = Map::new().into();
            return Ok(());
        }
        Some(directive) => return Err(format!("unknown patch type: {directive:?}")),
    }
    if !original.is_object() {
        *original = Map::new().into();
    }
    let Some(fields) = original.as_object_mut() else { return Ok(()) };
    for (field, value) in patch {
        if let Some(field) = field.strip_prefix(DELETE_FROM) {
            match fields.get_mut(field) {
                Some(Value::Array(entries)) => {
                    let gone = value.as_array().map_or(&[][..], Vec::as_slice);
                    entries.retain(|entry| !gone.contains(entry));
                }
                None if literal => _ = fields.insert(field.to_owned(), value),
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
            merge_value(original, value, &field, parent, literal)?;
        }
    }
    Ok(())
}

fn merge_value(
    original: &mut Value,
    patch: Value,
    field: &str,
    parent: &str,
    literal: bool,
) -> Result<(), String> {
    match (patch, lists(field, parent)) {
        (Value::Object(patch), _) => merge(original, patch, field, literal),
        (Value::Array(patch), Lists::Set) => {
            let before = original.as_array().cloned().unwrap_or_default();
            let mut merged: Vec<Value> = Vec::new();
            for entry in before.iter().chain(&patch) {
                if !merged.contains(entry) {
                    merged.push(entry.clone());
                }
            }
            *original = ordered(merged, &patch, &before, None).into();
            Ok(())
        }
        (Value::Array(patch), Lists::By(key)) => {
            let entries = original.as_array().cloned().unwrap_or_default();
            *original = merge_entries(entries, patch, key, field, literal)?.into();
            Ok(())
        }
        (patch, _) => {
            *original = patch;
            Ok(())
        }
    }
}

fn merge_entries(
    mut entries: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    field: &str,
    literal: bool,
) -> Result<Vec<Value>, String> {
    if patch.iter().any(|entry| entry[DIRECTIVE] == "replace") {
        entries.clear();
    }
    let mut changes = Vec::new();
    for entry in patch {
        let Value::Object(fields) = &entry else {
            return Err(format!("list element types are not identical: {entry}"));
        };
        match fields.get(DIRECTIVE).map(Value::as_str) {
            None => changes.push(entry),
            Some(Some("replace")) => {}
            Some(Some("delete")) => {
                // All entries with this key are deleted.
                let identity = identity(&entry, key)?;
                entries.retain(|one| one.get(key) != Some(identity));
            }
            Some(directive) => return Err(format!("unknown patch type: {directive:?}")),
        }
    }
    let before = entries.clone();
    for entry in &changes {
        let identity = identity(entry, key)?;
        match (entries.iter_mut().find(|one| one.get(key) == Some(identity)), entry) {
            (Some(one), Value::Object(entry)) => merge(one, entry.clone(), field, literal)?,
            _ => entries.push(entry.clone()),
        }
    }
    Ok(ordered(entries, &changes, &before, Some(key)))
}

fn identity<'a>(entry: &'a Value, key: &str) -> Result<&'a Value, String> {
    entry.get(key).ok_or_else(|| format!("map: {entry} does not contain declared merge key: {key}"))
}

/// Orders a merged list. Entries of the patch are in the order of the patch, all others in their
/// previous order. Between the two, the previous order decides where it can.
fn ordered(merged: Vec<Value>, patch: &[Value], before: &[Value], key: Option<&str>) -> Vec<Value> {
    let position = |list: &[Value], entry: &Value| match key {
        Some(key) => list.iter().position(|one| one.get(key) == entry.get(key)),
        None => list.iter().position(|one| one == entry),
    };
    let (mut named, mut rest): (Vec<Value>, Vec<Value>) =
        merged.into_iter().partition(|entry| position(patch, entry).is_some());
    named.sort_by_key(|entry| position(patch, entry));
    rest.sort_by_key(|entry| position(before, entry));
    let (mut named, mut rest) = (named.into_iter().peekable(), rest.into_iter().peekable());
    let mut all = Vec::new();
    loop {
        let first = match (rest.peek(), named.peek()) {
            (None, None) => return all,
            (_, None) => rest.next(),
            (Some(one), Some(other)) if earlier(position(before, one), position(before, other)) => {
                rest.next()
            }
            _ => named.next(),
        };
        all.extend(first);
    }
}

fn earlier(one: Option<usize>, other: Option<usize>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one < other)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(object: Value, patch: &Value, literal: bool) -> Result<Value, String> {
        let mut object = object;
        let patch = patch.as_object().unwrap().clone();
        merge(&mut object, patch, "metadata", literal).map(|()| object)
    }

    #[test]
    fn owner_references_are_merged_by_uid_and_finalizers_are_a_set() {
        let old = json!({
            "ownerReferences": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}],
            "finalizers": ["a", "b"],
        });
        let patch = json!({
            "ownerReferences": [
                {"$patch": "delete", "uid": "1"}, {"uid": "2", "controller": true}, {"uid": "3"},
            ],
            "finalizers": ["b", "c"],
            "$deleteFromPrimitiveList/finalizers": ["a"],
        });
        let new = json!({
            "ownerReferences": [{"uid": "2", "name": "b", "controller": true}, {"uid": "3"}],
            "finalizers": ["b", "c"],
        });
        assert_eq!(merged(old.clone(), &patch, false), Ok(new));
        for wrong in [json!([{"$patch": "delete"}]), json!(["text"]), json!([{"name": "no key"}])] {
            assert!(merged(old.clone(), &json!({"ownerReferences": wrong}), false).is_err(), "{wrong}");
        }
        assert!(merged(old, &json!({"$patch": "gizmo"}), false).is_err());
    }

    #[test]
    fn old_releases_treat_directives_about_absent_fields_as_content() {
        let patch = json!({"ownerReferences": [{"$patch": "delete", "uid": "1"}]});
        assert_eq!(merged(json!({}), &patch, true), Ok(patch.clone()));
        assert_eq!(merged(json!({}), &patch, false), Ok(json!({"ownerReferences": []})));
    }
}
