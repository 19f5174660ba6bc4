//! The server as one plain value: a request and the time go in, an answer comes
//! out.

use std::time::SystemTime;

use bytes::Bytes;
use serde_json::Value;

use super::call::{Call, no_such_path};
use super::reads::Watch;
use super::settings::Settings;
use super::status::Status;
use super::store::Store;

/// What is answered.
#[derive(Debug)]
pub enum Answer {
    /// At once and whole.
    Whole(Reply),
    /// A stream of changes.
    Watch(Watch),
}

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP code.
    pub code: u16,
    /// The body.
    pub body: Body,
}

/// The body of a whole answer.
#[derive(Clone, Debug)]
pub enum Body {
    /// JSON, with the content type to name it by.
    Json(Value, &'static str),
    /// JSON that is written already, with the content type to name it by.
    Written(Bytes, &'static str),
    /// Text, such as `ok`.
    Text(String),
}

impl Reply {
    /// JSON.
    #[must_use]
    pub fn json(code: u16, value: Value) -> Self {
        Self { code, body: Body::Json(value, "application/json") }
    }
}

impl From<Status> for Reply {
    fn from(status: Status) -> Self {
        Self::json(status.code, status.to_value())
    }
}

/// The state of the whole server.
#[derive(Debug)]
pub struct Server {
    /// How it behaves.
    pub settings: Settings,
    /// The objects.
    pub store: Store,
}

impl Server {
    /// An empty server, with the namespaces `default` and `kube-system`.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let store = Store::new(settings.history, settings.journal);
        Self { settings, store }
    }

    /// Answers a request that comes at this time.
    pub fn handle(&mut self, call: &Call, now: SystemTime) -> Answer {
        let _ = (call, now);
        Answer::Whole(no_such_path().into())
    }

    /// When something falls due by itself, if anything does.
    #[must_use]
    pub const fn next_due(&self) -> Option<SystemTime> {
        None
    }

    /// Does what is due: custom resources appear and vanish, namespaces are emptied.
    pub fn tick(&mut self, now: SystemTime) {
        let _ = now;
    }
}
