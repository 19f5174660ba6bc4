//! Validates metadata, with the messages of Kubernetes.

use serde_json::{Map, Value, json};

use super::metadata::{self, finalizers, list, number, text};
use super::strategy::Strategy;
use super::syntax::{label_value_faults, qualified_name_faults};
use crate::status::FieldError;

/// The errors in the metadata of a new object. Generated names are validated, too.
pub(super) fn of_new(object: &Value, strategy: &Strategy) -> Vec<FieldError> {
    let metadata = metadata::of(object);
    let mut errors = Vec::new();
    let base = text(metadata, "generateName");
    if !base.is_empty() {
        let faults = strategy.naming.faults_of_prefix(base);
        errors.extend(faults.iter().map(|fault| invalid("metadata.generateName", base, fault)));
    }
    let name = text(metadata, "name");
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        let faults = strategy.naming.faults(name);
        errors.extend(faults.iter().map(|fault| invalid("metadata.name", name, fault)));
    }
    of_any(metadata, strategy, &mut errors);
    errors
}

/// The errors in the metadata of a changed object. Each error occurs twice, because the real server
/// validates in two places.
pub(super) fn of_changed(new: &Value, old: &Value, strategy: &Strategy) -> Vec<FieldError> {
    let (new, old) = (metadata::of(new), metadata::of(old));
    let mut errors = Vec::new();
    if !text(old, "deletionTimestamp").is_empty() {
        errors.extend(no_new_finalizers(new, old));
    }
    for field in ["name", "namespace", "uid"] {
        if text(new, field) != text(old, field) {
            errors.push(invalid(&format!("metadata.{field}"), text(new, field), IMMUTABLE));
        }
    }
    let time = text(new, "deletionTimestamp");
    if time != text(old, "deletionTimestamp") {
        let time = time.replace('T', " ").replace('Z', " +0000 UTC");
        errors.push(FieldError::invalid("metadata.deletionTimestamp", &time, IMMUTABLE));
    }
    let grace = number(new, "deletionGracePeriodSeconds");
    if grace != number(old, "deletionGracePeriodSeconds") {
        let grace = grace.map_or_else(|| "null".to_owned(), |grace| grace.to_string());
        errors.push(FieldError::invalid("metadata.deletionGracePeriodSeconds", &grace, IMMUTABLE));
    }
    of_any(new, strategy, &mut errors);
    let again = errors.clone();
    errors.extend(again);
    errors
}

const IMMUTABLE: &str = "field is immutable";

fn invalid(field: &str, value: &str, fault: &str) -> FieldError {
    FieldError::invalid(field, &format!("{value:?}"), fault)
}

fn of_any(metadata: &Map<String, Value>, strategy: &Strategy, errors: &mut Vec<FieldError>) {
    if let Some(generation) = number(metadata, "generation").filter(|generation| *generation < 0) {
        let fault = "must be greater than or equal to 0";
        errors.push(FieldError::invalid("metadata.generation", &generation.to_string(), fault));
    }
    for (field, entries) in [("labels", metadata.get("labels")), ("annotations", metadata.get("annotations"))]
    {
        let path = format!("metadata.{field}");
        for (key, value) in entries.and_then(Value::as_object).into_iter().flatten() {
            let faults = match field {
                "labels" => qualified_name_faults(key),
                _ => qualified_name_faults(&key.to_lowercase()),
            };
            errors.extend(faults.iter().map(|fault| invalid(&path, key, fault)));
            if let ("labels", Some(value)) = (field, value.as_str()) {
                errors.extend(label_value_faults(value).iter().map(|fault| invalid(&path, value, fault)));
            }
        }
    }
    of_references(list(metadata, "ownerReferences"), errors);
    of_finalizers(metadata, strategy, errors);
}

fn of_references(references: &[Value], errors: &mut Vec<FieldError>) {
    const PATH: &str = "metadata.ownerReferences";
    let field = |reference: &Value, field: &str| reference[field].as_str().unwrap_or_default().to_owned();
    let mut controller: Option<String> = None;
    let mut several = Vec::new();
    for reference in references {
        let api_version = field(reference, "apiVersion");
        let (group, version) = group_version(&api_version);
        if version.is_empty() {
            errors.push(invalid(&format!("{PATH}.apiVersion"), &api_version, "version must not be empty"));
        }
        for part in ["kind", "name", "uid"] {
            if field(reference, part).is_empty() {
                errors.push(invalid(&format!("{PATH}.{part}"), "", &format!("{part} must not be empty")));
            }
        }
        if (group, version, field(reference, "kind").as_str()) == ("", "v1", "Event") {
            let fault = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(PATH, &shown(reference), fault));
        }
        if reference["controller"] == json!(true) {
            match &controller {
                None => controller = Some(field(reference, "name")),
                Some(first) => several.push(format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {}",
                    field(reference, "name")
                )),
            }
        }
    }
    if !several.is_empty() {
        let all: Vec<String> = references.iter().map(shown).collect();
        let all = format!("[]v1.OwnerReference{{{}}}", all.join(", "));
        errors.extend(several.iter().map(|fault| FieldError::invalid(PATH, &all, fault)));
    }
}

/// Group and version; both empty if malformed.
fn group_version(api_version: &str) -> (&str, &str) {
    match api_version.split('/').collect::<Vec<_>>().as_slice() {
        [version] => ("", version),
        [group, version] => (group, version),
        _ => ("", ""),
    }
}

fn shown(reference: &Value) -> String {
    let flag = |field: &str| {
        reference[field].as_bool().map_or("(*bool)(nil)", |flag| if flag { "true" } else { "false" })
    };
    format!(
        "v1.OwnerReference{{APIVersion:{}, Kind:{}, Name:{}, UID:{}, Controller:{}, BlockOwnerDeletion:{}}}",
        reference["apiVersion"],
        reference["kind"],
        reference["name"],
        reference["uid"],
        flag("controller"),
        flag("blockOwnerDeletion"),
    )
}

fn of_finalizers(metadata: &Map<String, Value>, strategy: &Strategy, errors: &mut Vec<FieldError>) {
    const PATH: &str = "metadata.finalizers";
    for finalizer in finalizers(metadata) {
        errors.extend(qualified_name_faults(finalizer).iter().map(|fault| invalid(PATH, finalizer, fault)));
    }
    let has = |one: &str| finalizers(metadata).any(|finalizer| finalizer == one);
    if has("orphan") && has("foregroundDeletion") {
        let all: Vec<&str> = finalizers(metadata).collect();
        let fault = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(PATH, &strings(&all), fault));
    }
    if !strategy.short_finalizers {
        for (index, finalizer) in finalizers(metadata).enumerate() {
            if !finalizer.contains('/')
                && !matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion")
            {
                let fault = "name is neither a standard finalizer name nor is it fully qualified";
                errors.push(invalid(&format!("{PATH}[{index}]"), finalizer, fault));
            }
        }
    }
}

/// While an object is being deleted, finalizers can only be removed.
fn no_new_finalizers(new: &Map<String, Value>, old: &Map<String, Value>) -> Option<FieldError> {
    let mut extra: Vec<&str> =
        finalizers(new).filter(|one| !finalizers(old).any(|finalizer| finalizer == *one)).collect();
    extra.sort_unstable();
    extra.dedup();
    if extra.is_empty() {
        return None;
    }
    let found = strings(&extra);
    let fault = "no new finalizers can be added if the object is being deleted, found new finalizers";
    Some(FieldError::forbidden("metadata.finalizers", &format!("{fault} {found}")))
}

fn strings(texts: &[&str]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[]string{{{}}}", quoted.join(", "))
}
