//! The server as a plain value: a request and the time go in, an answer comes out.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Serialize;

use crate::call::Call;
use crate::controllers::{Due, Schedule};
use crate::documents::Counts;
use crate::guards::{Begun, Guards, Waiting};
use crate::reads::Watch;
use crate::resources::{Backends, Catalog, api_services, crds};
use crate::service::ApiServer;
use crate::status::Status;
use crate::store::Store;
use crate::{controllers, dispatch};

impl Server {
    /// A server with the default namespaces.
    pub(crate) fn new(settings: Settings) -> Self {
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
        controllers::create_namespaces(&mut server, now);
        api_services::reconcile(&mut server, now);
        server
    }

    /// Answers a request at this time.
    ///
    /// Work that is due by then is done first, so that no answer is older than the clock.
    pub(crate) fn handle(&mut self, call: &Call, now: SystemTime) -> Answer {
        self.requests += 1;
        self.resume(call, Begun::new(self.requests), now)
    }

    /// Goes on with a request that has waited for admission.
    pub(crate) fn resume(&mut self, call: &Call, begun: Begun, now: SystemTime) -> Answer {
        self.tick(now);
        dispatch::answer(self, call, begun, now)
    }

    /// When the next scheduled work is due, if there is any.
    pub(crate) fn next_due(&self) -> Option<SystemTime> {
        self.due.next()
    }

    /// Does the work that is due: custom resources appear and disappear, namespaces are emptied.
    pub(crate) fn tick(&mut self, now: SystemTime) {
        while let Some(due) = self.due.pop(now) {
            match due {
                Due::Everything => controllers::reconcile(self, now),
                Due::Serving(name) => crds::establish(self, &name, now),
            }
        }
    }

    /// Checks the whole state, as after a start. Call it after the store was changed from outside,
    /// for example restored from a snapshot.
    pub(crate) fn resync(&mut self, now: SystemTime) {
        self.catalog = Catalog::new(self.settings.release);
        self.due = Schedule::default();
        crds::resync(self, now);
        api_services::reconcile(self, now);
        controllers::look_soon(self, now);
    }
}

/// The release to emulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Release {
    /// 1.20: plain discovery, no streamed lists, Ingress in two groups.
    V1_20,
    /// 1.36: aggregated discovery, streamed lists.
    V1_36,
}

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The release to emulate.
    pub release: Release,
    /// The seed of uids and generated names. The same seed gives the same names.
    pub seed: u64,
    /// The wall-clock time when the server is created. From then on, it follows tokio's clock,
    /// which tests can pause.
    pub epoch: SystemTime,
    /// The delay until a custom resource is established and served after its definition was created, and until it
    /// disappears after the definition was deleted.
    pub custom_resource_delay: Duration,
    /// Whether the server empties and finalizes namespaces, as the namespace controller of
    /// kube-controller-manager does.
    pub namespace_controller: bool,
    /// The number of changes of each resource that are kept for watches. Older ones are compacted
    /// automatically.
    pub history: usize,
    /// Whether to keep every change with its cause, for an oracle.
    pub journal: bool,
    /// The interval of bookmarks, for watches that request them.
    pub bookmarks: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            release: Release::V1_36,
            seed: 0,
            epoch: SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600),
            custom_resource_delay: Duration::from_millis(100),
            namespace_controller: true,
            history: 10_000,
            journal: false,
            bookmarks: Duration::from_secs(60),
        }
    }
}

/// The state of the whole server.
#[derive(Debug)]
pub struct Server {
    /// The settings.
    pub settings: Settings,
    /// The stored objects.
    pub store: Store,
    /// The served types.
    pub catalog: Catalog,
    pub(crate) backends: Backends,
    /// Scheduled work.
    pub(crate) due: Schedule,
    /// The number of requests served.
    pub requests: u64,
    /// The numbers by verb and type.
    pub(crate) counts: Counts,
    pub(crate) guards: Guards,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    /// A complete answer.
    Whole(Reply),
    /// A stream of changes.
    Watch(Watch),
    /// This backend answers.
    Elsewhere(ApiServer),
    /// Admission takes time.
    Waits(Box<Waiting>),
}

/// A complete answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// The HTTP status code.
    pub code: u16,
    pub content_type: &'static str,
    pub body: Bytes,
}

impl Reply {
    /// An answer in JSON.
    pub fn json(code: u16, value: &impl Serialize) -> Self {
        // All keys are strings, so serialization cannot fail.
        let body = serde_json::to_vec(value).unwrap_or_default().into();
        Self { code, content_type: "application/json", body }
    }

    /// An answer in plain text.
    pub fn text(code: u16, text: impl Into<Bytes>) -> Self {
        Self { code, content_type: "text/plain; charset=utf-8", body: text.into() }
    }

    /// The 404 of a path that is unknown to every part of the server.
    pub fn unknown_path() -> Self {
        Self::text(404, "404 page not found\n")
    }

    /// The answer for a group and version whose backend is unavailable.
    pub fn unavailable() -> Self {
        Self::text(503, "service unavailable\n")
    }
}

impl From<Status> for Reply {
    fn from(status: Status) -> Self {
        Self::json(status.code, &status.to_value())
    }
}
