//! The type that a CustomResourceDefinition defines: its names, versions and conditions.

use std::collections::BTreeMap;
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
    /// The columns that `kubectl get` prints, by version.
    pub columns: BTreeMap<Box<str>, Vec<Column>>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: Box<str>,
    /// `string`, `integer`, `date`, …
    pub kind: Box<str>,
    /// The JSON path of the value, such as `.spec.replicas`.
    pub json_path: Box<str>,
    /// If it is not 0, only `-o wide` prints the column.
    pub priority: i64,
}

/// The type of a definition, with the accepted names; `None` unless it is established.
pub fn resource(crd: &Object) -> Option<Resource> {
    let value = crd.value();
    if condition(value, "Established")? != "True" {
        return None;
    }
    resource_of(crd)
}

/// The same, even if it is not established.
pub fn resource_of(crd: &Object) -> Option<Resource> {
    let value = crd.value();
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
    let storage = all.iter().find(|version| version["storage"] == true).and_then(version_name)?;
    let name = ResourceName::new(group, plural);
    let has_status = all
        .iter()
        .filter_map(|version| version.get("subresources"))
        .chain(spec.get("subresources"))
        .any(|subresources| subresources.get("status").is_some());
    let has_scale = all
        .iter()
        .filter_map(|version| version.get("subresources"))
        .chain(spec.get("subresources"))
        .any(|subresources| subresources.get("scale").is_some());
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
        subresources: [("status", has_status), ("scale", has_scale)]
            .into_iter()
            .filter_map(|(name, there)| there.then_some(name))
            .collect(),
        default_policy: DefaultPolicy::Background,
        custom: true,
        graceful: false,
        returns_deleted: false,
        hides_deleted: false,
        definition: Some(Arc::new(Definition {
            uid: crd.uid().into(),
            webhook: webhook(spec),
            columns: columns(spec, &all),
        })),
    })
}

/// The verbs in the order of the real server.
const VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// The verbs in discovery while the definition is being deleted.
const ENDING_VERBS: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];

/// The versions of a definition; in the old style, there may be only one.
fn versions(spec: &Value) -> Vec<Value> {
    if let Some(versions) = spec.get("versions").and_then(Value::as_array) {
        return versions.clone();
    }
    let version = spec.get("version").into_iter();
    version.map(|name| json!({"name": name, "served": true, "storage": true})).collect()
}

fn version_name(version: &Value) -> Option<Box<str>> {
    version.get("name")?.as_str().map(Box::from)
}

/// The storage version.
pub fn storage_version(crd: &Object) -> Option<Box<str>> {
    let versions = versions(crd.value().get("spec")?);
    versions.iter().find(|version| version["storage"] == true).and_then(version_name)
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
    // Definitions in the old style use the second path.
    let places = [conversion.pointer("/webhook/clientConfig"), conversion.get("webhookClientConfig")];
    let config = places.into_iter().flatten().next();
    let Some(config) = config else { return Some("".into()) };
    if let Some(url) = config.get("url").and_then(Value::as_str) {
        return Some(url.into());
    }
    let service = config.get("service");
    let text = |field: &str| service.and_then(|one| one.get(field)?.as_str()).unwrap_or_default();
    let port = service.and_then(|one| one.get("port")?.as_u64()).unwrap_or(443);
    let path = text("path").trim_start_matches('/');
    Some(format!("https://{}.{}.svc:{port}/{path}", text("name"), text("namespace")).into())
}

fn columns(spec: &Value, versions: &[Value]) -> BTreeMap<Box<str>, Vec<Column>> {
    let read = |columns: &Value| -> Vec<Column> {
        let columns = columns.as_array().into_iter().flatten();
        columns
            .filter_map(|column| {
                let text = |field: &str| column.get(field).and_then(Value::as_str).map(Box::from);
                Some(Column {
                    name: text("name")?,
                    kind: text("type").unwrap_or_else(|| "string".into()),
                    json_path: text("jsonPath").or_else(|| text("JSONPath"))?,
                    priority: column.get("priority").and_then(Value::as_i64).unwrap_or_default(),
                })
            })
            .collect()
    };
    let common = spec.get("additionalPrinterColumns");
    let each = versions.iter().filter_map(|version| {
        let columns = version.get("additionalPrinterColumns").or(common)?;
        Some((version_name(version)?, read(columns)))
    });
    each.collect()
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
pub(super) fn note_storage_version(crd: &mut Value) {
    let Some(storage) = storage_version(&Object::new(crd.clone())) else { return };
    if !crd["status"]["storedVersions"].is_array() {
        crd["status"]["storedVersions"] = json!([]);
    }
    let Some(stored) = crd["status"]["storedVersions"].as_array_mut() else { return };
    if !stored.iter().any(|version| *version == *storage) {
        stored.push((*storage).into());
    }
}

/// Completes a definition and checks its names against those of other definitions. Returns whether
/// the definition changed.
pub(super) fn settle<'a>(crd: &mut Value, others: impl Iterator<Item = &'a Object>, now: SystemTime) -> bool {
    let before = crd.clone();
    complete(crd);
    note_storage_version(crd);
    let group = crd["spec"]["group"].clone();
    let own = crd["metadata"]["name"].clone();
    let taken: Vec<Value> = others
        .map(Object::value)
        .filter(|other| other["spec"]["group"] == group && other["metadata"]["name"] != own)
        .map(|other| other["status"]["acceptedNames"].clone())
        .collect();
    let wanted = crd["spec"]["names"].clone();
    let mut accepted = crd["status"]["acceptedNames"].clone();
    let mut conflicts: Vec<(&str, String)> = Vec::new();
    for (field, reason) in [
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("shortNames", "ShortNamesConflict"),
        ("kind", "KindConflict"),
        ("listKind", "ListKindConflict"),
    ] {
        match taken_name(field, &wanted[field], &taken) {
            Some(name) => conflicts.push((reason, format!("\"{name}\" is already in use"))),
            None if wanted[field].is_null() => {}
            None => accepted[field] = wanted[field].clone(),
        }
    }
    if !wanted["categories"].is_null() {
        accepted["categories"] = wanted["categories"].clone();
    }
    crd["status"]["acceptedNames"] = accepted;
    let established = crd.pointer("/status/conditions").is_some_and(Value::is_array);
    match conflicts.first() {
        None => {
            let fine = ("True", "NoConflicts", "no conflicts found");
            set_condition(crd, "NamesAccepted", fine, now);
            if !established {
                let message = "the initial names have been accepted";
                set_condition(crd, "Established", ("False", "Installing", message), now);
            }
        }
        Some((reason, message)) => {
            set_condition(crd, "NamesAccepted", ("False", *reason, message), now);
            if !established {
                let message = "not all names are accepted";
                set_condition(crd, "Established", ("False", "NotAccepted", message), now);
            }
        }
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
    if !crd["status"]["acceptedNames"].is_object() {
        crd["status"]["acceptedNames"] = json!({"plural": "", "kind": ""});
    }
}

/// The first of the requested names that another definition has. Resource names and kinds are
/// separate name spaces.
fn taken_name<'a>(field: &str, wanted: &'a Value, taken: &[Value]) -> Option<&'a str> {
    let fields: &[&str] = match field {
        "kind" | "listKind" => &["kind", "listKind"],
        _ => &["plural", "singular", "shortNames"],
    };
    let has = |names: &Value, name: &str| {
        fields.iter().any(|field| match &names[field] {
            Value::Array(list) => list.iter().any(|one| *one == name),
            one => *one == name,
        })
    };
    let wanted = match wanted {
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        one => one.as_str().into_iter().collect::<Vec<_>>(),
    };
    wanted.into_iter().find(|name| taken.iter().any(|names| has(names, name)))
}
