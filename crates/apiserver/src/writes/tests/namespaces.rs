use serde_json::{Value, json};

use super::*;

fn namespace(stage: &mut Stage, metadata: &Value) -> String {
    let created =
        stage.ok("POST", NAMESPACES, json!({ "metadata": metadata, "status": {"phase": "Terminating"} }));
    assert_eq!(created.body["spec"], json!({"finalizers": ["kubernetes"]}));
    assert_eq!(created.body["status"], json!({"phase": "Active"}));
    format!("{NAMESPACES}/{}", created.metadata()["name"].as_str().unwrap())
}

fn there(stage: &mut Stage, path: &str) -> bool {
    stage.send("GET", path, Value::Null).code == 200
}

#[test]
fn a_namespace_terminates_and_stays_until_it_is_finalized() {
    let mut stage = Stage::new();
    let path = namespace(&mut stage, &json!({"name": "n", "finalizers": ["a.b/c"]}));
    stage.ok("POST", &format!("{path}/configmaps"), json!({"metadata": {"name": "c"}}));
    let deleted = stage.ok("DELETE", &path, json!({"propagationPolicy": "Foreground"}));
    assert_eq!(deleted.finalizers(), ["a.b/c", "foregroundDeletion"]);
    assert_eq!(deleted.body["status"]["phase"], "Terminating");
    assert_eq!(deleted.metadata()["deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(deleted.metadata().get("deletionGracePeriodSeconds"), None);
    stage.later(5);
    let again = stage.ok("DELETE", &path, json!({"propagationPolicy": "Orphan"}));
    assert_eq!(again.body, deleted.body);

    let refused = stage.send("POST", &format!("{path}/configmaps"), json!({"metadata": {"name": "c2"}}));
    refused.refused(403, "Forbidden");
    let cause = json!([{
        "reason": "NamespaceTerminating", "message": "namespace n is being terminated", "field": "metadata.namespace",
    }]);
    assert_eq!(refused.body["details"]["causes"], cause);
    stage.ok("PUT", &format!("{path}/configmaps/c"), json!({"metadata": {"name": "c"}}));

    let patch = json!({"spec": {"finalizers": []}, "status": {"phase": "Active"}});
    assert_eq!(stage.merge(&path, patch).body, deleted.body);
    let finalize = format!("{path}/finalize");
    let body = json!({"metadata": {"name": "n", "finalizers": ["a.b/c"]}, "spec": {"finalizers": []}});
    let finalized = stage.ok("PUT", &finalize, body);
    assert_eq!(
        (finalized.finalizers(), &finalized.body["status"]),
        (vec!["a.b/c"], &json!({"phase": "Terminating"}))
    );
    // From here on, the namespace is deleted like any other object.
    let swapped = stage.ok("DELETE", &path, json!({"propagationPolicy": "Orphan"}));
    assert_eq!(swapped.finalizers(), ["a.b/c", "orphan"]);
    assert_eq!(swapped.metadata()["deletionGracePeriodSeconds"], 0);
    stage.merge(&path, json!({"metadata": {"finalizers": null}}));
    assert!(!there(&mut stage, &path));
}

#[test]
fn a_namespace_is_removed_with_the_last_finalizer_of_either_kind() {
    let mut stage = Stage::new();
    let path = namespace(&mut stage, &json!({"name": "n", "finalizers": ["a.b/c"]}));
    stage.ok("DELETE", &path, Value::Null);
    stage.merge(&path, json!({"metadata": {"finalizers": null}}));
    assert!(there(&mut stage, &path));
    let last = stage.ok("PUT", &format!("{path}/finalize"), json!({"metadata": {"name": "n"}, "spec": {}}));
    assert_eq!(last.body["status"]["phase"], "Terminating");
    assert!(!there(&mut stage, &path));
}

#[test]
fn a_namespace_without_finalizers_needs_a_second_delete() {
    let mut stage = Stage::new();
    let path = namespace(&mut stage, &json!({"name": "n"}));
    let finalized = stage.ok("PUT", &format!("{path}/finalize"), json!({"metadata": {"name": "n"}}));
    assert_eq!(finalized.body["status"]["phase"], "Active");
    stage.ok("DELETE", &path, Value::Null);
    assert!(there(&mut stage, &path));
    assert_eq!(stage.ok("DELETE", &path, Value::Null).body["kind"], "Namespace");
    assert!(!there(&mut stage, &path));
}

#[test]
fn not_to_orphan_is_foreground_for_a_namespace() {
    let mut stage = Stage::new();
    let path = namespace(&mut stage, &json!({"name": "n", "finalizers": ["orphan"]}));
    let deleted = stage.ok("DELETE", &path, json!({"orphanDependents": false}));
    assert_eq!(deleted.finalizers(), ["foregroundDeletion"]);
}

#[test]
fn preconditions_of_a_namespace() {
    let mut stage = Stage::new();
    let path = namespace(&mut stage, &json!({"name": "n"}));
    let found = stage.send("GET", &path, Value::Null);
    for preconditions in [json!({"uid": "w"}), json!({"resourceVersion": "1"})] {
        stage.send("DELETE", &path, json!({ "preconditions": preconditions })).refused(409, "Conflict");
    }
    assert_eq!(stage.send("GET", &path, Value::Null).body, found.body);
}

#[test]
fn some_namespaces_cannot_be_deleted() {
    let mut stage = Stage::new();
    stage.send("DELETE", &format!("{NAMESPACES}/default"), Value::Null).refused(403, "Forbidden");
}

#[test]
fn a_namespace_is_named_like_a_label() {
    let mut stage = Stage::new();
    let refused = stage.send("POST", NAMESPACES, json!({"metadata": {"name": "n.2"}}));
    assert_eq!(refused.invalid(), ["metadata.name"]);
}

#[test]
fn a_definition_is_cleaned_up_whatever_the_policy() {
    let mut stage = Stage::with_custom_types();
    let path = format!("{CRDS}/foos.x.io");
    let foo =
        json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "a", "finalizers": ["a/b"]}});
    stage.ok("POST", FOOS, foo);
    let deleted = stage.ok("DELETE", &path, json!({"propagationPolicy": "Foreground"}));
    assert_eq!(deleted.finalizers(), ["customresourcecleanup.apiextensions.k8s.io"]);
    assert_eq!(deleted.metadata().get("deletionGracePeriodSeconds"), None);
    stage.later(1);
    let again = stage.ok("DELETE", &path, json!({"propagationPolicy": "Foreground"}));
    assert_eq!(again.finalizers(), ["customresourcecleanup.apiextensions.k8s.io", "foregroundDeletion"]);
    assert_eq!(again.metadata()["deletionGracePeriodSeconds"], 0);
    let refused = stage.send("DELETE", &path, json!({"preconditions": {"uid": "w"}}));
    refused.refused(409, "Conflict");
}

#[test]
fn objects_of_a_removed_namespace_can_only_be_deleted() {
    let mut stage = Stage::new();
    let path = namespace(&mut stage, &json!({"name": "n"}));
    let map = format!("{path}/configmaps/c");
    stage.ok("POST", &format!("{path}/configmaps"), json!({"metadata": {"name": "c"}}));
    stage.ok("PUT", &format!("{path}/finalize"), json!({"metadata": {"name": "n"}}));
    stage.ok("DELETE", &path, Value::Null);
    stage.ok("DELETE", &path, Value::Null);
    for patch in [json!({}), json!({"metadata": {"uid": "x"}}), json!({"metadata": {"resourceVersion": "1"}})]
    {
        stage.merge(&map, patch).refused(404, "NotFound");
    }
    stage.send("PUT", &map, json!({"metadata": {"name": "c"}})).refused(404, "NotFound");
    let other = format!("{path}/configmaps/d");
    stage.merge(&other, json!({})).refused(404, "NotFound");
    stage.ok("DELETE", &map, Value::Null);
}
