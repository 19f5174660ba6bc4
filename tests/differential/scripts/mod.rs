//! Sequences of requests.

mod definitions;
mod deletion;
mod patches;
mod reads;

use serde_json::{Value, json};

use definitions::definition_held;
use deletion::{grace, namespace, pages, policies, versions};
use patches::references;
use reads::bookmarks;

use super::request::{Body, Request, Step};
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
        script("definition-held", definition_held()),
        script("bookmarks", bookmarks()),
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
    Step::Send(Request::new("PATCH", path).typed(content_type, Body::Json(body)))
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
    all.push(Step::Close { opened: 2, until: "<run>last".to_owned() });
    all
}
