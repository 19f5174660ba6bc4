//! Follows a resource type, stage by stage.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Response;
use kube::client::Body;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::machine::Machine;
use super::{Action, End, ListFrom, Listing, Opens, Phase, Stage, Step, StreamedList, Watched, Watching};
use crate::call::{Call, JSON, list_accept, watch_accept};
use crate::client::Api;
use crate::error::{ApiError, ErrorClass};
use crate::settings::Verb;
use kube_gc_core::graph::{DeletesProve, WatchEvent};
use kube_gc_core::object::{ResourceType, ResourceVersion};
use kube_gc_decode::{Encoding, ListReader, WatchReader};
use kube_gc_observe::telemetry::EventMetrics;

/// A watch that has not ended within this time works, even if nothing has arrived: an error,
/// such as an expired version, arrives at once, but a bookmark only once a minute.
const LIVES_AFTER: Duration = Duration::from_millis(500);

/// A watch that does not end within its `timeoutSeconds` and this time is dead.
pub(super) const GRACE: Duration = Duration::from_secs(15);

/// Follows one resource type. Dropping it ends it.
pub struct ListWatch<E = WatchEvent> {
    pub(super) api: Api,
    pub(super) resource: Arc<ResourceType>,
    /// A parameter of every request, such as `fieldSelector`.
    selection: Option<Parameter>,
    pub(super) machine: Machine,
    pub(super) stage: Stage<E>,
    /// Steps that are already known.
    pub(super) ready: VecDeque<Step<E>>,
    /// The encoding to request.
    pub(super) preferred: Encoding,
    pub(super) draining: bool,
    /// Whether a failure was reported, and its end was not.
    pub(super) failing: bool,
    /// Changes when an outage of the API server ends.
    pub(super) recoveries: watch::Receiver<u64>,
    /// When the last part of a body arrived.
    pub(super) arrived: Instant,
    pub(super) metrics: EventMetrics,
}

impl Api {
    /// Follows a resource type: lists it, and watches it from there on. Sends nothing before the
    /// first [`next_in`](ListWatch::next_in). Of a type whose deletions prove nothing, the versions
    /// may go back at any time.
    pub fn watch(&self, resource: Arc<ResourceType>, deletes_prove: DeletesProve) -> ListWatch {
        self.watch_selected(resource, None, deletes_prove)
    }

    /// The same for the objects of a selection.
    pub fn watch_selected<E: Watched>(
        &self,
        resource: Arc<ResourceType>,
        selection: Option<Parameter>,
        deletes_prove: DeletesProve,
    ) -> ListWatch<E> {
        let seed = self.0.jitter.seed();
        let metrics = EventMetrics::new(&resource.group_resource);
        let (streaming, watch) = (self.0.streaming_lists.clone(), self.settings().watch.clone());
        let (high_water, aggregated) = (self.high_water().clone(), deletes_prove == DeletesProve::Nothing);
        let machine = Machine::new(Arc::clone(&resource), high_water, aggregated, streaming, watch, seed);
        ListWatch {
            api: self.clone(),
            resource,
            selection,
            machine,
            stage: Stage::Idle,
            ready: VecDeque::new(),
            preferred: if E::WHOLE { Encoding::Json } else { self.settings().encoding },
            draining: false,
            failing: false,
            recoveries: self.recoveries(),
            arrived: Instant::now(),
            metrics,
        }
    }
}

impl<E: Watched> ListWatch<E> {
    /// When the data of the last step arrived.
    pub const fn arrived(&self) -> Instant {
        self.arrived
    }

    /// Ends after the present watch: the type is no longer served, and only the last events of
    /// this watch are left. Without a watch, it ends at once.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// The next step; `None` at the end after [`drain`](Self::drain). Cancel-safe.
    pub async fn next(&mut self) -> Option<Step<E>> {
        let mut phase = Phase::List;
        loop {
            match self.next_in(phase).await {
                Ok(step) => return step,
                Err(other) => phase = other,
            }
        }
    }

    /// The next step in this phase. Nothing of the other phase has begun when it returns, so
    /// another thread can continue.
    ///
    /// # Errors
    ///
    /// The phase that follows.
    pub async fn next_in(&mut self, phase: Phase) -> Result<Option<Step<E>>, Phase> {
        loop {
            if let Some(step) = self.ready.pop_front() {
                match step {
                    Step::Failed { .. } => self.failing = true,
                    Step::Resumed | Step::Events(_) | Step::Bookmark { .. } => self.failing = false,
                    _ => {}
                }
                return Ok(Some(step));
            }
            if self.draining && !self.stage.is_watch() {
                self.stage = Stage::Idle;
                return Ok(None);
            }
            if let Some(other) = self.stage.phase().filter(|other| *other != phase) {
                return Err(other);
            }
            match &mut self.stage {
                Stage::Idle if self.api.is_unreachable() => self.hold(),
                Stage::Idle => self.begin(),
                Stage::Waiting(until) => {
                    // The sender lives as long as the client.
                    tokio::select! {
                        biased;
                        Ok(()) = self.recoveries.changed() => self.machine.pace.recovered(),
                        () = sleep_until(*until) => {}
                    }
                    self.stage = Stage::Idle;
                }
                Stage::Held(reachable) => {
                    reachable.await;
                    // A mere suspicion resets nothing.
                    if self.recoveries.has_changed().unwrap_or_default() {
                        self.recoveries.mark_unchanged();
                        self.machine.pace.recovered();
                    }
                    self.stage = Stage::Idle;
                }
                Stage::Checking(asking) => {
                    let result = asking.await;
                    self.stage = Stage::Idle;
                    if is_held(&result) {
                        continue;
                    }
                    let found = result.as_ref().ok().and_then(|envelope| envelope.resource_version.clone());
                    self.ready.extend(match result {
                        Ok(_) => self.machine.checked(found.as_ref()),
                        Err(error) => Some(self.machine.failed(error, Instant::now())),
                    });
                    self.lift_fence(found.as_ref());
                }
                Stage::Opening { opening, .. } => {
                    let result = opening.await;
                    let Stage::Opening { opens, .. } = std::mem::replace(&mut self.stage, Stage::Idle) else {
                        continue;
                    };
                    match result {
                        Ok(response) => self.stage = self.opened(opens, response),
                        Err(error) if self.is_refused_for_its_encoding(&error) => {}
                        Err(error) if matches!(opens, Opens::Watch { list: None, .. }) => {
                            self.end_watch(End::Failed(error));
                        }
                        Err(error) => self.end_list(Err(error)),
                    }
                }
                Stage::Listing(_) => self.read_list().await,
                Stage::Watching(_) => self.read_watch().await,
            }
        }
    }

    /// The stage after a response has begun.
    fn opened(&self, opens: Opens, response: Response<Body>) -> Stage<E> {
        let encoding = Encoding::of(response.headers());
        let body = response.into_body();
        let patience = Instant::now() + self.api.settings().request_timeout;
        match opens {
            Opens::List { first, since } => Stage::Listing(Listing {
                body,
                items: ListReader::new(encoding),
                batch: Vec::new(),
                unread: 0,
                objects: 0,
                first,
                begun: !first,
                since,
                deadline: patience,
            }),
            Opens::Watch { deadline, list } => Stage::Watching(Box::new(Watching {
                body,
                events: WatchReader::new(encoding),
                deadline,
                lives: if list.is_none() { self.lives() } else { None },
                list: list.map(|list| StreamedList { patience, ..list }),
            })),
        }
    }

    /// When a watch that begins now counts as working, if that is to be reported.
    pub(super) fn lives(&self) -> Option<Instant> {
        self.failing.then(|| Instant::now() + LIVES_AFTER)
    }

    /// Raises the restore fence, if the watch ended before its time.
    pub(super) fn raise_fence(&self) {
        if self.machine.needs_check() {
            self.api.restore_fence().raise(&self.resource.group_resource);
        }
    }

    /// Lifts the restore fence after a list, unless the list failed or shows a restore.
    pub(super) fn lift_fence(&self, version: Option<&ResourceVersion>) {
        let is_restored = self.ready.iter().any(|step| matches!(step, Step::StoreRestored { .. }));
        if !is_restored && !self.machine.needs_check() {
            self.api.restore_fence().lift(&self.resource.group_resource, version);
        }
    }
}

/// A parameter of a query.
type Parameter = (&'static str, String);

/// Asks the server's cache for this version or a later one, or for any.
fn not_older(version: Option<&ResourceVersion>) -> [Parameter; 2] {
    let version = version.map_or_else(|| "0".to_owned(), ResourceVersion::to_string);
    [("resourceVersionMatch", "NotOlderThan".to_owned()), ("resourceVersion", version)]
}

fn watch_parameters(lasting: Duration) -> Vec<Parameter> {
    let lasting = lasting.as_secs().to_string();
    vec![("watch", "1".to_owned()), ("allowWatchBookmarks", "true".to_owned()), ("timeoutSeconds", lasting)]
}

/// Whether a request was held because the API server is unreachable.
fn is_held<T>(result: &Result<T, ApiError>) -> bool {
    matches!(result, Err(ApiError { class: ErrorClass::Deferred { .. }, .. }))
}

pub(super) fn failure(
    action: &'static str,
    resource: &ResourceType,
    class: ErrorClass,
    message: String,
) -> ApiError {
    ApiError::new(class, action, resource.group_resource.to_string(), message)
}

impl<E: Watched> ListWatch<E> {
    /// Waits until the API server is reachable.
    pub(super) fn hold(&mut self) {
        let api = self.api.clone();
        self.stage = Stage::Held(async move { api.reachable().await }.boxed());
    }

    /// Begins the next action of the machine.
    pub(super) fn begin(&mut self) {
        let now = Instant::now();
        self.stage = match self.machine.action(now) {
            Action::Wait(time) => Stage::Waiting(now + time),
            Action::Check => Stage::Checking(self.api.present_version(&self.resource)),
            Action::List(from) => {
                let first = !matches!(from, ListFrom::Page(_));
                let opening = self.open(Verb::List, "LIST", list_accept, self.list_parameters(from));
                Stage::Opening { opens: Opens::List { first, since: now }, opening }
            }
            Action::Stream { not_older_than, lasting } => {
                let mut parameters = watch_parameters(lasting);
                parameters.push(("sendInitialEvents", "true".to_owned()));
                parameters.extend(not_older(not_older_than.as_ref()));
                let deadline = now + lasting + GRACE;
                let list = Some(StreamedList { begun: false, not_older_than, patience: deadline });
                let opening = self.open(Verb::Watch, "LIST", watch_accept, parameters);
                Stage::Opening { opens: Opens::Watch { deadline, list }, opening }
            }
            Action::Watch { from, lasting } => {
                self.follow_store();
                let mut parameters = watch_parameters(lasting);
                parameters.extend(from.map(|version| ("resourceVersion", version.to_string())));
                let deadline = now + lasting + GRACE;
                let opening = self.open(Verb::Watch, "WATCH", watch_accept, parameters);
                Stage::Opening { opens: Opens::Watch { deadline, list: None }, opening }
            }
        };
    }

    /// The watch begins.
    pub(super) fn follow_store(&self) {
        if self.machine.shares_store() {
            self.api.restore_fence().follow(&self.resource);
        }
    }

    fn list_parameters(&self, from: ListFrom) -> Vec<Parameter> {
        let limit = ("limit", self.api.settings().page_size.max(1).to_string());
        match from {
            ListFrom::Cache => not_older(None).to_vec(),
            ListFrom::NotOlderThan(version) => not_older(Some(&version)).to_vec(),
            ListFrom::Store => vec![limit],
            ListFrom::Page(token) => vec![limit, ("continue", token)],
        }
    }

    fn open(
        &self,
        verb: Verb,
        action: &'static str,
        metadata: fn(Encoding) -> &'static str,
        mut parameters: Vec<Parameter>,
    ) -> BoxFuture<'static, Result<Response<Body>, ApiError>> {
        let accept = if E::WHOLE { JSON } else { metadata(self.preferred) };
        parameters.extend(self.selection.clone());
        let (api, resource) = (self.api.clone(), Arc::clone(&self.resource));
        async move {
            let call = Call { action, ..Call::collection(verb, &resource, None, accept) };
            api.open(parameters.iter().fold(call, |call, (key, value)| call.with(key, value))).await
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

    /// The error of an answer in this encoding that cannot be read. If it was not JSON, the next request
    /// asks for JSON.
    pub(super) fn unreadable(
        &mut self,
        action: &'static str,
        encoding: Encoding,
        mut message: String,
    ) -> ApiError {
        if encoding != Encoding::Json && self.preferred != Encoding::Json {
            self.preferred = Encoding::Json;
            message.push_str("; JSON is requested from now on");
        }
        failure(action, &self.resource, ErrorClass::Unusable, message)
    }
}
