//! Field selectors.

use serde_json::Value;

use crate::object::Object;
use crate::resources::Resource;
use crate::status::Status;

/// A parsed field selector; empty if it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    /// The path to the field, with dots.
    field: String,
    equal: bool,
    value: String,
}

impl Fields {
    /// Reads `fieldSelector`.
    ///
    /// # Errors
    ///
    /// 400 if it is malformed, or the type cannot be selected by the field.
    pub fn parse(text: &str, resource: &Resource) -> Result<Self, Status> {
        let mut terms = Vec::new();
        for term in split(text) {
            let term = parse(&term).map_err(bad)?;
            if term.field.is_empty() && term.value.is_empty() {
                // An empty term has no requirement.
                continue;
            }
            if !supported(resource, &term.field) {
                return Err(bad(unsupported(resource, &term.field)));
            }
            terms.push(term);
        }
        Ok(Self(terms))
    }

    /// Whether the selector matches an object.
    #[must_use]
    pub fn match_object(&self, object: &Object) -> bool {
        self.0.iter().all(|term| {
            let value = term.field.split('.').try_fold(object.value(), |value, part| value.get(part));
            let equal = match value {
                Some(Value::String(text)) => *text == term.value,
                None | Some(Value::Null) => term.value.is_empty(),
                Some(other) => {
                    let text = other.to_string();
                    text == term.value
                }
            };
            equal == term.equal
        })
    }
}

fn bad(message: String) -> Status {
    Status::new(400, "BadRequest", message)
}

/// Splits at commas that are not escaped.
fn split(text: &str) -> Vec<String> {
    let (mut terms, mut term, mut escaped) = (Vec::new(), String::new(), false);
    for c in text.chars() {
        if c == ',' && !escaped {
            terms.push(std::mem::take(&mut term));
        } else {
            term.push(c);
        }
        escaped = c == '\\' && !escaped;
    }
    terms.push(term);
    terms.retain(|term| !term.is_empty());
    terms
}

fn parse(term: &str) -> Result<Term, String> {
    let bytes = term.as_bytes();
    let (mut at, mut escaped) = (0, false);
    while at < bytes.len() {
        let (operator, equal) = match &bytes[at..] {
            _ if escaped => (0, true),
            [b'!', b'=', ..] => (2, false),
            [b'=', b'=', ..] => (2, true),
            [b'=', ..] => (1, true),
            _ => (0, true),
        };
        if operator > 0 {
            let (field, value) = (term[..at].to_owned(), unescape(&term[at + operator..])?);
            return Ok(Term { field, equal, value });
        }
        escaped = bytes[at] == b'\\' && !escaped;
        at += 1;
    }
    Err(format!("invalid selector: '{term}'; can't understand '{term}'"))
}

fn unescape(text: &str) -> Result<String, String> {
    let mut value = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, chars.as_str().chars().next()) {
            ('\\', Some(next @ ('\\' | ',' | '='))) => {
                value.push(next);
                chars.next();
            }
            ('\\', next) => {
                let next = next.map(String::from).unwrap_or_default();
                return Err(format!("invalid field selector: invalid escape sequence: \\{next}"));
            }
            ('=', _) => return Err(format!("invalid field selector: unescaped character in value: {c}")),
            _ => value.push(c),
        }
    }
    Ok(value)
}

/// The selectable fields of a type, apart from name and namespace. Types without an entry have no
/// others.
fn own_fields(resource: &Resource) -> Option<&'static [&'static str]> {
    match (&*resource.name.group, &*resource.name.plural) {
        ("", "pods") => {
            Some(&["spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "status.phase"])
        }
        ("", "namespaces") => Some(&["status.phase"]),
        ("", "nodes") => Some(&["spec.unschedulable"]),
        ("", "secrets") => Some(&["type"]),
        ("", "events") => Some(&[
            "involvedObject.apiVersion",
            "involvedObject.fieldPath",
            "involvedObject.kind",
            "involvedObject.name",
            "involvedObject.namespace",
            "involvedObject.resourceVersion",
            "involvedObject.uid",
            "reason",
            "type",
        ]),
        _ => None,
    }
}

fn supported(resource: &Resource, field: &str) -> bool {
    match field {
        "metadata.name" => true,
        "metadata.namespace" => resource.namespaced || own_fields(resource).is_none() && !resource.custom,
        _ => own_fields(resource).is_some_and(|fields| fields.contains(&field)),
    }
}

fn unsupported(resource: &Resource, field: &str) -> String {
    if resource.custom || own_fields(resource).is_some() {
        format!("field label not supported: {field}")
    } else {
        format!(r#""{field}" is not a known field selector: only "metadata.name", "metadata.namespace""#)
    }
}
