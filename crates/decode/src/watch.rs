//! The events of a watch.

use bytes::{Buf as _, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Encoding, Keyed, Status, Text, protobuf, read_json};
use kube_gc_core::object::ResourceVersion;

/// A decoded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodedEvent {
    /// ADDED, MODIFIED or DELETED, the last with the last state, whose version is that of the deletion.
    /// The object is in the encoding of the watch.
    Object(Change, Bytes),
    /// BOOKMARK.
    Bookmark(Bookmark),
    /// ERROR.
    Error(Status),
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// There are no more events up to this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    pub version: Option<ResourceVersion>,
    /// Whether it ends the initial events: the list that began the watch is complete.
    pub ends_list: bool,
}

/// The annotation of the bookmark that ends the initial events. Its value is `true`.
pub(super) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

impl Bookmark {
    /// Of its object.
    pub(super) fn of(object: &Value) -> Self {
        let metadata = &object["metadata"];
        Self {
            version: metadata["resourceVersion"].as_str().and_then(ResourceVersion::parse),
            ends_list: metadata["annotations"][INITIAL_EVENTS_END] == "true",
        }
    }
}

/// The type of an event.
#[derive(Clone, Copy)]
pub(super) enum EventType {
    Object(Change),
    Bookmark,
    Error,
}

impl EventType {
    /// Skipping an unknown event could miss a deletion.
    pub fn parse(text: &str) -> Result<Self, String> {
        Ok(match text {
            "ADDED" => Self::Object(Change::Added),
            "MODIFIED" => Self::Object(Change::Modified),
            "DELETED" => Self::Object(Change::Deleted),
            "BOOKMARK" => Self::Bookmark,
            "ERROR" => Self::Error,
            _ => return Err("the event is of an unknown type".to_owned()),
        })
    }
}

fn read_line(line: &Bytes) -> Result<DecodedEvent, String> {
    #[derive(Deserialize)]
    struct Event<'a> {
        #[serde(borrow, rename = "type")]
        event_type: Text<'a>,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let Keyed(Event { event_type, object }) = read_json(line)?;
    let object = object.get().as_bytes();
    Ok(match EventType::parse(&event_type)? {
        EventType::Object(change) => DecodedEvent::Object(change, line.slice_ref(object)),
        EventType::Bookmark => DecodedEvent::Bookmark(Bookmark::of(&read_json(object)?)),
        EventType::Error => {
            let Keyed(status) = read_json(object)?;
            DecodedEvent::Error(status)
        }
    })
}

/// The longest event. etcd accepts at most a few MiB.
const LONGEST_EVENT: usize = 16 << 20;

/// Reads the body of a watch: lines of JSON, or frames of protobuf. Buffers at most one incomplete
/// event. At the end of the stream, that is a lost one, and is dropped.
#[derive(Debug)]
pub struct WatchReader {
    encoding: Encoding,
    buffer: BytesMut,
    /// How far `buffer` was searched for the end of a line.
    searched: usize,
}

impl WatchReader {
    /// A reader at the beginning of a watch.
    pub fn new(encoding: Encoding) -> Self {
        Self { encoding, buffer: BytesMut::new(), searched: 0 }
    }

    /// The encoding that it reads.
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Adds the next chunk.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete event.
    ///
    /// # Errors
    ///
    /// The next line or frame is too long, or is not an event of a known type.
    pub fn next_event(&mut self) -> Result<Option<DecodedEvent>, String> {
        match self.encoding {
            Encoding::Json => self.next_line()?.map(|line| read_line(&line)).transpose(),
            Encoding::Protobuf => self.next_frame()?.map(|frame| protobuf::read_event(&frame)).transpose(),
        }
    }

    /// The next complete line that is not blank, without its line break.
    pub(super) fn next_line(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
            let end = found.map_or(self.buffer.len(), |found| self.searched + found);
            if end > LONGEST_EVENT {
                return Err(format!("a line of the watch is longer than {LONGEST_EVENT} bytes"));
            }
            if found.is_none() {
                self.searched = end;
                return Ok(None);
            }
            let line = self.buffer.split_to(end + 1).freeze().slice(..end);
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }

    /// The next complete frame, without its length, which precedes it in big-endian order.
    pub(super) fn next_frame(&mut self) -> Result<Option<Bytes>, String> {
        let Some(&prefix) = self.buffer.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_be_bytes(prefix) as usize;
        if length > LONGEST_EVENT {
            return Err(format!("a frame of the watch is longer than {LONGEST_EVENT} bytes"));
        }
        if self.buffer.len() - prefix.len() < length {
            return Ok(None);
        }
        self.buffer.advance(prefix.len());
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::objects::event;
    use crate::{Decoded, encoder, fuzzing};
    use proptest::prelude::*;

    fn read(line: &str) -> Result<DecodedEvent, String> {
        read_line(&Bytes::copy_from_slice(line.as_bytes()))
    }

    #[test]
    fn an_invalid_event_is_an_error_that_quotes_nothing() {
        for line in [
            r#"{"type":"SECRET","object":{}}"#,
            r#"{"type":"ADDED"}"#,
            r#"{"type":"ADDED","object":{"metadata":{"uid":{"SECRET":1}}}}"#,
            r#"{"object":{"metadata":{"uid":["SECRET"]}},"type":"ADDED"}"#,
            r#"{"type":"ADDED","object":{"metadata":{"uid":"u"}},"type":"DELETED"}"#,
            r#"{"type":"ADDED","object":{"metadata":{"uid":"u"}},"object":{"metadata":{"uid":"v"}}}"#,
            r#"{"object":{"metadata":{"uid":"u"}},"object":{"metadata":{"uid":"v"}},"type":"ADDED"}"#,
            r#"{"type":"ADDED","object":[{"uid":"u"}]}"#,
            r#"{"type":"ERROR","object":["too old",410]}"#,
            "SECRET",
            "[]",
        ] {
            let object = |event| match event {
                DecodedEvent::Object(_, object) => Decoded::read(Encoding::Json, &object),
                other => panic!("{other:?}"),
            };
            let error = read(line).and_then(object).unwrap_err();
            assert!(!error.contains("SECRET"), "{error}");
        }
    }

    fn parts(watch: &mut WatchReader) -> Vec<Bytes> {
        let next = || match watch.encoding {
            Encoding::Json => watch.next_line(),
            Encoding::Protobuf => watch.next_frame(),
        };
        std::iter::repeat_with(next).map_while(Result::unwrap).collect()
    }

    #[test]
    fn what_is_incomplete_waits_for_its_end() {
        let mut lines = WatchReader::new(Encoding::Json);
        lines.feed(b"one\n\n \r\ntw");
        assert_eq!(parts(&mut lines), ["one"], "blank ones are skipped");
        lines.feed(b"o\nthree");
        assert_eq!(parts(&mut lines), ["two"]);
        let mut frames = WatchReader::new(Encoding::Protobuf);
        frames.feed(b"\0\0\0\x03one\0\0\0\0\0\0\0\x03tw");
        assert_eq!(parts(&mut frames), [&b"one"[..], b""]);
        frames.feed(b"o\0\0");
        assert_eq!(parts(&mut frames), ["two"]);
    }

    #[test]
    fn a_line_that_is_too_long_is_an_error_although_it_is_complete() {
        let mut lines = WatchReader::new(Encoding::Json);
        lines.feed(&[&vec![b'x'; LONGEST_EVENT + 1][..], b"\n"].concat());
        assert_eq!(lines.next_line(), Err("a line of the watch is longer than 16777216 bytes".to_owned()));
    }

    #[test]
    fn a_frame_that_is_too_long_is_an_error_before_it_arrives() {
        // The second is the beginning of JSON.
        for start in [&b"\x01\0\0\x01"[..], b"{\"type\":"] {
            let mut frames = WatchReader::new(Encoding::Protobuf);
            frames.feed(start);
            assert!(frames.next_frame().is_err());
        }
    }

    proptest! {
        /// In either order of the fields, and in chunks of any size.
        #[test]
        fn events_are_read_as_from_their_trees(events in prop::collection::vec(event(), 0..4)) {
            let lines: String = events.iter().map(|event| format!("{event}\n")).collect();
            fuzzing::watch(lines.as_bytes());
            let frames: Vec<u8> = events.iter().flat_map(encoder::frame).collect();
            fuzzing::watch_protobuf(&frames);
        }
    }
}
