//! The requested form of an answer, and objects in that form. Tables, for `kubectl get` and `kube-gc tree`, have names,
//! ages, the state of what runs, and events.

use std::time::SystemTime;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::call::Request;
use crate::object::{Object, parse_time};
use crate::resources::{Resource, ResourceName};
use crate::server::Reply;
use crate::status::Status;

/// The `apiVersion` of metadata and tables.
pub(super) const META: &str = "meta.k8s.io/v1";

/// The form of objects in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The objects themselves.
    Full,
    /// `PartialObjectMetadata`, or a list of them.
    Metadata,
    /// `Table`.
    Table,
}

impl Form {
    /// The first form in an `Accept` header that this server knows.
    pub fn wanted(accept: &str) -> Result<Self, Status> {
        if accept.trim().is_empty() {
            return Ok(Self::Full);
        }
        accept.split(',').map(Offer::parse).find_map(|offer| offer.form()).ok_or_else(|| {
            let message = "only the following media types are accepted: application/json";
            Status::new(406, "NotAcceptable", message)
        })
    }
}

/// A clause of the header.
pub(crate) struct Offer<'a> {
    pub(crate) media: &'a str,
    /// The value of `as`.
    pub(crate) kind: &'a str,
    /// Group and version of the kind.
    pub(crate) of: (&'a str, &'a str),
}

impl<'a> Offer<'a> {
    pub(crate) fn parse(clause: &'a str) -> Self {
        let mut parts = clause.split(';').map(str::trim);
        let mut offer = Self { media: parts.next().unwrap_or_default(), kind: "", of: ("", "") };
        for (parameter, value) in parts.filter_map(|part| part.split_once('=')) {
            match parameter {
                "as" => offer.kind = value,
                "g" => offer.of.0 = value,
                "v" => offer.of.1 = value,
                _ => {}
            }
        }
        offer
    }

    fn form(&self) -> Option<Form> {
        if !matches!(self.media, "application/json" | "application/*" | "*/*") {
            return None;
        }
        match (self.kind, self.of) {
            ("", _) => Some(Form::Full),
            ("PartialObjectMetadata" | "PartialObjectMetadataList", ("meta.k8s.io", "v1")) => {
                Some(Form::Metadata)
            }
            ("Table", ("meta.k8s.io", "v1")) => Some(Form::Table),
            _ => None,
        }
    }
}

/// `group/version`, or only the version in the core group.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The answer with one object: to a get, and to writes.
pub fn reply_object(code: u16, object: &Object, read: &Request<'_>) -> Result<Reply, Status> {
    let Request { resource, path, call, now, .. } = read;
    let shown = match Form::wanted(&call.accept)? {
        Form::Table => table(resource, &[object], &metadata_of_one(object, None), *now),
        form => in_form(object, &api_version(path.group, path.version), form, true),
    };
    Ok(Reply::json(code, &shown))
}

/// A list, in the order of a real server: a client may read the items as they come.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    kind: &'a str,
    api_version: &'a str,
    metadata: &'a Map<String, Value>,
    items: Vec<Value>,
}

/// The answer with a list.
pub(super) fn reply_list(
    objects: &[&Object],
    metadata: Map<String, Value>,
    form: Form,
    read: &Request<'_>,
) -> Reply {
    let Request { resource, path, now, .. } = read;
    let item_version = api_version(path.group, path.version);
    let list = |kind: &str, api_version: &str, typed| {
        let items = objects.iter().map(|object| in_form(object, &item_version, form, typed)).collect();
        let list = List { kind, api_version, metadata: &metadata, items };
        Reply::json(200, &list)
    };
    match form {
        Form::Table => Reply::json(200, &table(resource, objects, &Value::Object(metadata), *now)),
        Form::Metadata => list("PartialObjectMetadataList", META, true),
        // Items of built-in types have no `kind` and `apiVersion`.
        Form::Full => list(&resource.list_kind, &item_version, resource.custom),
    }
}

/// The metadata of a table with one object: its version.
pub(super) fn metadata_of_one(object: &Object, version: Option<u64>) -> Value {
    json!({"resourceVersion": version.unwrap_or_else(|| object.resource_version()).to_string()})
}

/// The metadata of an object, as an object.
pub(super) fn metadata_only(object: &Object) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": object.metadata()})
}

/// An object in the requested form, with or without `kind` and `apiVersion`.
pub(super) fn in_form(object: &Object, api_version: &str, form: Form, typed: bool) -> Value {
    if form == Form::Metadata {
        return metadata_only(object);
    }
    let mut value = object.to_value();
    if typed {
        value["apiVersion"] = api_version.into();
    } else if let Some(fields) = value.as_object_mut() {
        fields.remove("kind");
        fields.remove("apiVersion");
    }
    value
}

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
