//! Deletions: policies, grace periods, the last finalizer, namespaces.

use super::*;

/// A plural, finalizers, a policy, and the finalizers that remain; `None` if the object is gone.
type Case = (&'static str, &'static [&'static str], &'static str, Option<&'static [&'static str]>);

#[test]
fn the_effective_policy() {
    let cases: &[Case] = &[
        ("configmaps", &[], "", None),
        ("configmaps", &[], "Orphan", Some(&["orphan"])),
        ("configmaps", &[], "Foreground", Some(&["foregroundDeletion"])),
        ("configmaps", &["orphan"], "", Some(&["orphan"])),
        ("configmaps", &["orphan"], "Background", None),
        ("configmaps", &["orphan"], "Foreground", Some(&["foregroundDeletion"])),
        ("configmaps", &["orphan", "a/b"], "Orphan", Some(&["orphan", "a/b"])),
        ("configmaps", &["orphan", "a/b"], "Foreground", Some(&["a/b", "foregroundDeletion"])),
        ("replicationcontrollers", &[], "", Some(&["orphan"])),
        ("replicationcontrollers", &[], "Background", None),
        ("events", &[], "Orphan", None),
        ("events", &["orphan", "a/b"], "Foreground", Some(&["a/b"])),
    ];
    for (plural, finalizers, policy, left) in cases {
        let mut stage = Stage::new(Release::V1_36);
        let collection = format!("/api/v1/namespaces/shop/{plural}");
        stage.ok("POST", &collection, json!({"metadata": {"name": "a", "finalizers": finalizers}}));
        let options = if policy.is_empty() { Value::Null } else { json!({"propagationPolicy": policy}) };
        let answer = stage.ok("DELETE", &format!("{collection}/a"), options);
        match left {
            Some(left) => {
                assert_eq!(answer["metadata"]["finalizers"], json!(left), "{plural} {finalizers:?} {policy}");
            }
            None => assert_eq!(answer["status"], "Success", "{plural} {finalizers:?} {policy}"),
        }
        assert_eq!(stage.get(&format!("{collection}/a")).0 == 200, left.is_some());
    }
}

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
fn an_object_is_removed_with_its_last_finalizer() {
    let mut stage = Stage::new(Release::V1_36);
    let one = format!("{MAPS}/a");
    stage.map(json!({"name": "a", "finalizers": ["a/b", "c/d"]}));
    stage.ok("DELETE", &one, Value::Null);
    let more = json!({"metadata": {"finalizers": ["a/b", "e/f"]}});
    stage.refused(("PATCH", &one), more, (422, "Invalid"));
    stage.ok("PATCH", &one, json!({"metadata": {"finalizers": ["c/d"], "deletionTimestamp": null}}));
    let before = stage.server.store.head();
    stage.ok("PATCH", &format!("{one}?dryRun=All"), json!({"metadata": {"finalizers": []}}));
    assert!(stage.stored("a").is_some());
    let last = stage.ok("PATCH", &one, json!({"metadata": {"finalizers": []}, "data": {"k": "v"}}));
    assert_eq!((&last["data"], stage.stored("a")), (&json!({"k": "v"}), None));
    // The history has only the removal, with the state that was stored before.
    let changes: Vec<_> = stage.server.store.changes_since(&configmaps(), before).unwrap().collect();
    assert_eq!(changes.len(), 1);
    assert!(changes[0].removed && changes[0].after.has_finalizer("c/d"));
}

#[test]
fn a_version_precondition_fails_if_the_delete_removes_the_last_finalizer() {
    let mut stage = Stage::new(Release::V1_36);
    let one = format!("{MAPS}/a");
    let created = stage.map(json!({"name": "a", "finalizers": ["orphan"]}));
    let version = &created["metadata"]["resourceVersion"];
    let options = json!({"propagationPolicy": "Background", "preconditions": {"resourceVersion": version}});
    stage.refused(("DELETE", &one), options, (409, "Conflict"));
    stage.ok("DELETE", &one, json!({"propagationPolicy": "Background"}));
}

#[test]
fn a_bound_pod_gets_a_grace_period() {
    let mut stage = Stage::new(Release::V1_36);
    stage.ok("POST", PODS, json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}}));
    let one = format!("{PODS}/p");
    for (options, ends, grace, finalizers) in [
        (json!({"propagationPolicy": "Foreground"}), 31, 30, json!(["foregroundDeletion"])),
        // While the deletion is pending, only a shorter grace period changes anything.
        (
            json!({"gracePeriodSeconds": 60, "propagationPolicy": "Orphan"}),
            31,
            30,
            json!(["foregroundDeletion"]),
        ),
        (json!({"gracePeriodSeconds": 10, "propagationPolicy": "Orphan"}), 11, 10, json!(["orphan"])),
        (json!({"gracePeriodSeconds": 5, "propagationPolicy": "Background"}), 6, 5, Value::Null),
    ] {
        stage.wait(1);
        let metadata = stage.ok("DELETE", &one, options.clone())["metadata"].take();
        assert_eq!(
            (&metadata["finalizers"], &metadata["deletionGracePeriodSeconds"]),
            (&finalizers, &json!(grace))
        );
        assert_eq!(metadata["deletionTimestamp"], format!("2026-01-01T00:00:{ends:02}Z"), "{options}");
    }
    let deleted = stage.ok("DELETE", &one, json!({"gracePeriodSeconds": 0}));
    assert_eq!((&deleted["kind"], stage.get(&one).0), (&json!("Pod"), 404));
    // An unbound one is marked first, and then removed.
    stage.ok("POST", PODS, json!({"metadata": {"name": "p"}}));
    let before = stage.server.store.head();
    stage.ok("DELETE", &one, Value::Null);
    let changes = stage.server.store.changes_since(&ResourceName::new("", "pods"), before).unwrap();
    assert_eq!(changes.map(|change| change.removed).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_collection_is_deleted_one_by_one() {
    let mut stage = Stage::new(Release::V1_36);
    for (name, finalizers) in [("c1", json!(["a/b"])), ("c2", json!([])), ("c3", json!([]))] {
        stage.map(json!({"name": name, "labels": {"i": name}, "finalizers": finalizers}));
    }
    let listed = stage.ok("DELETE", &format!("{MAPS}?labelSelector=i!=c3"), Value::Null);
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(listed["items"][0]["metadata"].get("deletionTimestamp"), None, "the state before");
    assert_eq!(stage.list("").0, ["c1", "c3"]);
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

#[test]
fn without_the_controller_a_namespace_is_removed_when_it_is_finalized() {
    let mut stage = Stage::new(Release::V1_36);
    stage.server.settings.namespace_controller = false;
    let namespace = format!("{NAMESPACES}/shop");
    stage.map(json!({"name": "free"}));
    let deleted = stage.ok("DELETE", &namespace, json!({"propagationPolicy": "Foreground"}));
    assert_eq!(deleted["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    stage.settle();
    assert_eq!(stage.ok("DELETE", &namespace, json!({"propagationPolicy": "Orphan"})), deleted);
    assert_eq!(stage.list("").0, ["free"]);
    let body = json!({"metadata": {"name": "shop"}, "spec": {}});
    stage.ok("PUT", &format!("{namespace}/finalize"), body);
    assert_eq!(stage.get(&namespace).0, 404);
}
