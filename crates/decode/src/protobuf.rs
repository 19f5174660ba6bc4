//! Kubernetes' protobuf: metadata in lists and watches, and a `Status`.
//!
//! The messages declare only the fields that are needed, under the numbers of Kubernetes' `.proto`
//! files, and prost skips all others. The views are the same as those of JSON, so the facts of an
//! object do not depend on its encoding. Texts are bytes here, because prost would reject an object
//! with a text that is not UTF-8, and with it the whole list; Go does not.

mod list;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::{Buf as _, Bytes, BytesMut};
use prost::Message;
use serde::de::IgnoredAny;

use super::object::{FinalizersView, MetadataView, Owners, ReferenceView};
use super::status::{Cause, Details};
use super::watch::{EventError, EventType, EventView, INITIAL_EVENTS_END};
use super::{Bookmark, Keyed, ObjectView, Status, Text};
use kube_gc_core::object::ResourceVersion;

pub(super) use list::ListParser;

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The beginning of every message.
pub const MAGIC: &[u8] = b"k8s\0";

/// The group and version of metadata-only objects.
const METADATA_VERSION: &[u8] = b"meta.k8s.io/v1";

#[derive(Message)]
struct TypeMeta {
    #[prost(bytes = "vec", tag = "1")]
    api_version: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    kind: Vec<u8>,
}

impl TypeMeta {
    fn is(&self, api_version: &[u8], kind: &[u8]) -> bool {
        self.api_version == api_version && self.kind == kind
    }
}

/// `runtime.Unknown`: a message with its type.
#[derive(Message)]
struct Typed {
    #[prost(message, required, tag = "1")]
    type_meta: TypeMeta,
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    content_encoding: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    content_type: Vec<u8>,
}

#[derive(Message)]
struct WatchEvent {
    #[prost(bytes = "vec", tag = "1")]
    event_type: Vec<u8>,
    #[prost(message, required, tag = "2")]
    object: RawExtension,
}

#[derive(Message)]
struct RawExtension {
    #[prost(bytes = "vec", tag = "1")]
    raw: Vec<u8>,
}

#[derive(Message)]
struct PartialObjectMetadata {
    #[prost(message, required, tag = "1")]
    metadata: ObjectMeta,
}

#[derive(Message)]
struct ObjectMeta {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    namespace: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    uid: Vec<u8>,
    #[prost(bytes = "vec", tag = "6")]
    resource_version: Vec<u8>,
    /// A time, of which it matters only whether it is set. The zero time is an empty message.
    #[prost(bytes = "vec", tag = "9")]
    deletion_timestamp: Vec<u8>,
    #[prost(int64, optional, tag = "10")]
    deletion_grace_period_seconds: Option<i64>,
    #[prost(message, repeated, tag = "13")]
    owner_references: Vec<OwnerReference>,
    #[prost(bytes = "vec", repeated, tag = "14")]
    finalizers: Vec<Vec<u8>>,
}

#[derive(Message)]
struct OwnerReference {
    #[prost(bytes = "vec", tag = "1")]
    kind: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    uid: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    api_version: Vec<u8>,
    #[prost(bool, optional, tag = "6")]
    controller: Option<bool>,
    #[prost(bool, optional, tag = "7")]
    block_owner_deletion: Option<bool>,
}

/// The metadata of a bookmark's object: only bookmarks have annotations that are read.
#[derive(Message)]
struct Marked {
    #[prost(message, required, tag = "1")]
    metadata: MarkedMeta,
}

#[derive(Message)]
struct MarkedMeta {
    #[prost(bytes = "vec", tag = "6")]
    resource_version: Vec<u8>,
    #[prost(message, repeated, tag = "12")]
    annotations: Vec<Annotation>,
}

#[derive(Message)]
struct Annotation {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Message)]
struct StatusMessage {
    #[prost(bytes = "vec", tag = "3")]
    message: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    reason: Vec<u8>,
    #[prost(message, optional, tag = "5")]
    details: Option<StatusDetails>,
    #[prost(int32, tag = "6")]
    code: i32,
}

#[derive(Message)]
struct StatusDetails {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    group: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    kind: Vec<u8>,
    #[prost(message, repeated, tag = "4")]
    causes: Vec<StatusCause>,
    #[prost(int32, tag = "5")]
    retry_after_seconds: i32,
}

#[derive(Message)]
struct StatusCause {
    #[prost(bytes = "vec", tag = "1")]
    reason: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    field: Vec<u8>,
}

/// Why a message cannot be read. prost names types and fields, and quotes no content.
#[derive(Debug, thiserror::Error)]
enum Malformed {
    #[error("malformed protobuf: {0}")]
    Wire(#[from] prost::DecodeError),
    #[error("malformed protobuf: the message {0}")]
    Message(&'static str),
}

impl Typed {
    fn read(message: &[u8]) -> Result<Self, Malformed> {
        let message = message
            .strip_prefix(MAGIC)
            .ok_or(Malformed::Message("does not begin with Kubernetes' prefix"))?;
        let typed = Self::decode(message)?;
        must_be_empty(&typed.content_encoding)?;
        must_be_empty(&typed.content_type)?;
        Ok(typed)
    }
}

/// Checks that the content encoding and type are not set: only the default is supported.
fn must_be_empty(bytes: &[u8]) -> Result<(), Malformed> {
    if bytes.is_empty() {
        Ok(())
    } else {
        Err(Malformed::Message("has a content encoding, which is not supported"))
    }
}

/// A string. For a byte that is not UTF-8, Go writes a replacement character to JSON and the
/// byte itself to protobuf. A uid must read the same from both.
fn string(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let mut text = String::new();
        for chunk in error.as_bytes().utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        }
        text
    })
}

fn text(bytes: Vec<u8>) -> Text<'static> {
    Text(Cow::Owned(string(bytes)))
}

/// Reads an object. If it cannot be read, the error contains its name, as far as that was read.
fn read_object(message: &[u8]) -> Result<ObjectView<'static>, String> {
    let mut object = PartialObjectMetadata::default();
    match object.merge(message) {
        Ok(()) => Ok(ObjectView { metadata: view(object.metadata) }),
        Err(error) => {
            let ObjectMeta { name, namespace, .. } = object.metadata;
            let parts: Vec<String> =
                [namespace, name].into_iter().filter(|part| !part.is_empty()).map(string).collect();
            let whose = if parts.is_empty() {
                String::new()
            } else {
                format!(" (the metadata of {:?})", parts.join("/"))
            };
            Err(format!("{}{whose}", Malformed::from(error)))
        }
    }
}

fn view(meta: ObjectMeta) -> MetadataView<'static> {
    let mut owner_references = Owners::default();
    for reference in meta.owner_references {
        let OwnerReference { kind, name, uid, api_version, controller, block_owner_deletion } = reference;
        owner_references.add(&ReferenceView {
            api_version: text(api_version),
            kind: text(kind),
            name: text(name),
            uid: text(uid),
            controller,
            block_owner_deletion,
        });
    }
    let mut finalizers = FinalizersView::default();
    meta.finalizers.into_iter().for_each(|finalizer| finalizers.add(&string(finalizer)));
    MetadataView {
        name: text(meta.name),
        namespace: text(meta.namespace),
        uid: text(meta.uid),
        resource_version: text(meta.resource_version),
        owner_references,
        finalizers,
        deletion_timestamp: (!meta.deletion_timestamp.is_empty()).then_some(IgnoredAny),
        deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
    }
}

fn read_bookmark(message: &[u8]) -> Result<Bookmark, Malformed> {
    let MarkedMeta { resource_version, annotations } = Marked::decode(message)?.metadata;
    Ok(Bookmark {
        version: ResourceVersion::parse(&string(resource_version)),
        ends_list: annotations
            .iter()
            .any(|annotation| annotation.key == INITIAL_EVENTS_END.as_bytes() && annotation.value == b"true"),
    })
}

fn status(message: &[u8]) -> Result<Status, Malformed> {
    let StatusMessage { message, reason, details, code } = StatusMessage::decode(message)?;
    let details = details.unwrap_or_default();
    let cause = |StatusCause { reason, field }| Keyed(Cause { reason: string(reason), field: string(field) });
    Ok(Status {
        message: string(message),
        code: u16::try_from(code).map_err(|_| Malformed::Message("has an invalid status code"))?,
        reason: string(reason),
        details: Details {
            name: string(details.name),
            group: string(details.group),
            kind: string(details.kind),
            causes: details.causes.into_iter().map(cause).collect(),
            retry_after_seconds: u64::try_from(details.retry_after_seconds).unwrap_or_default(),
        },
    })
}

/// Reads a `Status`; `None` if the body is not a `Status`.
pub(super) fn read_status(message: &[u8]) -> Option<Status> {
    let typed = Typed::read(message).ok()?;
    typed.type_meta.is(b"v1", b"Status").then(|| status(&typed.raw).ok())?
}

/// Reads a frame: the type of the event, and its object, which has its own type.
///
/// # Errors
///
/// It is not an event of a known type, or its object is not metadata.
pub(super) fn read_event(frame: &[u8]) -> Result<EventView<'static>, EventError> {
    let fault = |error: Malformed| EventError(error.to_string());
    let WatchEvent { event_type, object } = WatchEvent::decode(frame).map_err(|error| fault(error.into()))?;
    let event_type = std::str::from_utf8(&event_type)
        .ok()
        .and_then(EventType::parse)
        .ok_or_else(|| fault(Malformed::Message("is an event of an unknown type")))?;
    let Typed { type_meta, raw, .. } = Typed::read(&object.raw).map_err(fault)?;
    let is_metadata = type_meta.is(METADATA_VERSION, b"PartialObjectMetadata");
    let is_status = type_meta.is(b"v1", b"Status");
    match event_type {
        EventType::Object(now) if is_metadata => {
            Ok(EventView::Object { now, view: read_object(&raw).map_err(EventError)? })
        }
        EventType::Bookmark if is_metadata => read_bookmark(&raw).map(EventView::Bookmark).map_err(fault),
        EventType::Error if is_status => status(&raw).map(EventView::Error).map_err(fault),
        EventType::Object(_) | EventType::Bookmark | EventType::Error => {
            Err(EventError("the object of the event is not metadata".into()))
        }
    }
}

/// The length prefix of each frame of a watch, in big-endian order.
const LENGTH: usize = 4;

/// A frame exceeds the limit. No event does, so the stream is not a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame of the watch is longer than {0} bytes")]
pub struct FrameTooLong(usize);

/// Splits the body of a watch into frames. Buffers at most one incomplete frame.
#[derive(Debug)]
pub struct FrameSplitter {
    buffer: BytesMut,
    limit: usize,
}

impl FrameSplitter {
    pub fn new(limit: usize) -> Self {
        Self { buffer: BytesMut::new(), limit }
    }

    /// Adds the next chunk.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// The next complete frame. An incomplete frame at the end of the stream is part of a lost
    /// event, and is dropped.
    ///
    /// # Errors
    ///
    /// The frame is too long.
    pub fn next_frame(&mut self) -> Result<Option<Bytes>, FrameTooLong> {
        let Some(length) = self.buffer.first_chunk::<LENGTH>() else { return Ok(None) };
        let length = usize::try_from(u32::from_be_bytes(*length))
            .ok()
            .filter(|length| *length <= self.limit)
            .ok_or(FrameTooLong(self.limit))?;
        if self.buffer.len() - LENGTH < length {
            return Ok(None);
        }
        self.buffer.advance(LENGTH);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}
