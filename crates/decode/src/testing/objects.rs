//! Objects of every shape, as JSON.

use proptest::prelude::*;
use serde_json::{Value, json};

fn text() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => "[a-z0-9.-]{1,12}".prop_map(Value::from),
        2 => any::<String>().prop_map(Value::from),
        1 => Just(json!("")),
        1 => Just(Value::Null),
    ]
}

fn anything() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn flag() -> impl Strategy<Value = Value> {
    prop_oneof![any::<bool>().prop_map(Value::from), Just(Value::Null)]
}

/// A field that may be absent.
fn field(
    name: &'static str,
    value: impl Strategy<Value = Value> + 'static,
) -> BoxedStrategy<Option<(String, Value)>> {
    prop::option::weighted(0.8, value.prop_map(move |value| (name.to_owned(), value))).boxed()
}

fn object_of(fields: Vec<BoxedStrategy<Option<(String, Value)>>>) -> impl Strategy<Value = Value> {
    fields.prop_map(|fields| Value::Object(fields.into_iter().flatten().collect()))
}

/// Objects of every shape.
pub fn object() -> impl Strategy<Value = Value> {
    let owner = object_of(vec![
        field("apiVersion", text()),
        field("kind", text()),
        field("name", text()),
        field("uid", text()),
        field("controller", flag()),
        field("blockOwnerDeletion", flag()),
        field("unknown", anything()),
    ]);
    let finalizer = prop_oneof![
        Just(json!("orphan")),
        Just(json!("foregroundDeletion")),
        "[a-z/]{1,9}".prop_map(Value::from)
    ];
    let list = |entry: BoxedStrategy<Value>| prop_oneof![4 => prop::collection::vec(entry, 0..4).prop_map(Value::from), 1 => Just(Value::Null)];
    let metadata = object_of(vec![
        field("name", text()),
        field("namespace", text()),
        field("uid", text()),
        field("resourceVersion", text()),
        field("ownerReferences", list(owner.boxed())),
        field("finalizers", list(finalizer.boxed())),
        field("deletionTimestamp", prop_oneof![Just(Value::Null), Just(json!("2026-01-01T00:00:00Z"))]),
        field("deletionGracePeriodSeconds", prop_oneof![Just(Value::Null), Just(json!(0)), Just(json!(30))]),
        field("labels", anything()),
        field("annotations", anything()),
        field("managedFields", anything()),
    ]);
    object_of(vec![
        field("metadata", metadata),
        field("spec", anything()),
        field("status", anything()),
        field("message", anything()),
        field("code", anything()),
    ])
}

/// An event of a watch, with an object of every shape or, for an error, a `Status`.
pub fn event() -> impl Strategy<Value = Value> {
    let types = prop::sample::select(vec!["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]);
    let annotation = prop_oneof![Just("k8s.io/initial-events-end"), Just("example.com/other")];
    let marks = (annotation, prop_oneof![Just("true"), Just("false")]);
    (types, object(), marks).prop_map(|(event_type, mut object, (name, value))| {
        match event_type {
            // Only bookmarks have annotations that are read.
            "BOOKMARK" => object["metadata"]["annotations"] = json!({name: value}),
            "ERROR" => object = json!({"kind": "Status", "code": 410, "message": "too old"}),
            _ => {}
        }
        json!({"type": event_type, "object": object})
    })
}
