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
use std::fmt;

use prost::Message;

use super::object::{Metadata, ReferenceView, Time};
use super::status::{Cause, Details};
use super::watch::{EventType, INITIAL_EVENTS_END};
use super::{Bookmark, DecodedEvent, Keyed, Status, Text};
use kube_gc_core::object::ResourceVersion;

pub(super) use list::ListParser;

pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The beginning of every message.
const MAGIC: &[u8] = b"k8s\0";

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
    /// The zero time is an empty message.
    #[prost(message, tag = "9")]
    deletion_timestamp: Option<Seconds>,
    #[prost(int64, optional, tag = "10")]
    deletion_grace_period_seconds: Option<i64>,
    #[prost(message, repeated, tag = "13")]
    owner_references: Vec<OwnerReference>,
    #[prost(bytes = "vec", repeated, tag = "14")]
    finalizers: Vec<Vec<u8>>,
}

#[derive(PartialEq, Message)]
struct Seconds {
    #[prost(int64, tag = "1")]
    since_1970: i64,
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
fn malformed(why: impl fmt::Display) -> String {
    format!("malformed protobuf: {why}")
}

fn decode<M: Message + Default>(message: &[u8]) -> Result<M, String> {
    M::decode(message).map_err(malformed)
}

impl Typed {
    fn read(message: &[u8]) -> Result<Self, String> {
        let message = message.strip_prefix(MAGIC).ok_or_else(no_prefix)?;
        let typed: Self = decode(message)?;
        must_be_empty(&typed.content_encoding)?;
        must_be_empty(&typed.content_type)?;
        Ok(typed)
    }
}

fn no_prefix() -> String {
    malformed("the message does not begin with Kubernetes' prefix")
}

/// Checks that the content encoding and type are not set: only the default is supported.
fn must_be_empty(bytes: &[u8]) -> Result<(), String> {
    if bytes.is_empty() {
        Ok(())
    } else {
        Err(malformed("the message has a content encoding, which is not supported"))
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

pub(super) fn read_object(message: &[u8]) -> Result<Metadata<'static>, String> {
    let PartialObjectMetadata { metadata: meta } = decode(message)?;
    let reference = |reference: OwnerReference| {
        let OwnerReference { kind, name, uid, api_version, controller, block_owner_deletion } = reference;
        Keyed(ReferenceView {
            api_version: text(api_version),
            kind: text(kind),
            name: text(name),
            uid: text(uid),
            controller,
            block_owner_deletion,
        })
    };
    let deleted = meta.deletion_timestamp.filter(|time| *time != Seconds::default());
    Ok(Metadata {
        name: text(meta.name),
        namespace: text(meta.namespace),
        uid: text(meta.uid),
        resource_version: text(meta.resource_version),
        owner_references: meta.owner_references.into_iter().map(reference).collect(),
        finalizers: meta.finalizers.into_iter().map(text).collect(),
        deletion_timestamp: deleted.map(|Seconds { since_1970 }| Time(since_1970.try_into().ok())),
        deletion_grace_period_seconds: meta.deletion_grace_period_seconds,
    })
}

fn read_bookmark(message: &[u8]) -> Result<Bookmark, String> {
    let MarkedMeta { resource_version, annotations } = decode::<Marked>(message)?.metadata;
    Ok(Bookmark {
        version: ResourceVersion::parse(&string(resource_version)),
        ends_list: annotations
            .iter()
            .any(|annotation| annotation.key == INITIAL_EVENTS_END.as_bytes() && annotation.value == b"true"),
    })
}

fn status(message: &[u8]) -> Result<Status, String> {
    let StatusMessage { message, reason, details, code } = decode(message)?;
    let details = details.unwrap_or_default();
    let cause = |StatusCause { reason, field }| Keyed(Cause { reason: string(reason), field: string(field) });
    Ok(Status {
        message: string(message),
        code: u16::try_from(code).map_err(|_| malformed("the message has an invalid status code"))?,
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
pub(super) fn read_event(frame: &[u8]) -> Result<DecodedEvent, String> {
    let WatchEvent { event_type, object } = decode(frame)?;
    let Typed { type_meta, raw, .. } = Typed::read(&object.raw)?;
    let is_metadata = type_meta.is(METADATA_VERSION, b"PartialObjectMetadata");
    let is_status = type_meta.is(b"v1", b"Status");
    Ok(match EventType::parse(&string(event_type))? {
        EventType::Object(change) if is_metadata => DecodedEvent::Object(change, raw.into()),
        EventType::Bookmark if is_metadata => DecodedEvent::Bookmark(read_bookmark(&raw)?),
        EventType::Error if is_status => DecodedEvent::Error(status(&raw)?),
        EventType::Object(_) | EventType::Bookmark | EventType::Error => {
            return Err("the object of the event is not metadata".into());
        }
    })
}
