//! An event of a watch, and its JSON line.

use std::fmt;

use bytes::{Bytes, BytesMut};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{FactsReader, Keyed, ObjectView, Status, Text, json_fault, keyed_or_default};
use kube_gc_core::object::{ObjectFacts, ResourceVersion};

/// A decoded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodedEvent {
    /// ADDED.
    Added(ObjectFacts),
    /// MODIFIED.
    Modified(ObjectFacts),
    /// DELETED, with the last state. Its version is that of the deletion.
    Deleted(ObjectFacts),
    /// ADDED, MODIFIED or DELETED, for an object without a uid.
    Nameless(Option<ResourceVersion>),
    /// BOOKMARK.
    Bookmark(Bookmark),
    /// ERROR.
    Error(Status),
}

/// There are no more events up to this version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bookmark {
    /// The version.
    pub version: Option<ResourceVersion>,
    /// Whether it ends the initial events: the list that began the watch is complete.
    pub ends_list: bool,
}

/// The annotation of the bookmark that ends the initial events. Its value is `true`.
pub(super) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// A line or frame is not a watch event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EventError(pub String);

impl DecodedEvent {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// The line is not JSON, or not an event of a known type. Skipping an unknown event could
    /// miss a deletion.
    pub fn read(line: &[u8], reader: &mut FactsReader) -> Result<Self, EventError> {
        serde_json::from_slice(line)
            .map(|view| Self::of(view, reader))
            .map_err(|error| EventError(json_fault(&error)))
    }

    pub(super) fn of(event: EventView<'_>, reader: &mut FactsReader) -> Self {
        match event {
            EventView::Error(status) => Self::Error(status),
            EventView::Bookmark(bookmark) => Self::Bookmark(bookmark),
            EventView::Object { now, view } => {
                let version = view.resource_version();
                match (reader.facts(view), now) {
                    (None, _) => Self::Nameless(version),
                    (Some(facts), Now::Added) => Self::Added(facts),
                    (Some(facts), Now::Modified) => Self::Modified(facts),
                    (Some(facts), Now::Deleted) => Self::Deleted(facts),
                }
            }
        }
    }
}

/// An event, borrowed from its line or frame.
pub(super) enum EventView<'a> {
    Object { now: Now, view: ObjectView<'a> },
    Bookmark(Bookmark),
    Error(Status),
}

impl<'de> Deserialize<'de> for Bookmark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Object<'a> {
            #[serde(borrow, deserialize_with = "keyed_or_default")]
            metadata: Metadata<'a>,
        }
        #[derive(Default, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Metadata<'a> {
            #[serde(borrow)]
            resource_version: Text<'a>,
            #[serde(borrow, deserialize_with = "keyed_or_default")]
            annotations: Annotations<'a>,
        }
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct Annotations<'a> {
            #[serde(borrow, rename = "k8s.io/initial-events-end")]
            initial_events_end: Text<'a>,
        }
        let Keyed(Object { metadata }) = Keyed::deserialize(deserializer)?;
        Ok(Self {
            version: ResourceVersion::parse(&metadata.resource_version),
            ends_list: &*metadata.annotations.initial_events_end == "true",
        })
    }
}

/// What happened to an object.
#[derive(Clone, Copy)]
pub(super) enum Now {
    Added,
    Modified,
    Deleted,
}

/// The type of an event.
#[derive(Clone, Copy)]
pub(super) enum EventType {
    Object(Now),
    Bookmark,
    Error,
}

impl EventType {
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "ADDED" => Self::Object(Now::Added),
            "MODIFIED" => Self::Object(Now::Modified),
            "DELETED" => Self::Object(Now::Deleted),
            "BOOKMARK" => Self::Bookmark,
            "ERROR" => Self::Error,
            _ => return None,
        })
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for EventView<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct EventVisitor;

        impl<'de> Visitor<'de> for EventVisitor {
            type Value = EventView<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a watch event")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut event_type = None;
                let mut unread: Option<&'de RawValue> = None;
                let mut event = None;
                while let Some(key) = map.next_key::<Text<'de>>()? {
                    // It would be unclear which of two types holds, and one may be DELETED.
                    let again = match &*key {
                        "type" => event_type.is_some(),
                        "object" => event.is_some() || unread.is_some(),
                        _ => false,
                    };
                    if again {
                        return Err(A::Error::custom("an event must have exactly one type and one object"));
                    }
                    match (&*key, event_type) {
                        ("type", _) => {
                            let text = map.next_value::<Text<'de>>()?;
                            event_type = Some(
                                EventType::parse(&text)
                                    .ok_or_else(|| A::Error::custom("unknown type of event"))?,
                            );
                        }
                        // In the usual order, the object is read in place.
                        ("object", Some(EventType::Object(now))) => {
                            event = Some(EventView::Object { now, view: map.next_value()? });
                        }
                        ("object", Some(EventType::Bookmark)) => {
                            event = Some(EventView::Bookmark(map.next_value()?));
                        }
                        ("object", Some(EventType::Error)) => {
                            let Keyed(status) = map.next_value()?;
                            event = Some(EventView::Error(status));
                        }
                        ("object", None) => unread = Some(map.next_value()?),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                match (event, event_type, unread) {
                    (Some(event), _, _) => Ok(event),
                    (None, Some(event_type), Some(object)) => read_late(event_type, object),
                    _ => Err(A::Error::custom("an event must have a type and an object")),
                }
            }
        }

        deserializer.deserialize_map(EventVisitor)
    }
}

/// Reads the object of an event whose type follows the object.
fn read_late<'a, E: serde::de::Error>(
    event_type: EventType,
    object: &'a RawValue,
) -> Result<EventView<'a>, E> {
    let text = object.get();
    let read = match event_type {
        EventType::Object(now) => serde_json::from_str(text).map(|view| EventView::Object { now, view }),
        EventType::Bookmark => serde_json::from_str(text).map(EventView::Bookmark),
        EventType::Error => serde_json::from_str(text).map(|Keyed(status)| EventView::Error(status)),
    };
    read.map_err(|_| E::custom("the event's object is malformed"))
}

/// A line exceeds the limit. No event does, so the stream is not a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a line of the watch is longer than {0} bytes")]
pub struct LineTooLong(usize);

/// Splits chunks into lines. Buffers at most one incomplete line.
#[derive(Debug)]
pub struct LineSplitter {
    buffer: BytesMut,
    /// How far `buffer` was searched.
    searched: usize,
    limit: usize,
}

impl LineSplitter {
    /// A splitter with this limit.
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), searched: 0, limit }
    }

    /// Adds the next chunk.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete line that is not blank, without its line break. An incomplete line at
    /// the end of the stream is part of a lost event, and is dropped.
    ///
    /// # Errors
    ///
    /// The line is too long.
    pub fn next_line(&mut self) -> Result<Option<Bytes>, LineTooLong> {
        loop {
            let Some(found) = memchr::memchr(b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                return if self.searched > self.limit { Err(LineTooLong(self.limit)) } else { Ok(None) };
            };
            let end = self.searched + found;
            if end > self.limit {
                return Err(LineTooLong(self.limit));
            }
            let line = self.buffer.split_to(end + 1).freeze().slice(..end);
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                return Ok(Some(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(line: &str) -> Result<DecodedEvent, EventError> {
        DecodedEvent::read(line.as_bytes(), &mut FactsReader::default())
    }

    #[test]
    fn every_type_reads_in_either_order() {
        let object = r#"{"metadata":{"name":"a","uid":"u","resourceVersion":"7"}}"#;
        let added = format!(r#"{{"type":"ADDED","object":{object}}}"#);
        assert!(matches!(read(&added), Ok(DecodedEvent::Added(facts)) if *facts.name == *"a"));
        let modified = format!(r#"{{"object":{object},"type":"MODIFIED"}}"#);
        assert!(matches!(read(&modified), Ok(DecodedEvent::Modified(facts)) if *facts.name == *"a"));
        let deleted = format!(r#"{{"type":"DELETED","object":{object}}}"#);
        assert!(matches!(read(&deleted), Ok(DecodedEvent::Deleted(_))));
        let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
        let version = Some(ResourceVersion::number(9));
        assert_eq!(read(bookmark), Ok(DecodedEvent::Bookmark(Bookmark { version, ends_list: false })));
        let error = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"message":"too old"}}"#;
        assert!(matches!(read(error), Ok(DecodedEvent::Error(status)) if status.code == 410));
    }

    #[test]
    fn only_a_bookmark_that_is_marked_ends_the_list() {
        let ends_list = |annotations: &str| {
            let metadata = format!(r#"{{"resourceVersion":"9","annotations":{annotations}}}"#);
            match read(&format!(r#"{{"type":"BOOKMARK","object":{{"metadata":{metadata}}}}}"#)) {
                Ok(DecodedEvent::Bookmark(bookmark)) => bookmark.ends_list,
                other => panic!("{annotations}: {other:?}"),
            }
        };
        assert!(ends_list(r#"{"other":"x","k8s.io/initial-events-end":"true"}"#));
        for annotations in ["null", "{}", r#"{"k8s.io/initial-events-end":"false"}"#, r#"{"other":"true"}"#] {
            assert!(!ends_list(annotations), "{annotations}");
        }
    }

    #[test]
    fn an_object_without_a_uid_is_nameless() {
        let line = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}"#;
        assert_eq!(read(line), Ok(DecodedEvent::Nameless(Some(ResourceVersion::number(7)))));
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
            let error = read(line).unwrap_err();
            assert!(!error.to_string().contains("SECRET"), "{error}");
        }
    }

    fn all(splitter: &mut LineSplitter) -> Vec<Bytes> {
        std::iter::from_fn(|| splitter.next_line().unwrap()).collect()
    }

    #[test]
    fn an_incomplete_line_waits_for_its_end_and_blank_ones_are_skipped() {
        let mut splitter = LineSplitter::new(100);
        splitter.feed(b"one\n\n \r\ntw");
        assert_eq!(all(&mut splitter), ["one"]);
        splitter.feed(b"o\nthree");
        assert_eq!(all(&mut splitter), ["two"]);
    }

    #[test]
    fn an_endless_line_is_an_error_and_does_not_grow_memory() {
        let mut splitter = LineSplitter::new(10);
        splitter.feed(b"0123456789");
        assert_eq!(splitter.next_line(), Ok(None));
        splitter.feed(b"0");
        assert_eq!(splitter.next_line(), Err(LineTooLong(10)));
        let mut splitter = LineSplitter::new(10);
        splitter.feed(b"0123456789x\n");
        assert!(splitter.next_line().is_err());
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(
            lines in prop::collection::vec("[a-z{}\"]{1,30}", 0..20),
            cuts in prop::collection::vec(1_usize..40, 1..50),
        ) {
            let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let mut splitter = LineSplitter::new(1000);
            let mut seen = Vec::new();
            let mut rest = body.as_bytes();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (chunk, more) = rest.split_at(rest.len().min(*cut));
                splitter.feed(chunk);
                seen.extend(all(&mut splitter));
                rest = more;
            }
            prop_assert_eq!(seen, lines);
        }
    }
}
