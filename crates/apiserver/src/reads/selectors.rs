//! Label and field selectors.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::object::Object;
use crate::status::Status;
use crate::writes::{is_label_value, is_qualified_name};

/// A parsed label selector; empty if it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Labels(Vec<(String, Wanted)>);

/// What a label selector requires of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    There,
    NotThere,
}

impl Labels {
    /// Reads `labelSelector`.
    pub(super) fn parse(text: &str) -> Result<Self, Status> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let mut inside = false;
        let requirements = text.split(|c| {
            inside = c == '(' || inside && c != ')';
            c == ',' && !inside
        });
        let requirements: Option<Vec<_>> = requirements.map(|one| requirement(one.trim())).collect();
        let wrong = || Status::bad_request(format!("unable to parse the label selector {text:?}"));
        requirements.map(Self).ok_or_else(wrong)
    }

    pub(super) fn match_object(&self, object: &Object) -> bool {
        self.0.iter().all(|(label, wanted)| wanted.allows(object.label(label)))
    }
}

fn requirement(text: &str) -> Option<(String, Wanted)> {
    let (label, wanted) = if let Some(label) = text.strip_prefix('!') {
        (label.trim(), Wanted::NotThere)
    } else {
        let end = text.find(|c: char| c.is_whitespace() || "=!(".contains(c)).unwrap_or(text.len());
        let (label, rest) = text.split_at(end);
        (label, wanted(rest.trim())?)
    };
    is_qualified_name(label).then(|| (label.to_owned(), wanted))
}

fn wanted(text: &str) -> Option<Wanted> {
    let one = |text| Some(BTreeSet::from([value(text)?]));
    let values = |text: &str| {
        let inside = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        inside.split(',').map(value).collect::<Option<BTreeSet<String>>>()
    };
    if text.is_empty() {
        Some(Wanted::There)
    } else if let Some(rest) = text.strip_prefix("!=") {
        one(rest).map(Wanted::NotIn)
    } else if let Some(rest) = text.strip_prefix("==").or_else(|| text.strip_prefix('=')) {
        one(rest).map(Wanted::In)
    } else if let Some(rest) = text.strip_prefix("notin") {
        values(rest).map(Wanted::NotIn)
    } else {
        values(text.strip_prefix("in")?).map(Wanted::In)
    }
}

fn value(text: &str) -> Option<String> {
    let text = text.trim();
    is_label_value(text).then(|| text.to_owned())
}

impl Wanted {
    fn allows(&self, value: Option<&str>) -> bool {
        match self {
            Self::In(values) => value.is_some_and(|value| values.contains(value)),
            Self::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Self::There => value.is_some(),
            Self::NotThere => value.is_none(),
        }
    }
}

/// A parsed field selector; empty if it selects everything. Any field can be selected, and absent
/// ones are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fields(Vec<Term>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Term {
    /// The path to the field, with dots.
    field: String,
    equal: bool,
    value: String,
}

impl Fields {
    /// Reads `fieldSelector`.
    pub(super) fn parse(text: &str) -> Result<Self, Status> {
        let mut terms = Vec::new();
        for text in text.split(',').filter(|term| !term.is_empty()) {
            let term = Term::parse(text)
                .ok_or_else(|| Status::bad_request(format!("invalid field selector {text:?}")))?;
            // An empty term has no requirement.
            if term.field.is_empty() && term.value.is_empty() {
                continue;
            }
            terms.push(term);
        }
        Ok(Self(terms))
    }

    pub(super) fn match_object(&self, object: &Object) -> bool {
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

impl Term {
    fn parse(text: &str) -> Option<Self> {
        let (field, value, equal) = match text.split_once("!=") {
            Some((field, value)) => (field, value, false),
            None => {
                let (field, value) = text.split_once('=')?;
                (field, value.strip_prefix('=').unwrap_or(value), true)
            }
        };
        let term = Self { field: field.to_owned(), equal, value: value.to_owned() };
        (!value.contains('=')).then_some(term)
    }
}
