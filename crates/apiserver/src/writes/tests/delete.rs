use serde_json::{Value, json};

use super::*;

fn path(name: &str) -> String {
    format!("{MAPS}/{name}")
}

#[test]
fn an_immediate_deletion_answers_with_a_status_about_the_object() {
    let mut stage = Stage::with_custom_types();
    let uid = stage.map(json!({"name": "a"})).metadata()["uid"].clone();
    let deleted = stage.ok("DELETE", &path("a"), Value::Null);
    let expected = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": "a", "kind": "configmaps", "uid": uid},
    });
    assert_eq!((deleted.code, &deleted.body, stage.stored("a")), (200, &expected, None));
    stage.send("DELETE", &path("a"), Value::Null).refused(404, "NotFound");

    let foo = json!({"apiVersion": "x.io/v1", "kind": "Foo", "metadata": {"name": "a"}});
    stage.ok("POST", FOOS, foo);
    let deleted = stage.ok("DELETE", &format!("{FOOS}/a"), Value::Null);
    assert_eq!(deleted.body["details"]["group"], "x.io");
}

#[test]
fn some_types_answer_with_the_deleted_object() {
    let accounts = "/api/v1/namespaces/t/serviceaccounts";
    for (release, newer) in [(Release::V1_20, 0), (Release::V1_36, 1)] {
        let mut stage = Stage::of(release);
        let created = stage.ok("POST", accounts, json!({"metadata": {"name": "a"}}));
        let deleted = stage.ok("DELETE", &format!("{accounts}/a"), Value::Null);
        assert_eq!(deleted.body["kind"], "ServiceAccount");
        let version = |answered: &Answered| -> u64 {
            answered.metadata()["resourceVersion"].as_str().unwrap().parse().unwrap()
        };
        assert_eq!(version(&deleted), version(&created) + newer, "{release:?}");
    }
}

#[test]
fn preconditions_are_checked_first() {
    let mut stage = Stage::new();
    let created = stage.map(json!({"name": "a", "finalizers": ["a/b"]}));
    let (uid, version) = (created.metadata()["uid"].as_str(), created.metadata()["resourceVersion"].as_str());
    let (uid, version) = (uid.unwrap(), version.unwrap());
    for preconditions in
        [json!({"uid": "w"}), json!({"resourceVersion": "w"}), json!({"uid": "w", "resourceVersion": "w"})]
    {
        let answered = stage.send("DELETE", &path("a"), json!({ "preconditions": preconditions }));
        answered.refused(409, "Conflict");
        assert_eq!(answered.body["details"], json!({"name": "a", "kind": "ConfigMap"}));
    }
    stage.send("DELETE", &path("none"), json!({"preconditions": {"uid": "w"}})).refused(404, "NotFound");
    assert_eq!(stage.stored("a").unwrap().deletion_timestamp(), None);
    stage.ok("DELETE", &path("a"), json!({"preconditions": {"uid": uid, "resourceVersion": version}}));
    assert!(stage.stored("a").unwrap().deletion_timestamp().is_some());
}

#[test]
fn other_finalizers_keep_an_object_and_each_delete_can_change_the_policy() {
    let mut stage = Stage::new();
    stage.map(json!({"name": "a", "finalizers": ["a/b"]}));
    let mut versions = Vec::new();
    for (options, finalizers) in [
        (Value::Null, vec!["a/b"]),
        (json!({"propagationPolicy": "Orphan"}), vec!["a/b", "orphan"]),
        (json!({"propagationPolicy": "Foreground"}), vec!["a/b", "foregroundDeletion"]),
        (Value::Null, vec!["a/b", "foregroundDeletion"]),
        (json!({"propagationPolicy": "Background", "gracePeriodSeconds": 7}), vec!["a/b"]),
        (json!({"orphanDependents": true}), vec!["a/b", "orphan"]),
    ] {
        stage.later(5);
        let answered = stage.ok("DELETE", &path("a"), options.clone());
        assert_eq!((answered.code, answered.finalizers()), (200, finalizers), "{options}");
        assert_eq!(answered.metadata()["deletionTimestamp"], "2026-01-01T00:00:05Z");
        assert_eq!(answered.metadata()["deletionGracePeriodSeconds"], 0);
        versions.push(answered.metadata()["resourceVersion"].clone());
    }
    // The fourth DELETE changed nothing.
    assert_eq!(versions[2], versions[3]);
    let accepted = stage.ok("DELETE", &path("a"), json!({"orphanDependents": false}));
    assert_eq!((accepted.code, accepted.finalizers()), (202, vec!["a/b"]));
    stage.send("POST", MAPS, json!({"metadata": {"name": "a"}})).refused(409, "AlreadyExists");
}

/// A plural, finalizers, a policy, and the finalizers that remain; `None` if the object is gone.
type Case = (&'static str, &'static [&'static str], &'static str, Option<&'static [&'static str]>);

#[test]
fn the_effective_policy() {
    let cases: &[Case] = &[
        ("configmaps", &[], "", None),
        ("configmaps", &[], "Background", None),
        ("configmaps", &[], "Orphan", Some(&["orphan"])),
        ("configmaps", &[], "Foreground", Some(&["foregroundDeletion"])),
        ("configmaps", &["orphan"], "", Some(&["orphan"])),
        ("configmaps", &["foregroundDeletion"], "", Some(&["foregroundDeletion"])),
        ("configmaps", &["orphan"], "Background", None),
        ("configmaps", &["orphan"], "Foreground", Some(&["foregroundDeletion"])),
        ("configmaps", &["orphan", "a/b"], "Orphan", Some(&["orphan", "a/b"])),
        ("configmaps", &["orphan", "a/b"], "Foreground", Some(&["a/b", "foregroundDeletion"])),
        ("replicationcontrollers", &[], "", Some(&["orphan"])),
        ("replicationcontrollers", &[], "Background", None),
        ("replicationcontrollers", &["foregroundDeletion"], "", Some(&["foregroundDeletion"])),
        ("events", &[], "Orphan", None),
        ("events", &["orphan", "a/b"], "Foreground", Some(&["a/b"])),
    ];
    for (plural, finalizers, policy, left) in cases {
        let mut stage = Stage::new();
        let collection = format!("/api/v1/namespaces/t/{plural}");
        stage.ok("POST", &collection, json!({"metadata": {"name": "a", "finalizers": finalizers}}));
        let options = if policy.is_empty() { Value::Null } else { json!({"propagationPolicy": policy}) };
        let answered = stage.ok("DELETE", &format!("{collection}/a"), options);
        match left {
            Some(left) => assert_eq!(answered.finalizers(), *left, "{plural} {finalizers:?} {policy}"),
            None => assert_eq!(answered.body["status"], "Success", "{plural} {finalizers:?} {policy}"),
        }
        let there = stage.send("GET", &format!("{collection}/a"), Value::Null).code == 200;
        assert_eq!(there, left.is_some());
    }
}

#[test]
fn a_finalizer_that_a_delete_removes_stays_in_the_last_state() {
    let mut stage = Stage::new();
    stage.map(json!({"name": "a", "finalizers": ["orphan"]}));
    let before = stage.server.store.head();
    stage.ok("DELETE", &path("a"), json!({"propagationPolicy": "Background"}));
    let changes: Vec<_> =
        stage.server.store.changes_since(&ResourceName::new("", "configmaps"), before).unwrap().collect();
    let seen: Vec<_> =
        changes.iter().map(|change| (change.removed, change.after.has_finalizer("orphan"))).collect();
    assert_eq!(seen, [(true, true)], "the state without the finalizer is not stored");
}

#[test]
fn a_version_precondition_fails_if_the_delete_removes_the_last_finalizer() {
    let mut stage = Stage::new();
    let version =
        stage.map(json!({"name": "a", "finalizers": ["orphan"]})).body["metadata"]["resourceVersion"].clone();
    let mut options =
        json!({"propagationPolicy": "Background", "preconditions": {"resourceVersion": version}});
    let refused = stage.send("DELETE", &path("a"), options.clone());
    assert_eq!((refused.code, &refused.body["reason"]), (409, &json!("Conflict")));
    options["dryRun"] = json!(["All"]);
    assert_eq!(stage.send("DELETE", &path("a"), options).code, 200);
    stage.ok("DELETE", &path("a"), json!({"propagationPolicy": "Background"}));
}

fn pod(stage: &mut Stage, node: &str, finalizers: &[&str]) -> String {
    let spec = if node.is_empty() { json!({}) } else { json!({ "nodeName": node }) };
    stage.ok("POST", PODS, json!({"metadata": {"name": "p", "finalizers": finalizers}, "spec": spec}));
    format!("{PODS}/p")
}

#[test]
fn a_bound_pod_gets_a_grace_period() {
    let mut stage = Stage::new();
    let path = pod(&mut stage, "n", &[]);
    let epoch = "2026-01-01T00:00";
    for (options, ends, grace, finalizers) in [
        (json!({"propagationPolicy": "Foreground"}), "30", 30, vec!["foregroundDeletion"]),
        // While the deletion is pending, no option changes anything.
        (json!({"propagationPolicy": "Orphan"}), "30", 30, vec!["foregroundDeletion"]),
        (json!({"gracePeriodSeconds": 60}), "30", 30, vec!["foregroundDeletion"]),
        (json!({"gracePeriodSeconds": 10, "propagationPolicy": "Orphan"}), "10", 10, vec!["orphan"]),
        (json!({"gracePeriodSeconds": 5, "propagationPolicy": "Background"}), "05", 5, vec![]),
    ] {
        stage.later(1);
        let answered = stage.ok("DELETE", &path, options.clone());
        assert_eq!((answered.code, answered.finalizers()), (200, finalizers), "{options}");
        assert_eq!(answered.metadata()["deletionGracePeriodSeconds"], grace);
        let ends = ends.parse::<u64>().unwrap() + 1;
        assert_eq!(answered.metadata()["deletionTimestamp"], format!("{epoch}:{ends:02}Z"), "{options}");
    }
    assert_eq!(stage.merge(&path, json!({"metadata": {"finalizers": ["a/b"]}})).code, 422);
    let deleted = stage.ok("DELETE", &path, json!({"gracePeriodSeconds": 0}));
    assert_eq!(
        (&deleted.body["kind"], &deleted.metadata()["deletionGracePeriodSeconds"]),
        (&json!("Pod"), &json!(0))
    );
    assert_eq!(stage.send("GET", &path, Value::Null).code, 404);
}

#[test]
fn unbound_and_finished_pods_are_deleted_at_once() {
    let mut stage = Stage::new();
    let pods = ResourceName::new("", "pods");
    let path = pod(&mut stage, "", &[]);
    let before = stage.server.store.head();
    let deleted = stage.ok("DELETE", &path, json!({"gracePeriodSeconds": 30}));
    assert_eq!(deleted.metadata()["deletionGracePeriodSeconds"], 0);
    // It is marked first, and then removed.
    let seen: Vec<bool> =
        stage.server.store.changes_since(&pods, before).unwrap().map(|change| change.removed).collect();
    assert_eq!(seen, [false, true]);

    let path = pod(&mut stage, "n", &[]);
    stage.merge(&format!("{path}/status"), json!({"status": {"phase": "Succeeded"}}));
    stage.ok("DELETE", &path, Value::Null);
    assert_eq!(stage.send("GET", &path, Value::Null).code, 404);
}

#[test]
fn finalizers_keep_a_pod_after_its_grace_period() {
    let mut stage = Stage::new();
    let path = pod(&mut stage, "", &["a/b"]);
    assert_eq!(stage.ok("DELETE", &path, Value::Null).finalizers(), ["a/b"]);
    // The grace period is over, so no deletion is pending, and the policy may change.
    let answered = stage.ok("DELETE", &path, json!({"propagationPolicy": "Foreground"}));
    assert_eq!(answered.finalizers(), ["a/b", "foregroundDeletion"]);
    stage.merge(&path, json!({"metadata": {"finalizers": []}}));
    assert_eq!(stage.send("GET", &path, Value::Null).code, 404);
}

#[test]
fn the_grace_period_keeps_a_pod_without_finalizers() {
    let mut stage = Stage::new();
    let path = pod(&mut stage, "n", &["a/b"]);
    stage.ok("DELETE", &path, json!({"gracePeriodSeconds": 5}));
    stage.merge(&path, json!({"metadata": {"finalizers": []}}));
    let held = stage.ok("DELETE", &path, json!({"gracePeriodSeconds": 0, "propagationPolicy": "Foreground"}));
    assert_eq!(held.finalizers(), ["foregroundDeletion"]);
    assert_eq!(held.metadata()["deletionTimestamp"], "2026-01-01T00:00:00Z");
}

#[test]
fn a_negative_grace_period_is_one_second_in_later_releases() {
    for (release, grace, there) in [(Release::V1_20, -1, false), (Release::V1_36, 1, true)] {
        let mut stage = Stage::of(release);
        let path = pod(&mut stage, "n", &[]);
        let answered = stage.ok("DELETE", &path, json!({"gracePeriodSeconds": -1}));
        assert_eq!(answered.metadata()["deletionGracePeriodSeconds"], grace);
        assert_eq!(stage.send("GET", &path, Value::Null).code == 200, there);
    }
}

#[test]
fn a_collection_is_deleted_one_by_one() {
    let mut stage = Stage::new();
    for (name, finalizers) in [("c1", json!(["a/b"])), ("c2", json!([])), ("c3", json!([]))] {
        stage.map(json!({"name": name, "labels": {"i": name}, "finalizers": finalizers}));
    }
    let refused = stage.send("DELETE", MAPS, json!({"preconditions": {"uid": "x"}}));
    assert_eq!((refused.code, stage.stored("c2").is_some()), (409, true));
    let some = format!("{MAPS}?labelSelector=i!=c3");
    let listed = stage.ok("DELETE", &some, json!({"propagationPolicy": "Foreground"}));
    assert_eq!(listed.body["kind"], "ConfigMapList");
    let items = listed.body["items"].as_array().unwrap();
    // The answer shows the objects as they were before.
    assert!(items.len() == 2 && items.iter().all(|item| item["metadata"].get("deletionTimestamp").is_none()));
    let finalizers = |stage: &Stage, name: &str| -> Vec<String> {
        stage.stored(name).unwrap().finalizers().map(str::to_owned).collect()
    };
    assert_eq!(finalizers(&stage, "c1"), ["a/b", "foregroundDeletion"]);
    assert_eq!(finalizers(&stage, "c2"), ["foregroundDeletion"]);
    assert_eq!(stage.stored("c3").unwrap().deletion_timestamp(), None);
    stage.ok("DELETE", &format!("{MAPS}?dryRun=All"), Value::Null);
    assert!(stage.stored("c3").is_some());
    let page = stage.ok("DELETE", &format!("{MAPS}?limit=1"), Value::Null);
    assert!(page.metadata()["continue"].is_string() && stage.stored("c3").is_some());
    stage.ok("DELETE", MAPS, json!({"propagationPolicy": "Background"}));
    assert_eq!((stage.stored("c1").is_some(), stage.stored("c2"), stage.stored("c3")), (true, None, None));
}

#[test]
fn the_generation_overflows_to_the_least_number() {
    let mut stage = Stage::new();
    stage.map(json!({"name": "a", "generation": i64::MAX, "finalizers": ["a.b/c"]}));
    let kept = stage.ok("DELETE", &path("a"), json!({}));
    assert_eq!(kept.metadata()["generation"], i64::MIN);
    // An object with this generation can no longer be changed.
    let refused = stage.merge(&path("a"), json!({"metadata": {"finalizers": null}}));
    assert_eq!(refused.invalid(), ["metadata.generation"]);
}

#[test]
fn a_dry_run_deletes_nothing() {
    let mut stage = Stage::new();
    stage.map(json!({"name": "a", "finalizers": ["orphan"]}));
    let head = stage.server.store.head();
    let kept = stage.ok("DELETE", &path("a"), json!({"dryRun": ["All"]}));
    assert_eq!((kept.finalizers(), kept.metadata()["deletionTimestamp"].is_string()), (vec!["orphan"], true));
    let gone = stage.ok("DELETE", &path("a"), json!({"dryRun": ["All"], "propagationPolicy": "Background"}));
    assert_eq!((&gone.body["kind"], gone.finalizers()), (&json!("ConfigMap"), vec![]));
    assert_eq!(stage.server.store.head(), head);
}
