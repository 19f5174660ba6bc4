//! Lists, proofs and watches of pods.

use serde_json::json;

use super::*;
use crate::testing::{Part, Reply, Server, lines};

fn page(names: &[&str], next: &str) -> Reply {
    let items: Vec<_> = names
        .iter()
        .map(|name| json!({ "metadata": { "namespace": "default", "name": name, "uid": name } }))
        .collect();
    Reply::ok(json!({ "kind": "PodList", "metadata": { "continue": next }, "items": items }).to_string())
}

#[tokio::test]
async fn only_pods_of_the_node_are_listed_and_all_pages_of_them() {
    let server = Server::replying([page(&["a", "b"], "next/1"), page(&["c"], "")]);
    let pods = server.api().pods_of_node("node-1", true).await.unwrap();
    assert_eq!(pods.iter().map(|pod| pod.pod.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    let lines: Vec<String> = server.seen().iter().map(|seen| seen.line()).collect();
    let list = "GET /api/v1/pods?limit=500&fieldSelector=spec.nodeName%3Dnode-1";
    assert_eq!(lines, [list.to_owned(), format!("{list}&continue=next%2F1")]);
    let server = Server::replying([page(&[], "")]);
    server.api().pods_of_node("node-1", false).await.unwrap();
    assert_eq!(server.seen()[0].line(), format!("{list}&resourceVersion=0"));
}

/// Fails if anything else than a list of pods reads as an empty one: all pods would be gone.
#[tokio::test]
async fn what_is_no_list_of_pods_is_an_error() {
    let token = page(&["a"], "same");
    for reply in [
        Reply::ok("{}"),
        Reply::ok(r#"{"kind":"Pod","metadata":{"name":"a"}}"#),
        Reply::ok(r#"{"kind":"PodList","items":"#),
        Reply::ok(r#"["PodList"]"#),
        Reply::ok("<html>"),
        Reply::status(500, "etcd", "{}"),
        token,
    ] {
        let server = Server::answering(move |_| reply.clone());
        assert!(server.api().pods_of_node("node-1", true).await.is_err());
    }
}

async fn prove(reply: Reply) -> Option<Proved> {
    let server = Server::replying([reply]);
    let proved = server.api().prove_pod(&PodRef::new("default", "web", "u")).await;
    let line = server.seen()[0].line();
    assert_eq!(line, "GET /api/v1/namespaces/default/pods/web", "no cache may answer");
    proved.ok()
}

#[tokio::test]
async fn safety_2_only_the_pods_own_404_or_another_pod_proves_that_it_is_gone() {
    let own = Reply::status(404, "pods \"web\" not found", r#"{"name":"web","kind":"pods"}"#);
    assert_eq!(prove(own).await, Some(Proved::NotFound));
    let found = |uid: &str, annotations: serde_json::Value| {
        let metadata =
            json!({ "namespace": "default", "name": "web", "uid": uid, "annotations": annotations });
        let kind =
            json!({ "kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata });
        Reply::ok(kind.to_string())
    };
    assert_eq!(prove(found("u", json!({}))).await, Some(Proved::SameUid));
    assert_eq!(prove(found("v", json!(null))).await, Some(Proved::OtherUid { mirror_of: None }));
    let mirror = found("v", json!({ "kubernetes.io/config.mirror": "u" }));
    assert_eq!(prove(mirror).await, Some(Proved::OtherUid { mirror_of: Some("u".to_owned()) }));
    for reply in [
        Reply::code(404, "404 page not found"),
        Reply::status(404, "no", r#"{"name":"default","kind":"namespaces"}"#),
        Reply::status(404, "no", r#"{"name":"other","kind":"pods"}"#),
        Reply::status(403, "no", "{}"),
        Reply::ok(r#"{"metadata":{"namespace":"default","name":"other","uid":"v"}}"#),
        Reply::ok(r#"{"metadata":{"namespace":"default","name":"web"}}"#),
        Reply::ok(r#"[{"namespace":"default","name":"web","uid":"v"}]"#),
        Reply::ok("{}"),
    ] {
        assert_eq!(prove(reply.clone()).await, None, "{reply:?}");
    }
}

fn pod(value: serde_json::Value) -> Pod {
    view(serde_json::from_value(value).unwrap())
}

#[test]
fn what_the_rules_need_of_a_pod_is_read() {
    let read = pod(json!({
        "metadata": {
            "namespace": "default", "name": "web", "uid": "u", "deletionTimestamp": "2024-01-01T00:00:00Z",
            "annotations": { "kubernetes.io/config.mirror": "static" },
        },
        "spec": {
            "containers": [{ "name": "web", "image": "web:1" }],
            "initContainers": [{ "name": "init", "image": "init:1" }],
            "ephemeralContainers": [{ "name": "debug", "image": "debug:1" }],
            "volumes": [{ "name": "v", "image": { "reference": "volume:1" } }, { "name": "w", "emptyDir": {} }],
        },
        "status": {
            "phase": "Failed", "reason": "Evicted",
            "containerStatuses": [{ "state": { "terminated": { "exitCode": 1 } } }],
            "initContainerStatuses": [{ "state": { "waiting": {} } }],
            "ephemeralContainerStatuses": [{ "state": { "running": { "startedAt": null } } }],
        },
    }));
    assert_eq!(read.pod, PodRef::new("default", "web", "u"));
    assert_eq!(read.images, ["web:1", "init:1", "debug:1", "volume:1"]);
    assert_eq!((read.phase, read.evicted, read.deleting), (Phase::Failed, true, true));
    assert!(read.containers_running);
    assert_eq!(read.mirror_of.as_deref(), Some("static"));
    assert!(!read.without_image_volumes);
}

#[test]
fn what_is_missing_in_a_pod_is_read_with_care() {
    let running = |state: serde_json::Value| {
        pod(json!({ "metadata": {}, "status": { "containerStatuses": [{ "state": state }] } }))
            .containers_running
    };
    assert!(running(json!({})) && running(json!(null)));
    assert!(!running(json!({ "terminated": { "exitCode": 0 } })));
    // Only a whole spec says that there is no image volume.
    for (spec, without) in [
        (json!({ "containers": [{ "image": "web:1" }], "volumes": [{ "emptyDir": {} }] }), true),
        (json!({ "containers": [{ "image": "web:1" }] }), true),
        (json!({ "containers": [{ "image": "web:1" }], "volumes": [{ "image": {} }] }), false),
        (json!({ "containers": [] }), false),
        (json!(null), false),
    ] {
        let read = pod(json!({ "metadata": {}, "spec": spec.clone() }));
        assert_eq!(read.without_image_volumes, without, "{spec}");
    }
    let read = pod(json!({
        "metadata": { "namespace": null, "annotations": null },
        "spec": { "containers": null, "volumes": null },
        "status": null,
    }));
    assert_eq!((read.phase, read.images.len(), read.containers_running), (Phase::Pending, 0, false));
    assert_eq!(pod(json!({ "metadata": {}, "status": { "phase": "New" } })).phase, Phase::Unknown);
}

const LIST: &str = r#"{"kind":"PodList","metadata":{"resourceVersion":"7"},"items":[
    {"metadata":{"namespace":"default","name":"a","uid":"a","resourceVersion":"5"}}]}"#;

fn event(kind: &str, name: &str, version: u32) -> String {
    format!(
        r#"{{"type":"{kind}","object":{{"metadata":{{"namespace":"default","name":"{name}","uid":"{name}","resourceVersion":"{version}"}}}}}}"#
    )
}

/// Waits until these pods are known.
async fn known(watch: &PodWatch, wanted: &[&str]) {
    let mut known = watch.0.known.clone();
    let found = known.wait_for(|known| known.pods.keys().eq(wanted) && matches!(known.state, State::Current));
    found.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_list_and_then_events_and_a_broken_watch_goes_on_where_it_was() {
    let (added, deleted) = (event("ADDED", "b", 8), event("DELETED", "a", 9));
    let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"}}}"#;
    let server = Server::replying([
        Reply::ok(LIST),
        Reply::stream([lines([&added, &deleted, bookmark]), Part::Break]),
        // The present version, before the watch is resumed.
        Reply::ok(LIST.replace("\"7\"", "\"14\"")),
        Reply::stream([lines([&event("ADDED", "c", 13)]), Part::Hang]),
    ]);
    let watch = server.api().watch_pods("node-1");
    known(&watch, &["b", "c"]).await;
    assert_eq!(watch.pods().await.unwrap().len(), 2);
    let seen = server.seen();
    let versions: Vec<_> = seen.iter().map(|seen| seen.query("resourceVersion")).collect();
    assert_eq!(versions, [Some("0"), Some("7"), None, Some("12")]);
    assert_eq!(seen[2].query("limit"), Some("1"), "only one list");
    for request in [0, 1, 3] {
        assert_eq!(seen[request].query("fieldSelector"), Some("spec.nodeName%3Dnode-1"));
        assert_eq!(seen[request].header("accept"), "application/json", "whole pods");
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_version_and_an_event_that_cannot_be_read_cause_a_new_list() {
    let expired = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;
    let without_uid = r#"{"type":"DELETED","object":{"metadata":{"resourceVersion":"8"}}}"#;
    for bad in [expired, without_uid, "{}", "[]", &event("OTHER", "a", 8), &event("ADDED", "b", 8)[1..]] {
        let server = Server::replying([
            Reply::ok(LIST),
            Reply::stream([lines([bad]), Part::Hang]),
            Reply::ok(LIST.replace("\"a\"", "\"d\"")),
        ]);
        let watch = server.api().watch_pods("node-1");
        known(&watch, &["d"]).await;
        let lists = server.seen().iter().filter(|seen| seen.query("watch").is_none()).count();
        assert_eq!(lists, 2, "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn while_nothing_can_be_listed_or_watched_the_pods_are_not_known() {
    let forbidden = || Reply::status(403, "pods is forbidden", "{}");
    let server = Server::answering(move |_| forbidden());
    let watch = server.api().watch_pods("node-1");
    assert_eq!(watch.pods().await.unwrap_err().class, ErrorClass::Denied);
    // The list works, and then the watch is forbidden.
    let server = Server::answering(
        move |seen| {
            if seen.query("watch").is_some() { forbidden() } else { Reply::ok(LIST) }
        },
    );
    let watch = server.api().watch_pods("node-1");
    let mut failed = watch.0.known.clone();
    failed.wait_for(|known| matches!(known.state, State::Failed(_))).await.unwrap();
    assert!(watch.pods().await.is_err());
    assert_eq!(watch.last().len(), 1);
    // A server that never answers is an error, too.
    let server = Server::answering(|_| Reply::never());
    assert!(server.api().watch_pods("node-1").pods().await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_users_ends() {
    let server = Server::replying([Reply::ok(LIST), Reply::stream([Part::Hang])]);
    let watch = server.api().watch_pods("node-1");
    known(&watch, &["a"]).await;
    let task = watch.0.task.clone();
    drop(watch);
    while !task.is_finished() {
        tokio::task::yield_now().await;
    }
}
