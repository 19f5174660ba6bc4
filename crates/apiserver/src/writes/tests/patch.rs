use serde_json::{Value, json};

use super::*;

fn path(name: &str) -> String {
    format!("{MAPS}/{name}")
}

#[test]
fn each_patch_format_changes_the_object() {
    let mut stage = Stage::new();
    stage.map(json!({"name": "a", "labels": {"a": "b"}, "finalizers": ["a/1", "a/2"]}));
    let operations = json!([
        {"op": "remove", "path": "/metadata/finalizers/1"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "k/l"},
        {"op": "replace", "path": "/metadata/labels", "value": {}},
    ]);
    let patched = stage.patch("json", &path("a"), operations);
    assert_eq!(
        (patched.code, patched.finalizers(), patched.metadata().get("labels")),
        (200, vec!["a/1", "k/l"], None)
    );
    let patched = stage
        .merge(&path("a"), json!({"metadata": {"finalizers": ["a/1"], "labels": {"c": "d", "e": null}}}));
    assert_eq!((patched.finalizers(), &patched.metadata()["labels"]), (vec!["a/1"], &json!({"c": "d"})));
    let patched = stage.patch("strategic-merge", &path("a"), json!({"metadata": {"finalizers": ["a/3"]}}));
    assert_eq!(patched.finalizers(), ["a/3", "a/1"]);
}

#[test]
fn a_patch_that_changes_nothing_is_no_change() {
    let mut stage = Stage::new();
    let old = stage.map(json!({"name": "a"}));
    let patch = json!({"metadata": {"uid": null, "creationTimestamp": "2021-01-01T00:00:00Z", "generation": 7, "name": "a"}});
    assert_eq!(stage.merge(&path("a"), patch).body, old.body);
}

#[test]
fn other_patch_formats_are_not_supported() {
    let mut stage = Stage::with_custom_types();
    stage.map(json!({"name": "a"}));
    stage.ok("POST", FOOS, json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "a"}}));
    let unknown = "the body of the request was in an unknown format - accepted media types include: \
                   application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
    for (path, language, message) in [
        (path("a"), "foo", "415: Unsupported Media Type"),
        (format!("{FOOS}/a"), "foo", unknown),
        (format!("{FOOS}/a"), "strategic-merge", unknown),
        (format!("{FOOS}/none"), "strategic-merge", unknown),
    ] {
        stage.patch(language, &path, json!({})).refused(415, "UnsupportedMediaType", message);
    }
}

#[test]
fn server_side_apply_is_rejected_and_not_listed_as_supported() {
    let mut stage = Stage::with_custom_types();
    for path in [path("a"), format!("{FOOS}/a")] {
        let mut request = call("PATCH", &path, Some(json!({})));
        request.content_type = "application/apply-patch+yaml".to_owned();
        let answered = stage.call(&request);
        assert_eq!(answered.code, 415);
        let message = answered.body["message"].as_str().unwrap_or_default();
        assert!(message.contains("does not know server-side apply"), "{message}");
    }
}

#[test]
fn a_json_patch_beyond_the_limits_is_rejected() {
    let mut stage = Stage::new();
    stage.map(json!({"name": "a"}));
    let many = vec![json!({"op": "test", "path": "/none", "value": null}); 10_001];
    let answered = stage.patch("json", &path("a"), json!(many));
    let message =
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001";
    answered.refused(413, "RequestEntityTooLarge", message);
}

#[test]
fn uid_and_version_in_a_patch_are_preconditions() {
    let mut stage = Stage::with_custom_types();
    stage.map(json!({"name": "a"}));
    stage.ok("POST", FOOS, json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "a"}}));
    for (path, kind, resource) in
        [(path("a"), "ConfigMap", "configmaps"), (format!("{FOOS}/a"), "Foo.x.io", "foos.x.io")]
    {
        let answered = stage.merge(&path, json!({"metadata": {"uid": "xx"}}));
        assert_eq!(answered.invalid(), ["metadata.uid", "metadata.uid"]);
        let message =
            format!("{kind} \"a\" is invalid: metadata.uid: Invalid value: \"xx\": field is immutable");
        answered.refused(422, "Invalid", &message);
        let message = format!(
            "Operation cannot be fulfilled on {resource} \"a\": the object has been modified; please apply your \
             changes to the latest version and try again"
        );
        stage.merge(&path, json!({"metadata": {"resourceVersion": "1"}})).refused(409, "Conflict", &message);
    }
    assert_eq!(stage.merge(&path("a"), json!({"metadata": {"resourceVersion": null}})).code, 200);
    let without = stage.merge(&format!("{FOOS}/a"), json!({"metadata": {"resourceVersion": null}}));
    assert_eq!(without.invalid(), ["metadata.resourceVersion"]);
}

#[test]
fn an_inapplicable_patch_is_rejected() {
    let mut stage = Stage::new();
    stage.map(json!({"name": "a"}));
    let rejected = "the server rejected our request due to an error in our request";
    for (language, patch, code, reason, message) in [
        ("json", json!([{"op": "test", "path": "/metadata/name", "value": "x"}]), 422, "Invalid", rejected),
        ("json", json!([{"op": "remove", "path": "/metadata/nono"}]), 422, "Invalid", rejected),
        ("json", json!([{"op": "rr", "path": "/metadata/name"}]), 422, "Invalid", rejected),
        (
            "merge",
            json!({"metadata": {"name": "n"}}),
            400,
            "BadRequest",
            "the name of the object (n) does not match the name on the URL (a)",
        ),
        (
            "merge",
            json!({"metadata": {"name": null}}),
            400,
            "BadRequest",
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
        (
            "merge",
            json!({"metadata": {"namespace": "n"}}),
            400,
            "BadRequest",
            "the namespace of the object (n) does not match the namespace on the request (t)",
        ),
        (
            "strategic-merge",
            json!({"$patch": "delete"}),
            400,
            "BadRequest",
            "the name of the object (a based on URL) was undeterminable: name must be provided",
        ),
    ] {
        stage.patch(language, &path("a"), patch).refused(code, reason, message);
    }
    for (language, patch, code) in [
        ("merge", json!({"kind": "Secret"}), 422),
        ("merge", json!({"apiVersion": "v2"}), 422),
        ("merge", json!({"metadata": {"labels": {"a": 7}}}), 422),
        ("merge", json!([]), 422),
        ("strategic-merge", json!([]), 400),
        ("json", json!({"op": "x"}), 400),
    ] {
        let answered = stage.patch(language, &path("a"), patch.clone());
        assert_eq!(answered.code, code, "{language} {patch}: {}", answered.body);
    }
    let mut request = call("PATCH", &path("a"), None);
    request.content_type = "application/merge-patch+json".to_owned();
    request.body = "{\"a\"".into();
    stage.call(&request).refused(500, "", "Invalid JSON Patch");
    stage.merge(&path("none"), json!({})).refused(404, "NotFound", "configmaps \"none\" not found");
}

#[test]
fn an_answer_can_be_metadata_only() {
    let mut stage = Stage::new();
    stage.map(json!({"name": "a"}));
    let mut request = call("PATCH", &path("a"), Some(json!({"data": {"k": "v"}})));
    request.content_type = "application/merge-patch+json".to_owned();
    request.accept =
        "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json".to_owned();
    let answered = stage.call(&request);
    assert_eq!((&answered.body["kind"], answered.body.get("data")), (&json!("PartialObjectMetadata"), None));
    assert_eq!(stage.stored("a").unwrap().value()["data"], json!({"k": "v"}));
    request.accept = "text/html".to_owned();
    request.body = json!({"data": null}).to_string().into();
    assert_eq!(stage.call(&request).code, 406);
    assert_ne!(stage.stored("a").unwrap().value().get("data"), None);
}

#[test]
fn an_object_has_the_version_of_the_path() {
    let mut stage = Stage::new();
    let old = "/apis/extensions/v1beta1/namespaces/t/ingresses";
    let created = stage.ok("POST", old, json!({"metadata": {"name": "i"}}));
    assert_eq!(created.body["apiVersion"], "extensions/v1beta1");
    let new = "/apis/networking.k8s.io/v1/namespaces/t/ingresses/i";
    let patched = stage.merge(new, json!({"metadata": {"labels": {"a": "b"}}}));
    assert_eq!((patched.code, &patched.body["apiVersion"]), (200, &json!("networking.k8s.io/v1")));
    let patched = stage.merge(
        &format!("{old}/i"),
        json!({"apiVersion": "extensions/v1beta1", "metadata": {"labels": null}}),
    );
    assert_eq!((patched.code, &patched.body["apiVersion"]), (200, &json!("extensions/v1beta1")));
    assert_eq!(patched.metadata()["uid"], created.metadata()["uid"]);
    assert_eq!(patched.metadata().get("labels"), None::<&Value>);
}
