//! Reads the bodies of lists and watches.

use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use super::driver::{ListWatch, failure};
use super::{End, ListFreshness, Listing, Stage, Step, Watched};
use crate::connection_error::error_chain;
use crate::error::{self, ApiError, ErrorClass, NO_TEXT};
use crate::settings::Verb;
use kube_gc_core::object::{ResourceType, ResourceVersion};
use kube_gc_decode::{Bookmark, Change, Decoded, DecodedEvent, Envelope, Status};
use kube_gc_observe::telemetry::EventKind;

/// The greatest number of events in a batch, so that a batch is applied quickly.
const LARGEST_BATCH: usize = 500;

/// The greatest number of bytes in a batch: five hundred objects of the greatest size that the
/// API server accepts take most of a gigabyte.
pub(super) const LONGEST_BATCH: usize = 4 << 20;

impl<E: Watched> ListWatch<E> {
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
        let batch = &mut listing.batch;
        let encoding = listing.items.encoding();
        let mut came: usize = 0;
        let fed = listing.items.feed(&data, &mut |item| {
            came += 1;
            // An object without a uid is nothing (rule 1.13).
            batch.extend(E::read(Change::Added, encoding, item)?.object);
            Ok(())
        });
        listing.objects += came;
        listing.unread += data.len();
        if let Err(message) = fed {
            let error = self.unreadable("LIST", encoding, message);
            return self.end_list(Err(error));
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
        if !std::mem::replace(&mut listing.begun, true) {
            let version = listing.items.preview().and_then(|envelope| envelope.resource_version);
            if !self.is_valid(version.as_ref(), false) {
                return self.stage = Stage::Idle;
            }
            self.ready.push_back(Step::Init { resource_version: version });
        }
        self.items(batch);
    }

    fn items(&mut self, batch: Vec<E>) {
        if !batch.is_empty() {
            self.metrics.came(EventKind::Listed, batch.len());
            self.ready.push_back(Step::InitApply(batch));
        }
    }

    /// Whether a list of this version is valid. If the store was restored, a list of which a part was
    /// delivered before its version was known is not.
    fn is_valid(&mut self, version: Option<&ResourceVersion>, begun: bool) -> bool {
        match self.machine.list_version(version) {
            ListFreshness::Fresh => true,
            ListFreshness::Stale => false,
            ListFreshness::Restored { seen, found } => {
                self.ready.push_back(Step::StoreRestored { seen, found });
                if begun {
                    self.machine.list_again();
                }
                !begun
            }
        }
    }

    /// The body of the list has ended.
    fn finish_list(&mut self) {
        let Stage::Listing(listing) = std::mem::replace(&mut self.stage, Stage::Idle) else { return };
        let Listing { items, batch, objects, first, begun, since, .. } = listing;
        self.api.observe(Verb::List, &self.resource.group_resource, Some(200), since);
        let fail = |class, message| Err(failure("LIST", &self.resource, class, message));
        let envelope = match items.finish() {
            Ok(envelope) => envelope,
            // A body that ends early usually means a broken connection.
            Err(message) => return self.end_list(fail(ErrorClass::Transient, message)),
        };
        if let Err(why) = self.machine.pages.go_on(&envelope.next, objects) {
            return self.end_list(fail(ErrorClass::Unusable, why.to_owned()));
        }
        if first && !self.is_valid(envelope.resource_version.as_ref(), begun) {
            return;
        }
        if !begun {
            self.ready.push_back(Step::Init { resource_version: envelope.resource_version.clone() });
        }
        self.items(batch);
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

    /// Waits for the next event of the watch, and reads all that has arrived. The first events may be
    /// a list, which is read on the thread of the watches, because the watch goes on where it ends.
    pub(super) async fn read_watch(&mut self) {
        let limit = self.api.settings().request_timeout;
        let Stage::Watching(watching) = &mut self.stage else { return };
        let encoding = watching.events.encoding();
        let page_size = usize::try_from(self.api.settings().page_size.max(1)).unwrap_or(usize::MAX);
        let (action, most) =
            if watching.list.is_some() { ("LIST", page_size) } else { ("WATCH", LARGEST_BATCH) };
        let mut events = Vec::new();
        // The version of a bookmark that no event follows, and of the one that ends the list.
        let (mut bookmark, mut listed) = (None, None);
        let (mut count, mut bytes) = (0, 0);
        let end = loop {
            // All events count: an endless series of bookmarks must not block, either.
            if count >= most || bytes >= LONGEST_BATCH {
                break None;
            }
            count += 1;
            let coming = match watching.events.next_event() {
                Ok(coming) => coming,
                Err(message) => break Some(End::Failed(self.unreadable(action, encoding, message))),
            };
            match coming {
                Some(DecodedEvent::Error(status)) => {
                    break Some(End::Failed(error_event(action, &self.resource, &status)));
                }
                Some(DecodedEvent::Bookmark(Bookmark { version, ends_list })) => {
                    if watching.list.is_none() {
                        self.metrics.came(EventKind::Bookmark, 1);
                        self.machine.saw(version.clone());
                        bookmark = Some(version);
                    } else if ends_list {
                        listed = Some(version);
                        break None;
                    }
                }
                Some(DecodedEvent::Object(change, object)) => {
                    let Decoded { version, object } = match E::read(change, encoding, &object) {
                        Ok(decoded) => decoded,
                        Err(message) => break Some(End::Failed(self.unreadable(action, encoding, message))),
                    };
                    let is_listed = watching.list.is_some();
                    if is_listed {
                        self.machine.stream_showed(version.as_ref());
                    } else {
                        self.machine.saw(version);
                    }
                    let Some(event) = object else { continue };
                    events.push(event);
                    bookmark = None;
                    if !is_listed {
                        let kind = match change {
                            Change::Added => EventKind::Added,
                            Change::Modified => EventKind::Modified,
                            Change::Deleted => EventKind::Deleted,
                        };
                        self.metrics.came(kind, 1);
                    }
                }
                None => {
                    count -= 1;
                    // Waits only while nothing is to be delivered.
                    let frame = if events.is_empty() && bookmark.is_none() {
                        let until = match &watching.list {
                            Some(list) => list.patience,
                            None => {
                                watching.lives.map_or(watching.deadline, |lives| lives.min(watching.deadline))
                            }
                        };
                        match timeout_at(until, watching.body.frame()).await {
                            Ok(frame) => frame,
                            Err(_) if watching.list.is_none() && until < watching.deadline => {
                                watching.lives = None;
                                return self.ready.push_back(Step::Resumed);
                            }
                            Err(_) => break Some(End::Silent),
                        }
                    } else {
                        match watching.body.frame().now_or_never() {
                            Some(frame) => frame,
                            None => break None,
                        }
                    };
                    match frame {
                        None => break Some(End::Closed),
                        Some(Err(error)) => {
                            let (class, why) = (ErrorClass::Transient, error_chain(&error));
                            break Some(End::Failed(failure(action, &self.resource, class, why)));
                        }
                        Some(Ok(frame)) => {
                            self.api.is_back();
                            watching.lives = None;
                            // The arrival time of a batch is that of its first frame.
                            if events.is_empty() {
                                self.arrived = Instant::now();
                            }
                            if let Some(list) = &mut watching.list {
                                list.patience = Instant::now() + limit;
                            }
                            if let Some(data) = frame.data_ref() {
                                bytes += data.len();
                                watching.events.feed(data);
                            }
                        }
                    }
                }
            }
        };
        if action == "LIST" {
            let why = match (listed, end) {
                (Some(version), _) => return self.finish_stream(version, events),
                (None, None) => return self.deliver(None, events),
                (None, Some(End::Failed(error))) => return self.end_list(Err(error)),
                (None, Some(End::Closed)) => "the stream ended before the list was complete".to_owned(),
                (None, Some(End::Silent)) => {
                    format!("the list stalled: no data within {limit:?}, and not its end")
                }
            };
            return self.end_list(Err(failure("LIST", &self.resource, ErrorClass::Transient, why)));
        }
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

    /// Delivers objects of a streamed list. If the list is complete, its version is known.
    fn deliver(&mut self, version: Option<&ResourceVersion>, events: Vec<E>) {
        let Stage::Watching(watching) = &mut self.stage else { return };
        let Some(list) = &mut watching.list else { return };
        if !std::mem::replace(&mut list.begun, true) {
            let resource_version = version.or(list.not_older_than.as_ref()).cloned();
            self.ready.push_back(Step::Init { resource_version });
        }
        self.items(events);
    }

    /// The list is complete, and its stream goes on as the watch.
    fn finish_stream(&mut self, version: Option<ResourceVersion>, events: Vec<E>) {
        let Some(version) = version else {
            let message = "the bookmark that ends the list has no version".to_owned();
            return self.end_list(Err(failure("LIST", &self.resource, ErrorClass::Unusable, message)));
        };
        if !self.is_valid(Some(&version), true) {
            return self.stage = Stage::Idle;
        }
        self.deliver(Some(&version), events);
        self.ready.extend(self.machine.page_ended(Some(version.clone()), String::new()));
        self.lift_fence(Some(&version));
        self.follow_store();
        let lives = self.lives();
        if let Stage::Watching(watching) = &mut self.stage {
            (watching.list, watching.lives) = (None, lives);
        }
    }
}

/// The error in an ERROR event.
fn error_event(action: &'static str, resource: &ResourceType, status: &Status) -> ApiError {
    let class = error::classify(status.code, status, None, None);
    let code = (status.code != 0).then_some(status.code);
    ApiError { code, ..failure(action, resource, class, error::message(status, NO_TEXT)) }
}
