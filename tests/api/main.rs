//! Tests the client with a real kube-apiserver and etcd: protobuf and JSON give the same result for every
//! type that the server serves. What the client reads and writes is shown by the scenarios, which run on a
//! real server, too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Response;
use kube::client::ClientBuilder;
use kube_gc_client::{Api, ApiSettings, Encoding, ListWatch, Step, WriteGate, load_config, path_of};
use kube_gc_core::graph::{DeletesProve, WatchEvent};
use kube_gc_core::object::{Identity, ObjectFacts, ResourceType};
use kube_gc_testkit::ControlPlane;
use kube_gc_testkit::cluster::poll;
use serde_json::{Value, json};
use tower::util::MapResponseLayer;

const GROUP: &str = "apitest.example.com";

/// The objects of a type, by uid.
type Objects = BTreeMap<String, ObjectFacts>;

/// A client with one encoding, and the content types of the answers that it got.
struct Encoded {
    name: &'static str,
    api: Api,
    content_types: Arc<Mutex<Vec<String>>>,
}

impl Encoded {
    fn new(config: &kube::Config, name: &'static str, encoding: Encoding, compressed_lists: bool) -> Self {
        let content_types: Arc<Mutex<Vec<String>>> = Arc::default();
        let noted = Arc::clone(&content_types);
        let noting = MapResponseLayer::new(move |response: Response<_>| {
            let content_type = response.headers().get("content-type");
            noted.lock().unwrap().extend(content_type.map(|value| value.to_str().unwrap().to_owned()));
            response
        });
        let client = ClientBuilder::try_from(config.clone()).unwrap().with_layer(&noting).build();
        let (page_size, streaming_lists) = (50, false);
        let settings =
            ApiSettings { encoding, compressed_lists, page_size, streaming_lists, ..ApiSettings::default() };
        Self { name, api: Api::from_clients(client, settings, WriteGate::open()), content_types }
    }

    /// All objects of a type, read from the store in pages.
    async fn store(&self, resource: &ResourceType) -> Objects {
        let mut all = Objects::new();
        let note = |facts: ObjectFacts| drop(all.insert(facts.uid.to_string(), facts));
        self.api
            .list(resource, None, None, note)
            .await
            .unwrap_or_else(|error| panic!("{}: {error}", self.name));
        all
    }

    /// All objects of a type, read from the server's cache in one piece, and the watch that continues from
    /// there.
    async fn cache(&self, resource: &Arc<ResourceType>) -> (Objects, ListWatch) {
        let mut watch = self.api.watch(Arc::clone(resource), DeletesProve::Absence);
        let mut all = Objects::new();
        loop {
            match next(&mut watch).await {
                Step::Init { .. } => {}
                Step::InitApply(items) => {
                    let items = items.iter().filter_map(WatchEvent::facts).cloned();
                    all.extend(items.map(|facts| (facts.uid.to_string(), facts)));
                }
                Step::InitDone { .. } => return (all, watch),
                step => panic!("{} {}: {step:?}", self.name, resource.group_resource),
            }
        }
    }
}

async fn next(watch: &mut ListWatch) -> Step {
    let step = tokio::time::timeout(Duration::from_secs(20), watch.next()).await;
    step.expect("a step in time").expect("it goes on")
}

async fn send(client: &kube::Client, method: &str, path: &str, body: &Value) -> Value {
    let request = http::Request::builder().method(method).uri(path).header(
        "content-type",
        if method == "PATCH" { "application/merge-patch+json" } else { "application/json" },
    );
    let request = request.body(body.to_string().into_bytes()).unwrap();
    client.request(request).await.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn encodings_agree() {
    let server = tokio::task::spawn_blocking(|| ControlPlane::start_with(&[])).await.unwrap().unwrap();
    let config = load_config(Some(server.kubeconfig()), None).await.unwrap();
    let raw = kube::Client::try_from(config.clone()).unwrap();
    let clients = [
        Encoded::new(&config, "JSON", Encoding::Json, false),
        Encoded::new(&config, "protobuf", Encoding::Protobuf, false),
        Encoded::new(&config, "protobuf, compressed", Encoding::Protobuf, true),
    ];
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]
        }
    });
    send(&raw, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await;
    let discovered = async || clients[0].api.discover(None).await.unwrap();
    let is_served =
        async || Ok(discovered().await.catalog.resolve(&format!("{GROUP}/v1"), "Widget").is_some());
    poll("the type to be served", is_served).await.unwrap();
    let discovered = discovered().await;
    // Enough for compressed answers.
    let maps = "/api/v1/namespaces/default/configmaps";
    let long = json!({"metadata": {"generateName": "t-", "annotations": {"long": "x".repeat(400)}}});
    let mut owner = Value::Null;
    for _ in 0..400 {
        owner = send(&raw, "POST", maps, &long).await;
    }
    let held = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "Widget",
        "metadata": {
            "name": "held", "finalizers": ["foregroundDeletion", "test.io/hold"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}],
            "labels": {"a": "b"}, "annotations": {"quotes": "\"\\\u{e9}\n"},
        },
    });
    let widgets = format!("/apis/{GROUP}/v1/namespaces/default/widgets");
    send(&raw, "POST", &widgets, &held).await;
    send(&raw, "DELETE", &format!("{widgets}/held"), &json!({})).await;
    let live = json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Widget", "metadata": {"name": "live"}});
    send(&raw, "POST", &widgets, &live).await;

    let mut shown = 0;
    for watchable in &discovered.watchable {
        shown += usize::from(agree(&clients, &raw, &watchable.resource).await);
    }
    assert!(shown > 8, "{shown}");
    for client in &clients[1..] {
        let content_types = client.content_types.lock().unwrap();
        let other = content_types.iter().filter(|of| !of.starts_with("application/vnd.kubernetes.protobuf"));
        assert!(other.count() * 10 < content_types.len(), "{}: {content_types:?}", client.name);
    }
}

/// Lists a type with every client, from the store and from the cache, changes an object, and observes the
/// change. Returns whether the type has any objects.
async fn agree(clients: &[Encoded], raw: &kube::Client, resource: &Arc<ResourceType>) -> bool {
    let expected = clients[0].store(resource).await;
    let mut watches = Vec::new();
    for client in clients {
        assert_eq!(client.store(resource).await, expected, "{} {}", client.name, resource.group_resource);
        let mut cached = client.cache(resource).await;
        // The cache may be a little behind the store.
        for _ in 0..100 {
            if cached.0 != expected {
                cached = client.cache(resource).await;
            }
        }
        assert_eq!(cached.0, expected, "{} {}, from the cache", client.name, resource.group_resource);
        watches.push((client.name, cached.1));
    }
    let Some(facts) = expected.values().find(|facts| !facts.being_deleted) else { return false };
    let ObjectFacts { namespace, name, uid, .. } = facts.clone();
    let path = path_of(&Identity { resource: Arc::clone(resource), namespace, name, uid }).unwrap();
    // An annotation of this type's own, because some objects are served as two types.
    let changed = json!({"test.io/changed": resource.group_resource.to_string()});
    send(raw, "PATCH", &path, &json!({"metadata": {"annotations": changed}})).await;
    let mut first = None;
    for (name, watch) in &mut watches {
        let change = change(watch, facts).await;
        assert_eq!(*first.get_or_insert(change.clone()), change, "{name} {}", resource.group_resource);
    }
    true
}

/// The first change of an object that a watch shows.
async fn change(watch: &mut ListWatch, before: &ObjectFacts) -> ObjectFacts {
    let is_it =
        |facts: &&ObjectFacts| facts.uid == before.uid && facts.resource_version != before.resource_version;
    loop {
        match next(watch).await {
            Step::Events(events) => {
                if let Some(facts) = events.iter().filter_map(WatchEvent::facts).find(is_it) {
                    return facts.clone();
                }
            }
            Step::Bookmark { .. } => {}
            step => panic!("{step:?}"),
        }
    }
}
