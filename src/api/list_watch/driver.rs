//! Makes the requests that the machine asks for.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Response;
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::machine::{Action, End, ListFrom, Machine, Verdict};
use super::{Sighting, Step, WatchStart};
use crate::api::client::{Api, Call, METADATA, METADATA_LIST, chain};
use crate::api::decode::{
    Envelope, FactsReader, LineSplitter, ListError, ListScanner, ObjectView, Status, WatchLine, json_fault,
};
use crate::api::error::{self, ApiError, ErrorClass};
use crate::api::path;
use crate::api::settings::Verb;
use crate::object::{ObjectFacts, ResourceType};

/// No event is longer: etcd takes no object over a few MiB.
const LONGEST_LINE: usize = 16 << 20;
/// No more events are delivered at once, so that a batch can be applied quickly.
const LARGEST_BATCH: usize = 500;

/// Follows one resource type. Dropping it ends it.
pub struct ListWatch {
    api: Api,
    resource: Arc<ResourceType>,
    machine: Machine,
    stage: Stage,
    /// Steps that are already known.
    ready: VecDeque<Step>,
    reader: FactsReader,
    skipped: u64,
    draining: bool,
}

/// What is under way. Everything that waits is kept here, so that dropping a
/// call of `next` loses nothing.
enum Stage {
    Idle,
    Waiting(Instant),
    Checking(BoxFuture<'static, Result<Envelope, ApiError>>),
    OpeningList { first: bool, since: Instant, opening: Opening },
    Listing(Listing),
    OpeningWatch { deadline: Instant, opening: Opening },
    Watching { deadline: Instant, body: Body, lines: LineSplitter },
}

type Opening = BoxFuture<'static, Result<Response<Body>, ApiError>>;

struct Listing {
    body: Body,
    scanner: ListScanner,
    batch: Vec<ObjectFacts>,
    /// The first page: its version decides whether the list counts.
    first: bool,
    /// `ListBegan` has been said.
    begun: bool,
    since: Instant,
    /// The next part comes until then.
    deadline: Instant,
}

impl fmt::Debug for ListWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ListWatch").field("machine", &self.machine).finish_non_exhaustive()
    }
}

impl Api {
    /// Follows a resource type: lists it and watches it from there on. Nothing is
    /// sent before the first [`next`](ListWatch::next).
    #[must_use]
    pub fn watch(&self, resource: Arc<ResourceType>, start: WatchStart) -> ListWatch {
        let seed = self.jitter().next();
        let machine = Machine::new(Arc::clone(&resource), start, self.settings().watch.clone(), seed);
        ListWatch {
            api: self.clone(),
            resource,
            machine,
            stage: Stage::Idle,
            ready: VecDeque::new(),
            reader: FactsReader::default(),
            skipped: 0,
            draining: false,
        }
    }
}

impl ListWatch {
    /// The type that it follows.
    #[must_use]
    pub fn resource(&self) -> &Arc<ResourceType> {
        &self.resource
    }

    /// How many objects without a uid it has passed over.
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// From now on a watch that ends is not resumed: the type is no longer
    /// served, and what is left of it are the last events of this watch. Without
    /// a watch it ends at once.
    pub fn drain(&mut self) {
        self.draining = true;
    }

    /// The next step; `None` when it has ended after [`drain`](Self::drain).
    /// Dropping the future before it is done loses nothing.
    pub async fn next(&mut self) -> Option<Step> {
        loop {
            if let Some(step) = self.ready.pop_front() {
                return Some(step);
            }
            if self.draining && !matches!(self.stage, Stage::OpeningWatch { .. } | Stage::Watching { .. }) {
                self.stage = Stage::Idle;
                return None;
            }
            match &mut self.stage {
                Stage::Idle => self.begin(),
                Stage::Waiting(until) => {
                    sleep_until(*until).await;
                    self.stage = Stage::Idle;
                }
                Stage::Checking(asking) => {
                    let result = asking.await;
                    self.stage = Stage::Idle;
                    self.ready.extend(match result {
                        Ok(envelope) => self.machine.checked(envelope.resource_version.as_ref()),
                        Err(error) => Some(self.machine.check_failed(error, Instant::now())),
                    });
                }
                Stage::OpeningList { first, since, opening } => {
                    let result = opening.await;
                    let (first, since) = (*first, *since);
                    let deadline = Instant::now() + self.api.settings().request_timeout;
                    match result {
                        Ok(response) => {
                            self.stage = Stage::Listing(Listing {
                                body: response.into_body(),
                                scanner: ListScanner::default(),
                                batch: Vec::new(),
                                first,
                                begun: !first,
                                since,
                                deadline,
                            });
                        }
                        Err(error) => self.end_list(Err(error)),
                    }
                }
                Stage::Listing(_) => self.read_list().await,
                Stage::OpeningWatch { deadline, opening } => {
                    let result = opening.await;
                    let deadline = *deadline;
                    match result {
                        Ok(response) => {
                            let lines = LineSplitter::new(LONGEST_LINE);
                            self.stage = Stage::Watching { deadline, body: response.into_body(), lines };
                        }
                        Err(error) => self.end_watch(End::Failed(error)),
                    }
                }
                Stage::Watching { .. } => self.read_watch().await,
            }
        }
    }

    /// Starts what the machine wants next.
    fn begin(&mut self) {
        let now = Instant::now();
        self.stage = match self.machine.action(now) {
            Action::Wait(time) => Stage::Waiting(now + time),
            Action::Check => Stage::Checking(self.check()),
            Action::List(from) => {
                let first = !matches!(from, ListFrom::Page(_));
                let opening = self.open(Verb::List, METADATA_LIST, self.list_path(&from));
                Stage::OpeningList { first, since: now, opening }
            }
            Action::Watch { from, lasting } => {
                let mut path = path::collection(&self.resource, None);
                path.push_str("?watch=1&allowWatchBookmarks=true&timeoutSeconds=");
                path.push_str(&lasting.as_secs().to_string());
                if let Some(version) = from {
                    path.push_str("&resourceVersion=");
                    path::encode(&mut path, &version.to_string());
                }
                let deadline = now + lasting + self.api.settings().watch.grace;
                Stage::OpeningWatch { deadline, opening: self.open(Verb::Watch, METADATA, path) }
            }
        };
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

    fn open(&self, verb: Verb, accept: &'static str, path: String) -> Opening {
        let (api, resource) = (self.api.clone(), Arc::clone(&self.resource));
        async move {
            let mut call = Call::get(verb, path, accept, &resource.group_resource);
            call.action = if verb == Verb::Watch { "WATCH" } else { "LIST" };
            call.target = resource.group_resource.to_string();
            api.open(call).await
        }
        .boxed()
    }

    /// Asks for the present version.
    fn check(&self) -> BoxFuture<'static, Result<Envelope, ApiError>> {
        let (api, resource) = (self.api.clone(), Arc::clone(&self.resource));
        async move {
            let path = path::collection(&resource, None) + "?limit=1";
            let mut call = Call::get(Verb::List, path, METADATA_LIST, &resource.group_resource);
            call.action = "LIST";
            call.target = resource.group_resource.to_string();
            let answer = api.call(call).await?;
            let mut scanner = ListScanner::default();
            scanner
                .feed(&answer.body, |_| Ok(()))
                .and_then(|()| scanner.finish())
                .map_err(|error| failure("LIST", &resource, ErrorClass::Unusable, error.0))
        }
        .boxed()
    }

    /// Reads on in the list until there is a step to deliver.
    async fn read_list(&mut self) {
        let limit = self.api.settings().request_timeout;
        let page_size = usize::try_from(self.api.settings().page_size.max(1)).unwrap_or(usize::MAX);
        let Stage::Listing(listing) = &mut self.stage else { return };
        let fail = |class, message| Err(failure("LIST", &self.resource, class, message));
        let frame = match timeout_at(listing.deadline, listing.body.frame()).await {
            Err(_) => {
                let message = format!("the list broke off: nothing more within {limit:?}");
                return self.end_list(fail(ErrorClass::Transient, message));
            }
            Ok(None) => return self.finish_list(),
            Ok(Some(Err(error))) => return self.end_list(fail(ErrorClass::Transient, chain(&error))),
            Ok(Some(Ok(frame))) => frame,
        };
        listing.deadline = Instant::now() + limit;
        let Ok(data) = frame.into_data() else { return };
        let (reader, skipped, batch) = (&mut self.reader, &mut self.skipped, &mut listing.batch);
        let fed = listing.scanner.feed(&data, |item| {
            let view: ObjectView<'_> =
                serde_json::from_slice(item).map_err(|error| ListError(json_fault(&error)))?;
            match reader.facts(view) {
                Some(facts) => batch.push(facts),
                None => *skipped += 1,
            }
            Ok(())
        });
        if let Err(ListError(message)) = fed {
            return self.end_list(fail(ErrorClass::Unusable, message));
        }
        if listing.batch.len() < page_size {
            return;
        }
        let batch = std::mem::take(&mut listing.batch);
        if !listing.begun {
            listing.begun = true;
            let version = listing.scanner.preview().and_then(|envelope| envelope.resource_version);
            match self.machine.list_version(version.as_ref()) {
                Verdict::Fresh => {}
                Verdict::Stale => {
                    self.stage = Stage::Idle;
                    return;
                }
                Verdict::Restored { seen, found } => {
                    self.ready.push_back(Step::StoreRestored { seen, found });
                }
            }
            self.ready.push_back(Step::ListBegan);
        }
        self.ready.push_back(Step::Items(batch));
    }

    /// The list's body has ended.
    fn finish_list(&mut self) {
        let Stage::Listing(listing) = std::mem::replace(&mut self.stage, Stage::Idle) else { return };
        let Listing { scanner, batch, first, begun, since, .. } = listing;
        self.api.observe(Verb::List, &self.resource.group_resource, Some(200), since);
        let envelope = match scanner.finish() {
            Ok(envelope) => envelope,
            // A body that ends early is a broken connection more often than nonsense.
            Err(ListError(message)) => {
                return self.end_list(Err(failure("LIST", &self.resource, ErrorClass::Transient, message)));
            }
        };
        let verdict = if first {
            self.machine.list_version(envelope.resource_version.as_ref())
        } else {
            Verdict::Fresh
        };
        match verdict {
            Verdict::Fresh => {}
            Verdict::Stale => return,
            Verdict::Restored { seen, found } => {
                self.ready.push_back(Step::StoreRestored { seen, found });
                if begun {
                    // A part of it was delivered under false premises.
                    return self.machine.list_again();
                }
            }
        }
        if !begun {
            self.ready.push_back(Step::ListBegan);
        }
        if !batch.is_empty() {
            self.ready.push_back(Step::Items(batch));
        }
        self.end_list(Ok(envelope));
    }

    fn end_list(&mut self, result: Result<Envelope, ApiError>) {
        self.stage = Stage::Idle;
        self.ready.extend(match result {
            Ok(envelope) => self.machine.page_ended(envelope.resource_version, envelope.next),
            Err(error) => self.machine.list_failed(error, Instant::now()),
        });
    }

    /// Reads on in the watch: waits for something, and takes with it whatever
    /// else has arrived.
    async fn read_watch(&mut self) {
        let Stage::Watching { deadline, body, lines } = &mut self.stage else { return };
        let mut events = Vec::new();
        let mut bookmark = false;
        let end = loop {
            match lines.next_line() {
                Err(error) => {
                    break Some(End::Failed(watch_failure(&self.resource, error.to_string())));
                }
                Ok(Some(line)) => match WatchLine::read(&line, &mut self.reader) {
                    Err(error) => break Some(End::Failed(watch_failure(&self.resource, error.0))),
                    Ok(WatchLine::Error(status)) => {
                        break Some(End::Failed(error_event(&self.resource, &status, &line)));
                    }
                    Ok(WatchLine::Bookmark(version)) => {
                        self.machine.saw(version);
                        bookmark = true;
                    }
                    Ok(WatchLine::Nameless(version)) => {
                        self.machine.saw(version);
                        self.skipped += 1;
                    }
                    Ok(WatchLine::Seen(facts)) => {
                        self.machine.saw(facts.resource_version.clone());
                        events.push(Sighting::Seen(facts));
                    }
                    Ok(WatchLine::Deleted(facts)) => {
                        self.machine.saw(facts.resource_version.clone());
                        events.push(Sighting::Deleted(facts));
                    }
                },
                Ok(None) => {
                    // Waits only while there is nothing to lose.
                    let frame = if events.is_empty() && !bookmark {
                        match timeout_at(*deadline, body.frame()).await {
                            Ok(frame) => frame,
                            Err(_) => break Some(End::Silent),
                        }
                    } else {
                        match body.frame().now_or_never() {
                            Some(frame) => frame,
                            None => break None,
                        }
                    };
                    match frame {
                        None => break Some(End::Closed),
                        Some(Err(error)) => {
                            let class = ErrorClass::Transient;
                            break Some(End::Failed(failure("WATCH", &self.resource, class, chain(&error))));
                        }
                        Some(Ok(frame)) => lines.feed(frame.data_ref().unwrap_or(&Bytes::new())),
                    }
                }
            }
            if events.len() >= LARGEST_BATCH {
                break None;
            }
        };
        if !events.is_empty() {
            self.ready.push_back(Step::Events(events));
        } else if bookmark {
            self.ready.push_back(Step::Bookmark);
        }
        if let Some(end) = end {
            self.end_watch(end);
        }
    }

    fn end_watch(&mut self, end: End) {
        self.stage = Stage::Idle;
        self.ready.push_back(self.machine.watch_ended(end, Instant::now()));
    }
}

fn failure(action: &'static str, resource: &ResourceType, class: ErrorClass, message: String) -> ApiError {
    ApiError { class, action, target: resource.group_resource.to_string(), message, code: None }
}

/// A line that cannot be read. Resuming would lead to the same line again.
fn watch_failure(resource: &ResourceType, message: String) -> ApiError {
    failure("WATCH", resource, ErrorClass::Unusable, message)
}

/// What an ERROR event says.
fn error_event(resource: &ResourceType, status: &Status, line: &Bytes) -> ApiError {
    let class = error::classify(status.code, status, None, None);
    let code = (status.code != 0).then_some(status.code);
    ApiError { code, ..failure("WATCH", resource, class, error::message(status, line)) }
}
