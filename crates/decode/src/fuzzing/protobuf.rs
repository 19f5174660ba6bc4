//! Protobuf, read as a whole and turned into the JSON that says the same.

use serde_json::{Map, Value, json};

use super::naive::{self, Misshapen, Read};
use super::{Event, chunked};
use crate::watch::INITIAL_EVENTS_END;
use crate::{Encoding, Envelope, FactsReader, ListReader, WatchReader};
use kube_gc_core::object::ObjectFacts;

/// A list in protobuf, in one piece and in many.
pub fn list(bytes: &[u8]) {
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
    let naive = || {
        let (items, envelope) = naive::list(&list_tree(bytes)?)?;
        let items = items.iter().map(naive::facts).collect::<Read<Vec<_>>>()?;
        Ok::<_, Misshapen>((items, envelope))
    };
    let expected = naive().ok();
    for cut in chunked(bytes) {
        assert_eq!(read(cut), expected, "in chunks of {cut}");
    }
}

/// The body of a watch in protobuf: frames, and the event in each.
pub fn watch(bytes: &[u8]) {
    let read = |cut: usize| {
        let mut watch = WatchReader::new(Encoding::Protobuf);
        let mut reader = FactsReader::default();
        let mut events = Vec::new();
        for chunk in bytes.chunks(cut) {
            watch.feed(chunk);
            loop {
                match watch.next(&mut reader) {
                    Ok(Some(event)) => events.push(Some(Event::from(event))),
                    Ok(None) => break,
                    Err(_) => {
                        events.push(None);
                        return events;
                    }
                }
            }
        }
        events
    };
    let mut expected: Vec<Option<Event>> = Vec::new();
    let mut rest = bytes;
    // The bytes after the last whole frame are an incomplete frame.
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        if length > 16 << 20 {
            expected.push(None);
            break;
        }
        let Some((frame, after)) = after.split_at_checked(length) else { break };
        rest = after;
        expected.push(event_tree(frame).and_then(|tree| naive::event(&tree)).ok());
        if matches!(expected.last(), Some(None)) {
            break;
        }
    }
    for cut in chunked(bytes) {
        assert_eq!(read(cut), expected, "in chunks of {cut}");
    }
}

/// A message, all of it.
struct Message<'a>(Vec<(u64, Field<'a>)>);

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed,
}

impl<'a> Message<'a> {
    fn read(mut rest: &'a [u8]) -> Read<Self> {
        let mut fields = Vec::new();
        while !rest.is_empty() {
            let tag = number(&mut rest)?;
            if !(1..1 << 29).contains(&(tag >> 3)) {
                return Err(Misshapen);
            }
            let field = match tag & 7 {
                0 => Field::Number(number(&mut rest)?),
                1 => take(&mut rest, 8).map(|_| Field::Fixed)?,
                2 => {
                    let length = number(&mut rest)?;
                    Field::Bytes(take(&mut rest, usize::try_from(length).map_err(|_| Misshapen)?)?)
                }
                5 => take(&mut rest, 4).map(|_| Field::Fixed)?,
                _ => return Err(Misshapen),
            };
            fields.push((tag >> 3, field));
        }
        Ok(Self(fields))
    }

    /// All that stands in a field, which holds bytes.
    fn all(&self, number: u64) -> Read<Vec<&'a [u8]>> {
        let of = self.0.iter().filter(|(of, _)| *of == number);
        of.map(|(_, field)| if let Field::Bytes(bytes) = field { Ok(*bytes) } else { Err(Misshapen) })
            .collect()
    }

    /// The content of a field that occurs at most once.
    fn one(&self, number: u64) -> Read<Option<&'a [u8]>> {
        match *self.all(number)? {
            [] => Ok(None),
            [bytes] => Ok(Some(bytes)),
            _ => Err(Misshapen),
        }
    }

    fn number(&self, number: u64) -> Read<Option<u64>> {
        let mut of = self.0.iter().filter(|(of, _)| *of == number);
        match (of.next(), of.next()) {
            (None, _) => Ok(None),
            (Some((_, Field::Number(number))), None) => Ok(Some(*number)),
            _ => Err(Misshapen),
        }
    }

    /// Texts, each under its name.
    fn texts<const N: usize>(&self, fields: [(u64, &str); N]) -> Read<Map<String, Value>> {
        let text = |(number, name): (u64, &str)| {
            Ok((name.to_owned(), Value::from(text(self.one(number)?.unwrap_or_default()))))
        };
        fields.into_iter().map(text).collect()
    }
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Read<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length).ok_or(Misshapen)?;
    *rest = left;
    Ok(taken)
}

fn number(rest: &mut &[u8]) -> Read<u64> {
    let mut value: u128 = 0;
    for place in 0..10 {
        let byte = take(rest, 1)?[0];
        value += u128::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return u64::try_from(value).map_err(|_| Misshapen);
        }
    }
    Err(Misshapen)
}

/// A text as Go writes it into JSON.
fn text(mut bytes: &[u8]) -> String {
    let mut text = String::new();
    loop {
        match std::str::from_utf8(bytes) {
            Ok(rest) => return text + rest,
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                text += std::str::from_utf8(valid).unwrap_or_default();
                text.push('\u{fffd}');
                bytes = &rest[1..];
            }
        }
    }
}

/// The type and the content of a message; the type may have to come first.
fn typed(bytes: &[u8], type_first: bool) -> Read<(Value, Option<&[u8]>)> {
    let message = Message::read(bytes.strip_prefix(b"k8s\0").ok_or(Misshapen)?)?;
    if ![message.all(3)?, message.all(4)?].concat().concat().is_empty() {
        return Err(Misshapen);
    }
    let (meta, raw) = (message.one(1)?.ok_or(Misshapen)?, message.one(2)?);
    let first = message.0.iter().find(|(number, _)| matches!(number, 1 | 2));
    if type_first && first.is_some_and(|(number, _)| *number == 2) {
        return Err(Misshapen);
    }
    Ok((Message::read(meta)?.texts([(1, "apiVersion"), (2, "kind")])?.into(), raw))
}

fn list_tree(bytes: &[u8]) -> Read<Value> {
    let (list_type, raw) = typed(bytes, true)?;
    if list_type != json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList"}) {
        return Err(Misshapen);
    }
    let list = Message::read(raw.ok_or(Misshapen)?)?;
    let metadata = Message::read(list.one(1)?.ok_or(Misshapen)?)?;
    let items = list.all(2)?.into_iter().map(object_tree).collect::<Read<Vec<_>>>()?;
    Ok(json!({
        "kind": list_type["kind"],
        "metadata": metadata.texts([(2, "resourceVersion"), (3, "continue")])?,
        "items": items,
    }))
}

fn object_tree(bytes: &[u8]) -> Read<Value> {
    let message = Message::read(Message::read(bytes)?.one(1)?.unwrap_or_default())?;
    let mut metadata = message.texts([(1, "name"), (3, "namespace"), (5, "uid"), (6, "resourceVersion")])?;
    if message.one(9)?.is_some_and(|timestamp| !timestamp.is_empty()) {
        metadata.insert("deletionTimestamp".into(), "then".into());
    }
    if let Some(seconds) = message.number(10)? {
        metadata.insert("deletionGracePeriodSeconds".into(), seconds.cast_signed().into());
    }
    let owners = message.all(13)?.into_iter().map(owner_tree).collect::<Read<Vec<_>>>()?;
    metadata.insert("ownerReferences".into(), owners.into());
    let finalizers: Vec<String> = message.all(14)?.into_iter().map(text).collect();
    metadata.insert("finalizers".into(), finalizers.into());
    Ok(json!({"metadata": metadata}))
}

fn bookmark_tree(bytes: &[u8]) -> Read<Value> {
    let message = Message::read(Message::read(bytes)?.one(1)?.unwrap_or_default())?;
    let mut annotations = Map::new();
    for entry in message.all(12)? {
        let entry = Message::read(entry)?;
        let (key, value) = (entry.one(1)?.unwrap_or_default(), entry.one(2)?.unwrap_or_default());
        let is_second = annotations.insert(text(key), text(value).into()).is_some();
        if is_second && text(key) == INITIAL_EVENTS_END {
            return Err(Misshapen);
        }
    }
    let mut metadata = message.texts([(6, "resourceVersion")])?;
    metadata.insert("annotations".into(), annotations.into());
    Ok(json!({"metadata": metadata}))
}

fn owner_tree(bytes: &[u8]) -> Read<Value> {
    let message = Message::read(bytes)?;
    let mut owner = message.texts([(5, "apiVersion"), (1, "kind"), (3, "name"), (4, "uid")])?;
    for (number, flag) in [(6, "controller"), (7, "blockOwnerDeletion")] {
        owner.insert(flag.into(), message.number(number)?.map(|number| number != 0).into());
    }
    Ok(owner.into())
}

fn event_tree(frame: &[u8]) -> Read<Value> {
    let event = Message::read(frame)?;
    let event_type = text(event.one(1)?.ok_or(Misshapen)?);
    let embedded = Message::read(event.one(2)?.ok_or(Misshapen)?)?;
    let (object_type, raw) = typed(embedded.one(1)?.ok_or(Misshapen)?, false)?;
    let raw = raw.unwrap_or_default();
    let metadata = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"});
    let (expected, object) = match &*event_type {
        "ERROR" => (json!({"apiVersion": "v1", "kind": "Status"}), status_tree(raw)),
        "BOOKMARK" => (metadata, bookmark_tree(raw)),
        _ => (metadata, object_tree(raw)),
    };
    if object_type != expected {
        return Err(Misshapen);
    }
    Ok(json!({"type": event_type, "object": object?}))
}

fn status_tree(bytes: &[u8]) -> Read<Value> {
    let message = Message::read(bytes)?;
    let mut status = message.texts([(3, "message"), (4, "reason")])?;
    status.insert("code".into(), message.number(6)?.into());
    let message = Message::read(message.one(5)?.unwrap_or_default())?;
    let mut details = message.texts([(1, "name"), (2, "group"), (3, "kind")])?;
    details.insert("retryAfterSeconds".into(), message.number(5)?.into());
    let causes = message.all(4)?.into_iter();
    let causes = causes.map(|cause| Message::read(cause)?.texts([(1, "reason"), (3, "field")]));
    details.insert("causes".into(), causes.collect::<Read<Vec<_>>>()?.into_iter().map(Value::from).collect());
    status.insert("details".into(), details.into());
    Ok(status.into())
}
