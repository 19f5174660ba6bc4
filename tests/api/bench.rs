//! The client under test, with an API server and something to work on.

use std::sync::Arc;
use std::time::Duration;

use kube_gc_client::{Api, ApiSettings, Discovered, ListWatch, LookupResult, Step, WriteGate, load_config};
use kube_gc_core::object::{Identity, Namespace, ObjectFacts, ResourceType, Uid};
use serde_json::{Value, json};

use kube_gc_testkit::ControlPlane;

/// The client under test, and a plain client that prepares objects.
pub struct Bench {
    pub api: Api,
    pub raw: kube::Client,
    pub discovered: Discovered,
    pub server: ControlPlane,
}

/// The group of a custom resource.
pub const GROUP: &str = "apitest.example.com";

impl Bench {
    pub async fn new() -> Self {
        let server =
            tokio::task::spawn_blocking(|| ControlPlane::start_with(None, &[])).await.unwrap().unwrap();
        let config = load_config(Some(server.kubeconfig()), None).await.unwrap();
        let raw = kube::Client::try_from(config.clone()).unwrap();
        let api = Api::connect(config, ApiSettings::default(), WriteGate::open()).unwrap();
        let mut bench = Self { api, raw, discovered: Discovered::default(), server };
        bench.serve_widgets().await;
        bench
    }

    pub async fn send(&self, method: &str, path: &str, body: &Value) -> Value {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(body.to_string().into_bytes())
            .unwrap();
        self.raw.request(request).await.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
    }

    /// Creates a custom resource definition, and waits until discovery shows it.
    pub async fn serve_widgets(&mut self) {
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
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(definition.to_string().into_bytes())
            .unwrap();
        self.raw.request::<Value>(request).await.unwrap();
        for _ in 0..100 {
            self.discovered = self.api.discover(Some(&self.discovered)).await.unwrap();
            if self.discovered.catalog.resolve(&format!("{GROUP}/v1"), "Widget").is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("the custom resource is not discovered");
    }

    pub fn resource(&self, api_version: &str, kind: &str) -> Arc<ResourceType> {
        Arc::clone(self.discovered.catalog.resolve(api_version, kind).unwrap())
    }

    /// Creates an object with a new name in `default`.
    pub async fn create(&self, api_version: &str, kind: &str, metadata: Value) -> (Identity, ObjectFacts) {
        let resource = self.resource(api_version, kind);
        let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        object["metadata"]["generateName"] = "t-".into();
        let created = self.send("POST", &resource.path(Some("default"), None), &object).await;
        let text = |field: &str| created["metadata"][field].as_str().unwrap().to_owned();
        let identity = Identity {
            resource,
            namespace: Namespace::parse("default"),
            name: text("name").into(),
            uid: Uid::parse(&text("uid")).unwrap(),
        };
        let facts = self.found(&identity).await;
        (identity, facts)
    }

    pub async fn found(&self, identity: &Identity) -> ObjectFacts {
        match self.api.look_up(identity).await.unwrap() {
            LookupResult::Found(facts) => facts,
            LookupResult::Absent(evidence) => panic!("{identity} is absent: {evidence:?}"),
        }
    }
}

/// A reference to an owner.
pub fn owner(identity: &Identity, blocking: bool) -> Value {
    json!({
        "apiVersion": identity.resource.api_version(), "kind": &*identity.resource.kind,
        "name": &*identity.name, "uid": identity.uid.to_string(), "blockOwnerDeletion": blocking,
    })
}

/// The next step of a watch.
pub async fn next(watch: &mut ListWatch) -> Step {
    let step = tokio::time::timeout(Duration::from_secs(20), watch.next()).await;
    step.expect("a step in time").expect("it goes on")
}
