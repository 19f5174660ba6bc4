use serde_json::{Value, json};

use super::*;

fn path(name: &str) -> String {
    format!("{MAPS}/{name}")
}

#[test]
fn an_update_replaces_everything_except_server_fields() {
    let mut stage = Stage::new();
    let old = stage.map(json!({"name": "a", "labels": {"a": "b"}, "finalizers": ["a/b"]}));
    let body =
        json!({"metadata": {"name": "a", "generation": 5, "creationTimestamp": null}, "data": {"k": "v"}});
    let new = stage.ok("PUT", &path("a"), body);
    assert_eq!(new.code, 200);
    for field in ["uid", "creationTimestamp", "namespace"] {
        assert_eq!(new.metadata()[field], old.metadata()[field]);
    }
    assert_eq!(new.body["data"], json!({"k": "v"}));
    for field in ["labels", "finalizers", "generation"] {
        assert_eq!(new.metadata().get(field), None);
    }
    assert_ne!(new.metadata()["resourceVersion"], old.metadata()["resourceVersion"]);
    let again = stage.ok("PUT", &path("a"), new.body.clone());
    assert_eq!(again.metadata()["resourceVersion"], new.metadata()["resourceVersion"]);
}

#[test]
fn an_invalid_update_is_rejected() {
    let mut stage = Stage::new();
    stage.map(json!({"name": "d"}));
    for (name, metadata, code, reason) in [
        ("d", json!({"name": "x"}), 400, "BadRequest"),
        ("d", json!({}), 400, "BadRequest"),
        ("d", json!({"name": "d", "namespace": "q"}), 400, "BadRequest"),
        ("d", json!({"name": "d", "uid": "wrong"}), 409, "Conflict"),
        ("no", json!({"name": "no", "uid": "wrong"}), 409, "Conflict"),
        ("no", json!({"name": "no", "resourceVersion": "1"}), 404, "NotFound"),
        ("d", json!({"name": "d", "resourceVersion": "1"}), 409, "Conflict"),
        ("d", json!({"name": "d", "resourceVersion": "abc"}), 500, ""),
    ] {
        stage.send("PUT", &path(name), json!({ "metadata": metadata })).refused(code, reason);
    }
}

#[test]
fn some_types_require_a_version() {
    let mut stage = Stage::with_custom_types();
    let foo = json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "a"}});
    let mut created = stage.ok("POST", FOOS, foo.clone()).body;
    let path = format!("{FOOS}/a");
    stage.send("PUT", &path, foo).refused(422, "Invalid");
    created["spec"] = json!({"a": 1});
    let updated = stage.ok("PUT", &path, created);
    assert_eq!(updated.metadata()["generation"], 2);
}

#[test]
fn some_types_are_created_by_an_update() {
    let mut stage = Stage::new();
    let path = "/apis/coordination.k8s.io/v1/namespaces/t/leases/l";
    let created = stage.send("PUT", path, json!({"metadata": {"name": "l"}}));
    assert_eq!(created.code, 201);
    assert_eq!(stage.send("PUT", path, created.body).code, 200);
}

#[test]
fn a_status_is_written_through_its_path_only() {
    let mut stage = Stage::with_custom_types();
    let bars = "/apis/x.io/v1/namespaces/t/bars";
    let bar = json!({"apiVersion": "x.io/v1", "kind": "Bar", "metadata": {"name": "a"}, "spec": {"a": 1}});
    stage.ok("POST", bars, bar);
    let path = format!("{bars}/a");
    let changed = stage.merge(&path, json!({"spec": {"x": "y"}, "status": {"x": "y"}}));
    assert_eq!((changed.body["spec"].clone(), changed.body.get("status")), (json!({"a": 1, "x": "y"}), None));
    assert_eq!(changed.metadata()["generation"], 2);
    let patch = json!({"spec": {"x": "z"}, "metadata": {"labels": {"a": "b"}}, "status": {"x": "y"}});
    let changed = stage.merge(&format!("{path}/status"), patch);
    assert_eq!(changed.body["spec"], json!({"a": 1, "x": "y"}));
    assert_eq!(changed.body["status"], json!({"x": "y"}));
    assert_eq!((changed.metadata().get("labels"), &changed.metadata()["generation"]), (None, &json!(2)));
}

#[test]
fn the_status_path_of_built_in_types_changes_some_metadata() {
    let mut stage = Stage::new();
    let deployments = "/apis/apps/v1/namespaces/t/deployments";
    stage.ok("POST", deployments, json!({"metadata": {"name": "d"}, "spec": {"replicas": 1}}));
    stage.ok("POST", PODS, json!({"metadata": {"name": "p"}}));
    let patch = json!({
        "spec": {"replicas": 7}, "status": {"replicas": 2},
        "metadata": {"labels": {"s": "t"}, "annotations": {"s": "t"}, "ownerReferences": [owner("u", json!({}))]},
    });
    let deployment = stage.merge(&format!("{deployments}/d/status"), patch.clone());
    assert_eq!(deployment.body["spec"], json!({"replicas": 1}));
    assert_eq!(deployment.body["status"], json!({"replicas": 2}));
    let has = |answered: &Answered| {
        ["labels", "annotations", "ownerReferences"].map(|field| answered.metadata().get(field).is_some())
    };
    assert_eq!(has(&deployment), [false, true, true]);
    let pod = stage.merge(&format!("{PODS}/p/status"), patch);
    assert_eq!(has(&pod), [true, true, false]);
}

#[test]
fn generations_count_changes_of_the_desired_state() {
    let mut stage = Stage::new();
    let deployments = "/apis/apps/v1/namespaces/t/deployments";
    let generation = |answered: &Answered| answered.metadata()["generation"].as_i64();
    let created = stage.ok("POST", deployments, json!({"metadata": {"name": "d", "generation": 9}}));
    assert_eq!(generation(&created), Some(1));
    let path = format!("{deployments}/d");
    for (patch, expected) in [
        (json!({"metadata": {"annotations": {"a": "b"}}}), 2),
        (json!({"metadata": {"labels": {"a": "b"}}}), 2),
        (json!({"spec": {"replicas": 2}}), 3),
        (json!({"status": {"replicas": 2}}), 3),
        (json!({"metadata": {"generation": 77}}), 3),
    ] {
        assert_eq!(generation(&stage.merge(&path, patch.clone())), Some(expected), "{patch}");
    }
    stage.merge(&path, json!({"metadata": {"finalizers": ["a/b"]}}));
    assert_eq!(generation(&stage.ok("DELETE", &path, Value::Null)), Some(4));
    assert_eq!(generation(&stage.ok("DELETE", &path, Value::Null)), Some(4));
}

#[test]
fn an_object_is_removed_with_its_last_finalizer() {
    let mut stage = Stage::new();
    stage.map(json!({"name": "a", "finalizers": ["a/b", "c/d"]}));
    stage.ok("DELETE", &path("a"), Value::Null);
    let more = stage.merge(&path("a"), json!({"metadata": {"finalizers": ["a/b", "e/f", "orphan"]}}));
    assert_eq!(more.invalid(), ["metadata.finalizers"]);
    more.refused(422, "Invalid");
    let fewer = json!({"metadata": {"finalizers": ["c/d"], "deletionTimestamp": null, "deletionGracePeriodSeconds": null}});
    let kept = stage.merge(&path("a"), fewer);
    assert_eq!((kept.finalizers(), &kept.metadata()["deletionGracePeriodSeconds"]), (vec!["c/d"], &json!(0)));
    let version = kept.metadata()["resourceVersion"].clone();

    let tried = stage.merge(&format!("{}?dryRun=All", path("a")), json!({"metadata": {"finalizers": []}}));
    assert_eq!((tried.code, stage.stored("a").is_some()), (200, true));
    let before = stage.server.store.head();
    let last = stage.merge(&path("a"), json!({"metadata": {"finalizers": []}, "data": {"k": "v"}}));
    assert_eq!((last.code, &last.body["data"]), (200, &json!({"k": "v"})));
    assert_eq!((last.finalizers(), &last.metadata()["resourceVersion"]), (vec![], &version));
    assert_eq!(stage.stored("a"), None);
    // The history has only the removal, with the state that was stored before.
    let changes: Vec<_> =
        stage.server.store.changes_since(&ResourceName::new("", "configmaps"), before).unwrap().collect();
    assert_eq!(changes.len(), 1);
    assert!(changes[0].removed && changes[0].after.has_finalizer("c/d"));
}

#[test]
fn a_missing_subresource_of_a_custom_type_is_a_404() {
    let mut stage = Stage::with_custom_types();
    stage.ok("POST", FOOS, json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "a"}}));
    for (method, below) in [("GET", "status"), ("PUT", "status"), ("GET", "scale"), ("DELETE", "gizmo")] {
        let answered = stage.send(method, &format!("{FOOS}/a/{below}"), json!({}));
        answered.refused(404, "NotFound");
        assert_eq!(answered.body["details"], json!({"name": "a", "group": "x.io", "kind": "foos"}));
    }
    // Without the namespace, the path does not exist.
    let answered = stage.send("GET", "/apis/x.io/v1/foos/a", json!(null));
    assert_eq!((answered.code, answered.body), (404, json!("404 page not found\n")));
}

#[test]
fn an_update_that_creates_accepts_any_well_formed_version() {
    let mut stage = Stage::new();
    let path = |name: &str| format!("/api/v1/namespaces/t/endpoints/{name}");
    let body = |name: &str, version: &str| json!({"metadata": {"name": name, "resourceVersion": version}});
    let created = stage.send("PUT", &path("a"), body("a", "5"));
    assert_eq!(created.code, 201, "{}", created.body);
    assert_eq!(stage.send("PUT", &path("b"), body("b", "abc")).code, 500);
    // If the object exists, the version is a precondition.
    assert_eq!(stage.send("PUT", &path("a"), body("a", "5")).code, 409);
}
