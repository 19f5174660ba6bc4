//! The type that a CustomResourceDefinition defines: its names, versions and conditions.

use std::sync::Arc;
use std::time::SystemTime;

use kube::core::Version;
use serde_json::{Value, json};

use crate::object::{Object, timestamp};
use crate::resources::{DefaultPolicy, Resource, ResourceName};

/// The finalizer that keeps a definition until its objects are gone. It is added when the
/// definition is deleted.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The properties of a custom type in addition to names and versions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Definition {
    /// The uid of the definition. A later definition of the same name defines another type.
    pub uid: Box<str>,
    /// The address of the conversion webhook, if any.
    pub webhook: Option<Box<str>>,
}

/// The type of a definition, with the accepted names; `None` unless it is established.
pub fn resource(crd: &Object) -> Option<Resource> {
    let value = crd.value();
    if condition(value, "Established")? != "True" {
        return None;
    }
    let spec = value.get("spec")?;
    let group = spec.get("group")?.as_str()?;
    let plural = spec.pointer("/names/plural")?.as_str()?;
    let accepted = value.pointer("/status/acceptedNames").filter(|names| names["kind"] != "");
    let names = accepted.or_else(|| spec.get("names"))?;
    let kind = names.get("kind")?.as_str()?;
    let text = |field: &str| names.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
    let list_kind = text("listKind").map_or_else(|| format!("{kind}List"), str::to_owned);
    let singular = text("singular").map_or_else(|| kind.to_lowercase(), str::to_owned);
    let all = versions(spec);
    let mut served: Vec<Box<str>> =
        all.iter().filter(|version| version["served"] == true).filter_map(version_name).collect();
    served.sort_by_key(|version| std::cmp::Reverse(Version::parse(version).priority()));
    let storage = storage_version(spec)?;
    let name = ResourceName::new(group, plural);
    let has_status = all.iter().any(|version| version.pointer("/subresources/status").is_some());
    let ending = crd.deletion_timestamp().is_some();
    Some(Resource {
        stored_as: name.clone(),
        name,
        kind: kind.into(),
        list_kind: list_kind.into(),
        singular: singular.into(),
        short_names: strings(names.get("shortNames")),
        categories: strings(names.get("categories")),
        namespaced: spec.get("scope")? == "Namespaced",
        versions: served,
        storage_version: storage,
        verbs: if ending { ENDING_VERBS.to_vec() } else { VERBS.to_vec() },
        subresources: if has_status { vec!["status"] } else { Vec::new() },
        default_policy: DefaultPolicy::Background,
        custom: true,
        graceful: false,
        returns_deleted: false,
        definition: Some(Arc::new(Definition { uid: crd.uid().into(), webhook: webhook(spec) })),
    })
}

/// The verbs in the order of the real server.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// The verbs in discovery while the definition is being deleted.
const ENDING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];

fn versions(spec: &Value) -> Vec<Value> {
    spec.get("versions").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn version_name(version: &Value) -> Option<Box<str>> {
    version.get("name")?.as_str().map(Box::from)
}

fn storage_version(spec: &Value) -> Option<Box<str>> {
    versions(spec).iter().find(|version| version["storage"] == true).and_then(version_name)
}

/// The status of a condition.
pub fn condition<'a>(crd: &'a Value, name: &str) -> Option<&'a str> {
    let conditions = crd.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == name)?.get("status")?.as_str()
}

fn strings(list: Option<&Value>) -> Vec<Box<str>> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(Box::from).collect()
}

/// The address of the webhook that converts between versions.
fn webhook(spec: &Value) -> Option<Box<str>> {
    let conversion = spec.get("conversion")?;
    if conversion.get("strategy")? != "Webhook" {
        return None;
    }
    let Some(config) = conversion.pointer("/webhook/clientConfig") else { return Some("".into()) };
    if let Some(url) = config.get("url").and_then(Value::as_str) {
        return Some(url.into());
    }
    let text = |field: &str| config["service"][field].as_str().unwrap_or_default();
    Some(format!("https://{}.{}.svc:443/{}", text("name"), text("namespace"), text("path")).into())
}

/// Sets a condition. Its time changes only with its status.
pub(super) fn set_condition(
    crd: &mut Value,
    name: &str,
    (status, reason, message): (&str, &str, &str),
    now: SystemTime,
) {
    if !crd["status"]["conditions"].is_array() {
        crd["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = crd["status"]["conditions"].as_array_mut() else { return };
    let same = conditions.iter().position(|condition| condition["type"] == name);
    let since = same.map(|at| &conditions[at]).filter(|condition| condition["status"] == status);
    let since =
        since.map_or_else(|| timestamp(now).into(), |condition| condition["lastTransitionTime"].clone());
    let condition = json!({
        "type": name, "status": status, "lastTransitionTime": since, "reason": reason, "message": message,
    });
    match same {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// The effect of a DELETE on a definition: the policy is ignored, and there is no grace period.
pub fn begin_deletion(crd: &Object, now: SystemTime) -> Value {
    let mut value = crd.to_value();
    value["metadata"]["deletionTimestamp"] = timestamp(now).into();
    if !crd.has_finalizer(FINALIZER) {
        let finalizers: Vec<&str> = crd.finalizers().chain([FINALIZER]).collect();
        value["metadata"]["finalizers"] = json!(finalizers);
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(&mut value, "Terminating", ("True", "InstanceDeletionPending", message), now);
    value
}

/// Adds the storage version to the stored versions.
fn note_storage_version(crd: &mut Value) {
    let Some(storage) = storage_version(&crd["spec"]) else { return };
    if !crd["status"]["storedVersions"].is_array() {
        crd["status"]["storedVersions"] = json!([]);
    }
    let Some(stored) = crd["status"]["storedVersions"].as_array_mut() else { return };
    if !stored.iter().any(|version| *version == *storage) {
        stored.push((*storage).into());
    }
}

/// Completes a definition and accepts its names. Returns whether the definition changed.
pub(super) fn settle(crd: &mut Value, now: SystemTime) -> bool {
    let before = crd.clone();
    complete(crd);
    note_storage_version(crd);
    let names = crd["spec"]["names"].clone();
    crd["status"]["acceptedNames"] = names;
    set_condition(crd, "NamesAccepted", ("True", "NoConflicts", "no conflicts found"), now);
    if condition(crd, "Established").is_none() {
        let message = "the initial names have been accepted";
        set_condition(crd, "Established", ("False", "Installing", message), now);
    }
    *crd != before
}

/// Fills in optional names.
fn complete(crd: &mut Value) {
    let Some(kind) = crd.pointer("/spec/names/kind").and_then(Value::as_str).map(str::to_owned) else {
        return;
    };
    let names = &mut crd["spec"]["names"];
    if names["singular"].as_str().unwrap_or_default().is_empty() {
        names["singular"] = kind.to_lowercase().into();
    }
    if names["listKind"].as_str().unwrap_or_default().is_empty() {
        names["listKind"] = format!("{kind}List").into();
    }
    if crd["spec"]["conversion"].is_null() {
        crd["spec"]["conversion"] = json!({"strategy": "None"});
    }
    if !crd["status"].is_object() {
        crd["status"] = json!({});
    }
}
