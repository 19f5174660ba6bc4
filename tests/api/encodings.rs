//! Protobuf and JSON, compressed or not, give the same result for every type that the server
//! serves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::Response;
use kube::client::ClientBuilder;
use kube_gc_client::{
    Api, ApiSettings, Encoding, HighWater, ListWatch, Step, WatchSettings, WatchStart, WriteGate, load_config,
};
use kube_gc_core::graph::WatchEvent;
use kube_gc_core::object::{ObjectFacts, PropagationPolicy, ResourceType};
use serde_json::json;
use tower::util::MapResponseLayer;

use super::{Bench, GROUP, next, owner};

/// A client with one encoding, and the content types of the answers that it got.
struct EncodedClient {
    name: &'static str,
    api: Api,
    content_types: Arc<Mutex<Vec<String>>>,
}

impl EncodedClient {
    async fn new(bench: &Bench, name: &'static str, encoding: Encoding, compressed_lists: bool) -> Self {
        let content_types = Arc::new(Mutex::new(Vec::new()));
        let config = load_config(Some(bench.server.kubeconfig()), None).await.unwrap();
        let client = || {
            let content_types = Arc::clone(&content_types);
            let noting = MapResponseLayer::new(move |response: Response<_>| {
                let content_type = response.headers().get("content-type");
                content_types
                    .lock()
                    .unwrap()
                    .extend(content_type.map(|value| value.to_str().unwrap().to_owned()));
                response
            });
            ClientBuilder::try_from(config.clone()).unwrap().with_layer(&noting).build()
        };
        let settings = ApiSettings {
            encoding,
            compressed_lists,
            page_size: 50,
            watch: WatchSettings {
                shortest: Duration::from_secs(8),
                longest: Duration::from_secs(9),
                ..WatchSettings::default()
            },
            ..ApiSettings::default()
        };
        let api = Api::from_clients(client(), settings, WriteGate::open());
        Self { name, api, content_types }
    }

    fn watch(&self, resource: &Arc<ResourceType>) -> ListWatch {
        let start = WatchStart { high_water: HighWater::default(), aggregated: false };
        self.api.watch(Arc::clone(resource), start)
    }

    /// All objects of a type, read from the store in pages.
    async fn store(&self, resource: &ResourceType) -> BTreeMap<String, ObjectFacts> {
        let mut all = BTreeMap::new();
        let note = |facts: ObjectFacts| drop(all.insert(facts.uid.to_string(), facts));
        self.api.list(resource, None, note).await.unwrap_or_else(|error| panic!("{}: {error}", self.name));
        all
    }

    /// All objects of a type, read from the server's cache in one piece, and the watch that
    /// continues from there.
    async fn cache(&self, resource: &Arc<ResourceType>) -> (BTreeMap<String, ObjectFacts>, ListWatch) {
        let mut watch = self.watch(resource);
        let mut all = BTreeMap::new();
        assert!(matches!(next(&mut watch).await, Step::Init { .. }));
        loop {
            match next(&mut watch).await {
                Step::InitApply(items) => {
                    let items = items.iter().filter_map(WatchEvent::facts).cloned();
                    all.extend(items.map(|facts| (facts.uid.to_string(), facts)));
                }
                Step::InitDone { resource_version } => {
                    assert!(resource_version.is_some(), "{} {}", self.name, resource.group_resource);
                    return (all, watch);
                }
                step => panic!("{} {}: {step:?}", self.name, resource.group_resource),
            }
        }
    }
}

pub async fn agree(bench: &Bench) {
    let clients = [
        EncodedClient::new(bench, "JSON", Encoding::Json, false).await,
        EncodedClient::new(bench, "JSON, compressed", Encoding::Json, true).await,
        EncodedClient::new(bench, "protobuf", Encoding::Protobuf, false).await,
        EncodedClient::new(bench, "protobuf, compressed", Encoding::Protobuf, true).await,
    ];
    let widget = format!("{GROUP}/v1");
    for (api_version, kind) in [("v1", "ConfigMap"), (&*widget, "Widget")] {
        let (one, _) = bench.create("v1", "ConfigMap", json!({})).await;
        let metadata = json!({
            "ownerReferences": [owner(&one, true)], "finalizers": ["foregroundDeletion", "test.io/hold"],
            "labels": {"a": "b"}, "annotations": {"quotes": "\"\\\u{e9}\n"},
        });
        let (held, _) = bench.create(api_version, kind, metadata).await;
        bench.api.delete(&held, PropagationPolicy::Background, None).await.unwrap();
    }
    let mut shown = Vec::new();
    for watchable in &bench.discovered.watchable {
        if lists_agree(&clients, &watchable.resource).await {
            shown.push(Arc::clone(&watchable.resource));
        }
    }
    assert!(shown.len() > 8, "{shown:?}");
    for resource in &shown {
        changes_agree(bench, &clients, resource).await;
    }
    for client in clients {
        let protobuf = "application/vnd.kubernetes.protobuf";
        let expected = if client.name.starts_with("JSON") {
            ["application/json", "application/json;stream=watch"].map(str::to_owned)
        } else {
            [protobuf.to_owned(), format!("{protobuf};stream=watch")]
        };
        let content_types = client.content_types.lock().unwrap();
        assert!(content_types.len() > 50, "{}: {content_types:?}", client.name);
        // Requests that check for a restored store use JSON.
        let other: Vec<_> =
            content_types.iter().filter(|content_type| !expected.contains(content_type)).collect();
        assert!(
            other.iter().all(|content_type| *content_type == "application/json"),
            "{}: {other:?}",
            client.name
        );
        assert!(other.len() * 10 < content_types.len(), "{}: {content_types:?}", client.name);
    }
}

/// Lists a type with every client, from the store and from the cache. Returns whether it has any
/// objects.
async fn lists_agree(clients: &[EncodedClient; 4], resource: &Arc<ResourceType>) -> bool {
    // The cache may be a little behind the store.
    const TRIES: usize = 100;
    let expected = clients[0].store(resource).await;
    for client in clients {
        assert_eq!(client.store(resource).await, expected, "{} {}", client.name, resource.group_resource);
        let mut cached = client.cache(resource).await.0;
        for _ in 0..TRIES {
            if cached == expected {
                break;
            }
            cached = client.cache(resource).await.0;
        }
        assert_eq!(cached, expected, "{} {}, from the cache", client.name, resource.group_resource);
    }
    !expected.is_empty()
}

/// Changes an object of a type, and observes the change with every client.
async fn changes_agree(bench: &Bench, clients: &[EncodedClient; 4], resource: &Arc<ResourceType>) {
    let (objects, mut first) = clients[0].cache(resource).await;
    let mut watches = Vec::new();
    for client in &clients[1..] {
        watches.push((client.name, client.cache(resource).await.1));
    }
    let Some((_, facts)) = objects.into_iter().find(|(_, facts)| !facts.being_deleted) else { return };
    let namespace = facts.namespace.as_ref().map(|namespace| namespace.as_str());
    let path = resource.path(namespace, Some(&facts.name));
    // A label of this type's own, because some objects are served as two types.
    let patch =
        json!({"metadata": {"annotations": {"test.io/changed": resource.group_resource.to_string()}}});
    let request = http::Request::patch(&path)
        .header("content-type", "application/merge-patch+json")
        .body(patch.to_string().into_bytes())
        .unwrap();
    bench.raw.request::<serde_json::Value>(request).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    let expected = change(&mut first, &facts, "JSON").await;
    for (name, mut watch) in watches {
        assert_eq!(change(&mut watch, &facts, name).await, expected, "{name} {}", resource.group_resource);
    }
}

/// The first change of an object that a watch shows.
async fn change(watch: &mut ListWatch, before: &ObjectFacts, name: &str) -> ObjectFacts {
    let mut ended = 0;
    loop {
        match next(watch).await {
            Step::Events(events) => {
                for event in events {
                    match event {
                        WatchEvent::Apply(facts)
                            if facts.uid == before.uid
                                && facts.resource_version != before.resource_version =>
                        {
                            return facts;
                        }
                        _ => {}
                    }
                }
            }
            Step::WatchEnded if ended < 3 => ended += 1,
            Step::Bookmark { .. } => {}
            step => panic!("{name}: {step:?}"),
        }
    }
}
