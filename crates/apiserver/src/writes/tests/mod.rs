//! Requests against a server, and what it answers. The answers are those of a real
//! kube-apiserver 1.20.2.

mod create;
mod delete;
mod namespaces;
mod patch;
mod update;

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::call::Call;
use crate::object::{Key, Object};
use crate::resources::ResourceName;
use crate::server::{Answer, Body, Release, Server, Settings};

pub(super) const MAPS: &str = "/api/v1/namespaces/t/configmaps";
pub(super) const PODS: &str = "/api/v1/namespaces/t/pods";
pub(super) const FOOS: &str = "/apis/x.io/v1/namespaces/t/foos";
pub(super) const NAMESPACES: &str = "/api/v1/namespaces";
pub(super) const CRDS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A request with this path and query.
pub(super) fn call(method: &str, path: &str, body: Option<Value>) -> Call {
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
        content_type: "application/json".to_owned(),
        user_agent: "test".to_owned(),
        token: String::new(),
        body: body.map(|body| body.to_string().into()).unwrap_or_default(),
    }
}

/// A server with the namespace `t`, and its clock.
pub(super) struct Stage {
    pub(super) server: Server,
    pub(super) now: SystemTime,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) code: u16,
    pub(super) body: Value,
}

impl Answered {
    pub(super) fn metadata(&self) -> &Value {
        &self.body["metadata"]
    }

    pub(super) fn finalizers(&self) -> Vec<&str> {
        let list = self.metadata()["finalizers"].as_array();
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// A refusal with this code and reason.
    #[track_caller]
    pub(super) fn refused(&self, code: u16, reason: &str) {
        assert_eq!((self.code, self.body["reason"].as_str().unwrap_or_default()), (code, reason));
    }

    /// The fields that a 422 names, one for each cause.
    #[track_caller]
    pub(super) fn invalid(&self) -> Vec<&str> {
        assert_eq!((self.code, &self.body["reason"]), (422, &json!("Invalid")), "{}", self.body);
        let causes = self.body["details"]["causes"].as_array();
        causes.into_iter().flatten().filter_map(|cause| cause["field"].as_str()).collect()
    }
}

impl Stage {
    pub(super) fn new() -> Self {
        Self::of(Release::V1_20)
    }

    pub(super) fn of(release: Release) -> Self {
        let settings = Settings { release, namespace_controller: false, ..Settings::default() };
        let now = settings.epoch;
        let mut stage = Self { server: Server::new(settings), now };
        stage.ok("POST", NAMESPACES, json!({"metadata": {"name": "t"}}));
        stage
    }

    /// With the custom types `foos`, and `bars` that have a status subresource.
    pub(super) fn with_custom_types() -> Self {
        let mut stage = Self::new();
        for (plural, kind, subresources) in
            [("foos", "Foo", json!({})), ("bars", "Bar", json!({"status": {}}))]
        {
            let schema =
                json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
            let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": subresources});
            let names = json!({"plural": plural, "kind": kind});
            let spec = json!({"group": "x.io", "scope": "Namespaced", "names": names, "versions": [version]});
            stage.ok("POST", CRDS, json!({"metadata": {"name": format!("{plural}.x.io")}, "spec": spec}));
        }
        stage.later(10);
        stage
    }

    pub(super) fn later(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.server.tick(self.now);
    }

    pub(super) fn call(&mut self, call: &Call) -> Answered {
        let Answer::Whole(reply) = self.server.handle(call, self.now) else { panic!("a watch") };
        let body = match reply.body {
            Body::Json(value, _) => value,
            Body::Written(bytes, _) => serde_json::from_slice(&bytes).unwrap(),
            Body::Text(text) => text.into(),
        };
        Answered { code: reply.code, body }
    }

    pub(super) fn send(&mut self, method: &str, path: &str, body: Value) -> Answered {
        self.call(&call(method, path, (!body.is_null()).then_some(body)))
    }

    /// Sends what must succeed.
    #[track_caller]
    pub(super) fn ok(&mut self, method: &str, path: &str, body: Value) -> Answered {
        let answered = self.send(method, path, body);
        assert!(answered.code < 300, "{method} {path}: {}", answered.body);
        answered
    }

    /// A patch in the language of this name.
    pub(super) fn patch(&mut self, language: &str, path: &str, patch: Value) -> Answered {
        let mut call = call("PATCH", path, Some(patch));
        call.content_type = format!("application/{language}-patch+json");
        self.call(&call)
    }

    pub(super) fn merge(&mut self, path: &str, patch: Value) -> Answered {
        self.patch("merge", path, patch)
    }

    /// Creates a config map with this metadata.
    #[track_caller]
    pub(super) fn map(&mut self, metadata: Value) -> Answered {
        let mut body = json!({});
        body["metadata"] = metadata;
        self.ok("POST", MAPS, body)
    }

    /// A config map as it is stored.
    pub(super) fn stored(&self, name: &str) -> Option<&Object> {
        self.server.store.get(&ResourceName::new("", "configmaps"), &Key::new(Some("t"), name))
    }
}

/// An owner reference.
pub(super) fn owner(uid: &str, more: Value) -> Value {
    let mut reference = json!({"apiVersion": "v1", "kind": "X", "name": uid, "uid": uid});
    if let Value::Object(more) = more {
        reference.as_object_mut().unwrap().extend(more);
    }
    reference
}
