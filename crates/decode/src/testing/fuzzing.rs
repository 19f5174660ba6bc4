//! The properties of reading what API servers answer, for fuzzing.
//!
//! Each document is read in two ways: by the lean reader, and by a naive one
//! that has the whole tree before it. Where both can read, they must agree. Protobuf is read by a
//! crate, so for it only the size of the chunks must not matter.

use std::fmt::Debug;

use serde_json::Value;

use super::naive::{self, Read};
use crate::{
    Bookmark, Change, Decoded, DecodedEvent, Encoding, Envelope, FactsReader, ListReader, ObjectView,
    WatchReader,
};
use kube_gc_core::object::ObjectFacts;

/// Compares a lean reader with a naive one.
///
/// On the same document written again, both must give the same result, including rejections. On
/// the original bytes, the lean reader may reject more, such as fields that come twice, but must not
/// accept another value.
fn compare<T: Debug + PartialEq>(
    bytes: &[u8],
    lean: impl Fn(&[u8]) -> Option<T>,
    naive: impl Fn(&Value) -> Read<T>,
) {
    let from_bytes = lean(bytes);
    // Numbers out of range, lone surrogates, great depth: the tree knows fewer
    // documents than a reader that skips them.
    let Ok(tree) = serde_json::from_slice::<Value>(bytes) else { return };
    let expected = naive(&tree).ok();
    let afresh = tree.to_string();
    assert_eq!(lean(afresh.as_bytes()), expected, "read afresh: {afresh}");
    if from_bytes.is_some() {
        assert_eq!(from_bytes, expected, "read as it came");
    }
}

/// The sizes of chunks in which something is read: in one, in the smallest, in others.
fn chunked(bytes: &[u8]) -> [usize; 3] {
    [bytes.len().max(1), 1, 2 + bytes.len() % 61]
}

/// One object.
pub fn object(bytes: &[u8]) {
    let lean = |bytes: &[u8]| {
        let view = ObjectView::read(Encoding::Json, bytes).ok()?;
        Some((FactsReader::default().facts(&view), view.resource_version(), view.is_held()))
    };
    let naive =
        |tree: &Value| Ok((naive::facts(tree)?, naive::resource_version(tree)?, naive::is_held(tree)?));
    compare(bytes, lean, naive);
}

/// Reads a list in chunks of this size.
fn read_list(encoding: Encoding, bytes: &[u8], cut: usize) -> Option<(Vec<Vec<u8>>, Envelope)> {
    let mut list = ListReader::new(encoding);
    let mut items = Vec::new();
    let mut preview = None;
    for chunk in bytes.chunks(cut) {
        let fed = list.feed(chunk, &mut |item| {
            ObjectView::read(encoding, item)?;
            items.push(item.to_vec());
            Ok(())
        });
        fed.ok()?;
        preview = preview.or_else(|| list.preview());
    }
    let envelope = list.finish().ok()?;
    if let Some(preview) = preview {
        assert_eq!(preview.resource_version, envelope.resource_version, "the preview told another version");
    }
    Some((items, envelope))
}

fn list_in_chunks(encoding: Encoding, bytes: &[u8]) {
    let [whole, cuts @ ..] = chunked(bytes);
    let expected = read_list(encoding, bytes, whole);
    for cut in cuts {
        assert_eq!(read_list(encoding, bytes, cut), expected, "in chunks of {cut}");
    }
}

/// A list, in one piece and in many.
pub fn list(bytes: &[u8]) {
    list_in_chunks(Encoding::Json, bytes);
    let lean = |bytes: &[u8]| {
        let (items, envelope) = read_list(Encoding::Json, bytes, bytes.len().max(1))?;
        let items: Option<Vec<Value>> = items.iter().map(|item| serde_json::from_slice(item).ok()).collect();
        Some((items?, envelope))
    };
    compare(bytes, lean, naive::list);
}

/// A list in protobuf, in one piece and in many.
pub fn list_protobuf(bytes: &[u8]) {
    list_in_chunks(Encoding::Protobuf, bytes);
}

/// Reads the events of a watch in chunks of this size, up to the first that cannot be read.
fn read_watch(encoding: Encoding, bytes: &[u8], cut: usize) -> Vec<Option<Event>> {
    let (mut watch, mut events) = (WatchReader::new(encoding), Vec::new());
    for chunk in bytes.chunks(cut) {
        watch.feed(chunk);
        while let Some(event) = watch.next_event().transpose() {
            let event = event.ok().and_then(|event| Event::of(encoding, event));
            let is_last = event.is_none();
            events.push(event);
            if is_last {
                return events;
            }
        }
    }
    events
}

fn watch_in_chunks(encoding: Encoding, bytes: &[u8]) {
    let [whole, cuts @ ..] = chunked(bytes);
    let expected = read_watch(encoding, bytes, whole);
    for cut in cuts {
        assert_eq!(read_watch(encoding, bytes, cut), expected, "in chunks of {cut}");
    }
}

/// The body of a watch: lines, and the event in each.
pub fn watch(bytes: &[u8]) {
    watch_in_chunks(Encoding::Json, bytes);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        event(line);
    }
}

/// The body of a watch in protobuf, in one piece and in many.
pub fn watch_protobuf(bytes: &[u8]) {
    watch_in_chunks(Encoding::Protobuf, bytes);
}

fn event(line: &[u8]) {
    let lean = |line: &[u8]| {
        let body = [line, b"\n"].concat();
        read_watch(Encoding::Json, &body, body.len()).pop()?
    };
    compare(line, lean, naive::event);
    // Servers write the type first; a rewritten document has it last.
    let Ok(tree) = serde_json::from_slice::<Value>(line) else { return };
    if let (Some(event_type), Some(object)) = (tree.get("type"), tree.get("object")) {
        let usual = format!(r#"{{"type":{event_type},"object":{object}}}"#);
        assert_eq!(lean(usual.as_bytes()), naive::event(&tree).ok(), "the type first: {usual}");
    }
}

/// A [`DecodedEvent`] as far as the naive reader knows it.
#[derive(Debug, PartialEq)]
pub(super) enum Event {
    Object { change: Change, facts: ObjectFacts },
    Nameless(Option<kube_gc_core::object::ResourceVersion>),
    Bookmark(Bookmark),
    Error { code: u16, message: String },
}

impl Event {
    fn of(encoding: Encoding, event: DecodedEvent) -> Option<Self> {
        Some(match event {
            DecodedEvent::Object(change, object) => {
                match FactsReader::default().read(encoding, &object).ok()? {
                    Decoded { object: Some(facts), .. } => Self::Object { change, facts },
                    Decoded { version, .. } => Self::Nameless(version),
                }
            }
            DecodedEvent::Bookmark(bookmark) => Self::Bookmark(bookmark),
            DecodedEvent::Error(status) => Self::Error { code: status.code, message: status.message },
        })
    }
}
