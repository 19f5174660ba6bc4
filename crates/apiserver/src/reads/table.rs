//! Tables, for `kubectl get` and `kube-gc tree`: names, ages, the state of what runs, and events.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::object::{Object, parse_time};
use crate::reads::show::{META, metadata_only};
use crate::resources::{Resource, ResourceName};

/// A column: its name, and the cell of an object.
type Column = (&'static str, fn(&Value) -> String);

/// The columns between the name and the age.
fn columns(resource: &ResourceName) -> &'static [Column] {
    match (&*resource.group, &*resource.plural) {
        ("", "pods") => &[("Ready", ready_containers), ("Status", status)],
        ("", "namespaces") => &[("Status", status)],
        ("", "events") => &[
            ("Type", |event| text(event, "/type").to_owned()),
            ("Reason", |event| text(event, "/reason").to_owned()),
            ("Object", involved),
            ("Message", |event| text(event, "/message").to_owned()),
        ],
        ("apps", "replicasets") => &[
            ("Desired", |set| count(set, "/spec/replicas").to_string()),
            ("Current", |set| count(set, "/status/replicas").to_string()),
            ("Ready", |set| count(set, "/status/readyReplicas").to_string()),
        ],
        ("apps", "deployments" | "statefulsets") => &[("Ready", ready_replicas)],
        _ => &[],
    }
}

/// A Table of objects, with the metadata of their list.
pub(super) fn table(resource: &Resource, objects: &[&Object], metadata: &Value, now: SystemTime) -> Value {
    let columns = columns(&resource.stored_as);
    let heading = |name: &str| {
        let format = if name == "Name" { "name" } else { "" };
        json!({"name": name, "type": "string", "format": format, "description": "", "priority": 0})
    };
    let names = ["Name"].into_iter().chain(columns.iter().map(|(name, _)| *name)).chain(["Age"]);
    let row = |object: &&Object| {
        let value = object.value();
        let cells: Vec<String> = std::iter::once(object.name().to_owned())
            .chain(columns.iter().map(|(_, cell)| cell(value)))
            .chain([age(text(value, "/metadata/creationTimestamp"), now)])
            .collect();
        json!({"cells": cells, "object": metadata_only(object)})
    };
    json!({
        "kind": "Table", "apiVersion": META, "metadata": metadata,
        "columnDefinitions": names.map(heading).collect::<Vec<Value>>(),
        "rows": objects.iter().map(row).collect::<Vec<Value>>(),
    })
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn status(object: &Value) -> String {
    let ending = !text(object, "/metadata/deletionTimestamp").is_empty();
    if ending { "Terminating".to_owned() } else { text(object, "/status/phase").to_owned() }
}

fn ready_containers(pod: &Value) -> String {
    let list = |pointer| pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let ready = list("/status/containerStatuses").filter(|one| one["ready"] == true).count();
    format!("{ready}/{}", list("/spec/containers").count())
}

fn count(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn ready_replicas(object: &Value) -> String {
    format!("{}/{}", count(object, "/status/readyReplicas"), count(object, "/spec/replicas"))
}

fn involved(event: &Value) -> String {
    format!("{}/{}", text(event, "/involvedObject/kind").to_lowercase(), text(event, "/involvedObject/name"))
}

/// The time since a moment, in its largest unit.
fn age(since: &str, now: SystemTime) -> String {
    let Some(since) = parse_time(since) else { return "<unknown>".to_owned() };
    let seconds = now.duration_since(since).unwrap_or_default().as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
