//! Tables, for `kubectl get`.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::accept::Meta;
use super::columns::{self, Cell, age};
use crate::call::Call;
use crate::object::Object;
use crate::resources::{Column, Resource};

/// A Table of objects, with the metadata of their list.
#[must_use]
pub fn table(
    resource: &Resource,
    version: &str,
    objects: &[&Object],
    metadata: &Value,
    meta: Meta,
    call: &Call,
    now: SystemTime,
) -> Value {
    let columns = Columns::of(resource, version);
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({"cells": columns.cells(object, now)});
            if let Some(shown) = included(object, call.query("includeObject"), meta) {
                row["object"] = shown;
            }
            row
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": meta.api_version(), "metadata": metadata,
        "columnDefinitions": columns.definitions(),
        "rows": rows,
    })
}

/// The part of the object that accompanies its row.
fn included(object: &Object, include: Option<&str>, meta: Meta) -> Option<Value> {
    match include {
        Some("None") => None,
        Some("Object") => Some(object.to_value()),
        _ => Some(json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": meta.api_version(),
            "metadata": object.metadata(),
        })),
    }
}

enum Columns<'a> {
    BuiltIn(&'static [columns::Column]),
    Custom(&'a [Column]),
}

impl<'a> Columns<'a> {
    fn of(resource: &'a Resource, version: &str) -> Self {
        let custom = resource.definition.as_ref().and_then(|definition| definition.columns.get(version));
        match custom {
            Some(columns) => Self::Custom(columns),
            None => Self::BuiltIn(columns::of(&resource.stored_as)),
        }
    }

    fn definitions(&self) -> Vec<Value> {
        let name = definition("Name", "string", "name", 0);
        let rest: Vec<Value> = match self {
            Self::BuiltIn(columns) => columns
                .iter()
                .map(|column| definition(column.name, column.kind, "", column.priority))
                .collect(),
            Self::Custom(columns) => columns
                .iter()
                .map(|column| definition(&column.name, &column.kind, "", column.priority))
                .collect(),
        };
        std::iter::once(name).chain(rest).collect()
    }

    fn cells(&self, object: &Object, now: SystemTime) -> Vec<Value> {
        let mut cells: Vec<Value> = vec![object.name().into()];
        match self {
            Self::BuiltIn(columns) => cells.extend(columns.iter().map(|column| match column.cell {
                Cell::Of(cell) => cell(object.value()),
                Cell::Age => age(created(object), now),
            })),
            Self::Custom(columns) => {
                cells.extend(columns.iter().map(|column| custom_cell(column, object.value(), now)));
            }
        }
        cells
    }
}

fn created(object: &Object) -> Option<&str> {
    object.metadata()?.get("creationTimestamp")?.as_str()
}

fn definition(name: &str, kind: &str, format: &str, priority: i64) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": "", "priority": priority})
}

/// The cell of a column that a CustomResourceDefinition defines.
fn custom_cell(column: &Column, object: &Value, now: SystemTime) -> Value {
    let Some(value) = at(object, &column.json_path) else { return Value::Null };
    match &*column.kind {
        "date" => age(value.as_str(), now),
        "integer" | "number" | "boolean" => value.clone(),
        _ => match value {
            Value::String(text) => text.as_str().into(),
            other => other.to_string().into(),
        },
    }
}

/// The value at a simple JSON path: names, quoted names, indexes, and the first list entry in which
/// a field has a value, which is how conditions are selected.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let mut value = object;
    let mut rest = path.trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let (inside, after) = after.split_once(']')?;
            value = match (inside.parse::<usize>(), filter(inside)) {
                (Ok(index), _) => value.get(index)?,
                (_, Some((field, wanted))) => value
                    .as_array()?
                    .iter()
                    .find(|entry| entry.get(field).is_some_and(|found| found == wanted))?,
                (_, None) => value.get(inside.trim_matches(QUOTES))?,
            };
            rest = after;
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let mut field = String::new();
            let mut end = name.len();
            let mut escaped = false;
            for (at, letter) in name.char_indices() {
                match letter {
                    '\\' if !escaped => escaped = true,
                    '.' | '[' if !escaped => {
                        end = at;
                        break;
                    }
                    _ => {
                        escaped = false;
                        field.push(letter);
                    }
                }
            }
            value = value.get(field)?;
            rest = &name[end..];
        }
    }
    Some(value)
}

const QUOTES: [char; 2] = ['\'', '"'];

/// The field and the value of `?(@.field=="value")`.
fn filter(inside: &str) -> Option<(&str, &str)> {
    let (field, value) = inside.strip_prefix("?(@.")?.strip_suffix(')')?.split_once("==")?;
    Some((field.trim(), value.trim().trim_matches(QUOTES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_json_paths_are_followed() {
        let object = json!({"spec": {"a.b": {"list": [{"x": 1}, {"x": 2}]}}});
        assert_eq!(at(&object, ".spec.a\\.b.list[1].x"), Some(&json!(2)));
        assert_eq!(at(&object, ".spec['a.b'].list[0].x"), Some(&json!(1)));
        assert_eq!(at(&object, ".spec.none"), None);
        assert_eq!(at(&object, ".spec.a\\.b.list[2]"), None);
        let conditions = json!([{"type": "Stale", "status": "True"}, {"type": "Ready", "status": "False"}]);
        let object = json!({"status": {"conditions": conditions}});
        let ready = r#".status.conditions[?(@.type=="Ready")].status"#;
        assert_eq!(at(&object, ready), Some(&json!("False")));
        assert_eq!(at(&object, ".status.conditions[?(@.type == 'Gone')].status"), None);
        assert_eq!(at(&json!({"status": {"conditions": {}}}), ready), None);
    }
}
