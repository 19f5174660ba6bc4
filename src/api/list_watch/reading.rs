//! Reads the bodies of lists and watches.

use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use super::driver::{ListWatch, failure};
use super::{End, ListFreshness, Listing, Stage, Step, Streaming};
use crate::api::connection_error::error_chain;
use crate::api::error::{self, ApiError, ErrorClass, NO_TEXT};
use crate::api::settings::Verb;
use crate::telemetry::EventKind;
use kube_gc_core::graph::WatchEvent;
use kube_gc_core::object::{ResourceType, ResourceVersion};
use kube_gc_decode::{Bookmark, DecodedEvent, Envelope, EventError, ListError, Status};

/// The greatest number of events in a batch, so that a batch is applied quickly.
const LARGEST_BATCH: usize = 500;

/// The greatest number of bytes in a batch: five hundred objects of the greatest size that the
/// API server accepts take most of a gigabyte.
pub(super) const LONGEST_BATCH: usize = 4 << 20;

impl ListWatch {
    /// Reads the next part of the list.
    pub(super) async fn read_list(&mut self) {
        let limit = self.api.settings().request_timeout;
        let page_size = usize::try_from(self.api.settings().page_size.max(1)).unwrap_or(usize::MAX);
        let Stage::Listing(listing) = &mut self.stage else { return };
        let fail = |class, message| Err(failure("LIST", &self.resource, class, message));
        let frame = match timeout_at(listing.deadline, listing.body.frame()).await {
            Err(_) => {
                let message = format!("the list stalled: no data within {limit:?}");
                return self.end_list(fail(ErrorClass::Transient, message));
            }
            Ok(None) => return self.finish_list(),
            Ok(Some(Err(error))) => return self.end_list(fail(ErrorClass::Transient, error_chain(&error))),
            Ok(Some(Ok(frame))) => frame,
        };
        self.arrived = Instant::now();
        listing.deadline = self.arrived + limit;
        let Ok(data) = frame.into_data() else { return };
        let (reader, skipped, batch) = (&mut self.reader, &mut self.skipped, &mut listing.batch);
        let mut came: usize = 0;
        let fed = listing.items.feed(&data, &mut |view| {
            came += 1;
            match reader.facts(view) {
                Some(facts) => batch.push(WatchEvent::Apply(facts)),
                None => *skipped += 1,
            }
        });
        listing.objects += came;
        listing.unread += data.len();
        if let Err(ListError(mut message)) = fed {
            let encoding = listing.items.encoding();
            self.cannot_read(encoding, &mut message);
            return self.end_list(Err(failure("LIST", &self.resource, ErrorClass::Unusable, message)));
        }
        if let Err(why) = self.machine.objects_came(came as u64) {
            return self.end_list(fail(ErrorClass::Unusable, why.to_owned()));
        }
        let is_due = listing.batch.len() >= page_size || listing.unread >= LONGEST_BATCH;
        if !is_due || listing.batch.is_empty() {
            return;
        }
        listing.unread = 0;
        let batch = std::mem::take(&mut listing.batch);
        if !listing.begun {
            listing.begun = true;
            let version = listing.items.preview().and_then(|envelope| envelope.resource_version);
            match self.machine.list_version(version.as_ref()) {
                ListFreshness::Fresh => {}
                ListFreshness::Stale => {
                    self.stage = Stage::Idle;
                    return;
                }
                ListFreshness::Restored { seen, found } => {
                    self.ready.push_back(Step::StoreRestored { seen, found });
                }
            }
            self.ready.push_back(Step::Init { resource_version: version });
        }
        self.items(batch);
    }

    fn items(&mut self, batch: Vec<WatchEvent>) {
        self.metrics.came(EventKind::Listed, batch.len());
        self.ready.push_back(Step::InitApply(batch));
    }

    /// The body of the list has ended.
    fn finish_list(&mut self) {
        let Stage::Listing(listing) = std::mem::replace(&mut self.stage, Stage::Idle) else { return };
        let Listing { items, batch, objects, first, begun, since, .. } = listing;
        self.api.observe(Verb::List, &self.resource.group_resource, Some(200), since);
        let envelope = match items.finish() {
            Ok(envelope) => envelope,
            // A body that ends early usually means a broken connection.
            Err(ListError(message)) => {
                return self.end_list(Err(failure("LIST", &self.resource, ErrorClass::Transient, message)));
            }
        };
        if let Err(why) = self.machine.goes_on(&envelope.next, objects) {
            let error = failure("LIST", &self.resource, ErrorClass::Unusable, why.to_owned());
            return self.end_list(Err(error));
        }
        let verdict = if first {
            self.machine.list_version(envelope.resource_version.as_ref())
        } else {
            ListFreshness::Fresh
        };
        match verdict {
            ListFreshness::Fresh => {}
            ListFreshness::Stale => return,
            ListFreshness::Restored { seen, found } => {
                self.ready.push_back(Step::StoreRestored { seen, found });
                if begun {
                    // A part of it was already delivered as a valid list.
                    return self.machine.list_again();
                }
            }
        }
        if !begun {
            self.ready.push_back(Step::Init { resource_version: envelope.resource_version.clone() });
        }
        if !batch.is_empty() {
            self.items(batch);
        }
        self.end_list(Ok(envelope));
    }

    pub(super) fn end_list(&mut self, result: Result<Envelope, ApiError>) {
        self.stage = Stage::Idle;
        let version = result.as_ref().ok().and_then(|envelope| envelope.resource_version.clone());
        self.ready.extend(match result {
            Ok(envelope) => self.machine.page_ended(envelope.resource_version, envelope.next),
            Err(error) => self.machine.list_failed(error, Instant::now()),
        });
        self.lift_fence(version.as_ref());
    }

    /// Waits for the next event of the watch, and reads all that has arrived.
    pub(super) async fn read_watch(&mut self) {
        let Stage::Watching { deadline, lives, body, events: coming } = &mut self.stage else { return };
        let mut events = Vec::new();
        // The version of a bookmark that no event follows.
        let mut bookmark = None;
        let (mut lines, mut bytes) = (0, 0);
        let end = loop {
            // All lines count: an endless series of bookmarks must not block, either.
            if lines >= LARGEST_BATCH || bytes >= LONGEST_BATCH {
                break None;
            }
            lines += 1;
            match coming.next(&mut self.reader) {
                Err(EventError(mut message)) => {
                    let encoding = coming.encoding();
                    self.cannot_read(encoding, &mut message);
                    break Some(End::Failed(watch_failure(&self.resource, message)));
                }
                Ok(Some(DecodedEvent::Error(status))) => {
                    break Some(End::Failed(error_event("WATCH", &self.resource, &status)));
                }
                Ok(Some(DecodedEvent::Bookmark(Bookmark { version, .. }))) => {
                    self.metrics.came(EventKind::Bookmark, 1);
                    self.machine.saw(version.clone());
                    bookmark = Some(version);
                }
                Ok(Some(DecodedEvent::Nameless(version))) => {
                    self.machine.saw(version);
                    self.skipped += 1;
                }
                Ok(Some(DecodedEvent::Added(facts))) => {
                    self.metrics.came(EventKind::Added, 1);
                    self.machine.saw(facts.resource_version.clone());
                    events.push(WatchEvent::Apply(facts));
                    bookmark = None;
                }
                Ok(Some(DecodedEvent::Modified(facts))) => {
                    self.metrics.came(EventKind::Modified, 1);
                    self.machine.saw(facts.resource_version.clone());
                    events.push(WatchEvent::Apply(facts));
                    bookmark = None;
                }
                Ok(Some(DecodedEvent::Deleted(facts))) => {
                    self.metrics.came(EventKind::Deleted, 1);
                    self.machine.saw(facts.resource_version.clone());
                    events.push(WatchEvent::Delete(facts));
                    bookmark = None;
                }
                Ok(None) => {
                    lines -= 1;
                    // Waits only while nothing is to be delivered.
                    let frame = if events.is_empty() && bookmark.is_none() {
                        let until = lives.map_or(*deadline, |lives| lives.min(*deadline));
                        match timeout_at(until, body.frame()).await {
                            Ok(frame) => frame,
                            Err(_) if until == *deadline => break Some(End::Silent),
                            Err(_) => {
                                *lives = None;
                                return self.ready.push_back(Step::Resumed);
                            }
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
                            break Some(End::Failed(failure(
                                "WATCH",
                                &self.resource,
                                class,
                                error_chain(&error),
                            )));
                        }
                        Some(Ok(frame)) => {
                            self.api.is_back();
                            *lives = None;
                            // The arrival time of a batch is that of its first frame.
                            if events.is_empty() {
                                self.arrived = Instant::now();
                            }
                            if let Some(data) = frame.data_ref() {
                                bytes += data.len();
                                coming.feed(data);
                            }
                        }
                    }
                }
            }
        };
        if !events.is_empty() {
            self.ready.push_back(Step::Events(events));
        }
        if let Some(resource_version) = bookmark {
            self.ready.push_back(Step::Bookmark { resource_version });
        }
        if let Some(end) = end {
            self.end_watch(end);
        }
    }

    pub(super) fn end_watch(&mut self, end: End) {
        self.stage = Stage::Idle;
        // An error response comes from the same server, so the store is the same. The exception
        // is 410: if the store was replaced behind the server, watches end with 410.
        let is_expired = matches!(&end, End::Failed(error) if error.class == ErrorClass::Expired);
        let is_answer = !is_expired && matches!(&end, End::Failed(error) if error.code.is_some());
        self.ready.push_back(self.machine.watch_ended(end, Instant::now()));
        // But a server whose lists are too old for its own watches answers 410 repeatedly.
        if !(is_answer || is_expired && self.machine.is_behind()) {
            self.raise_fence();
        }
    }
}

/// The error of an event that cannot be read. A resumed watch would show it again.
fn watch_failure(resource: &ResourceType, message: String) -> ApiError {
    failure("WATCH", resource, ErrorClass::Unusable, message)
}

/// The error in an ERROR event.
pub(super) fn error_event(action: &'static str, resource: &ResourceType, status: &Status) -> ApiError {
    let class = error::classify(status.code, status, None, None);
    let code = (status.code != 0).then_some(status.code);
    ApiError { code, ..failure(action, resource, class, error::message(status, NO_TEXT)) }
}

impl ListWatch {
    /// Reads the next part of a streamed list: the initial events of a watch, up to the bookmark that
    /// ends them. Unlike other lists, it is read on the thread of the watches, because the watch goes on
    /// where the list ends.
    pub(super) async fn read_stream(&mut self) {
        let limit = self.api.settings().request_timeout;
        let page_size = usize::try_from(self.api.settings().page_size.max(1)).unwrap_or(usize::MAX);
        loop {
            let Stage::Streaming(stream) = &mut self.stage else { return };
            if stream.batch.len() >= page_size || stream.unread >= LONGEST_BATCH && !stream.batch.is_empty() {
                return self.deliver();
            }
            let event = match stream.events.next(&mut self.reader) {
                Ok(Some(event)) => event,
                Ok(None) => break,
                Err(EventError(mut message)) => {
                    let encoding = stream.events.encoding();
                    self.cannot_read(encoding, &mut message);
                    return self.end_stream(ErrorClass::Unusable, message);
                }
            };
            match event {
                DecodedEvent::Added(facts) | DecodedEvent::Modified(facts) => {
                    stream.batch.push(WatchEvent::Apply(facts));
                }
                DecodedEvent::Deleted(facts) => stream.batch.push(WatchEvent::Delete(facts)),
                DecodedEvent::Nameless(_) => self.skipped += 1,
                DecodedEvent::Bookmark(Bookmark { ends_list: false, .. }) => {}
                DecodedEvent::Bookmark(Bookmark { version, ends_list: true }) => {
                    return self.finish_stream(version);
                }
                DecodedEvent::Error(status) => {
                    return self.end_list(Err(error_event("LIST", &self.resource, &status)));
                }
            }
        }
        let Stage::Streaming(stream) = &mut self.stage else { return };
        match timeout_at(stream.patience, stream.body.frame()).await {
            Ok(Some(Ok(frame))) => {
                self.api.is_back();
                self.arrived = Instant::now();
                stream.patience = self.arrived + limit;
                if let Some(data) = frame.data_ref() {
                    stream.unread += data.len();
                    stream.events.feed(data);
                }
            }
            Ok(Some(Err(error))) => self.end_stream(ErrorClass::Transient, error_chain(&error)),
            Ok(None) => {
                self.end_stream(
                    ErrorClass::Transient,
                    "the stream ended before the list was complete".into(),
                );
            }
            Err(_) => {
                let message = format!("the list stalled: no data within {limit:?}, and not its end");
                self.end_stream(ErrorClass::Transient, message);
            }
        }
    }

    /// Delivers the objects that have arrived.
    fn deliver(&mut self) {
        let Stage::Streaming(stream) = &mut self.stage else { return };
        stream.unread = 0;
        let batch = std::mem::take(&mut stream.batch);
        if !std::mem::replace(&mut stream.begun, true) {
            let resource_version = stream.not_older_than.clone();
            self.ready.push_back(Step::Init { resource_version });
        }
        if batch.is_empty() {
            return;
        }
        let versions = batch.iter().filter_map(|event| event.facts()?.resource_version.as_ref());
        if let Some(latest) = versions.reduce(|a, b| if a.is_after(b) { a } else { b }) {
            self.machine.stream_showed(latest);
        }
        self.metrics.came(EventKind::Listed, batch.len());
        self.ready.push_back(Step::InitApply(batch));
    }

    /// The list is complete, and its stream goes on as the watch.
    fn finish_stream(&mut self, version: Option<ResourceVersion>) {
        let Some(version) = version else {
            let message = "the bookmark that ends the list has no version";
            return self.end_stream(ErrorClass::Unusable, message.into());
        };
        match self.machine.list_version(Some(&version)) {
            ListFreshness::Fresh => {}
            ListFreshness::Stale => return self.stage = Stage::Idle,
            ListFreshness::Restored { seen, found } => {
                self.stage = Stage::Idle;
                self.ready.push_back(Step::StoreRestored { seen, found });
                return self.machine.list_again();
            }
        }
        let Stage::Streaming(stream) = &mut self.stage else { return };
        if !stream.begun {
            stream.not_older_than = Some(version.clone());
        }
        if !stream.begun || !stream.batch.is_empty() {
            self.deliver();
        }
        self.ready.extend(self.machine.page_ended(Some(version.clone()), String::new()));
        self.lift_fence(Some(&version));
        self.follow_store();
        if let Stage::Streaming(stream) = std::mem::replace(&mut self.stage, Stage::Idle) {
            let Streaming { deadline, body, events, .. } = *stream;
            self.stage = self.watching(deadline, body, events);
        }
    }

    fn end_stream(&mut self, class: ErrorClass, message: String) {
        let error: ApiError = failure("LIST", &self.resource, class, message);
        self.end_list(Err(error));
    }
}
