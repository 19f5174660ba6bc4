//! Discovery, and the life of custom resource definitions and APIServices.

use super::*;
use crate::controllers::REACTION;

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
const CRD: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/toys.shop.example";
const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

pub(super) fn definition() -> Value {
    json!({
        "metadata": {"name": "toys.shop.example"},
        "spec": {
            "group": "shop.example", "scope": "Namespaced",
            "names": {"plural": "toys", "kind": "Toy", "shortNames": ["t"]},
            "versions": [
                {"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}},
                {"name": "v1beta1", "served": true, "storage": false},
                {"name": "v2alpha1", "served": false, "storage": false},
            ],
        },
    })
}

#[test]
fn the_404_of_an_unserved_type_depends_on_its_group() {
    let mut stage = Stage::new(Release::V1_20);
    for path in ["/apis/apps/v9", "/apis/apps/v1/foos", "/api/v2", "/api/v1/foos", "/api/v1/pods/x"] {
        assert_eq!(stage.get(path).1["reason"], "NotFound", "{path}");
    }
    for path in ["/apis/nope", "/apis/nope/v1", "/apis/nope/v1/foos"] {
        assert_eq!(stage.get(path), (404, json!("404 page not found\n")), "{path}");
    }
    for (method, path) in [
        ("DELETE", NAMESPACES),
        ("POST", "/api/v1/pods"),
        ("GET", "/apis/authentication.k8s.io/v1/tokenreviews"),
    ] {
        stage.refused((method, path), Value::Null, (405, "MethodNotAllowed"));
    }
}

/// Clients wait for the condition, and then list.
#[test]
fn a_type_is_served_when_its_definition_says_so() {
    let mut stage = Stage::new(Release::V1_36);
    stage.ok("POST", CRDS, definition());
    let mut seen = Vec::new();
    while let Some(due) = stage.server.next_due() {
        stage.now = due;
        let crd = stage.get(CRD).1;
        let established = crd.pointer("/status/conditions/1/status").cloned().unwrap_or_default();
        seen.push((established, stage.get("/apis/shop.example/v1/toys").0));
    }
    seen.dedup();
    assert_eq!(seen, [(json!("False"), 404), (json!("True"), 200)]);
}

#[test]
fn a_recreated_definition_defines_another_type() {
    let mut stage = Stage::new(Release::V1_36);
    stage.ok("POST", CRDS, definition());
    stage.settle();
    let uid = |stage: &Stage| {
        let resource = stage.server.catalog.get("shop.example", "toys").unwrap();
        resource.definition.as_ref().unwrap().uid.clone()
    };
    let first = uid(&stage);
    stage.ok("DELETE", CRD, Value::Null);
    stage.now += REACTION;
    assert_eq!(stage.get(CRD).0, 404);
    stage.ok("POST", CRDS, definition());
    stage.settle();
    assert_ne!(uid(&stage), first);
}

#[test]
fn a_group_without_a_backend_is_listed_and_unavailable() {
    let mut stage = Stage::new(Release::V1_36);
    let service = json!({
        "metadata": {"name": "v1.metrics.example"},
        "spec": {
            "group": "metrics.example", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
            "service": {"namespace": "default", "name": "none"},
        },
    });
    stage.ok("POST", SERVICES, service);
    stage.map(json!({"name": "free"}));
    stage.ok("DELETE", &format!("{NAMESPACES}/shop"), Value::Null);
    stage.settle();
    let one = format!("{SERVICES}/v1.metrics.example");
    assert_eq!(stage.get(&one).1["status"]["conditions"][0]["reason"], "ServiceNotFound");
    assert_eq!(stage.get("/apis/metrics.example").0, 200);
    for path in ["/apis/metrics.example/v1", "/apis/metrics.example/v1/nodes"] {
        assert_eq!(stage.get(path), (503, json!("service unavailable\n")), "{path}");
    }
    stage.accept = AGGREGATED;
    let (_, groups) = stage.get("/apis");
    let last = groups["items"].as_array().unwrap().last().unwrap();
    assert_eq!(last["versions"], json!([{"version": "v1", "freshness": "Stale"}]));
    assert_eq!(stage.list("").0, Vec::<String>::new(), "objects of known types are deleted");
    assert_eq!(stage.get(&format!("{NAMESPACES}/shop")).0, 200, "the namespace waits for the group");

    stage.ok("DELETE", &one, Value::Null);
    stage.settle();
    assert_eq!(stage.get("/apis/metrics.example").0, 404);
    assert_eq!(stage.get(&format!("{NAMESPACES}/shop")).0, 404);
}
