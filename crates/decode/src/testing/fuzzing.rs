//! The properties of reading what API servers answer, for fuzzing.
//!
//! A document in JSON is read in two ways: as it arrives, and from the tree of the whole document. Where
//! both can read, they must agree. Protobuf is read by a crate, so for it only the size of the chunks must
//! not matter.

use std::fmt::Debug;

use bytes::Bytes;
use serde::Deserialize as _;
use serde_json::Value;

use crate::watch::EventType;
use crate::{
    Bookmark, Change, Decoded, DecodedEvent, Encoding, Envelope, Keyed, ListReader, Metadata, Object,
    WatchReader,
};
use kube_gc_core::object::ObjectFacts;

/// Compares a reading with that of the tree.
///
/// On the same document written again, both must give the same result, including rejections. On
/// the original bytes, a reader may reject more, such as fields that come twice, but must not
/// accept another value.
fn compare<T: Debug + PartialEq>(
    bytes: &[u8],
    read: impl Fn(&[u8]) -> Option<T>,
    of_tree: impl Fn(&Value) -> Option<T>,
) {
    let from_bytes = read(bytes);
    // Numbers out of range, lone surrogates, great depth: the tree knows fewer
    // documents than a reader that skips them.
    let Ok(tree) = serde_json::from_slice::<Value>(bytes) else { return };
    let expected = of_tree(&tree);
    let afresh = tree.to_string();
    assert_eq!(read(afresh.as_bytes()), expected, "read afresh: {afresh}");
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
    let read = |bytes: &[u8]| Decoded::read(Encoding::Json, bytes).ok();
    compare(bytes, read, |tree| {
        Keyed::deserialize(tree).ok().map(|Keyed(Object { metadata })| Decoded::of(&metadata))
    });
}

/// Reads a list in chunks of this size.
fn read_list(encoding: Encoding, bytes: &[u8], cut: usize) -> Option<(Vec<Vec<u8>>, Envelope)> {
    let mut list = ListReader::new(encoding);
    let mut items = Vec::new();
    let mut preview = None;
    for chunk in bytes.chunks(cut) {
        let fed = list.feed(chunk, &mut |item| {
            Decoded::read(encoding, item)?;
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
    let read = |bytes: &[u8]| {
        let (items, envelope) = read_list(Encoding::Json, bytes, bytes.len().max(1))?;
        let items: Option<Vec<Value>> = items.iter().map(|item| serde_json::from_slice(item).ok()).collect();
        Some((items?, envelope))
    };
    let of_tree = |tree: &Value| {
        let mut around = tree.clone();
        let items = around.as_object_mut()?.remove("items");
        let items = Option::<Vec<Value>>::deserialize(items.unwrap_or_default()).ok()?.unwrap_or_default();
        let are_objects = items.iter().all(|item| Keyed::<Object<Metadata<'_>>>::deserialize(item).is_ok());
        let envelope = ListReader::read(Encoding::Json, around.to_string().as_bytes(), &mut |_| Ok(()));
        Some((items, envelope.ok()?)).filter(|_| are_objects)
    };
    compare(bytes, read, of_tree);
}

/// A list in protobuf, in one piece and in many.
pub fn list_protobuf(bytes: &[u8]) {
    list_in_chunks(Encoding::Protobuf, bytes);
}

/// An event, with the object as it is read.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Object(Change, Decoded<ObjectFacts>),
    Other(DecodedEvent),
}

impl Event {
    fn of(encoding: Encoding, event: DecodedEvent) -> Result<Self, String> {
        Ok(match event {
            DecodedEvent::Object(change, object) => Self::Object(change, Decoded::read(encoding, &object)?),
            other => Self::Other(other),
        })
    }
}

/// Reads the events of a watch in chunks of this size, up to the first that cannot be read.
pub fn read_watch(encoding: Encoding, bytes: &[u8], cut: usize) -> Vec<Result<Event, String>> {
    let (mut watch, mut events) = (WatchReader::new(encoding), Vec::new());
    for chunk in bytes.chunks(cut) {
        watch.feed(chunk);
        while let Some(event) = watch.next_event().transpose() {
            let event = event.and_then(|event| Event::of(encoding, event));
            let is_last = event.is_err();
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
    let read = |line: &[u8]| {
        let body = [line, b"\n"].concat();
        read_watch(Encoding::Json, &body, body.len()).pop()?.ok()
    };
    let of_tree = |tree: &Value| {
        let (event_type, object) = (tree.get("type")?.as_str()?, tree.get("object")?);
        let event = match EventType::parse(event_type).ok()? {
            EventType::Object(change) => DecodedEvent::Object(change, Bytes::from(object.to_string())),
            EventType::Bookmark => DecodedEvent::Bookmark(Bookmark::of(object)),
            EventType::Error => DecodedEvent::Error(Keyed::deserialize(object).ok()?.0),
        };
        Event::of(Encoding::Json, event).ok()
    };
    compare(line, read, of_tree);
    // Servers write the type first; a rewritten document has it last.
    let Ok(tree) = serde_json::from_slice::<Value>(line) else { return };
    if let (Some(event_type), Some(object)) = (tree.get("type"), tree.get("object")) {
        let usual = format!(r#"{{"type":{event_type},"object":{object}}}"#);
        assert_eq!(read(usual.as_bytes()), of_tree(&tree), "the type first: {usual}");
    }
}
