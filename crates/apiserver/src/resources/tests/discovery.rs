//! What discovery says of built-in types, compared with what real servers say.

use serde_json::{Value, json};

use super::Stage;
use crate::server::Release;

const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

fn find<'a>(list: &'a Value, field: &str, name: &str) -> &'a Value {
    list.as_array().unwrap().iter().find(|one| one[field] == name).unwrap_or(&Value::Null)
}

#[test]
fn the_core_group_has_version_v1() {
    let (code, document) = Stage::new(Release::V1_20).get("/api");
    assert_eq!(
        (code, &document["kind"], &document["versions"]),
        (200, &json!("APIVersions"), &json!(["v1"]))
    );
}

#[test]
fn discovery_describes_the_names_and_verbs_of_a_type() {
    let mut old = Stage::new(Release::V1_20);
    let (_, document) = old.get("/api/v1");
    let all = json!(["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]);
    assert_eq!(
        *find(&document["resources"], "name", "configmaps"),
        json!({
            "name": "configmaps", "singularName": "", "namespaced": true, "kind": "ConfigMap",
            "verbs": all, "shortNames": ["cm"],
        })
    );
    let without_collection = json!(["create", "delete", "get", "list", "patch", "update", "watch"]);
    for plural in ["services", "namespaces"] {
        assert_eq!(find(&document["resources"], "name", plural)["verbs"], without_collection, "{plural}");
    }
    assert_eq!(
        *find(&document["resources"], "name", "pods/eviction"),
        json!({
            "name": "pods/eviction", "singularName": "", "namespaced": true,
            "group": "policy", "version": "v1beta1", "kind": "Eviction", "verbs": ["create"],
        })
    );
    let (_, document) = Stage::new(Release::V1_36).get("/api/v1");
    assert_eq!(find(&document["resources"], "name", "configmaps")["singularName"], "configmap");
    assert_eq!(find(&document["resources"], "name", "services")["verbs"], all);
}

#[test]
fn groups_are_in_the_order_of_a_real_server() {
    let (_, document) = Stage::new(Release::V1_20).get("/apis");
    let groups = document["groups"].as_array().unwrap();
    let names: Vec<&str> = groups.iter().map(|group| group["name"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "apiregistration.k8s.io",
            "apps",
            "events.k8s.io",
            "authentication.k8s.io",
            "authorization.k8s.io",
            "autoscaling",
            "batch",
            "certificates.k8s.io",
            "networking.k8s.io",
            "extensions",
            "policy",
            "rbac.authorization.k8s.io",
            "storage.k8s.io",
            "admissionregistration.k8s.io",
            "apiextensions.k8s.io",
            "scheduling.k8s.io",
            "coordination.k8s.io",
            "node.k8s.io",
            "discovery.k8s.io",
            "flowcontrol.apiserver.k8s.io",
        ]
    );
    let batch = find(&document["groups"], "name", "batch");
    assert_eq!(batch["preferredVersion"], json!({"groupVersion": "batch/v1", "version": "v1"}));
    assert_eq!(batch["versions"][1]["version"], "v1beta1");
}

#[test]
fn the_404_of_an_unserved_type_depends_on_its_group() {
    let mut stage = Stage::new(Release::V1_20);
    let status = |reply: (u16, Value)| (reply.0, reply.1["reason"].clone(), reply.1["details"].clone());
    for path in
        ["/apis/apps/v9", "/apis/apps/v1/foos", "/apis/apps/v9/deployments", "/api/v2", "/api/v1/foos"]
    {
        assert_eq!(status(stage.get(path)), (404, json!("NotFound"), json!({})), "{path}");
    }
    for path in ["/apis/nope", "/apis/nope/v1", "/apis/nope/v1/foos"] {
        assert_eq!(stage.get(path), (404, json!("404 page not found\n")), "{path}");
    }
}

#[test]
fn verbs_that_a_type_does_not_have_are_not_allowed() {
    let mut stage = Stage::new(Release::V1_20);
    for (method, path, code) in [
        ("DELETE", "/api/v1/namespaces", 405),
        ("PUT", "/api/v1/namespaces", 405),
        ("POST", "/api/v1/pods", 405),
        ("DELETE", "/api/v1/namespaces/default/services", 405),
        ("POST", "/api/v1/namespaces/default/pods/x/status", 405),
        ("GET", "/apis/authentication.k8s.io/v1/tokenreviews", 405),
        ("GET", "/api/v1/bindings", 404),
        ("GET", "/api/v1/pods/x", 404),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", "/api/v1/namespaces/default/pods/x/zork", 404),
    ] {
        let (answered, status) = stage.send(method, path, "application/json", &Value::Null);
        assert_eq!((answered, &status["details"]), (code, &json!({})), "{method} {path}");
    }
}

#[test]
fn aggregated_discovery_needs_a_request_and_a_recent_release() {
    let mut new = Stage::new(Release::V1_36);
    let (_, document) = new.send("GET", "/apis", AGGREGATED, &Value::Null);
    assert_eq!(document["kind"], "APIGroupDiscoveryList");
    let apps = document["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == "apps");
    let version = &apps.unwrap()["versions"][0];
    assert_eq!((&version["version"], &version["freshness"]), (&json!("v1"), &json!("Current")));
    assert_eq!(
        *find(&version["resources"], "resource", "deployments"),
        json!({
            "resource": "deployments",
            "responseKind": {"group": "apps", "version": "v1", "kind": "Deployment"},
            "scope": "Namespaced", "singularResource": "deployment",
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
            "shortNames": ["deploy"], "categories": ["all"],
            "subresources": [
                {
                    "subresource": "scale",
                    "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                    "verbs": ["get", "patch", "update"],
                },
                {
                    "subresource": "status",
                    "responseKind": {"group": "apps", "version": "v1", "kind": "Deployment"},
                    "verbs": ["get", "patch", "update"],
                },
            ],
        })
    );
    let (_, core) = new.send("GET", "/api", AGGREGATED, &Value::Null);
    assert_eq!(core["items"][0]["versions"][0]["version"], "v1");
    let (_, plain) = Stage::new(Release::V1_20).send("GET", "/apis", AGGREGATED, &Value::Null);
    assert_eq!(plain["kind"], "APIGroupList");
}

#[test]
fn objects_served_in_two_groups_are_stored_once() {
    let old = Stage::new(Release::V1_20);
    let stored = |group, plural| old.server.catalog.get(group, plural).unwrap().stored_as.to_string();
    assert_eq!(stored("extensions", "ingresses"), "ingresses.networking.k8s.io");
    assert_eq!(stored("events.k8s.io", "events"), "events");
}
