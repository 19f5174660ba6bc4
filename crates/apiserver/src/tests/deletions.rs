//! Deletions: policies, grace periods, the last finalizer, namespaces.

use super::*;

#[test]
fn options_come_from_the_body_or_the_query() {
    for (query, body, expected) in [
        ("?propagationPolicy=Orphan", Value::Null, (200, "")),
        ("?propagationPolicy=Foo", json!({"propagationPolicy": "Orphan"}), (200, "")),
        ("?propagationPolicy=Foo", Value::Null, (422, "Invalid")),
        ("", json!({"orphanDependents": true, "propagationPolicy": "Orphan"}), (422, "Invalid")),
        ("", json!({"dryRun": ["Some"]}), (422, "Invalid")),
        ("", json!({"preconditions": {"uid": "w"}}), (409, "Conflict")),
        ("", json!({"preconditions": {"resourceVersion": "1"}}), (409, "Conflict")),
        ("", json!({"propagationPolicy": "Orphan", "dryRun": ["All"]}), (200, "")),
    ] {
        let mut stage = Stage::new(Release::V1_36);
        stage.map(json!({"name": "a"}));
        let head = stage.server.store.head();
        let answer = stage.refused(("DELETE", &format!("{MAPS}/a{query}")), body.clone(), expected);
        assert_eq!(answer["metadata"]["finalizers"] == json!(["orphan"]), expected.0 == 200, "{answer}");
        assert_eq!(stage.server.store.head() > head, expected.0 == 200 && body.get("dryRun").is_none());
    }
}

#[test]
fn a_deleted_namespace_is_emptied_and_removed() {
    for release in [Release::V1_20, Release::V1_36] {
        let mut stage = Stage::new(release);
        let namespace = format!("{NAMESPACES}/shop");
        stage.map(json!({"name": "free"}));
        stage.map(json!({"name": "held", "finalizers": ["a/b"]}));
        // 1.20 cannot delete these as a collection.
        let services = format!("{namespace}/services");
        stage.ok("POST", &services, json!({"metadata": {"name": "web"}}));
        assert_eq!(stage.ok("DELETE", &namespace, Value::Null)["status"]["phase"], "Terminating");
        let late = stage.refused(("POST", MAPS), json!({"metadata": {"name": "late"}}), (403, "Forbidden"));
        assert_eq!(late["details"]["causes"][0]["reason"], "NamespaceTerminating");
        stage.settle();
        assert_eq!((stage.get(&namespace).0, stage.list("").0), (200, vec!["held".to_owned()]));
        assert_eq!(stage.list("").0, ["held"]);
        assert_eq!(stage.get(&format!("{services}/web")).0, 404);
        stage.ok("PATCH", &format!("{MAPS}/held"), json!({"metadata": {"finalizers": null}}));
        stage.settle();
        assert_eq!(stage.get(&namespace).0, 404);
        assert_eq!(stage.get(&format!("{NAMESPACES}/default")).0, 200);
    }
}
