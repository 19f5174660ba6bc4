//! Bodies of lists and watches, generated while they are sent.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt as _};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use tokio::time::{Instant, interval_at, sleep_until};

use super::Feeder;
use super::events::{Reader, Record};
use crate::common::cluster::{Number, Type, object, protobuf};

/// The body of an answer.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The approximate size of the chunks of a list.
const PIECE: usize = 128 << 10;
/// Fewer events than this are written one by one, as an API server does.
const FEW: usize = 16;
/// How many events are combined into one chunk when there are many.
const MANY: usize = 128;
/// The interval of bookmarks.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// A complete body.
pub fn whole(text: impl Into<Bytes>) -> Body {
    Full::new(text.into()).boxed_unsync()
}

fn streamed(pieces: impl Stream<Item = impl Into<Bytes>> + Send + 'static) -> Body {
    StreamBody::new(pieces.map(|piece| Ok(Frame::data(piece.into())))).boxed_unsync()
}

/// A list of a type from a number on, with at most this many objects.
pub fn list(feeder: &Arc<Feeder>, resource: Type, from: Number, limit: usize) -> Body {
    // Read before the objects, so that the watch shows later changes again.
    let version = feeder.version.load(Ordering::SeqCst);
    let end = feeder.end();
    let mut numbers = feeder.cluster.list(resource, from, end).take(limit).peekable();
    let next = if limit == usize::MAX { None } else { feeder.cluster.list(resource, from, end).nth(limit) };
    let next = next.map(|number| format!(r#","continue":"{}","remainingItemCount":1"#, number.0));
    let mut piece = format!(
        r#"{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{{"resourceVersion":"{version}"{}}},"items":["#,
        next.unwrap_or_default()
    );
    let feeder = Arc::clone(feeder);
    let mut is_first = true;
    let mut is_over = false;
    streamed(stream::iter(std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        piece.reserve(PIECE + 4096);
        while piece.len() < PIECE {
            let Some(number) = numbers.next() else {
                piece.push_str("]}");
                is_over = true;
                break;
            };
            if !std::mem::take(&mut is_first) {
                piece.push(',');
            }
            object(&mut piece, &feeder.cluster, number, number.0 + 1);
        }
        Some(std::mem::take(&mut piece))
    })))
}

struct Watch {
    feeder: Arc<Feeder>,
    resource: Type,
    reader: Reader,
    ends: Instant,
    bookmarks: tokio::time::Interval,
    /// An event that was read together with few others is written alone.
    ready: VecDeque<Vec<u8>>,
}

/// A watch of a type with this duration, in protobuf.
pub fn watch(feeder: &Arc<Feeder>, resource: Type, reader: Reader, lasting: Duration) -> Body {
    let now = Instant::now();
    let bookmarks = interval_at(now + BOOKMARK_EVERY, BOOKMARK_EVERY);
    let (feeder, ready) = (Arc::clone(feeder), VecDeque::new());
    let watch = Watch { feeder, resource, reader, ends: now + lasting, bookmarks, ready };
    streamed(stream::unfold(watch, |mut watch| async move {
        let piece = watch.next().await?;
        Some((piece, watch))
    }))
}

impl Watch {
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            tokio::select! {
                // None is lost, because writers wait for readers.
                record = self.reader.recv() => self.take(record.ok()?),
                () = sleep_until(self.ends) => return None,
                _ = self.bookmarks.tick() => self.bookmark(),
            }
        }
    }

    /// Writes an event, and those that have come since: many of them in one piece.
    fn take(&mut self, first: Record) {
        let mut records = vec![first];
        while records.len() < MANY
            && let Ok(record) = self.reader.try_recv()
        {
            records.push(record);
        }
        let few = records.len() < FEW;
        let mut piece = Vec::with_capacity(if few { 1536 } else { records.len() * 1024 });
        for Record { version, number, happened } in records {
            protobuf::event(&mut piece, &self.feeder.cluster, number, happened, version);
            if few {
                self.ready.push_back(std::mem::take(&mut piece));
            }
        }
        if !few {
            self.ready.push_back(piece);
        }
    }

    /// Writes a bookmark, unless there are events before it.
    fn bookmark(&mut self) {
        let present = || self.feeder.version.load(Ordering::SeqCst);
        let Some(version) = self.feeder.logs[self.resource.0].passed(&self.reader, present) else { return };
        let mut piece = Vec::new();
        protobuf::bookmark(&mut piece, version);
        self.ready.push_back(piece);
    }
}
