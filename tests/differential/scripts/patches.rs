//! Patches of metadata.

use serde_json::{Value, json};

use super::{JSON, MERGE, STRATEGIC, ask, patch, place, send};
use crate::generate::NO_UID;
use crate::request::Step;
use crate::types::{CONFIG_MAPS, Type};

/// Each field of the metadata, changed by each kind of patch.
pub(super) fn patches(of: &Type) -> Vec<Step> {
    let (path, name) = place(of);
    let one = format!("{path}/{name}");
    let mut steps = vec![send("POST", path, of.object(json!({"name": name, "finalizers": ["a.b/c"]})))];
    let fields = [
        ("name", json!("another")),
        ("namespace", json!("another")),
        ("uid", json!(NO_UID)),
        ("resourceVersion", json!("1")),
        ("resourceVersion", json!("0")),
        ("resourceVersion", json!("abc")),
        ("creationTimestamp", json!("2020-01-01T00:00:00Z")),
        ("deletionTimestamp", json!("2020-01-01T00:00:00Z")),
        ("deletionGracePeriodSeconds", json!(7)),
        ("generation", json!(77)),
        ("generateName", json!("x-")),
        ("labels", json!({"a": "b"})),
        ("annotations", json!({"a": "b"})),
        ("finalizers", json!(["a.b/c", "a.b/d"])),
        ("finalizers", json!(["a.b/c", "a.b/c"])),
        ("ownerReferences", json!([])),
        ("ownerReferences", json!("text")),
        ("labels", json!({"a": null})),
    ];
    for terminating in [false, true] {
        if terminating {
            steps.push(ask("DELETE", one.clone()));
        }
        for content_type in [MERGE, STRATEGIC] {
            for (field, value) in &fields {
                for value in [value, &Value::Null] {
                    let mut metadata = json!({});
                    metadata[*field] = value.clone();
                    steps.push(patch(&one, content_type, json!({ "metadata": metadata })));
                }
            }
            for whole in
                [json!({}), json!(null), json!([1]), json!({"metadata": null}), json!({"metadata": []})]
            {
                steps.push(patch(&one, content_type, whole));
            }
        }
        for (field, value) in &fields {
            let path = format!("/metadata/{field}");
            steps.push(patch(&one, JSON, json!([{"op": "add", "path": path, "value": value}])));
            steps.push(patch(&one, JSON, json!([{"op": "remove", "path": path}])));
        }
        steps.push(ask("GET", one.clone()));
    }
    steps.push(patch(&one, MERGE, json!({"metadata": {"finalizers": null, "labels": {"last": "1"}}})));
    steps.push(ask("GET", one.clone()));
    steps.push(patch(&one, MERGE, json!({"metadata": {"labels": {"last": "2"}}})));
    steps
}

/// Deviations of Kubernetes from RFC 6902. Negative indices are not among them: a real server counts them from
/// the end, and no client of the tests sends them.
pub(super) fn json_patches() -> Vec<Step> {
    let (path, name) = place(&CONFIG_MAPS);
    let one = format!("{path}/{name}");
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "n", "uid": uid});
    let owners = json!([owner("1"), owner("2"), owner("3"), owner("4")]);
    let object = CONFIG_MAPS.object(json!({"name": name, "labels": {"a": "1"}, "ownerReferences": owners}));
    let mut steps = vec![send("POST", path, object)];
    let at = |op: &str, path: &str| json!([{"op": op, "path": path, "value": owner("9")}]);
    let owners = "/metadata/ownerReferences";
    for operation in [
        at("add", &format!("{owners}/-")),
        at("add", &format!("{owners}/0")),
        at("add", &format!("{owners}/9")),
        at("replace", &format!("{owners}/9")),
        at("remove", &format!("{owners}/9")),
        at("remove", &format!("{owners}/x")),
        json!([{"op": "test", "path": "/metadata/nothing", "value": null}]),
        json!([{"op": "test", "path": "/metadata/nothing/at/all", "value": null}]),
        json!([{"op": "test", "path": "/metadata/labels", "value": {"a": "1"}}]),
        json!([{"op": "test", "path": "/metadata/labels/a", "value": null}]),
        json!([{"op": "replace", "path": "/metadata/labels/b", "value": "2"}]),
        json!([{"op": "replace", "path": "/metadata/nothing/at/all", "value": "2"}]),
        json!([{"op": "remove", "path": "/metadata/nothing"}]),
        json!([{"op": "copy", "from": "/metadata/nothing", "path": "/metadata/labels/c"}]),
        json!([{"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/d"}]),
        json!([{"op": "add", "path": "/metadata/labels/e~1f", "value": "3"}]),
        json!([{"op": "add", "path": "", "value": {}}]),
        json!([{"op": "add", "path": "/metadata/labels/a"}]),
        json!([{"path": "/metadata/labels/a"}]),
        json!([{"op": "gizmo", "path": "/metadata/labels/a"}]),
        json!([]),
        json!({}),
        json!("text"),
    ] {
        steps.push(patch(&one, JSON, operation));
    }
    steps.push(ask("GET", one));
    steps
}

/// Strategic merges of owner references and finalizers.
pub(super) fn references() -> Vec<Step> {
    let (path, name) = place(&CONFIG_MAPS);
    let one = format!("{path}/{name}");
    let owner =
        |name: &str, uid: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid});
    let gone = |uid: &str| json!({"$patch": "delete", "uid": uid});
    let lists = [
        json!({"ownerReferences": [gone("1")]}),
        json!({"ownerReferences": [gone("9")]}),
        json!({"ownerReferences": [gone("1"), gone("2"), gone("3")]}),
        json!({"ownerReferences": [gone("1"), owner("x", "9")]}),
        json!({"ownerReferences": [owner("x", "9"), owner("y", "8")]}),
        json!({"ownerReferences": [owner("x", "3"), owner("y", "9"), owner("z", "1")]}),
        json!({"ownerReferences": [{"uid": "2", "blockOwnerDeletion": true}]}),
        json!({"ownerReferences": [{"uid": "2", "name": null}]}),
        json!({"ownerReferences": [{"$patch": "delete"}]}),
        json!({"ownerReferences": [{"$patch": "gizmo", "uid": "1"}]}),
        json!({"ownerReferences": [{"$patch": "replace"}]}),
        json!({"ownerReferences": [{"$patch": "replace"}, owner("x", "9")]}),
        json!({"ownerReferences": ["text"]}),
        json!({"ownerReferences": {}}),
        json!({"ownerReferences": []}),
        json!({"ownerReferences": null}),
        json!({"finalizers": ["a.b/e", "a.b/c"]}),
        json!({"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}),
        json!({"$deleteFromPrimitiveList/finalizers": ["a.b/c"], "finalizers": ["a.b/f"]}),
        json!({"labels": {"$patch": "replace", "n": "1"}}),
        json!({"labels": {"$patch": "delete"}}),
        json!({"$patch": "replace", "labels": {"n": "1"}}),
    ];
    let mut steps = Vec::new();
    let twins = json!([owner("a", "1"), owner("b", "2"), owner("c", "1"), owner("d", "3")]);
    for owners in [json!([]), json!([owner("a", "1"), owner("b", "2"), owner("d", "3")]), twins] {
        for metadata in &lists {
            // Without a list, the directive and the list overwrite each other in an undefined
            // order.
            let both = metadata.get("$deleteFromPrimitiveList/finalizers").is_some();
            if owners == json!([]) && both && metadata.get("finalizers").is_some() {
                continue;
            }
            let finalizers = if owners == json!([]) { json!([]) } else { json!(["a.b/c", "a.b/d", "a.b/c"]) };
            let mut object = json!({"name": name, "finalizers": finalizers, "ownerReferences": owners});
            if finalizers != json!([]) {
                object["labels"] = json!({"a": "1"});
            }
            steps.push(send("POST", path.clone(), CONFIG_MAPS.object(object)));
            steps.push(patch(&one, STRATEGIC, json!({ "metadata": metadata })));
            steps.push(patch(&one, MERGE, json!({"metadata": {"finalizers": null}})));
            steps.push(send("DELETE", one.clone(), json!({"propagationPolicy": "Background"})));
        }
    }
    steps
}
