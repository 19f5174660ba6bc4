//! Create, update and patch.

use super::*;

#[test]
fn a_new_object_gets_the_metadata_that_only_the_server_sets() {
    let mut stage = Stage::new(Release::V1_20);
    let created = stage.map(json!({
        "name": "a", "uid": "mine", "generation": 7, "selfLink": "/x", "creationTimestamp": "2020-01-01T00:00:00Z",
        "deletionTimestamp": "2020-01-01T00:00:00Z", "deletionGracePeriodSeconds": 4, "labels": {"a": "b", "c": null},
    }));
    let (uid, version) = (&created["metadata"]["uid"], stage.server.store.head().to_string());
    assert!(uid.as_str().is_some_and(|uid| uid.len() == 36));
    let expected = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": "a", "namespace": "shop", "uid": uid, "resourceVersion": version, "generation": 7,
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b", "c": ""},
        },
    });
    assert_eq!(created, expected);
    assert_eq!(stage.stored("a").unwrap().value(), &expected);
}

#[test]
fn equal_runs_give_equal_uids_and_names() {
    let run = |seed| {
        let mut stage = Stage::new(Release::V1_36);
        stage.server.settings.seed = seed;
        [0; 20].map(|_| stage.map(json!({"generateName": "g-"}))["metadata"]["name"].to_string())
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert_eq!(run(1).into_iter().collect::<std::collections::BTreeSet<_>>().len(), 20);
}

#[test]
fn invalid_metadata_is_rejected_with_its_fields() {
    let mut stage = Stage::new(Release::V1_20);
    let owner = |field: &str, value: &str| {
        let mut owner = json!({"apiVersion": "v1", "kind": "X", "name": "u", "uid": "u", "controller": true});
        owner[field] = value.into();
        owner
    };
    for (metadata, field) in [
        (json!({}), "metadata.name"),
        (json!({"name": "UP_er"}), "metadata.name"),
        (json!({"name": "a", "finalizers": ["foo"]}), "metadata.finalizers"),
        (json!({"name": "a", "finalizers": ["orphan", "foregroundDeletion"]}), "metadata.finalizers"),
        (json!({"name": "a", "ownerReferences": [owner("uid", "")]}), "metadata.ownerReferences.uid"),
        (json!({"name": "a", "ownerReferences": [owner("kind", "Event")]}), "metadata.ownerReferences"),
        (
            json!({"name": "a", "ownerReferences": [owner("uid", "1"), owner("uid", "2")]}),
            "metadata.ownerReferences",
        ),
        (json!({"name": "a", "labels": {"k": "v v"}}), "metadata.labels"),
        (json!({"name": "a", "annotations": {"a b": "x"}}), "metadata.annotations"),
    ] {
        let body = json!({ "metadata": metadata });
        let refused = stage.refused(("POST", MAPS), body, (422, "Invalid"));
        assert_eq!(refused["details"]["causes"][0]["field"], field, "{metadata}");
    }
    for metadata in [json!({"name": 7}), json!({"labels": {"a": 7}}), json!({"ownerReferences": [7]})] {
        stage.refused(("POST", MAPS), json!({ "metadata": metadata }), (400, "BadRequest"));
    }
}

#[test]
fn what_is_not_read_is_named_in_the_answer() {
    let mut stage = Stage::new(Release::V1_36);
    for (method, content_type, hint) in [
        ("POST", "application/yaml", "does not read application/yaml"),
        ("POST", "application/vnd.kubernetes.protobuf", "piped into kubectl apply -f -"),
        ("PATCH", "application/apply-patch+yaml", "does not know server-side apply"),
    ] {
        let mut request =
            call(method, &format!("{MAPS}{}", if method == "PATCH" { "/a" } else { "" }), &json!({}));
        request.content_type = content_type.to_owned();
        let (code, answer) = stage.call(request);
        assert_eq!((code, &answer["reason"]), (415, &json!("UnsupportedMediaType")));
        assert!(answer["message"].as_str().unwrap().contains(hint), "{answer}");
    }
}

#[test]
fn each_patch_format_changes_the_object() {
    let mut stage = Stage::new(Release::V1_36);
    let owner = |uid: &str| json!({"apiVersion": "v1", "kind": "X", "name": uid, "uid": uid});
    let metadata =
        json!({"name": "a", "finalizers": ["a/1", "a/2"], "ownerReferences": [owner("1"), owner("2")]});
    stage.map(metadata);
    let directives = json!([{"$patch": "delete", "uid": "1"}, {"uid": "2", "blockOwnerDeletion": true}]);
    for (language, patch, finalizers) in [
        (
            "json",
            json!([{"op": "add", "path": "/metadata/finalizers/-", "value": "a/3"}]),
            vec!["a/1", "a/2", "a/3"],
        ),
        ("merge", json!({"metadata": {"finalizers": ["a/1"]}}), vec!["a/1"]),
        ("strategic-merge", json!({"metadata": {"finalizers": ["a/4"]}}), vec!["a/1", "a/4"]),
        (
            "strategic-merge",
            json!({"metadata": {"ownerReferences": directives, "$deleteFromPrimitiveList/finalizers": ["a/1"]}}),
            vec!["a/4"],
        ),
    ] {
        let mut request = call("PATCH", &format!("{MAPS}/a"), &patch);
        request.content_type = format!("application/{language}-patch+json");
        let (code, patched) = stage.call(request);
        assert_eq!((code, &patched["metadata"]["finalizers"]), (200, &json!(finalizers)), "{patch}");
    }
    let left = stage.stored("a").unwrap().owner_references();
    assert_eq!((left.len(), &left[0]["uid"], &left[0]["blockOwnerDeletion"]), (1, &json!("2"), &json!(true)));
}
