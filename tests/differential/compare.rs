//! Compares two answers.
//!
//! Everything is compared except for the following:
//!
//! - `selfLink`, which collectors do not read, and `managedFields`, which the embedded server
//!   does not set. They are switched off on the real server: with them, an update that changes
//!   nothing makes a new version if it arrives a second later.
//! - Everything except metadata, kind and version in objects of built-in types (but `data` of
//!   ConfigMaps, and the finalizers and phase of namespaces are compared): defaults and admission
//!   of types do not concern an owner.
//! - Everything but the code and the reason of a failure.
//! - The order of finalizers and owner references.
//! - The values of uids, versions and times: see [`Mapping`](super::mapping::Mapping).
//! - Whether a field is null or absent.
//! - The content of continue tokens, only whether there is one, and how many items remain.

use serde_json::{Value, json};

use super::mapping::Mapping;
use super::side::Answer;

/// Compares two answers and returns the differences.
pub fn compare(mapping: &mut Mapping, left: &Answer, right: &Answer) -> Vec<String> {
    if left.code != right.code {
        return vec![format!("code: {} | {}", left.code, right.code)];
    }
    let (left_type, right_type) = (media_type(&left.content_type), media_type(&right.content_type));
    if left_type != right_type {
        return vec![format!("content type: {left_type} | {right_type}")];
    }
    let shown = |Answer { body, events, .. }: &Answer| match events {
        Some(events) => reduced_events(events),
        None => reduced(body),
    };
    let (left, right) = (shown(left), shown(right));
    let list = text(&left, "/kind").is_some_and(|kind| kind.ends_with("List"));
    let mut comparison = Comparison { mapping, differences: Vec::new(), list };
    comparison.values("", &left, &right);
    comparison.differences
}

fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default()
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

fn reduced_events(events: &[Value]) -> Value {
    let shown = |event: &Value| json!({ "type": event["type"], "object": reduced(&event["object"]) });
    events.iter().map(shown).collect()
}

/// A body without the parts that are not compared.
fn reduced(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
        let custom = items.iter().any(|item| item.get("kind").is_some());
        for item in items.iter_mut() {
            *item = reduced(item);
            if !custom {
                strip(item, &[]);
            }
        }
        if let Some(metadata) = body["metadata"].as_object_mut() {
            metadata.remove("remainingItemCount");
        }
        return body;
    }
    match text(&body, "/kind").unwrap_or_default() {
        // An empty list without items.
        kind if kind.ends_with("List") => {}
        "Status" if body["status"] == "Failure" => {
            body = json!({"kind": "Status", "code": body["code"], "reason": body["reason"]});
        }
        "Status" => {}
        "Namespace" => {
            let kept = [body.pointer("/spec/finalizers"), body.pointer("/status/phase")];
            let kept = kept.map(|value| value.cloned().unwrap_or_default());
            strip(&mut body, &[]);
            let [finalizers, phase] = kept;
            body["finalizers"] = finalizers;
            body["phase"] = phase;
        }
        "ConfigMap" => strip(&mut body, &["data"]),
        "PartialObjectMetadata" | "Widget" => strip(&mut body, &["spec", "status"]),
        _ => strip(&mut body, &[]),
    }
    body
}

/// Removes everything that is not compared from an object, except these fields.
fn strip(object: &mut Value, but: &[&str]) {
    let Some(fields) = object.as_object_mut() else { return };
    fields.retain(|field, _| {
        ["apiVersion", "kind", "metadata"].contains(&field.as_str()) || but.contains(&&**field)
    });
    if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("selfLink");
        for list in ["finalizers", "ownerReferences"] {
            if let Some(entries) = metadata.get_mut(list).and_then(Value::as_array_mut) {
                entries.sort_by_key(Value::to_string);
            }
        }
    }
}

struct Comparison<'a> {
    mapping: &'a mut Mapping,
    differences: Vec<String>,
    /// Whether the body is a list, whose version is not that of an object.
    list: bool,
}

impl Comparison<'_> {
    fn values(&mut self, path: &str, left: &Value, right: &Value) {
        let equal = match (left, right) {
            (Value::Object(left), Value::Object(right)) => {
                let mut names: Vec<&String> = left.keys().chain(right.keys()).collect();
                names.sort();
                names.dedup();
                for name in names {
                    let field =
                        |fields: &serde_json::Map<_, _>| fields.get(name).cloned().unwrap_or_default();
                    self.values(&format!("{path}/{name}"), &field(left), &field(right));
                }
                true
            }
            (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
                for (index, (left, right)) in left.iter().zip(right).enumerate() {
                    self.values(&format!("{path}/{index}"), left, right);
                }
                true
            }
            (Value::String(left), Value::String(right)) => self.texts(path, left, right),
            (left, right) => left == right,
        };
        if !equal {
            self.differences.push(format!("{path}: {left} | {right}"));
        }
    }

    fn texts(&mut self, path: &str, left: &str, right: &str) -> bool {
        let list = self.list && path == "/metadata/resourceVersion";
        match path.rsplit('/').next().unwrap_or_default() {
            "uid" => self.mapping.uid(left, right),
            "resourceVersion" if list => self.mapping.list_version(left, right),
            "resourceVersion" => self.mapping.version(left, right),
            "creationTimestamp" | "deletionTimestamp" => self.mapping.time(left, right),
            "continue" => left.is_empty() == right.is_empty(),
            _ => left == right,
        }
    }
}
