//! Discovery, and the life of custom resource definitions.

mod backendless;
mod crds;
mod discovery;
mod namespaces;

use std::time::SystemTime;

use serde_json::Value;

use crate::call::Call;
use crate::server::{Answer, Body, Release, Server, Settings};

/// A server with a clock that the test moves.
struct Stage {
    server: Server,
    now: SystemTime,
}

impl Stage {
    fn new(release: Release) -> Self {
        let settings = Settings { release, ..Settings::default() };
        Self { now: settings.epoch, server: Server::new(settings) }
    }

    fn send(&mut self, method: &str, path: &str, accept: &str, body: &Value) -> (u16, Value) {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let query = query.split('&').filter_map(|pair| pair.split_once('='));
        let call = Call {
            method: method.parse().unwrap(),
            path: path.to_owned(),
            query: query.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            accept: accept.to_owned(),
            content_type: match method {
                "PATCH" => "application/merge-patch+json".to_owned(),
                _ => "application/json".to_owned(),
            },
            user_agent: "test".to_owned(),
            token: String::new(),
            body: if body.is_null() { Vec::new() } else { body.to_string().into_bytes() }.into(),
        };
        match self.server.handle(&call, self.now) {
            Answer::Whole(reply) => {
                let body = match reply.body {
                    Body::Json(value, _) => value,
                    Body::Written(bytes, _) => serde_json::from_slice(&bytes).unwrap(),
                    Body::Text(text) => text.into(),
                };
                (reply.code, body)
            }
            other => panic!("{path}: {other:?}"),
        }
    }

    fn get(&mut self, path: &str) -> (u16, Value) {
        self.send("GET", path, "application/json", &Value::Null)
    }

    /// A merge patch.
    fn patch(&mut self, path: &str, patch: &Value) -> (u16, Value) {
        self.send("PATCH", path, "application/json", patch)
    }

    fn create(&mut self, path: &str, object: &Value) -> Value {
        let (code, created) = self.send("POST", path, "application/json", object);
        assert_eq!(code, 201, "{path}: {created}");
        created
    }

    fn delete(&mut self, path: &str) -> (u16, Value) {
        self.send("DELETE", path, "application/json", &Value::Null)
    }

    /// Moves the clock until the server's controllers have nothing left to do.
    fn settle(&mut self) {
        let mut rounds = 0;
        while let Some(due) = self.server.next_due() {
            self.now = self.now.max(due);
            self.server.tick(self.now);
            rounds += 1;
            assert!(rounds < 100, "the server does not settle");
        }
    }
}
