//! The server as one plain value: a request and the time go in, an answer comes
//! out.

use std::time::SystemTime;

use bytes::Bytes;
use serde_json::Value;

use super::call::Call;
use super::dispatch;
use super::guards::Guards;
use super::metrics::Counts;
use super::namespaces;
use super::protobuf;
use super::reads::Watch;
use super::resources::api_services::{self, Backends};
use super::resources::{Catalog, ServiceName, crds};
use super::schedule::{Due, Schedule};
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
    /// Not here: the backend behind this service has the answer.
    Elsewhere(ServiceName),
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
    /// The types that are served now.
    pub catalog: Catalog,
    /// What the backends have to which APIServices send groups, as far as they are
    /// there.
    pub backends: Backends,
    /// What falls due later.
    pub due: Schedule,
    /// How many requests were served.
    pub requests: u64,
    /// The same by verb and type.
    pub counts: Counts,
    /// Who may refuse requests.
    pub guards: Guards,
}

impl Server {
    /// A server with the namespaces that every server makes for itself.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        let catalog = Catalog::new(settings.release);
        let now = settings.epoch;
        let store = Store::new(settings.history, settings.journal);
        let mut server = Self {
            settings,
            store,
            catalog,
            backends: Backends::default(),
            due: Schedule::default(),
            requests: 0,
            counts: Counts::default(),
            guards: Guards::default(),
        };
        namespaces::create_initial(&mut server, now);
        api_services::reconcile(&mut server, now);
        server
    }

    /// Answers a request that comes at this time.
    ///
    /// What is due by then is done first, so that no answer is older than the clock.
    pub fn handle(&mut self, call: &Call, now: SystemTime) -> Answer {
        self.tick(now);
        self.requests += 1;
        let number = self.requests;
        if call.content_type == protobuf::MEDIA_TYPE
            && let Some(object) = protobuf::read(&call.body)
        {
            let content_type = "application/json".to_owned();
            let call = Call { content_type, body: object.to_string().into(), ..call.clone() };
            return dispatch::answer(self, &call, number, now);
        }
        dispatch::answer(self, call, number, now)
    }

    /// When something falls due by itself, if anything does.
    #[must_use]
    pub fn next_due(&self) -> Option<SystemTime> {
        self.due.next()
    }

    /// Does what is due: custom resources appear and vanish, namespaces are emptied.
    pub fn tick(&mut self, now: SystemTime) {
        while let Some(due) = self.due.pop(now) {
            match due {
                Due::Definition(name) => crds::reconcile(self, &name, now),
                Due::Serving(name) => crds::serve(self, &name, now),
                Due::Services => api_services::reconcile(self, now),
                Due::Namespace(name) => namespaces::empty(self, &name, now),
            }
        }
    }

    /// Looks at the whole state anew, as after a start: to be called when the store
    /// was changed from outside, such as restored from a snapshot.
    pub fn resync(&mut self, now: SystemTime) {
        self.catalog = Catalog::new(self.settings.release);
        self.due = Schedule::default();
        crds::resync(self, now);
        api_services::reconcile(self, now);
        namespaces::resync(self, now);
    }
}
