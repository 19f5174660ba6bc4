//! Requests to a server, and what it answers. The differential test compares many more with a real server
//! of 1.20; here is what neither that one nor a scenario shows.

#![allow(clippy::needless_pass_by_value, reason = "tests write `json!` where they call")]

mod deletions;
mod guards;
mod lists;
mod service;
mod types;
mod watches;
mod writes;

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::call::Call;
use crate::object::{Key, Object};
use crate::reads::{Pull, Watch};
use crate::resources::ResourceName;
use crate::server::{Answer, Release, Server, Settings};
use crate::store::Cause;

pub(super) const MAPS: &str = "/api/v1/namespaces/shop/configmaps";
const PODS: &str = "/api/v1/namespaces/shop/pods";
const NAMESPACES: &str = "/api/v1/namespaces";
const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A request with this path and query.
pub(super) fn call(method: &str, path: &str, body: &Value) -> Call {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    Call {
        method: method.parse().unwrap(),
        path: path.to_owned(),
        query: pairs
            .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect(),
        accept: "application/json".to_owned(),
        content_type: match method {
            "PATCH" => "application/merge-patch+json".to_owned(),
            _ => "application/json".to_owned(),
        },
        user_agent: "test".to_owned(),
        token: String::new(),
        body: if body.is_null() { String::new() } else { body.to_string() }.into(),
    }
}

fn configmaps() -> ResourceName {
    ResourceName::new("", "configmaps")
}

/// Writes a config map directly. Returns the version.
fn put(server: &mut Server, name: &str, labels: Value) -> u64 {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "value"},
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": labels},
    });
    let key = Key::new(Some("shop"), name);
    server.store.write(&configmaps(), &key, object, &Cause::server("test")).resource_version()
}

/// A server with the namespace `shop`, and its clock.
struct Stage {
    server: Server,
    now: SystemTime,
    /// The token and the `Accept` of requests.
    token: &'static str,
    accept: &'static str,
}

impl Stage {
    fn new(release: Release) -> Self {
        let settings = Settings { release, ..Settings::default() };
        let (now, server) = (settings.epoch, Server::new(settings));
        let mut stage = Self { server, now, token: "", accept: "application/json" };
        stage.ok("POST", NAMESPACES, json!({"metadata": {"name": "shop"}}));
        stage
    }

    /// With five config maps, and their versions.
    fn filled(release: Release) -> (Self, [u64; 5]) {
        let mut stage = Self::new(release);
        let versions = ["c1", "c2", "c3", "c4", "c5"].map(|name| stage.put(name, json!({"app": "x"})));
        (stage, versions)
    }

    /// With the custom type `toys`.
    fn with_toys() -> Self {
        let mut stage = Self::new(Release::V1_36);
        stage.ok("POST", CRDS, types::definition());
        stage.settle();
        stage
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.server.tick(self.now);
    }

    /// Moves the clock until the server's controllers have nothing left to do.
    fn settle(&mut self) {
        while let Some(due) = self.server.next_due() {
            self.now = self.now.max(due);
            self.server.tick(self.now);
        }
    }

    fn call(&mut self, mut call: Call) -> (u16, Value) {
        call.token = self.token.to_owned();
        call.accept = self.accept.to_owned();
        let Answer::Whole(reply) = self.server.handle(&call, self.now) else { panic!("a watch") };
        let text = || String::from_utf8_lossy(&reply.body).into();
        (reply.code, serde_json::from_slice(&reply.body).unwrap_or_else(|_| text()))
    }

    /// Sends a request. A patch is a merge patch.
    fn send(&mut self, method: &str, path: &str, body: Value) -> (u16, Value) {
        self.call(call(method, path, &body))
    }

    fn get(&mut self, path: &str) -> (u16, Value) {
        self.send("GET", path, Value::Null)
    }

    /// Sends what must succeed.
    #[track_caller]
    fn ok(&mut self, method: &str, path: &str, body: Value) -> Value {
        let (code, answer) = self.send(method, path, body);
        assert!(code < 300, "{method} {path}: {answer}");
        answer
    }

    /// Sends what must be refused with this code and reason.
    #[track_caller]
    fn refused(&mut self, (method, path): (&str, &str), body: Value, expected: (u16, &str)) -> Value {
        let (code, answer) = self.send(method, path, body);
        let reason = answer["reason"].as_str().unwrap_or_default();
        assert_eq!((code, reason), expected, "{method} {path}: {answer}");
        answer
    }

    /// Creates a config map with this metadata.
    #[track_caller]
    fn map(&mut self, metadata: Value) -> Value {
        self.ok("POST", MAPS, json!({ "metadata": metadata }))
    }

    /// A config map as it is stored.
    fn stored(&self, name: &str) -> Option<&Object> {
        self.server.store.get(&configmaps(), &Key::new(Some("shop"), name))
    }

    fn put(&mut self, name: &str, labels: Value) -> u64 {
        put(&mut self.server, name, labels)
    }

    fn remove(&mut self, name: &str) -> u64 {
        let key = Key::new(Some("shop"), name);
        self.server.store.remove(&configmaps(), &key, &Cause::server("test")).unwrap().resource_version()
    }

    /// Changes an object of another type. Returns the version.
    fn elsewhere(&mut self) -> u64 {
        let value = json!({"metadata": {"name": "s"}, "at": self.server.store.head()});
        let (secrets, key) = (ResourceName::new("", "secrets"), Key::new(Some("shop"), "s"));
        self.server.store.write(&secrets, &key, value, &Cause::server("test")).resource_version()
    }

    /// The names in a list of the config maps, and the list.
    #[track_caller]
    fn list(&mut self, query: &str) -> (Vec<String>, Value) {
        let list = self.ok("GET", &format!("{MAPS}?{query}"), Value::Null);
        let items = list["items"].as_array().unwrap().iter();
        (items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect(), list)
    }

    fn watch(&mut self, query: &str) -> Watch {
        let mut call = call("GET", &format!("{MAPS}?watch=true&{query}"), &Value::Null);
        call.accept = self.accept.to_owned();
        match self.server.handle(&call, self.now) {
            Answer::Watch(watch) => watch,
            other => panic!("refused: {other:?}"),
        }
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
}

fn event(kind: &str, name: &str, version: u64) -> (String, String, u64) {
    (kind.to_owned(), name.to_owned(), version)
}
