//! The type that a CustomResourceDefinition defines: its names, versions and conditions.

use std::sync::Arc;
use std::time::SystemTime;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceConversion, CustomResourceDefinition, CustomResourceDefinitionSpec, ServiceReference,
};
use kube::core::Version;
use serde::Deserialize as _;
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
    if condition(crd.value(), "Established")? != "True" {
        return None;
    }
    let typed = CustomResourceDefinition::deserialize(crd.value()).ok()?;
    let CustomResourceDefinitionSpec { group, names, scope, versions, conversion, .. } = typed.spec;
    let accepted = typed.status.and_then(|status| status.accepted_names);
    let names = accepted.filter(|names| !names.kind.is_empty()).unwrap_or(names);
    let kind = names.kind;
    let filled = |name: Option<String>| name.filter(|name| !name.is_empty());
    let list_kind = filled(names.list_kind).unwrap_or_else(|| format!("{kind}List"));
    let singular = filled(names.singular).unwrap_or_else(|| kind.to_lowercase());
    let mut served: Vec<Box<str>> = versions
        .iter()
        .filter(|version| version.served)
        .map(|version| version.name.as_str().into())
        .collect();
    served.sort_by_key(|version| std::cmp::Reverse(Version::parse(version).priority()));
    let storage = versions.iter().find(|version| version.storage)?.name.as_str().into();
    let mut subresources = versions.iter().filter_map(|version| version.subresources.as_ref());
    let has_status = subresources.any(|below| below.status.is_some());
    let name = ResourceName::new(&group, &names.plural);
    let ending = crd.deletion_timestamp().is_some();
    let strings = |list: Option<Vec<String>>| list.into_iter().flatten().map(Box::from).collect();
    Some(Resource {
        stored_as: name.clone(),
        name,
        list_kind: list_kind.into(),
        singular: singular.into(),
        kind: kind.into(),
        short_names: strings(names.short_names),
        categories: strings(names.categories),
        namespaced: scope == "Namespaced",
        versions: served,
        storage_version: storage,
        verbs: if ending { ENDING_VERBS.to_vec() } else { VERBS.to_vec() },
        subresources: if has_status { vec!["status"] } else { Vec::new() },
        default_policy: DefaultPolicy::Background,
        custom: true,
        graceful: false,
        returns_deleted: false,
        definition: Some(Arc::new(Definition {
            uid: crd.uid().into(),
            webhook: conversion.and_then(webhook).map(Into::into),
        })),
    })
}

/// The verbs in the order of the real server.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// The verbs in discovery while the definition is being deleted.
const ENDING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];

/// The status of a condition.
pub fn condition<'a>(crd: &'a Value, name: &str) -> Option<&'a str> {
    let conditions = crd.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == name)?.get("status")?.as_str()
}

/// The address of the webhook that converts between versions.
fn webhook(conversion: CustomResourceConversion) -> Option<String> {
    if conversion.strategy != "Webhook" {
        return None;
    }
    let config = conversion.webhook.and_then(|webhook| webhook.client_config).unwrap_or_default();
    let ServiceReference { name, namespace, path, .. } = config.service.unwrap_or_default();
    let of_service = || format!("https://{name}.{namespace}.svc:443/{}", path.unwrap_or_default());
    Some(config.url.unwrap_or_else(of_service))
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
    let mut versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let Some(storage) = versions.find(|version| version["storage"] == true) else { return };
    let storage = storage["name"].clone();
    if !crd["status"]["storedVersions"].is_array() {
        crd["status"]["storedVersions"] = json!([]);
    }
    let Some(stored) = crd["status"]["storedVersions"].as_array_mut() else { return };
    if !stored.contains(&storage) {
        stored.push(storage);
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
