//! Tables, for `kubectl get` and whoever else wants to show a row of an object.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::call::Call;
use crate::object::{Object, parse_time};
use crate::reads::show::Meta;
use crate::resources::{Column, Resource, ResourceName};

/// A column of a built-in type: its name, its type, and the cell of an object.
type BuiltIn = (&'static str, &'static str, fn(&Value) -> Value);

/// The columns between the name and the age, of the types that people look at most.
fn built_in(resource: &ResourceName) -> &'static [BuiltIn] {
    match (&*resource.group, &*resource.plural) {
        ("", "pods") => &[
            ("Ready", "string", ready_containers),
            ("Status", "string", status),
            ("Restarts", "integer", restarts),
        ],
        ("", "namespaces") => &[("Status", "string", status)],
        ("", "configmaps") => &[("Data", "integer", data)],
        ("", "secrets") => &[("Type", "string", |o| text(o, "/type").into()), ("Data", "integer", data)],
        ("", "events") => &[
            ("Type", "string", |o| text(o, "/type").into()),
            ("Reason", "string", |o| text(o, "/reason").into()),
            ("Object", "string", involved),
            ("Message", "string", |o| text(o, "/message").into()),
        ],
        ("apps", "replicasets") => &[
            ("Desired", "integer", |o| count(o, "/spec/replicas").into()),
            ("Current", "integer", |o| count(o, "/status/replicas").into()),
            ("Ready", "integer", |o| count(o, "/status/readyReplicas").into()),
        ],
        ("apps", "deployments" | "statefulsets") => &[("Ready", "string", ready_replicas)],
        ("batch", "jobs") => &[("Completions", "string", completions)],
        _ => &[],
    }
}

/// A Table of objects, with the metadata of their list.
pub(super) fn table(
    resource: &Resource,
    version: &str,
    objects: &[&Object],
    metadata: &Value,
    meta: Meta,
    call: &Call,
    now: SystemTime,
) -> Value {
    let custom = resource.definition.as_ref().and_then(|definition| definition.columns.get(version));
    let heading = |(name, kind, priority): (&str, &str, i64)| {
        let format = if name == "Name" { "name" } else { "" };
        json!({"name": name, "type": kind, "format": format, "description": "", "priority": priority})
    };
    let built_in = built_in(&resource.stored_as);
    let headings: Vec<Value> = match custom {
        Some(columns) => std::iter::once(("Name", "string", 0))
            .chain(columns.iter().map(|column| (&*column.name, &*column.kind, column.priority)))
            .map(heading)
            .collect(),
        None => std::iter::once(("Name", "string", 0))
            .chain(built_in.iter().map(|(name, kind, _)| (*name, *kind, 0)))
            .chain([("Age", "string", 0)])
            .map(heading)
            .collect(),
    };
    let cells = |object: &Object| -> Vec<Value> {
        let (name, value) = (object.name().into(), object.value());
        match custom {
            Some(columns) => std::iter::once(name)
                .chain(columns.iter().map(|column| custom_cell(column, value, now)))
                .collect(),
            None => std::iter::once(name)
                .chain(built_in.iter().map(|(.., cell)| cell(value)))
                .chain([age(text(value, "/metadata/creationTimestamp"), now)])
                .collect(),
        }
    };
    let row = |object: &&Object| match call.query("includeObject") {
        Some("None") => json!({"cells": cells(object)}),
        Some("Object") => json!({"cells": cells(object), "object": object.value()}),
        _ => json!({"cells": cells(object), "object": {
            "kind": "PartialObjectMetadata",
            "apiVersion": meta.api_version(),
            "metadata": object.metadata(),
        }}),
    };
    json!({
        "kind": "Table", "apiVersion": meta.api_version(), "metadata": metadata,
        "columnDefinitions": headings,
        "rows": objects.iter().map(row).collect::<Vec<Value>>(),
    })
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn count(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn data(object: &Value) -> Value {
    let entries =
        |pointer| object.pointer(pointer).and_then(Value::as_object).map_or(0, serde_json::Map::len);
    (entries("/data") + entries("/binaryData")).into()
}

fn status(object: &Value) -> Value {
    match (text(object, "/metadata/deletionTimestamp"), text(object, "/status/phase")) {
        ("", phase) => phase.into(),
        _ => "Terminating".into(),
    }
}

fn ready_containers(pod: &Value) -> Value {
    let ready = list(pod, "/status/containerStatuses").iter().filter(|one| one["ready"] == true).count();
    format!("{ready}/{}", list(pod, "/spec/containers").len()).into()
}

fn restarts(pod: &Value) -> Value {
    let statuses = list(pod, "/status/containerStatuses").iter();
    statuses.map(|one| count(one, "/restartCount")).fold(0, i64::saturating_add).into()
}

fn ready_replicas(object: &Value) -> Value {
    format!("{}/{}", count(object, "/status/readyReplicas"), count(object, "/spec/replicas")).into()
}

fn completions(job: &Value) -> Value {
    let wanted = job.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1);
    format!("{}/{wanted}", count(job, "/status/succeeded")).into()
}

fn involved(event: &Value) -> Value {
    let of = if event["involvedObject"].is_object() { &event["involvedObject"] } else { &event["regarding"] };
    format!("{}/{}", text(of, "/kind").to_lowercase(), text(of, "/name")).into()
}

/// The time since a moment, in its largest unit.
fn age(since: &str, now: SystemTime) -> Value {
    let Some(since) = parse_time(since) else { return "<unknown>".into() };
    let seconds = now.duration_since(since).unwrap_or_default().as_secs();
    let units = [(2 * 86_400, 86_400, "d"), (2 * 3600, 3600, "h"), (120, 60, "m"), (0, 1, "s")];
    let unit = units.iter().find(|(from, ..)| seconds >= *from);
    unit.map_or(Value::Null, |(_, of, unit)| format!("{}{unit}", seconds / of).into())
}

/// The cell of a column that a CustomResourceDefinition defines.
fn custom_cell(column: &Column, object: &Value, now: SystemTime) -> Value {
    let Some(value) = at(object, &column.json_path) else { return Value::Null };
    match (&*column.kind, value) {
        ("date", value) => age(value.as_str().unwrap_or_default(), now),
        ("integer" | "number" | "boolean", value) => value.clone(),
        (_, Value::String(text)) => text.as_str().into(),
        (_, other) => other.to_string().into(),
    }
}

/// The value at a simple JSON path: names, indexes, and the first entry of a list in which a field has a value,
/// which is how conditions are selected.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut value = object;
    let mut rest = path.trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (inside, after) = after.split_once(']')?;
            value = match (inside.parse::<usize>(), filter(inside)) {
                (Ok(index), _) => value.get(index)?,
                (_, Some((field, wanted))) => value
                    .as_array()?
                    .iter()
                    .find(|entry| entry.get(field).is_some_and(|found| found == wanted))?,
                (_, None) => value.get(inside.trim_matches(QUOTES))?,
            };
            rest = after;
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find(['.', '[']).unwrap_or(name.len());
            value = value.get(&name[..end])?;
            rest = &name[end..];
        }
    }
    Some(value)
}

const QUOTES: [char; 2] = ['\'', '"'];

/// The field and the value of `?(@.field=="value")`.
fn filter(inside: &str) -> Option<(&str, &str)> {
    let (field, value) = inside.strip_prefix("?(@.")?.strip_suffix(')')?.split_once("==")?;
    Some((field.trim(), value.trim().trim_matches(QUOTES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_json_paths_are_followed() {
        let object = json!({"spec": {"a.b": {"list": [{"x": 1}, {"x": 2}]}}});
        assert_eq!(at(&object, ".spec['a.b'].list[1].x"), Some(&json!(2)));
        assert_eq!(at(&object, ".spec.none"), None);
        let conditions = json!([{"type": "Stale", "status": "True"}, {"type": "Ready", "status": "False"}]);
        let object = json!({"status": {"conditions": conditions}});
        let ready = r#".status.conditions[?(@.type=="Ready")].status"#;
        assert_eq!(at(&object, ready), Some(&json!("False")));
        assert_eq!(at(&object, ".status.conditions[?(@.type == 'Gone')].status"), None);
    }
}
