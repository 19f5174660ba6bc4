//! Sequences of requests.

mod deletion;

use serde_json::{Value, json};

use deletion::{grace, namespace, pages, policies, versions};

use super::request::{Request, Step};
use super::types::{CONFIG_MAPS, NODES, PODS, REPLICATION_CONTROLLERS, Type, WIDGETS};

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A sequence with a name.
pub struct Script {
    /// Its topic.
    pub name: &'static str,
    /// Its steps.
    pub steps: Vec<Step>,
}

/// A uid that no object has.
const NO_UID: &str = "17c1b0d5-0000-4000-8000-000000000000";

/// All of them.
pub fn all() -> Vec<Script> {
    vec![
        script("policies", watched(&CONFIG_MAPS, policies(&CONFIG_MAPS))),
        script("policies-custom", watched(&WIDGETS, policies(&WIDGETS))),
        script(
            "policies-default-orphan",
            watched(&REPLICATION_CONTROLLERS, policies(&REPLICATION_CONTROLLERS)),
        ),
        script("policies-nodes", watched(&NODES, policies(&NODES))),
        script("versions", watched(&CONFIG_MAPS, versions(&CONFIG_MAPS))),
        script("versions-pods", watched(&PODS, versions(&PODS))),
        script("pages", watched(&CONFIG_MAPS, pages(&CONFIG_MAPS))),
        script("pages-custom", watched(&WIDGETS, pages(&WIDGETS))),
        script("grace", watched(&PODS, grace())),
        script("references", references()),
        script("namespace", namespace()),
    ]
}

fn script(name: &'static str, steps: Vec<Step>) -> Script {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "<run>"}});
    let mut all = vec![send("POST", "/api/v1/namespaces", namespace)];
    all.extend(steps);
    Script { name, steps: all }
}

fn send(method: &'static str, path: impl Into<String>, body: Value) -> Step {
    Step::Send(Request::new(method, path).json(body))
}

fn ask(method: &'static str, path: impl Into<String>) -> Step {
    Step::Send(Request::new(method, path))
}

fn patch(path: &str, content_type: &'static str, body: Value) -> Step {
    Step::Send(Request { content_type, ..Request::new("PATCH", path).json(body) })
}

/// Metadata that the watches of a run select.
fn new(name: &str, finalizers: &Value) -> Value {
    json!({"name": name, "labels": {"run": "<run>"}, "finalizers": finalizers})
}

/// The path and the name of an object of a type.
fn place(of: &Type) -> (String, &'static str) {
    if of.namespaced { (of.collection(Some("<run>")), "one") } else { (of.collection(None), "<run>") }
}

/// The steps, within a watch of everything that they do. (References in them count from the step
/// that creates the namespace.)
fn watched(of: &Type, steps: Vec<Step>) -> Vec<Step> {
    let (path, _) = place(of);
    let labels = json!({"run": "<run>"});
    let marker = |name: &str| send("POST", path.clone(), of.object(json!({"name": name, "labels": labels})));
    let request = Request::new("GET", path.clone())
        .with("watch", "1")
        .with("labelSelector", "run=<run>")
        .with("resourceVersion", "<1/metadata/resourceVersion>");
    let mut all = vec![marker("<run>first"), Step::Open(request)];
    all.extend(steps);
    all.push(marker("<run>last"));
    all.push(Step::Close { opened: 2, until: "<run>last" });
    all
}

/// Strategic merges of owner references and finalizers.
fn references() -> Vec<Step> {
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
