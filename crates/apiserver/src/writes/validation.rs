//! Validates metadata. The fields and reasons of errors are those of Kubernetes.

use serde_json::{Map, Value, json};

use crate::status::FieldError;
use crate::writes::metadata::{self, finalizers, list, number, text};
use crate::writes::strategy::Strategy;

const IMMUTABLE: &str = "field is immutable";

/// Whether a text consists of `plain` characters and, except at its ends, `inner` ones.
fn between(text: &str, plain: impl Fn(char) -> bool, inner: impl Fn(char) -> bool) -> bool {
    text.chars().all(|c| plain(c) || inner(c)) && text.starts_with(&plain) && text.ends_with(&plain)
}

fn is_subdomain(name: &str) -> bool {
    let is_label = |part| between(part, |c| c.is_ascii_lowercase() || c.is_ascii_digit(), |c| c == '-');
    name.len() <= 253 && name.split('.').all(is_label)
}

fn is_word(text: &str) -> bool {
    text.len() <= 63 && between(text, |c| c.is_ascii_alphanumeric(), |c| matches!(c, '-' | '_' | '.'))
}

/// Whether a text can be the name of a label, an annotation or a finalizer.
pub(crate) fn is_qualified_name(name: &str) -> bool {
    match name.split_once('/') {
        Some((prefix, word)) => is_subdomain(prefix) && is_word(word),
        None => is_word(name),
    }
}

/// Whether a text can be the value of a label.
pub(crate) fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_word(value)
}

/// The errors in the metadata of a new object. Generated names are validated, too.
pub(super) fn of_new(object: &Value, strategy: &Strategy) -> Vec<FieldError> {
    let metadata = metadata::of(object);
    let name = text(metadata, "name");
    let allowed = match strategy.any_name {
        true => !matches!(name, "." | "..") && !name.contains(['/', '%']),
        false => is_subdomain(name),
    };
    let mut errors = Vec::new();
    if name.is_empty() || !allowed {
        errors.push(malformed("metadata.name", name));
    }
    of_any(metadata, strategy, &mut errors);
    errors
}

/// The errors in the metadata of a changed object.
pub(super) fn of_changed(new: &Value, old: &Value, strategy: &Strategy) -> Vec<FieldError> {
    let (new, old) = (metadata::of(new), metadata::of(old));
    let mut errors = Vec::new();
    let added = finalizers(new).find(|one| !finalizers(old).any(|finalizer| finalizer == *one));
    if let Some(added) = added
        && !text(old, "deletionTimestamp").is_empty()
    {
        let fault = format!("no new finalizers can be added if the object is being deleted: {added}");
        errors.push(FieldError::forbidden("metadata.finalizers", &fault));
    }
    for field in ["name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        if new.get(field) != old.get(field) {
            errors.push(FieldError::invalid(&format!("metadata.{field}"), IMMUTABLE));
        }
    }
    of_any(new, strategy, &mut errors);
    errors
}

fn malformed(field: &str, value: &str) -> FieldError {
    FieldError::invalid(field, &format!("{value:?} is malformed"))
}

fn of_any(metadata: &Map<String, Value>, strategy: &Strategy, errors: &mut Vec<FieldError>) {
    if number(metadata, "generation").is_some_and(|generation| generation < 0) {
        errors.push(FieldError::invalid("metadata.generation", "must be greater than or equal to 0"));
    }
    let entries = |field| metadata.get(field).and_then(Value::as_object).into_iter().flatten();
    for (key, value) in entries("labels") {
        if !is_qualified_name(key) || !value.as_str().is_some_and(is_label_value) {
            errors.push(malformed("metadata.labels", key));
        }
    }
    for (key, _) in entries("annotations").filter(|(key, _)| !is_qualified_name(&key.to_lowercase())) {
        errors.push(malformed("metadata.annotations", key));
    }
    of_references(list(metadata, "ownerReferences"), errors);
    of_finalizers(metadata, strategy, errors);
}

fn of_references(references: &[Value], errors: &mut Vec<FieldError>) {
    const PATH: &str = "metadata.ownerReferences";
    for reference in references {
        let field = |field: &str| reference[field].as_str().unwrap_or_default();
        let api_version = field("apiVersion");
        let version = match api_version.matches('/').count() {
            0 | 1 => api_version.rsplit('/').next().unwrap_or_default(),
            _ => "",
        };
        for (part, value) in
            [("apiVersion", version), ("kind", field("kind")), ("name", field("name")), ("uid", field("uid"))]
        {
            if value.is_empty() {
                errors.push(FieldError::invalid(&format!("{PATH}.{part}"), "must not be empty"));
            }
        }
        if (api_version, field("kind")) == ("v1", "Event") {
            errors.push(FieldError::invalid(PATH, "/v1, Kind=Event is disallowed from being an owner"));
        }
    }
    if references.iter().filter(|reference| reference["controller"] == json!(true)).count() > 1 {
        errors.push(FieldError::invalid(PATH, "Only one reference can have Controller set to true"));
    }
}

fn of_finalizers(metadata: &Map<String, Value>, strategy: &Strategy, errors: &mut Vec<FieldError>) {
    const PATH: &str = "metadata.finalizers";
    for finalizer in finalizers(metadata) {
        let standard = matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion");
        let qualified = finalizer.contains('/') || strategy.short_finalizers || standard;
        if !is_qualified_name(finalizer) || !qualified {
            errors.push(malformed(PATH, finalizer));
        }
    }
    let has = |one: &str| finalizers(metadata).any(|finalizer| finalizer == one);
    if has("orphan") && has("foregroundDeletion") {
        errors.push(FieldError::invalid(PATH, "finalizer orphan and foregroundDeletion cannot be both set"));
    }
}
