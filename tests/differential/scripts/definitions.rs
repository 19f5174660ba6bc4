//! Custom resource definitions that are created and deleted.

use serde_json::{Value, json};

use super::{MERGE, ask, patch, send};
use crate::request::{Kind, Request, Step};
use crate::types::GROUP;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A definition that is created and deleted.
pub(super) fn definition() -> Vec<Step> {
    let mut steps = definition_made("Cluster");
    let served = format!("/apis/<run>.{GROUP}/v1/gizmos");
    let one = format!("{DEFINITIONS}/gizmos.<run>.{GROUP}");
    steps.extend([
        send("POST", served.clone(), gizmo("a", &[])),
        ask("DELETE", one.clone()),
        Step::Until(Request::new(Kind::Odd, "GET", one), 404, None),
        Step::Until(Request::new(Kind::Odd, "GET", served.clone()), 404, None),
        send("POST", served, gizmo("b", &[])),
    ]);
    steps
}

/// A definition that is kept by its objects.
pub(super) fn definition_held() -> Vec<Step> {
    let mut steps = definition_made("Namespaced");
    let served = format!("/apis/<run>.{GROUP}/v1/namespaces/<run>/gizmos");
    let one = format!("{DEFINITIONS}/gizmos.<run>.{GROUP}");
    let condition = |index: usize, reason: &str| {
        let place: &'static str =
            ["/status/conditions/0/reason", "/status/conditions/1/reason", "/status/conditions/2/reason"]
                [index];
        Some((place, json!(reason)))
    };
    let marked = Some(("/metadata/deletionGracePeriodSeconds", json!(0)));
    let watch = Request::new(Kind::Odd, "GET", served.clone()).with("watch", "1");
    let first = steps.len() + 1;
    steps.extend([
        send("POST", served.clone(), gizmo("a", &[])),
        send("POST", served.clone(), gizmo("b", &["a.b/c"])),
        Step::Open(watch.with("resourceVersion", format!("<{}/metadata/resourceVersion>", first + 1))),
        send("DELETE", one.clone(), json!({"propagationPolicy": "Foreground"})),
        Step::Until(
            Request::new(Kind::Odd, "GET", one.clone()),
            200,
            condition(2, "InstanceDeletionInProgress"),
        ),
        Step::Until(Request::new(Kind::Odd, "GET", format!("{served}/a")), 404, None),
        Step::Until(Request::new(Kind::Odd, "GET", format!("{served}/b")), 200, marked),
        ask("GET", served.clone()),
        send("POST", served.clone(), gizmo("c", &[])),
        patch(&format!("{served}/b"), MERGE, json!({"metadata": {"finalizers": null}})),
        Step::Until(Request::new(Kind::Odd, "GET", one), 404, None),
        Step::Until(Request::new(Kind::Odd, "GET", served), 404, None),
        // The watch ends by itself.
        Step::Close { opened: first + 2, until: "nobody".to_owned(), existing: None },
    ]);
    steps
}

fn gizmo(name: &str, finalizers: &[&str]) -> Value {
    json!({
        "apiVersion": format!("<run>.{GROUP}/v1"), "kind": "Gizmo",
        "metadata": {"name": name, "finalizers": finalizers},
    })
}

fn definition_made(scope: &str) -> Vec<Step> {
    let group = format!("<run>.{GROUP}");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gizmos.{group}")},
        "spec": {
            "group": group, "scope": scope,
            "names": {"plural": "gizmos", "singular": "gizmo", "kind": "Gizmo", "listKind": "GizmoList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            }}],
        },
    });
    let one = format!("{DEFINITIONS}/gizmos.{group}");
    let established = Some(("/status/conditions/1/status", json!("True")));
    let listed = Some(("/kind", json!("GizmoList")));
    vec![
        send("POST", DEFINITIONS, definition),
        Step::Until(Request::new(Kind::Odd, "GET", one), 200, established),
        Step::Until(Request::new(Kind::Odd, "GET", format!("/apis/{group}/v1/gizmos")), 200, listed),
    ]
}
