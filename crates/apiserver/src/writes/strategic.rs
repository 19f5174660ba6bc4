//! Strategic merge patches: lists are merged by the keys of their entries, and entries with a directive are
//! deleted. What a patch says of the order of a list (`$setElementOrder`) is ignored: nothing that a garbage
//! collector or `kubectl apply` does depends on it.

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
            let mut merged: Vec<Value> = Vec::new();
            for entry in original.as_array().into_iter().flatten().chain(&patch) {
                if !merged.contains(entry) {
                    merged.push(entry.clone());
                }
            }
            *original = merged.into();
            Ok(())
        }
        (Value::Array(patch), Lists::By(key)) => {
            let mut entries = original.as_array().cloned().unwrap_or_default();
            merge_entries(&mut entries, patch, key, field, literal)?;
            *original = entries.into();
            Ok(())
        }
        (patch, _) => {
            *original = patch;
            Ok(())
        }
    }
}

fn merge_entries(
    entries: &mut Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    field: &str,
    literal: bool,
) -> Result<(), String> {
    if patch.iter().any(|entry| entry[DIRECTIVE] == "replace") {
        entries.clear();
    }
    for entry in patch {
        let Value::Object(entry) = entry else {
            return Err(format!("list element types are not identical: {entry}"));
        };
        let directive = entry.get(DIRECTIVE).and_then(Value::as_str);
        if directive == Some("replace") {
            continue;
        }
        let Some(identity) = entry.get(key).cloned() else {
            return Err(format!("map: {entry:?} does not contain declared merge key: {key}"));
        };
        if directive == Some("delete") {
            // All entries with this key are deleted.
            entries.retain(|one| one.get(key) != Some(&identity));
            continue;
        }
        match entries.iter_mut().find(|one| one.get(key) == Some(&identity)) {
            Some(one) => merge(one, entry, field, literal)?,
            None => entries.push(entry.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn merged(object: Value, patch: Value, literal: bool) -> Result<Value, String> {
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
        assert_eq!(merged(old.clone(), patch, false), Ok(new));
        for wrong in [json!([{"$patch": "delete"}]), json!(["text"]), json!([{"name": "no key"}])] {
            assert!(merged(old.clone(), json!({"ownerReferences": wrong}), false).is_err(), "{wrong}");
        }
        assert!(merged(old, json!({"$patch": "gizmo"}), false).is_err());
    }

    #[test]
    fn old_releases_treat_directives_about_absent_fields_as_content() {
        let patch = json!({"ownerReferences": [{"$patch": "delete", "uid": "1"}]});
        assert_eq!(merged(json!({}), patch.clone(), true), Ok(patch.clone()));
        assert_eq!(merged(json!({}), patch, false), Ok(json!({"ownerReferences": []})));
    }
}
