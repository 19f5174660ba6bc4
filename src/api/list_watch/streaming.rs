//! Reads a streamed list: the initial events of a watch, up to the bookmark that ends them.
//!
//! Unlike other lists, it is read on the thread of the watches, because the watch goes on where the
//! list ends.

use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use super::action::ListFreshness;
use super::driver::{ListWatch, failure};
use super::reading::{LONGEST_BATCH, error_event};
use super::stage::{Stage, Streaming};
use super::step::Step;
use crate::api::error::{ApiError, ErrorClass};
use crate::api::error_chain::error_chain;
use crate::telemetry::EventKind;
use kube_gc_core::graph::WatchEvent;
use kube_gc_core::object::ResourceVersion;
use kube_gc_decode::{Bookmark, DecodedEvent, EventError};

impl ListWatch {
    /// Reads the next part of a streamed list.
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
