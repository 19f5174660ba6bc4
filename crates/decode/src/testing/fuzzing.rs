//! The properties of reading what API servers answer, for fuzzing.
//!
//! Each document is read in two ways: by the lean reader, and by a naive one
//! that has the whole tree before it. Where both can read, they must agree. Protobuf is read by a
//! crate, so for it only the size of the chunks must not matter.

use std::fmt::Debug;

use serde_json::Value;

pub use super::naive;
use super::naive::Read;
use crate::list::ListScanner;
use crate::{
    Bookmark, DecodedEvent, Encoding, Envelope, FactsReader, LineSplitter, ListReader, ObjectView,
    WatchReader,
};
use kube_gc_core::object::ObjectFacts;

/// Compares a lean decoder with a naive one.
///
/// On the same document written again, both must give the same result, including rejections. On
/// the original bytes, the lean decoder may reject more (repeated fields, and fields in
/// `disguise`), but must not accept another value.
pub fn compare<T: Debug + PartialEq>(
    bytes: &[u8],
    lean: impl Fn(&[u8]) -> Option<T>,
    naive: impl Fn(&Value) -> Read<T>,
    disguise: impl Fn(&[u8]) -> bool,
) {
    let from_bytes = lean(bytes);
    // Numbers out of range, lone surrogates, great depth: the tree knows fewer
    // documents than a reader that skips them.
    let Ok(tree) = serde_json::from_slice::<Value>(bytes) else { return };
    let expected = naive(&tree).ok();
    let afresh = tree.to_string();
    assert_eq!(lean(afresh.as_bytes()), expected, "read afresh: {afresh}");
    if from_bytes.is_some() || !(naive::has_duplicates(bytes) || disguise(bytes)) {
        assert_eq!(from_bytes, expected, "read as it came");
    }
}

/// The sizes of chunks in which something is read: in one, in the smallest, in others.
fn chunked(bytes: &[u8]) -> [usize; 3] {
    [bytes.len().max(1), 1, 2 + bytes.len() % 61]
}

/// For a decoder that recognizes its fields however they are written.
pub fn no_disguise(_: &[u8]) -> bool {
    false
}

/// One object.
pub fn object(bytes: &[u8]) {
    let lean = |bytes: &[u8]| {
        let view: ObjectView<'_> = serde_json::from_slice(bytes).ok()?;
        let (version, held) = (view.resource_version(), view.is_held());
        Some((FactsReader::default().facts(view), version, held))
    };
    let naive =
        |tree: &Value| Ok((naive::facts(tree)?, naive::resource_version(tree)?, naive::is_held(tree)?));
    compare(bytes, lean, naive, no_disguise);
}

/// A list, in one piece and in many.
pub fn list(bytes: &[u8]) {
    let scan = |bytes: &[u8], cut: usize| -> Option<(Vec<Vec<u8>>, Envelope)> {
        let mut scanner = ListScanner::default();
        let mut items = Vec::new();
        let mut preview = None;
        for chunk in bytes.chunks(cut) {
            let kept = scanner.feed(chunk, |item| {
                items.push(item.to_vec());
                Ok(())
            });
            kept.ok()?;
            preview = preview.or_else(|| scanner.preview());
        }
        let envelope = scanner.finish().ok()?;
        if let Some(preview) = preview {
            assert_eq!(
                preview.resource_version, envelope.resource_version,
                "the preview told another version"
            );
        }
        Some((items, envelope))
    };
    let whole = scan(bytes, bytes.len().max(1));
    for cut in [1, 2 + bytes.len() % 61] {
        assert_eq!(scan(bytes, cut), whole, "in chunks of {cut}");
    }
    list_in_place(bytes, whole.clone());
    let lean = |bytes: &[u8]| {
        let (items, envelope) = scan(bytes, bytes.len().max(1))?;
        let items: Option<Vec<Value>> = items.iter().map(|item| serde_json::from_slice(item).ok()).collect();
        Some((items?, envelope))
    };
    // The scanner knows the items by their name, letter for letter.
    compare(bytes, lean, naive::list, |bytes| bytes.windows(2).any(|pair| pair == br"\u"));
}

/// Items that are read in place equal those that are cut out and then read.
fn list_in_place(bytes: &[u8], cut_out: Option<(Vec<Vec<u8>>, Envelope)>) {
    let facts =
        |item: &[u8]| serde_json::from_slice(item).ok().map(|view| FactsReader::default().facts(view));
    let expected = cut_out.and_then(|(items, envelope)| {
        let facts: Option<Vec<_>> = items.iter().map(|item| facts(item)).collect();
        Some((facts?, envelope))
    });
    for cut in [bytes.len().max(1), 1, 2 + bytes.len() % 61] {
        let (mut scanner, mut facts) = (ListScanner::default(), Vec::new());
        let mut on_item = |view: ObjectView<'_>| facts.push(FactsReader::default().facts(view));
        let read = bytes.chunks(cut).try_for_each(|chunk| scanner.read(chunk, &mut on_item));
        let read = read.and_then(|()| scanner.finish()).ok().map(|envelope| (facts, envelope));
        assert_eq!(read, expected, "read in place, in chunks of {cut}");
    }
}

/// The body of a watch: lines, and the event in each.
pub fn watch(bytes: &[u8]) {
    let split = |cut: usize| {
        let mut splitter = LineSplitter::new(usize::MAX);
        let mut lines = Vec::new();
        for chunk in bytes.chunks(cut) {
            splitter.feed(chunk);
            while let Ok(Some(line)) = splitter.next_line() {
                lines.push(line.to_vec());
            }
        }
        lines
    };
    // The bytes after the last line end are an incomplete line.
    let mut expected: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    expected.pop();
    expected.retain(|line| !line.trim_ascii().is_empty());
    for cut in chunked(bytes) {
        assert_eq!(split(cut), expected, "in chunks of {cut}");
    }
    for line in expected {
        event(line);
    }
}

fn event(line: &[u8]) {
    let lean = |line: &[u8]| DecodedEvent::read(line, &mut FactsReader::default()).ok().map(Event::from);
    compare(line, lean, naive::event, no_disguise);
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
    Object { deleted: bool, facts: ObjectFacts },
    Nameless(Option<kube_gc_core::object::ResourceVersion>),
    Bookmark(Bookmark),
    Error { code: u16, message: String },
}

impl From<DecodedEvent> for Event {
    fn from(line: DecodedEvent) -> Self {
        match line {
            DecodedEvent::Added(facts) | DecodedEvent::Modified(facts) => {
                Self::Object { deleted: false, facts }
            }
            DecodedEvent::Deleted(facts) => Self::Object { deleted: true, facts },
            DecodedEvent::Nameless(version) => Self::Nameless(version),
            DecodedEvent::Bookmark(bookmark) => Self::Bookmark(bookmark),
            DecodedEvent::Error(status) => Self::Error { code: status.code, message: status.message },
        }
    }
}

/// A list in protobuf, in one piece and in many.
pub fn list_protobuf(bytes: &[u8]) {
    let read = |cut: usize| -> Option<(Vec<Option<ObjectFacts>>, Envelope)> {
        let mut list = ListReader::new(Encoding::Protobuf);
        let mut items = Vec::new();
        let mut preview = None;
        for chunk in bytes.chunks(cut) {
            list.feed(chunk, &mut |view| items.push(FactsReader::default().facts(view))).ok()?;
            preview = preview.or_else(|| list.preview());
        }
        let envelope = list.finish().ok()?;
        assert!(preview.is_none_or(|preview| preview == envelope), "the preview told another envelope");
        Some((items, envelope))
    };
    let [whole, cuts @ ..] = chunked(bytes);
    let expected = read(whole);
    for cut in cuts {
        assert_eq!(read(cut), expected, "in chunks of {cut}");
    }
}

/// The body of a watch in protobuf, in one piece and in many.
pub fn watch_protobuf(bytes: &[u8]) {
    let read = |cut: usize| {
        let mut watch = WatchReader::new(Encoding::Protobuf);
        let mut reader = FactsReader::default();
        let mut events = Vec::new();
        for chunk in bytes.chunks(cut) {
            watch.feed(chunk);
            loop {
                match watch.next(&mut reader) {
                    Ok(Some(event)) => events.push(Ok(event)),
                    Ok(None) => break,
                    Err(error) => {
                        events.push(Err(error));
                        return events;
                    }
                }
            }
        }
        events
    };
    let [whole, cuts @ ..] = chunked(bytes);
    let expected = read(whole);
    for cut in cuts {
        assert_eq!(read(cut), expected, "in chunks of {cut}");
    }
}
