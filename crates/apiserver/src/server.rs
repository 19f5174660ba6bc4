//! The server as a plain value: a request and the time go in, an answer comes out.

use std::time::SystemTime;

use super::call::Call;
use super::dispatch;
use super::follow_up;
use super::guards::{Begun, Guards};
use super::metrics::Counts;
use super::namespaces;
use super::protobuf;
use super::resources::{Backends, Catalog, api_services, crds};
use super::schedule::{Due, Schedule};
use super::settings::Settings;
use super::store::Store;

pub use super::answer::Answer;
pub use super::reply::{Body, Reply};
pub use super::state::Server;

impl Server {
    /// A server with the default namespaces.
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

    /// Answers a request at this time.
    ///
    /// Work that is due by then is done first, so that no answer is older than the clock.
    pub fn handle(&mut self, call: &Call, now: SystemTime) -> Answer {
        self.requests += 1;
        self.resume(call, Begun::new(self.requests), now)
    }

    /// Goes on with a request that has waited for admission.
    pub fn resume(&mut self, call: &Call, begun: Begun, now: SystemTime) -> Answer {
        self.tick(now);
        if call.content_type == protobuf::MEDIA_TYPE
            && let Some(object) = protobuf::read(&call.body)
        {
            let content_type = "application/json".to_owned();
            let call = Call { content_type, body: object.to_string().into(), ..call.clone() };
            return dispatch::answer(self, &call, begun, now);
        }
        dispatch::answer(self, call, begun, now)
    }

    /// When the next scheduled work is due, if there is any.
    #[must_use]
    pub fn next_due(&self) -> Option<SystemTime> {
        self.due.next()
    }

    /// Does the work that is due: custom resources appear and disappear, namespaces are emptied.
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

    /// Checks the whole state, as after a start. Call it after the store was changed from outside,
    /// for example restored from a snapshot.
    pub fn resync(&mut self, now: SystemTime) {
        self.catalog = Catalog::new(self.settings.release);
        self.due = Schedule::default();
        crds::resync(self, now);
        api_services::reconcile(self, now);
        follow_up::namespaces_changed(self, now);
    }
}
