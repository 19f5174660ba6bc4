mod forms;
mod lists;
mod selectors;
mod watches;

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Pull, Watch};
use crate::call::Call;
use crate::object::Key;
use crate::resources::ResourceName;
use crate::server::{Answer, Body, Release, Server, Settings};
use crate::store::Cause;

const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// A server whose store is filled directly, without requests.
struct Fixture {
    server: Server,
    now: SystemTime,
}

fn configmaps() -> ResourceName {
    ResourceName::new("", "configmaps")
}

impl Fixture {
    fn new(release: Release) -> Self {
        let settings = Settings { release, ..Settings::default() };
        let now = settings.epoch;
        Self { server: Server::new(settings), now }
    }

    /// Five config maps in one namespace, and their versions.
    fn filled(release: Release) -> (Self, [u64; 5]) {
        let mut fixture = Self::new(release);
        let versions =
            ["c1", "c2", "c3", "c4", "c5"].map(|name| fixture.put("shop", name, json!({"app": "x"})));
        (fixture, versions)
    }

    fn put(&mut self, namespace: &str, name: &str, labels: Value) -> u64 {
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "value"},
            "metadata": {"name": name, "namespace": namespace, "uid": name},
        });
        object["metadata"]["labels"] = labels;
        let key = Key::new(Some(namespace), name);
        self.server.store.write(&configmaps(), &key, object, &Cause::server("test")).resource_version()
    }

    fn remove(&mut self, namespace: &str, name: &str) -> u64 {
        let key = Key::new(Some(namespace), name);
        self.server.store.remove(&configmaps(), &key, &Cause::server("test")).unwrap().resource_version()
    }

    /// Changes an object of another type. Returns the version.
    fn elsewhere(&mut self) -> u64 {
        let key = Key::new(Some("shop"), "s");
        let value = json!({"metadata": {"name": "s"}, "at": self.server.store.head()});
        let secrets = ResourceName::new("", "secrets");
        self.server.store.write(&secrets, &key, value, &Cause::server("test")).resource_version()
    }

    fn ask(&mut self, accept: &str, path: &str) -> Answer {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let call = Call {
            method: http::Method::GET,
            path: path.to_owned(),
            query: pairs
                .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            accept: accept.to_owned(),
            content_type: String::new(),
            user_agent: String::new(),
            token: String::new(),
            body: Bytes::new(),
        };
        self.server.handle(&call, self.now)
    }

    fn get_as(&mut self, accept: &str, path: &str) -> (u16, Value) {
        let Answer::Whole(reply) = self.ask(accept, path) else { panic!("a watch of {path}") };
        let value = match reply.body {
            Body::Json(value, _) => value,
            Body::Written(bytes, _) => serde_json::from_slice(&bytes).unwrap(),
            Body::Text(text) => text.into(),
        };
        (reply.code, value)
    }

    fn get(&mut self, path: &str) -> (u16, Value) {
        self.get_as("", path)
    }

    /// The list of the namespace's config maps.
    fn list(&mut self, query: &str) -> List {
        let (code, value) = self.get(&format!("/api/v1/namespaces/shop/configmaps?{query}"));
        assert_eq!(code, 200, "{value}");
        List(value)
    }

    fn refused(&mut self, query: &str) -> (u16, String, String) {
        let (code, status) = self.get(&format!("/api/v1/namespaces/shop/configmaps?{query}"));
        assert_eq!(status["kind"], "Status", "{status}");
        assert_eq!(status["code"], code);
        let text = |field: &str| status[field].as_str().unwrap_or_default().to_owned();
        (code, text("reason"), text("message"))
    }

    fn watch_as(&mut self, accept: &str, query: &str) -> Watch {
        match self.ask(accept, &format!("/api/v1/namespaces/shop/configmaps?watch=true&{query}")) {
            Answer::Watch(watch) => watch,
            other => panic!("refused: {other:?}"),
        }
    }

    fn watch(&mut self, query: &str) -> Watch {
        self.watch_as("", query)
    }

    fn pull(&self, watch: &mut Watch) -> Pull {
        watch.pull(&self.server, self.now)
    }

    /// All lines that the watch has now.
    fn lines(&self, watch: &mut Watch) -> Vec<Value> {
        let mut lines = Vec::new();
        while let Pull::Lines(bytes) = self.pull(watch) {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
        lines
    }

    /// The same lines in short: the kind of the event, the name and the version of the object.
    fn events(&self, watch: &mut Watch) -> Vec<(String, String, u64)> {
        let event = |line: Value| {
            let text = |pointer| line.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
            let version = text("/object/metadata/resourceVersion").parse().unwrap_or_default();
            (text("/type"), text("/object/metadata/name"), version)
        };
        self.lines(watch).into_iter().map(event).collect()
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

fn event(kind: &str, name: &str, version: u64) -> (String, String, u64) {
    (kind.to_owned(), name.to_owned(), version)
}

struct List(Value);

impl List {
    fn names(&self) -> Vec<&str> {
        let items = self.0["items"].as_array().unwrap();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
    }

    fn version(&self) -> u64 {
        self.0["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    fn token(&self) -> Option<&str> {
        self.0["metadata"]["continue"].as_str()
    }

    fn remaining(&self) -> Option<u64> {
        self.0["metadata"]["remainingItemCount"].as_u64()
    }
}
