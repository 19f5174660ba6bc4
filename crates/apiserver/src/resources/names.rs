//! The names of custom resources: acceptance and conflicts.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::definition::{note_storage_version, set_condition};
use crate::object::Object;

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
