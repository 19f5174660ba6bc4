//! Tables, for `kubectl get`.

use std::time::SystemTime;

use serde_json::{Value, json};

use crate::embedded::call::Call;
use crate::embedded::object::Object;
use crate::embedded::resources::Resource;

/// Objects as a `meta.k8s.io/v1` Table, with the metadata of the list that they
/// are.
#[must_use]
pub fn table(
    resource: &Resource,
    version: &str,
    objects: &[&Object],
    metadata: &Value,
    call: &Call,
    now: SystemTime,
) -> Value {
    let _ = (resource, version, call, now);
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let metadata = object.metadata().cloned().unwrap_or_default();
            json!({
                "cells": [object.name()],
                "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata},
            })
        })
        .collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata,
        "columnDefinitions": [
            {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
        ],
        "rows": rows,
    })
}
