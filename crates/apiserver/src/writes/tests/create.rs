use serde_json::{Value, json};

use super::*;

#[test]
fn a_new_object_gets_the_metadata_that_only_the_server_sets() {
    let mut stage = Stage::new();
    let given = json!({
        "name": "a", "uid": "mine", "generation": 7, "selfLink": "/x", "creationTimestamp": "2020-01-01T00:00:00Z",
        "deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 4, "labels": {"a": "b", "c": null},
    });
    let created = stage.ok("POST", MAPS, json!({"metadata": given, "data": {"k": null}}));
    assert_eq!(created.code, 201);
    let uid = created.metadata()["uid"].as_str().unwrap();
    assert!(uid.len() == 36 && uid != "mine");
    let version = created.metadata()["resourceVersion"].as_str().unwrap();
    assert_eq!(version.parse(), Ok(stage.server.store.head()));
    let expected = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"k": ""},
        "metadata": {
            "name": "a", "namespace": "t", "uid": uid, "resourceVersion": version, "generation": 7,
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b", "c": ""},
        },
    });
    assert_eq!(created.body, expected);
    assert_eq!(stage.stored("a").unwrap().value(), &expected);
}

#[test]
fn equal_runs_give_equal_uids_and_names() {
    let run = |seed| {
        let mut stage = Stage::new();
        stage.server.settings.seed = seed;
        stage.map(json!({"generateName": "g-"})).body
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn a_generated_name_is_new_each_time() {
    let mut stage = Stage::new();
    let mut names: Vec<String> = Vec::new();
    for _ in 0..20 {
        let created = stage.map(json!({"generateName": "g-"}));
        names.push(created.metadata()["name"].as_str().unwrap().to_owned());
    }
    assert!(names.iter().all(|name| name.starts_with("g-") && name.len() == 7), "{names:?}");
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 20);
}

#[test]
fn a_conflict_over_a_generated_name_asks_for_a_retry() {
    let body = json!({"metadata": {"name": "x1", "generateName": "x-"}});
    let mut stage = Stage::new();
    stage.ok("POST", MAPS, body.clone());
    let refused = stage.send("POST", MAPS, body.clone());
    refused.refused(500, "ServerTimeout");
    assert_eq!(refused.body["details"], json!({"name": "POST", "kind": "ConfigMap"}));
    let mut stage = Stage::of(Release::V1_36);
    stage.ok("POST", MAPS, body.clone());
    stage.send("POST", MAPS, body).refused(409, "AlreadyExists");
}

#[test]
fn only_json_is_read() {
    let mut stage = Stage::new();
    let mut request = call("POST", MAPS, Some(json!({"metadata": {"name": "a"}})));
    request.content_type = "text/foo".to_owned();
    let answered = stage.call(&request);
    assert_eq!((answered.code, &answered.body["reason"]), (415, &json!("UnsupportedMediaType")));
    for unread in ["application/yaml", "application/vnd.kubernetes.protobuf"] {
        request.content_type = unread.to_owned();
        let answered = stage.call(&request);
        assert_eq!((answered.code, &answered.body["reason"]), (415, &json!("UnsupportedMediaType")));
        let message = answered.body["message"].as_str().unwrap_or_default();
        assert!(message.contains("the embedded API server does not read"), "{message}");
    }
    request.content_type = "application/json".to_owned();
    request.body = "{\"metadata\"".into();
    assert_eq!(stage.call(&request).code, 400);
}

/// Metadata, and its invalid fields.
fn faults() -> Vec<(Value, &'static [&'static str])> {
    let controllers = ["a", "b", "c"].map(|uid| owner(uid, json!({"controller": true})));
    vec![
        (json!({}), &["metadata.name"]),
        (json!({"name": "UP_er"}), &["metadata.name"]),
        (json!({"generateName": "G_x"}), &["metadata.generateName", "metadata.name"]),
        (json!({"finalizers": ["foo"]}), &["metadata.finalizers[0]"]),
        (
            json!({"finalizers": ["a.b/c/d", "x y/z", "orphan", "foregroundDeletion", "kubernetes"]}),
            &["metadata.finalizers", "metadata.finalizers", "metadata.finalizers"],
        ),
        (
            json!({"ownerReferences": [{}]}),
            &[
                "metadata.ownerReferences.apiVersion",
                "metadata.ownerReferences.kind",
                "metadata.ownerReferences.name",
                "metadata.ownerReferences.uid",
            ],
        ),
        (json!({"ownerReferences": [owner("u", json!({"kind": "Event"}))]}), &["metadata.ownerReferences"]),
        (
            json!({"ownerReferences": [owner("u", json!({"apiVersion": "a/b/c"}))]}),
            &["metadata.ownerReferences.apiVersion"],
        ),
        (json!({ "ownerReferences": controllers }), &["metadata.ownerReferences"]),
        (
            json!({"labels": {"a b": "x", "k": "v v"}, "annotations": {"a b": "x"}}),
            &["metadata.labels", "metadata.labels", "metadata.annotations"],
        ),
    ]
}

#[test]
fn invalid_metadata_is_rejected_with_its_fields() {
    let mut stage = Stage::new();
    for (mut metadata, fields) in faults() {
        if metadata.get("finalizers").or(metadata.get("ownerReferences")).or(metadata.get("labels")).is_some()
        {
            metadata["name"] = "a".into();
        }
        let answered = stage.send("POST", MAPS, json!({ "metadata": metadata }));
        assert_eq!(answered.invalid(), fields, "{metadata}");
        assert_eq!(answered.body["details"]["kind"], "ConfigMap");
    }
    let event = owner("u", json!({"apiVersion": "events.k8s.io/v1", "kind": "Event"}));
    stage.map(json!({"name": "a", "finalizers": ["a.b/c", "orphan"], "ownerReferences": [event]}));
}

#[test]
fn identical_owner_references_are_merged_and_others_with_one_uid_are_kept() {
    let mut stage = Stage::new();
    let given = [
        owner("u", json!({"foo": 1, "controller": false})),
        owner("u", json!({"controller": false})),
        owner("u", json!({})),
        owner("u", json!({})),
    ];
    let created = stage.map(json!({"name": "a", "ownerReferences": given}));
    let kept = json!([owner("u", json!({"controller": false})), owner("u", json!({}))]);
    assert_eq!(created.metadata()["ownerReferences"], kept);
}

#[test]
fn a_custom_resource_states_its_kind() {
    let mut stage = Stage::with_custom_types();
    let foo = |api_version: Value, kind: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": {"a": null}, "status": {"b": 1}});
    assert_eq!(stage.send("POST", FOOS, foo(json!("x.io/v1"), Value::Null)).code, 400);
    assert_eq!(stage.send("POST", FOOS, foo(Value::Null, json!("Foo"))).code, 500);
    assert_eq!(stage.send("POST", FOOS, foo(json!("x.io/v2"), json!("Foo"))).code, 400);
    stage.send("POST", FOOS, foo(json!("x.io/v1"), json!("Bar"))).refused(422, "Invalid");
    let created = stage.ok("POST", FOOS, foo(json!("x.io/v1"), json!("Foo")));
    assert_eq!(created.metadata()["generation"], 1);
    assert_eq!((&created.body["spec"], &created.body["status"]), (&json!({"a": null}), &json!({"b": 1})));
    let bar = json!({"apiVersion": "x.io/v1", "kind": "Bar", "metadata": {"name": "a", "finalizers": ["foo"]}, "status": {}});
    let created = stage.ok("POST", "/apis/x.io/v1/namespaces/t/bars", bar);
    assert_eq!((created.finalizers(), created.body.get("status")), (vec!["foo"], None));
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut stage = Stage::new();
    let head = stage.server.store.head();
    let path = format!("{MAPS}?dryRun=All");
    let created = stage.ok("POST", &path, json!({"metadata": {"name": "a"}}));
    assert_eq!((created.code, created.metadata().get("resourceVersion")), (201, None));
    assert_eq!((stage.server.store.head(), stage.stored("a")), (head, None));
    let path = format!("{MAPS}?dryRun=Some");
    stage.send("POST", &path, json!({"metadata": {"name": "a"}})).refused(422, "Invalid");
}

#[test]
fn each_change_records_its_cause() {
    let mut stage = Stage::new();
    let before = stage.server.store.head();
    let path = format!("{MAPS}?fieldManager=me");
    stage.ok("POST", &path, json!({"metadata": {"name": "a"}}));
    let configmaps = ResourceName::new("", "configmaps");
    let changes: Vec<_> = stage.server.store.changes_since(&configmaps, before).unwrap().collect();
    let cause = &changes[0].cause;
    assert_eq!((&*cause.user_agent, &*cause.method, &*cause.path), ("test", "POST", &*path));
    assert_eq!(cause.body, json!({"metadata": {"name": "a"}}));
    assert_eq!(cause.request, stage.server.requests);
}
