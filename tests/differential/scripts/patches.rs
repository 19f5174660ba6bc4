//! Patches of metadata.

use serde_json::json;

use super::{MERGE, STRATEGIC, patch, place, send};
use crate::request::Step;
use crate::types::CONFIG_MAPS;

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
        json!({"ownerReferences": ["text"]}),
        json!({"ownerReferences": {}}),
        json!({"ownerReferences": []}),
        json!({"ownerReferences": null}),
        json!({"finalizers": ["a.b/e", "a.b/c"]}),
        json!({"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}),
        json!({"$deleteFromPrimitiveList/finalizers": ["a.b/c"], "finalizers": ["a.b/f"]}),
        json!({"labels": {"$patch": "replace", "n": "1"}}),
    ];
    let mut steps = Vec::new();
    // Side by side: 1.20 reorders others, which is a change that the embedded server does not make.
    let twins = json!([owner("a", "1"), owner("c", "1"), owner("b", "2"), owner("d", "3")]);
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
