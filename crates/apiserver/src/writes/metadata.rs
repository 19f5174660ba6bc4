//! Reads `metadata` and normalizes it as the real server does.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Map, Value};

/// The metadata of an object; empty if it has none.
pub(super) fn of(object: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    object.get("metadata").and_then(Value::as_object).unwrap_or(&EMPTY)
}

/// The metadata of an object, mutable. Creates it if necessary.
pub(super) fn of_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    match metadata {
        Value::Object(metadata) => metadata,
        _ => unreachable!("it was just made an object"),
    }
}

/// A string in the metadata; empty if absent.
pub(super) fn text<'a>(metadata: &'a Map<String, Value>, field: &str) -> &'a str {
    metadata.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// A number in the metadata.
pub(super) fn number(metadata: &Map<String, Value>, field: &str) -> Option<i64> {
    metadata.get(field)?.as_i64()
}

/// The entries of a list in the metadata.
pub(super) fn list<'a>(metadata: &'a Map<String, Value>, field: &str) -> &'a [Value] {
    metadata.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

pub(super) fn finalizers(metadata: &Map<String, Value>) -> impl Iterator<Item = &str> {
    list(metadata, "finalizers").iter().filter_map(Value::as_str)
}

/// Sets the finalizers. An empty list removes the field.
pub(super) fn set_finalizers(metadata: &mut Map<String, Value>, finalizers: Vec<&str>) {
    put(metadata, "finalizers", (!finalizers.is_empty()).then(|| finalizers.into()));
}

/// Sets a field, or removes it.
pub(super) fn put(metadata: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            metadata.insert(field.to_owned(), value);
        }
        None => {
            metadata.remove(field);
        }
    }
}

/// Copies a field from other metadata, even if it is absent there.
pub(super) fn copy(to: &mut Map<String, Value>, from: &Map<String, Value>, field: &str) {
    put(to, field, from.get(field).cloned());
}

/// Normalizes the metadata of an object: known fields only, of their types, none of them empty, and
/// no owner reference twice.
pub(super) fn normalize(object: &mut Value) -> Result<(), String> {
    let mut given = object.get_mut("metadata").map(Value::take).unwrap_or_default();
    if let Some(fields) = given.as_object_mut() {
        fields.retain(|field, _| !matches!(field.as_str(), "managedFields" | "selfLink"));
        for field in ["annotations", "labels"] {
            let texts = fields.get_mut(field).and_then(Value::as_object_mut);
            for text in texts.into_iter().flat_map(Map::values_mut).filter(|text| text.is_null()) {
                *text = "".into();
            }
        }
    }
    let given: Option<ObjectMeta> = serde_json::from_value(given).map_err(|error| error.to_string())?;
    let mut given = given.unwrap_or_default();
    if let Some(references) = &mut given.owner_references {
        let mut kept: Vec<OwnerReference> = Vec::with_capacity(references.len());
        for reference in references.drain(..) {
            if !kept.contains(&reference) {
                kept.push(reference);
            }
        }
        *references = kept;
    }
    // A generation of 0 is omitted.
    given.generation = given.generation.filter(|generation| *generation != 0);
    let kept = of_mut(object);
    if let Ok(Value::Object(fields)) = serde_json::to_value(given) {
        *kept = fields;
    }
    kept.retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(entries) => !entries.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        _ => true,
    });
    Ok(())
}
