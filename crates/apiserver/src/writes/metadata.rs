//! Reads `metadata` and normalizes it as the real server does.

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

/// The finalizers.
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

/// The type of a metadata field.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Number,
    Flag,
    Texts,
    TextByName,
    References,
}

const METADATA: &[(&str, Form)] = &[
    ("annotations", Form::TextByName),
    ("creationTimestamp", Form::Text),
    ("deletionGracePeriodSeconds", Form::Number),
    ("deletionTimestamp", Form::Text),
    ("finalizers", Form::Texts),
    ("generateName", Form::Text),
    ("generation", Form::Number),
    ("labels", Form::TextByName),
    ("name", Form::Text),
    ("namespace", Form::Text),
    ("ownerReferences", Form::References),
    ("resourceVersion", Form::Text),
    ("uid", Form::Text),
];

const REFERENCE: &[(&str, Form)] = &[
    ("apiVersion", Form::Text),
    ("blockOwnerDeletion", Form::Flag),
    ("controller", Form::Flag),
    ("kind", Form::Text),
    ("name", Form::Text),
    ("uid", Form::Text),
];

/// Normalizes the metadata of an object: known fields only, of their types, none of them empty, and
/// no owner reference twice.
pub(super) fn normalize(object: &mut Value) -> Result<(), String> {
    if !matches!(object.get("metadata"), None | Some(Value::Null | Value::Object(_))) {
        return Err(wrong("metadata", &object["metadata"]));
    }
    let given = std::mem::take(of_mut(object));
    let mut kept = fields(given, METADATA)?;
    // Zeros are omitted, except where zero has a meaning.
    if number(&kept, "generation") == Some(0) {
        kept.remove("generation");
    }
    kept.retain(|_, value| match value {
        Value::String(text) => !text.is_empty(),
        Value::Array(entries) => !entries.is_empty(),
        Value::Object(entries) => !entries.is_empty(),
        _ => true,
    });
    *of_mut(object) = kept;
    Ok(())
}

fn fields(mut given: Map<String, Value>, known: &[(&str, Form)]) -> Result<Map<String, Value>, String> {
    let mut kept = Map::new();
    for (field, form) in known {
        match given.remove(*field) {
            None | Some(Value::Null) => {}
            Some(value) => {
                kept.insert((*field).to_owned(), formed(field, value, *form)?);
            }
        }
    }
    Ok(kept)
}

fn formed(field: &str, value: Value, form: Form) -> Result<Value, String> {
    match (form, value) {
        (Form::Text, value @ Value::String(_)) | (Form::Flag, value @ Value::Bool(_)) => Ok(value),
        (Form::Number, value) if value.is_i64() => Ok(value),
        (Form::Texts, Value::Array(entries)) => {
            let texts = entries.into_iter().map(|entry| text_or_empty(field, entry));
            Ok(Value::Array(texts.collect::<Result<_, _>>()?))
        }
        (Form::TextByName, Value::Object(entries)) => {
            let texts = entries.into_iter().map(|(key, entry)| Ok((key, text_or_empty(field, entry)?)));
            Ok(Value::Object(texts.collect::<Result<_, String>>()?))
        }
        (Form::References, Value::Array(entries)) => {
            let mut kept: Vec<Value> = Vec::with_capacity(entries.len());
            for entry in entries {
                let reference = reference(entry)?;
                if !kept.contains(&reference) {
                    kept.push(reference);
                }
            }
            Ok(kept.into())
        }
        (_, value) => Err(wrong(field, &value)),
    }
}

/// In a list or map of strings, null is an empty string.
fn text_or_empty(field: &str, value: Value) -> Result<Value, String> {
    match value {
        Value::Null => Ok("".into()),
        value @ Value::String(_) => Ok(value),
        value => Err(wrong(field, &value)),
    }
}

fn reference(entry: Value) -> Result<Value, String> {
    let given = match entry {
        Value::Object(given) => given,
        Value::Null => Map::new(),
        value => return Err(wrong("ownerReferences", &value)),
    };
    let mut kept = fields(given, REFERENCE)?;
    for field in ["apiVersion", "kind", "name", "uid"] {
        kept.entry(field).or_insert_with(|| "".into());
    }
    Ok(kept.into())
}

fn wrong(field: &str, value: &Value) -> String {
    format!("v1.ObjectMeta.{field}: unexpected {value}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn normal(metadata: Value) -> Result<Value, String> {
        let mut object = json!({});
        object["metadata"] = metadata;
        normalize(&mut object)?;
        Ok(object["metadata"].take())
    }

    #[test]
    fn unknown_null_and_empty_fields_are_removed() {
        let given = json!({
            "name": "a", "namespace": "", "selfLink": "/x", "managedFields": [], "clusterName": "c", "foo": 1,
            "generation": 0, "deletionGracePeriodSeconds": 0, "creationTimestamp": null,
            "labels": {}, "annotations": {"a": null, "b": "c"}, "finalizers": [], "ownerReferences": null,
        });
        let kept = json!({"name": "a", "annotations": {"a": "", "b": "c"}, "deletionGracePeriodSeconds": 0});
        assert_eq!(normal(given), Ok(kept));
    }

    #[test]
    fn only_identical_references_are_dropped() {
        let reference = |more: Value| {
            let mut reference = json!({"apiVersion": "v1", "kind": "X", "name": "a", "uid": "u"});
            reference.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            reference
        };
        let given = json!([
            reference(json!({"foo": 1, "controller": false})),
            reference(json!({"controller": false})),
            reference(json!({})),
            reference(json!({"controller": null})),
        ]);
        let kept = json!([reference(json!({"controller": false})), reference(json!({}))]);
        assert_eq!(normal(json!({"ownerReferences": given})), Ok(json!({"ownerReferences": kept})));
    }

    #[test]
    fn other_content_types_are_rejected() {
        for metadata in [
            json!({"name": 7}),
            json!({"labels": {"a": 7}}),
            json!({"labels": []}),
            json!({"finalizers": "a"}),
            json!({"generation": "1"}),
            json!({"ownerReferences": [7]}),
            json!({"ownerReferences": [{"uid": 7}]}),
            json!({"ownerReferences": [{"controller": "true"}]}),
            json!([]),
        ] {
            assert!(normal(metadata.clone()).is_err(), "{metadata}");
        }
    }
}
