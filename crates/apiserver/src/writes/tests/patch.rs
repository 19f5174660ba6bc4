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
