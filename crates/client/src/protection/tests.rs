use std::sync::{Arc, Mutex};

use serde_json::json;

use super::*;
use crate::testing::{ReceivedRequest, Reply, Server};
use kube_gc_core::object::Uid;

fn pods(pods: &[Value], next: &str) -> Reply {
    Reply::ok(json!({ "kind": "PodList", "metadata": { "continue": next }, "items": pods }).to_string())
}

fn pod(node: &str, phase: &str, volume: &Value) -> Value {
    json!({
        "metadata": { "namespace": "ns", "name": "pod", "uid": "p" },
        "spec": { "nodeName": node, "volumes": [{ "name": "none", "emptyDir": {} }, volume] },
        "status": { "phase": phase },
    })
}

/// Rule 11.13.
#[tokio::test]
async fn a_claim_is_used_by_the_pods_that_are_bound_to_a_node() {
    let of = |claim: &str| json!({ "name": "v", "persistentVolumeClaim": { "claimName": claim } });
    let ephemeral = json!({ "name": "own", "ephemeral": { "volumeClaimTemplate": {} } });
    let unrelated = pod("node", "Running", &of("other"));
    for (name, user, expected) in [
        ("data", pod("", "Pending", &of("data")), false),
        ("data", pod("node", "Running", &of("data")), true),
        ("data", pod("node", "Succeeded", &of("data")), true),
        ("pod-own", pod("node", "Pending", &ephemeral), true),
    ] {
        let claim = Identity { name: name.into(), ..claim() };
        // It is on the second page.
        let server = Server::replying([pods(std::slice::from_ref(&unrelated), "next"), pods(&[user], "")]);
        assert_eq!(server.api().is_used(&claim).await.unwrap(), expected, "{name}");
        let list = "GET /api/v1/namespaces/ns/pods?limit=500";
        assert_eq!(server.seen()[0].line(), list, "no cache may answer");
    }
    let metadata = json!({ "metadata": { "namespace": "ns", "name": "pod", "uid": "p" } });
    for reply in [pods(&[metadata], ""), Reply::status(500, "etcd", "{}"), Reply::ok("{}")] {
        let server = Server::answering(move |_| reply.clone());
        assert!(server.api().is_used(&claim()).await.is_err());
    }
}

fn object(resource: &str, kind: &str, namespace: Option<&str>) -> Identity {
    let scope = if namespace.is_some() { Scope::Namespaced } else { Scope::Cluster };
    Identity {
        resource: ResourceType::of(resource, "v1", kind, scope),
        namespace: namespace.and_then(Namespace::parse),
        name: "data".into(),
        uid: Uid::parse("u").unwrap(),
    }
}

fn claim() -> Identity {
    object("persistentvolumeclaims", "PersistentVolumeClaim", Some("ns"))
}

fn volume() -> Identity {
    object("persistentvolumes", "PersistentVolume", None)
}

/// The object as a server shows it, with these finalizers.
fn live(of: &Identity, finalizers: &[&str]) -> Value {
    json!({
        "kind": of.resource.kind, "apiVersion": "v1",
        "metadata": {
            "name": "data", "namespace": of.namespace, "uid": "u", "resourceVersion": "7",
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": finalizers,
        },
        "status": { "phase": "Available" },
    })
}

/// What comes of an object, and the patches.
async fn unprotected(of: &Identity, object: Value) -> (Result<(), ApiError>, Vec<ReceivedRequest>) {
    let patches = Arc::new(Mutex::new(Vec::new()));
    let server = Server::answering({
        let patches = Arc::clone(&patches);
        move |request| {
            if request.method == "PATCH" {
                patches.lock().unwrap().push(request.clone());
                let mut patched = object.clone();
                patched["metadata"]["finalizers"] = request.json()["metadata"]["finalizers"].clone();
                return Reply::ok(patched.to_string());
            }
            if request.path.contains("/pods?") { pods(&[], "") } else { Reply::ok(object.to_string()) }
        }
    });
    let result = server.api().unprotect(of).await.map(drop);
    let patches = patches.lock().unwrap().clone();
    (result, patches)
}

const BOTH: [&str; 2] = ["kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"];

/// Rules 11.13 and 11.14.
#[tokio::test]
async fn a_protection_is_removed_at_the_version_that_was_read() {
    for (of, left) in [(claim(), BOTH[1]), (volume(), BOTH[0])] {
        let (result, patches) = unprotected(&of, live(&of, &BOTH)).await;
        let metadata = json!({ "uid": "u", "resourceVersion": "7", "finalizers": [left] });
        result.unwrap();
        assert_eq!(patches[0].json(), json!({ "metadata": metadata }));
    }
}

/// Rules 11.13 and 11.14.
#[tokio::test]
async fn what_is_bound_or_not_being_deleted_or_another_object_keeps_its_protection() {
    let changed = |of: &Identity, pointer: &str, value: Value| {
        let mut object = live(of, &BOTH);
        *object.pointer_mut(pointer).unwrap() = value;
        object
    };
    let whole = |of: &Identity| json!(of.resource.kind);
    for (of, object, expected) in [
        (volume(), changed(&volume(), "/status/phase", json!("Bound")), true),
        (claim(), changed(&claim(), "/metadata/deletionTimestamp", Value::Null), true),
        (claim(), changed(&claim(), "/metadata/uid", json!("another")), true),
        (claim(), live(&claim(), &["example.com/hold"]), true),
        (volume(), changed(&volume(), "/kind", json!("PartialObjectMetadata")), false),
        (claim(), changed(&claim(), "/metadata/resourceVersion", Value::Null), false),
        (claim(), changed(&claim(), "/metadata/name", whole(&claim())), false),
    ] {
        let (result, patches) = unprotected(&of, object.clone()).await;
        assert_eq!((result.is_ok(), patches.len()), (expected, 0), "{object}");
    }
}
