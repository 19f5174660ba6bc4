//! Custom resource definitions that are created and deleted.

use serde_json::{Value, json};

use super::{MERGE, ask, patch, send};
use crate::request::{Request, Step};
use crate::types::{GROUP, definition};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition that is kept by its objects.
pub(super) fn definition_held() -> Vec<Step> {
    let mut steps = definition_made();
    let served = format!("/apis/<run>.{GROUP}/v1/namespaces/<run>/gizmos");
    let one = format!("{DEFINITIONS}/gizmos.<run>.{GROUP}");
    let in_progress = Some(("/status/conditions/2/reason", json!("InstanceDeletionInProgress")));
    let marked = Some(("/metadata/deletionGracePeriodSeconds", json!(0)));
    let watch = Request::new("GET", served.clone()).with("watch", "1");
    let first = steps.len() + 1;
    steps.extend([
        send("POST", served.clone(), gizmo("a", &[])),
        send("POST", served.clone(), gizmo("b", &["a.b/c"])),
        Step::Open(watch.with("resourceVersion", format!("<{}/metadata/resourceVersion>", first + 1))),
        send("DELETE", one.clone(), json!({"propagationPolicy": "Foreground"})),
        Step::Until(Request::new("GET", one.clone()), 200, in_progress),
        Step::Until(Request::new("GET", format!("{served}/a")), 404, None),
        Step::Until(Request::new("GET", format!("{served}/b")), 200, marked),
        ask("GET", served.clone()),
        send("POST", served.clone(), gizmo("c", &[])),
        patch(&format!("{served}/b"), MERGE, json!({"metadata": {"finalizers": null}})),
        Step::Until(Request::new("GET", one), 404, None),
        Step::Until(Request::new("GET", served), 404, None),
        // The watch ends by itself.
        Step::Close { opened: first + 2, until: "nobody".to_owned() },
    ]);
    steps
}

fn gizmo(name: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": format!("<run>.{GROUP}/v1"), "kind": "Gizmo",
        "metadata": {"name": name, "finalizers": finalizers},
    })
}

fn definition_made() -> Vec<Step> {
    let group = format!("<run>.{GROUP}");
    let definition = definition(&group, "gizmos", "Gizmo", "Namespaced");
    let one = format!("{DEFINITIONS}/gizmos.{group}");
    let established = Some(("/status/conditions/1/status", json!("True")));
    let listed = Some(("/kind", json!("GizmoList")));
    vec![
        send("POST", DEFINITIONS, definition),
        Step::Until(Request::new("GET", one), 200, established),
        Step::Until(Request::new("GET", format!("/apis/{group}/v1/gizmos")), 200, listed),
    ]
}
