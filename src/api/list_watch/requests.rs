//! Sends the requests that the machine asks for.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::time::Instant;

use super::action::{Action, ListFrom};
use super::driver::ListWatch;
use super::stage::{Opening, Stage};
use crate::api::call::Call;
use crate::api::error::ApiError;
use crate::api::media_type::{list_accept, watch_accept};
use crate::api::path;
use crate::api::settings::Verb;
use kube_gc_decode::Encoding;

/// After an outage, the requests of all types are spread over this time. Sixty lists a second
/// are no heavy load.
const SPREAD: Duration = Duration::from_secs(1);

impl ListWatch {
    /// Waits until the API server is reachable.
    pub(super) fn hold(&mut self) {
        let api = self.api.clone();
        self.stage = Stage::Held(async move { api.reachable().await }.boxed());
    }

    /// Resets the backoff after an outage, and spreads the types over [`SPREAD`].
    pub(super) fn go_on_soon(&mut self) -> Stage {
        let now = Instant::now();
        self.machine.recovered(now);
        Stage::Waiting(now + self.jitter.within(&(Duration::ZERO..SPREAD)))
    }

    /// Begins the next action of the machine.
    pub(super) fn begin(&mut self) {
        let now = Instant::now();
        self.stage = match self.machine.action(now) {
            Action::Wait(time) => Stage::Waiting(now + time),
            Action::Check => Stage::Checking(self.api.present_version(&self.resource)),
            Action::List(from) => {
                let first = !matches!(from, ListFrom::Page(_));
                let path = self.list_path(&from);
                let opening = self.open(Verb::List, "LIST", list_accept(self.preferred), path);
                Stage::OpeningList { first, since: now, opening }
            }
            Action::Stream { not_older_than, lasting } => {
                let mut path = self.watch_path(lasting);
                path.push_str("&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=");
                match &not_older_than {
                    None => path.push('0'),
                    Some(version) => path::encode(&mut path, &version.to_string()),
                }
                let deadline = self.watch_deadline(now, lasting);
                let opening = self.open(Verb::Watch, "LIST", watch_accept(self.preferred), path);
                Stage::OpeningStream { not_older_than, deadline, opening }
            }
            Action::Watch { from, lasting } => {
                self.follow_store();
                let mut path = self.watch_path(lasting);
                if let Some(version) = from {
                    path.push_str("&resourceVersion=");
                    path::encode(&mut path, &version.to_string());
                }
                let deadline = self.watch_deadline(now, lasting);
                let opening = self.open(Verb::Watch, "WATCH", watch_accept(self.preferred), path);
                Stage::OpeningWatch { deadline, opening }
            }
        };
    }

    /// The watch begins.
    pub(super) fn follow_store(&self) {
        if self.machine.shares_store() {
            self.api.restore_fence().follow(&self.resource);
        }
    }

    fn watch_path(&self, lasting: Duration) -> String {
        let path = path::collection(&self.resource, None);
        format!("{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds={}", lasting.as_secs())
    }

    /// When a watch that begins now is dead.
    fn watch_deadline(&self, now: Instant, lasting: Duration) -> Instant {
        now + lasting + self.api.settings().watch.grace
    }

    fn list_path(&self, from: &ListFrom) -> String {
        let mut path = path::collection(&self.resource, None);
        let limit = self.api.settings().page_size.max(1);
        match from {
            ListFrom::Cache => path.push_str("?resourceVersion=0&resourceVersionMatch=NotOlderThan"),
            ListFrom::NotOlderThan(version) => {
                path.push_str("?resourceVersionMatch=NotOlderThan&resourceVersion=");
                path::encode(&mut path, &version.to_string());
            }
            ListFrom::Store => path.push_str(&format!("?limit={limit}")),
            ListFrom::Page(token) => {
                path.push_str(&format!("?limit={limit}&continue="));
                path::encode(&mut path, token);
            }
        }
        path
    }

    fn open(&self, verb: Verb, action: &'static str, accept: &'static str, path: String) -> Opening {
        let (api, resource) = (self.api.clone(), Arc::clone(&self.resource));
        async move {
            let mut call = Call::get(verb, path, accept, &resource.group_resource);
            call.action = action;
            call.target = resource.group_resource.to_string();
            api.open(call).await
        }
        .boxed()
    }

    /// Whether the server supports none of the requested media types, though JSON was among them.
    /// The next request asks for JSON only.
    pub(super) fn is_refused_for_its_encoding(&mut self, error: &ApiError) -> bool {
        let is_refused = self.preferred != Encoding::Json && error.says_not_acceptable();
        if is_refused {
            self.preferred = Encoding::Json;
        }
        is_refused
    }

    /// An answer in this encoding cannot be read. If it was not JSON, the next request asks for
    /// JSON.
    pub(super) fn cannot_read(&mut self, encoding: Encoding, message: &mut String) {
        if encoding != Encoding::Json && self.preferred != Encoding::Json {
            self.preferred = Encoding::Json;
            message.push_str("; JSON is requested from now on");
        }
    }
}
