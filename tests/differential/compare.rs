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
//! - The values of uids, generated names, versions and times: see
//!   [`Mapping`](super::mapping::Mapping).
//! - A `creationTimestamp` that is null, which 1.20 sends in bookmarks.
//! - The content of continue tokens, only whether there is one, and how many items remain.
//! - The order of lists from a watch cache, which is random in 1.20.
//! - Bookmarks, which depend on the time. One script compares them, except for how often one is
//!   repeated.

use serde_json::{Value, json};

use super::mapping::Mapping;
use super::request::{Body, Request};
use super::side::Answer;

/// The part of an answer that has no defined order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing.
    Kept,
    /// The items of lists.
    Free,
}

/// Compares two answers to a request and returns the differences.
pub fn compare(mapping: &mut Mapping, request: &Request, left: &Answer, right: &Answer) -> Vec<String> {
    let mut differences = Vec::new();
    if left.code != right.code {
        differences.push(format!("code: {} | {}", left.code, right.code));
        return differences;
    }
    let (left_type, right_type) = (media_type(&left.content_type), media_type(&right.content_type));
    if left_type != right_type {
        differences.push(format!("content type: {left_type} | {right_type}"));
        return differences;
    }
    let order = if from_cache(request) { Order::Free } else { Order::Kept };
    let (left, right) = (reduced(&left.body, order), reduced(&right.body, order));
    if names_itself(request) {
        for place in ["/metadata/name", "/details/name"] {
            if let (Some(left), Some(right)) = (text(&left, place), text(&right, place)) {
                mapping.generated(left, right);
            }
        }
    }
    let list = text(&left, "/kind").is_some_and(|kind| kind.ends_with("List"));
    Comparison { mapping, differences: &mut differences, list }.values("", &left, &right);
    differences
}

/// Compares the events of two watches.
pub fn compare_events(
    mapping: &mut Mapping,
    bookmarks: bool,
    left: &[Value],
    right: &[Value],
) -> Vec<String> {
    let mut differences = Vec::new();
    let reduce = |events: &[Value]| -> Value {
        let mut shown: Vec<Value> = Vec::new();
        for event in events {
            let mut event = event.clone();
            event["object"] = reduced(&event["object"], Order::Kept);
            let is_bookmark = event["type"] == "BOOKMARK";
            if !is_bookmark || bookmarks && shown.last() != Some(&event) {
                shown.push(event);
            }
        }
        shown.into()
    };
    let (left, right) = (reduce(left), reduce(right));
    Comparison { mapping, differences: &mut differences, list: false }.values("", &left, &right);
    differences
}

/// Whether the server generates the name of the object.
fn names_itself(request: &Request) -> bool {
    let Body::Json(body) = &request.body else { return false };
    let metadata = &body["metadata"];
    request.method == "POST"
        && metadata["generateName"].is_string()
        && metadata["name"].as_str().unwrap_or("").is_empty()
}

fn media_type(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default()
}

fn text<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer)?.as_str()
}

/// Whether a list is answered from a watch cache.
fn from_cache(request: &Request) -> bool {
    let query =
        |name: &str| request.query.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let limited = query("limit").is_some();
    match query("resourceVersion") {
        Some("0") => true,
        Some(_) => !limited && query("resourceVersionMatch") != Some("Exact"),
        None => false,
    }
}

/// A body without the parts that are not compared.
fn reduced(body: &Value, order: Order) -> Value {
    let mut body = body.clone();
    if let Some(items) = body.get_mut("items").and_then(Value::as_array_mut) {
        let custom = items.iter().any(|item| item.get("kind").is_some());
        for item in items.iter_mut() {
            *item = reduced(item, order);
            if !custom {
                strip(item, &[]);
            }
        }
        if order == Order::Free {
            items.sort_by_key(|item| {
                text(item, "/metadata/resourceVersion").and_then(|v| v.parse::<u64>().ok())
            });
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
        "CustomResourceDefinition" => {
            let conditions = body.pointer("/status/conditions").and_then(Value::as_array).cloned();
            strip(&mut body, &[]);
            body["conditions"] = conditions
                .unwrap_or_default()
                .iter()
                .map(|one| format!("{} {} {}", one["type"], one["status"], one["reason"]))
                .collect();
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
        metadata.retain(|field, value| field != "creationTimestamp" || !value.is_null());
        for list in ["finalizers", "ownerReferences"] {
            if let Some(entries) = metadata.get_mut(list).and_then(Value::as_array_mut) {
                entries.sort_by_key(Value::to_string);
            }
        }
    }
}

struct Comparison<'a> {
    mapping: &'a mut Mapping,
    differences: &'a mut Vec<String>,
    /// Whether the body is a list, whose version is not that of an object.
    list: bool,
}

impl Comparison<'_> {
    fn values(&mut self, path: &str, left: &Value, right: &Value) {
        match (left, right) {
            (Value::Object(left_fields), Value::Object(right_fields)) => {
                let mut names: Vec<&String> = left_fields.keys().chain(right_fields.keys()).collect();
                names.sort();
                names.dedup();
                for name in names {
                    let path = format!("{path}/{name}");
                    match (left_fields.get(name), right_fields.get(name)) {
                        (Some(left), Some(right)) => self.values(&path, left, right),
                        (left, right) => {
                            self.differences.push(format!("{path}: {} | {}", shown(left), shown(right)));
                        }
                    }
                }
            }
            (Value::Array(left_items), Value::Array(right_items))
                if left_items.len() == right_items.len() =>
            {
                for (index, (left, right)) in left_items.iter().zip(right_items).enumerate() {
                    self.values(&format!("{path}/{index}"), left, right);
                }
            }
            (Value::String(left), Value::String(right)) => {
                if !self.texts(path, left, right) {
                    self.differences.push(format!("{path}: {left:?} | {right:?}"));
                }
            }
            (left, right) => {
                if left != right {
                    self.differences.push(format!("{path}: {left} | {right}"));
                }
            }
        }
    }

    fn texts(&mut self, path: &str, left: &str, right: &str) -> bool {
        let list = self.list && path == "/metadata/resourceVersion";
        match path.rsplit('/').next().unwrap_or_default() {
            "uid" => self.mapping.uid(left, right),
            "resourceVersion" if list => self.mapping.list_version(left, right),
            "resourceVersion" => self.mapping.version(left, right),
            "creationTimestamp" | "deletionTimestamp" => self.mapping.time(left, right),
            "name" => self.mapping.name(left, right),
            "continue" => left.is_empty() == right.is_empty(),
            _ => left == right,
        }
    }
}

fn shown(value: Option<&Value>) -> String {
    value.map_or_else(|| "nothing".to_owned(), Value::to_string)
}
