//! Tests `src/api` with a real kube-apiserver and etcd.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod bench;
mod connections;
mod encodings;

use std::sync::Arc;

use kube_gc::internals::api::{
    Api, ApiSettings, Deleted, Discovered, ErrorClass, Finalizer, FinalizerRemoval, HighWater, ListWatch,
    LookupResult, Patched, References, Step, WriteGate, load_config,
};
use kube_gc_core::graph::WatchEvent;
use kube_gc_core::object::{Identity, Namespace, PropagationPolicy, ResourceType, Uid};
use serde_json::{Value, json};

use bench::{Bench, GROUP, next, owner};

const POLICY: PropagationPolicy = PropagationPolicy::Background;

#[tokio::test(flavor = "multi_thread")]
async fn the_api_module_works_with_a_real_server() {
    let bench = Bench::new().await;
    let version = bench.api.probe().await.unwrap();
    assert!(version.git_version.starts_with('v'), "{version:?}");
    discovery(&bench);
    looking_up(&bench).await;
    deleting(&bench).await;
    deleting_a_namespace(&bench).await;
    // Enough for compressed answers.
    for _ in 0..400 {
        bench.create("v1", "ConfigMap", json!({"annotations": {"long": "x".repeat(400)}})).await;
    }
    for (api_version, kind) in [("v1", "ConfigMap"), (&*format!("{GROUP}/v1"), "Widget")] {
        patching(&bench, api_version, kind).await;
        finalizing(&bench, api_version, kind).await;
        watching(&bench, api_version, kind).await;
    }
    warning(&bench).await;
    listing(&bench).await;
    encodings::agree(&bench).await;
    connections::are_shared(&bench).await;
}

fn discovery(bench: &Bench) {
    let Discovered { watchable, failures, catalog, .. } = &bench.discovered;
    assert_eq!(failures, &[]);
    let aggregated = |name: &str| {
        watchable
            .iter()
            .find(|watchable| watchable.resource.group_resource.to_string() == name)
            .unwrap_or_else(|| panic!("{name} is not watchable"))
            .aggregated
    };
    for name in ["configmaps", "deployments.apps", &format!("widgets.{GROUP}")] {
        assert!(!aggregated(name), "{name}");
    }
    assert!(catalog.resolve("authentication.k8s.io/v1", "TokenReview").is_some());
    assert!(!watchable.iter().any(|watchable| watchable.resource.group_resource.resource.contains('/')));
}

async fn looking_up(bench: &Bench) {
    let (config_map, _) = bench.create("v1", "ConfigMap", json!({"labels": {"a": "b"}})).await;
    let mut other = config_map.clone();
    other.uid = Uid::parse("other").unwrap();
    assert!(matches!(bench.api.look_up(&other).await, Ok(LookupResult::Absent(_))));
    other.name = "nowhere".into();
    assert!(matches!(bench.api.look_up(&other).await, Ok(LookupResult::Absent(_))));
    other.namespace = Namespace::parse("no-such-namespace");
    assert!(matches!(bench.api.look_up(&other).await, Ok(LookupResult::Absent(_))));
    other.resource = Arc::new(ResourceType { version: "v9".into(), ..(*other.resource).clone() });
    assert_eq!(bench.api.look_up(&other).await.unwrap_err().class, ErrorClass::NotServed);
    let (widget, _) = bench.create(&format!("{GROUP}/v1"), "Widget", json!({})).await;
    let absent = Identity { name: "nowhere".into(), ..widget };
    assert!(matches!(bench.api.look_up(&absent).await, Ok(LookupResult::Absent(_))));
}

async fn deleting(bench: &Bench) {
    for (api_version, kind) in [("v1", "ConfigMap"), (&*format!("{GROUP}/v1"), "Widget")] {
        let (object, facts) = bench.create(api_version, kind, json!({})).await;
        let mut other = object.clone();
        other.uid = Uid::parse("other").unwrap();
        assert_eq!(bench.api.delete(&other, POLICY, None).await.unwrap_err().class, ErrorClass::Conflict);
        let stale = kube_gc_core::object::ResourceVersion::number(1);
        assert_eq!(
            bench.api.delete(&object, POLICY, Some(&stale)).await.unwrap_err().class,
            ErrorClass::Conflict
        );
        assert_eq!(bench.found(&object).await, facts, "nothing has happened to it");
        let deleted = bench.api.delete(&object, POLICY, facts.resource_version.as_ref()).await;
        assert_eq!(deleted, Ok(Deleted::Removed), "{kind}");
        assert!(matches!(bench.api.delete(&object, POLICY, None).await, Ok(Deleted::AlreadyGone(_))));

        let (object, _) = bench.create(api_version, kind, json!({"finalizers": ["test.io/hold"]})).await;
        let deleted = bench.api.delete(&object, POLICY, None).await;
        assert!(
            matches!(&deleted, Ok(Deleted::Pending(facts)) if facts.being_deleted),
            "{kind}: {deleted:?}"
        );
        for policy in [PropagationPolicy::Foreground, PropagationPolicy::Orphan] {
            let (object, _) = bench.create(api_version, kind, json!({})).await;
            let deleted = bench.api.delete(&object, policy, None).await;
            let Ok(Deleted::Pending(facts)) = deleted else { panic!("{object} should wait: {deleted:?}") };
            let foreground = policy == PropagationPolicy::Foreground;
            let waits = (facts.finalizers.foreground, facts.finalizers.orphan);
            assert_eq!(waits, (foreground, !foreground), "{object} {policy}");
        }
    }
}

/// The finalizers of a Namespace are in its spec, which metadata does not show.
async fn deleting_a_namespace(bench: &Bench) {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"generateName": "t-"}});
    let created = bench.send("POST", "/api/v1/namespaces", &body).await;
    let text = |field: &str| created["metadata"][field].as_str().unwrap().to_owned();
    let namespace = Identity {
        resource: bench.resource("v1", "Namespace"),
        namespace: None,
        name: text("name").into(),
        uid: Uid::parse(&text("uid")).unwrap(),
    };
    let deleted = bench.api.delete(&namespace, POLICY, None).await;
    assert!(matches!(&deleted, Ok(Deleted::Pending(facts)) if facts.being_deleted), "{deleted:?}");
}

async fn patching(bench: &Bench, api_version: &str, kind: &str) {
    let (one, _) = bench.create("v1", "ConfigMap", json!({})).await;
    let (two, _) = bench.create("v1", "ConfigMap", json!({})).await;
    let references = json!({"ownerReferences": [owner(&one, true), owner(&two, true)]});
    let (object, facts) = bench.create(api_version, kind, references).await;
    let uids = [one.uid.clone()];
    let remove = References::OfOwners(&uids);

    // A wrong uid, and a wrong version.
    let other = Identity { uid: Uid::parse("other").unwrap(), ..object.clone() };
    assert!(matches!(bench.api.remove_references(&other, remove, None).await, Ok(Patched::Gone(_))));
    let stale = kube_gc_core::object::ResourceVersion::number(1);
    let error = bench.api.remove_references(&object, remove, Some(&stale)).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Conflict);
    let gone = Identity { name: "nowhere".into(), ..object.clone() };
    assert!(matches!(bench.api.remove_references(&gone, remove, None).await, Ok(Patched::Gone(_))));

    let stopped = bench.api.stop_blocking(&object, &facts.owners, facts.resource_version.as_ref()).await;
    let Ok(Patched::Changed(facts)) = stopped else { panic!("{stopped:?}") };
    assert_eq!(facts.owners.len(), 2);
    assert!(facts.owners.iter().all(|owner| !owner.block_owner_deletion && *owner.kind == *"ConfigMap"));

    let removed = bench.api.remove_references(&object, remove, facts.resource_version.as_ref()).await;
    let Ok(Patched::Changed(facts)) = removed else { panic!("{removed:?}") };
    assert_eq!(facts.owners.iter().map(|owner| &owner.uid).collect::<Vec<_>>(), [&two.uid]);

    // A reference that no longer exists.
    let again = bench.api.remove_references(&object, remove, None).await;
    assert!(
        matches!(&again, Ok(Patched::Changed(facts) | Patched::Unneeded(facts)) if facts.owners.len() == 1),
        "{again:?}"
    );
    let exactly = References::Exactly(&facts.owners);
    let removed = bench.api.remove_references(&object, exactly, None).await;
    assert!(matches!(&removed, Ok(Patched::Changed(facts)) if facts.owners.is_empty()), "{removed:?}");
    // An object without references.
    let again = bench.api.remove_references(&object, remove, None).await;
    assert!(
        matches!(&again, Ok(Patched::Changed(facts) | Patched::Unneeded(facts)) if facts.owners.is_empty()),
        "{again:?}"
    );

    // A patch in a namespace that does not exist says nothing about the object.
    let elsewhere = Identity { namespace: Namespace::parse("no-such-namespace"), ..object };
    let answer = bench.api.remove_references(&elsewhere, remove, None).await;
    let is_namespace_gone = matches!(&answer, Err(error) if error.class == ErrorClass::NamespaceGone);
    assert!(is_namespace_gone || matches!(answer, Ok(Patched::Gone(_))), "{answer:?}");
}

async fn finalizing(bench: &Bench, api_version: &str, kind: &str) {
    let (object, _) = bench.create(api_version, kind, json!({"finalizers": ["test.io/hold"]})).await;
    let remove =
        |object: Identity| async move { bench.api.remove_finalizer(&object, Finalizer::Foreground).await };
    let unneeded = remove(object.clone()).await;
    assert!(matches!(unneeded, Ok(FinalizerRemoval::NotBeingDeleted(_))), "{unneeded:?}");
    let deleted = bench.api.delete(&object, PropagationPolicy::Foreground, None).await;
    assert!(matches!(&deleted, Ok(Deleted::Pending(facts)) if facts.finalizers.foreground), "{deleted:?}");
    let other = Identity { uid: Uid::parse("other").unwrap(), ..object.clone() };
    assert!(matches!(remove(other).await, Ok(FinalizerRemoval::Gone(_))));
    let removed = remove(object.clone()).await;
    assert!(
        matches!(&removed, Ok(FinalizerRemoval::Removed(facts)) if !facts.finalizers.foreground),
        "{removed:?}"
    );
    let unneeded = remove(object.clone()).await;
    assert!(matches!(unneeded, Ok(FinalizerRemoval::NotPresent(_))), "{unneeded:?}");

    // When the last finalizer is removed, the object is removed, too.
    let (object, _) = bench.create(api_version, kind, json!({})).await;
    bench.api.delete(&object, PropagationPolicy::Foreground, None).await.unwrap();
    let removed = remove(object.clone()).await;
    assert!(matches!(removed, Ok(FinalizerRemoval::Removed(_))), "{removed:?}");
    assert!(matches!(bench.api.look_up(&object).await, Ok(LookupResult::Absent(_))));
    assert!(matches!(remove(object).await, Ok(FinalizerRemoval::Gone(_))));
}

async fn watching(bench: &Bench, api_version: &str, kind: &str) {
    let (first, _) = bench.create(api_version, kind, json!({"managedFields": []})).await;
    let high_water = HighWater::default();
    let mut watch = bench.watch(&first.resource, &high_water);
    let mut listed = list(&mut watch).await;
    // A list from the cache may be a little behind; the watch shows the rest.
    while !listed.contains(&first.uid) {
        match next(&mut watch).await {
            Step::Events(events) => listed.extend(events.into_iter().filter_map(|event| match event {
                WatchEvent::Apply(facts) => Some(facts.uid),
                _ => None,
            })),
            step => panic!("{step:?}"),
        }
    }
    let (second, _) =
        bench.create(api_version, kind, json!({"ownerReferences": [owner(&first, true)]})).await;
    bench.api.delete(&second, POLICY, None).await.unwrap();
    let (mut seen, mut deleted) = (false, None);
    while deleted.is_none() {
        match next(&mut watch).await {
            Step::Events(events) => {
                for event in events {
                    match event {
                        WatchEvent::Apply(facts) if facts.uid == second.uid => {
                            assert_eq!(facts.owners[0].uid, first.uid);
                            seen = true;
                        }
                        WatchEvent::Delete(facts) if facts.uid == second.uid => deleted = Some(facts),
                        _ => {}
                    }
                }
            }
            Step::Bookmark { .. } => {}
            step => panic!("{step:?}"),
        }
    }
    assert!(seen);
    let version = deleted.and_then(|facts| facts.resource_version);
    assert_eq!(high_water.get(&first.resource.group_resource), version);

    // The next list does not show an older state.
    let mut watch = bench.watch(&first.resource, &high_water);
    let listed = list(&mut watch).await;
    assert!(listed.contains(&first.uid) && !listed.contains(&second.uid));
}

async fn list(watch: &mut ListWatch) -> Vec<Uid> {
    let mut uids = Vec::new();
    assert!(matches!(next(watch).await, Step::Init { .. }));
    loop {
        match next(watch).await {
            Step::InitApply(items) => {
                uids.extend(items.iter().filter_map(WatchEvent::facts).map(|facts| facts.uid.clone()));
            }
            Step::InitDone { resource_version } => {
                assert!(resource_version.is_some());
                return uids;
            }
            step => panic!("{step:?}"),
        }
    }
}

async fn warning(bench: &Bench) {
    let (object, _) = bench.create("v1", "ConfigMap", json!({})).await;
    let node = Identity {
        resource: bench.resource("v1", "Node"),
        namespace: None,
        name: "System:Odd_Node".into(),
        uid: object.uid.clone(),
    };
    for about in [&object, &node] {
        for _ in 0..3 {
            bench.api.warn(about, "OwnerRefInvalidNamespace", "no such owner").await.unwrap();
        }
    }
    let events = bench.send("GET", "/api/v1/namespaces/default/events", &json!({})).await;
    let counts: Vec<&Value> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["involvedObject"]["uid"] == object.uid.to_string())
        .map(|event| &event["count"])
        .collect();
    assert_eq!(counts, [&json!(3), &json!(3)]);
}

async fn listing(bench: &Bench) {
    let (object, _) = bench.create("v1", "ConfigMap", json!({})).await;
    let settings = ApiSettings { page_size: 2, ..ApiSettings::default() };
    let kubeconfig = bench.server.kubeconfig();
    let config = load_config(Some(kubeconfig), None).await.unwrap();
    let api = Api::connect(config, settings, WriteGate::dry_run()).unwrap();
    let mut found = 0;
    let namespace = Namespace::parse("default");
    let listed =
        api.list(&object.resource, namespace.as_ref(), |facts| found += usize::from(facts.uid == object.uid));
    assert!(listed.await.unwrap().resource_version.is_some());
    assert_eq!(found, 1);
    let refused = api.delete(&object, POLICY, None).await.unwrap_err();
    assert_eq!(refused.class, ErrorClass::DryRun);
}
