//! Validates metadata. The fields and reasons of errors are those of Kubernetes.

use serde_json::{Map, Value, json};

use crate::status::FieldError;
use crate::writes::metadata::{self, finalizers, list, number, text};
use crate::writes::strategy::Strategy;

const IMMUTABLE: &str = "field is immutable";

/// The syntax of a type's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Naming {
    /// Nearly all types.
    Subdomain,
    /// Namespaces.
    Label,
    /// Services.
    Label1035,
    /// Any path segment: RBAC.
    Segment,
}

impl Naming {
    fn allows(self, name: &str) -> bool {
        match self {
            Self::Subdomain => is_subdomain(name),
            Self::Label => is_label(name) && name.len() <= 63,
            Self::Label1035 => {
                is_label(name) && name.len() <= 63 && !name.starts_with(|first: char| first.is_ascii_digit())
            }
            Self::Segment => !matches!(name, "." | "..") && !name.contains(['/', '%']),
        }
    }

    /// Whether a name may begin with this prefix, which may end with a dash.
    fn allows_prefix(self, prefix: &str) -> bool {
        match prefix.strip_suffix('-') {
            Some(rest) if !rest.is_empty() && self != Self::Segment => {
                let mut rest = rest.to_owned();
                rest.pop();
                self.allows(&(rest + "a"))
            }
            _ => self.allows(prefix),
        }
    }
}

/// Whether a text consists of `plain` characters and, except at its ends, `inner` ones.
fn between(text: &str, plain: impl Fn(char) -> bool, inner: impl Fn(char) -> bool) -> bool {
    text.chars().all(|c| plain(c) || inner(c)) && text.starts_with(&plain) && text.ends_with(&plain)
}

fn is_label(text: &str) -> bool {
    between(text, |c| c.is_ascii_lowercase() || c.is_ascii_digit(), |c| c == '-')
}

fn is_subdomain(name: &str) -> bool {
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
    let mut errors = Vec::new();
    let (prefix, name) = (text(metadata, "generateName"), text(metadata, "name"));
    if !prefix.is_empty() && !strategy.naming.allows_prefix(prefix) {
        errors.push(malformed("metadata.generateName", prefix));
    }
    if name.is_empty() {
        errors.push(FieldError::required("metadata.name"));
    } else if !strategy.naming.allows(name) {
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
    for field in ["name", "namespace", "uid", "deletionTimestamp"] {
        if text(new, field) != text(old, field) {
            errors.push(FieldError::invalid(&format!("metadata.{field}"), IMMUTABLE));
        }
    }
    if number(new, "deletionGracePeriodSeconds") != number(old, "deletionGracePeriodSeconds") {
        errors.push(FieldError::invalid("metadata.deletionGracePeriodSeconds", IMMUTABLE));
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
        for (text, valid) in [
            (key.as_str(), is_qualified_name(key)),
            (value.as_str().unwrap_or_default(), value.as_str().is_some_and(is_label_value)),
        ] {
            if !valid {
                errors.push(malformed("metadata.labels", text));
            }
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
        let version = match field("apiVersion").split('/').collect::<Vec<_>>().as_slice() {
            [version] | [_, version] => *version,
            _ => "",
        };
        for (part, value) in
            [("apiVersion", version), ("kind", field("kind")), ("name", field("name")), ("uid", field("uid"))]
        {
            if value.is_empty() {
                errors.push(FieldError::invalid(&format!("{PATH}.{part}"), "must not be empty"));
            }
        }
        if (field("apiVersion"), field("kind")) == ("v1", "Event") {
            errors.push(FieldError::invalid(PATH, "/v1, Kind=Event is disallowed from being an owner"));
        }
    }
    if references.iter().filter(|reference| reference["controller"] == json!(true)).count() > 1 {
        errors.push(FieldError::invalid(PATH, "Only one reference can have Controller set to true"));
    }
}

fn of_finalizers(metadata: &Map<String, Value>, strategy: &Strategy, errors: &mut Vec<FieldError>) {
    const PATH: &str = "metadata.finalizers";
    for finalizer in finalizers(metadata).filter(|finalizer| !is_qualified_name(finalizer)) {
        errors.push(malformed(PATH, finalizer));
    }
    let has = |one: &str| finalizers(metadata).any(|finalizer| finalizer == one);
    if has("orphan") && has("foregroundDeletion") {
        errors.push(FieldError::invalid(PATH, "finalizer orphan and foregroundDeletion cannot be both set"));
    }
    if strategy.short_finalizers {
        return;
    }
    for (index, finalizer) in finalizers(metadata).enumerate() {
        if !finalizer.contains('/') && !matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion") {
            let fault = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(&format!("{PATH}[{index}]"), fault));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        use Naming::{Label, Label1035, Segment, Subdomain};
        for (naming, name, good) in [
            (Subdomain, "a-1.b", true),
            (Subdomain, "0", true),
            (Subdomain, "", false),
            (Subdomain, "UP", false),
            (Subdomain, "a-", false),
            (Subdomain, "a..b", false),
            (Subdomain, &"a".repeat(254), false),
            (Label, "a-1", true),
            (Label, "n.2", false),
            (Label, &"a".repeat(64), false),
            (Label1035, "a1", true),
            (Label1035, "1a", false),
            (Segment, "system:node", true),
            (Segment, "a/b", false),
            (Segment, "..", false),
        ] {
            assert_eq!(naming.allows(name), good, "{naming:?} {name:?}");
        }
        for (prefix, good) in [("x-", true), ("x", true), ("G_x", false), ("-", false), ("x--", true)] {
            assert_eq!(Naming::Subdomain.allows_prefix(prefix), good, "{prefix}");
        }
        for (name, good) in
            [("foo", true), ("a.b/c_D", true), ("a/b/c", false), ("/z", false), ("z/", false), ("a b", false)]
        {
            assert_eq!(is_qualified_name(name), good, "{name:?}");
        }
        assert!(is_label_value("") && is_label_value("a_B.c-1") && !is_label_value("v v"));
    }
}
