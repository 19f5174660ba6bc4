//! Reads a protobuf list while it arrives.
//!
//! The list is one field of a message, and may have hundreds of megabytes. At most one of the
//! list's own fields, such as an item, is buffered.

use bytes::{Buf as _, BytesMut};
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};

use super::{MAGIC, METADATA_VERSION, TypeMeta, decode, malformed, must_be_empty, no_prefix, string};
use crate::list::{Envelope, LONGEST, OnItem, part_too_long};
use kube_gc_core::object::ResourceVersion;

#[derive(Message)]
struct ListMeta {
    #[prost(bytes = "vec", tag = "2")]
    resource_version: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    next: Vec<u8>,
}

/// The field with a message's content.
const RAW: u32 = 2;

#[derive(Clone, Copy, Debug, Default)]
enum Section {
    /// Before the message.
    #[default]
    Magic,
    /// In the message, outside of the list.
    Around,
    /// In the list, of which this much is left.
    List { left: u64 },
}

/// Splits a `PartialObjectMetadataList` into its items and the rest.
#[derive(Debug, Default)]
pub struct ListParser {
    section: Section,
    /// Whether the type of the message was read, and is a list.
    is_list: bool,
    /// Whether the list has begun.
    has_begun: bool,
    /// Servers write it before the items.
    pub envelope: Option<Envelope>,
    /// What was not read yet: less than a part.
    pub(super) buffer: BytesMut,
}

/// The longest head of a field: its key, and its value or the length of its content.
const LONGEST_HEAD: usize = 20;

/// The head of a field.
struct Head {
    number: u32,
    wire_type: WireType,
    /// Its own length; of a number, that of the whole field.
    length: usize,
    /// The length of what follows.
    content: u64,
}

impl Head {
    /// Reads a head; `None` if it is incomplete.
    fn read(bytes: &[u8]) -> Result<Option<Self>, String> {
        let mut rest = bytes;
        let mut read = || {
            let (number, wire_type) = decode_key(&mut rest)?;
            let content = match wire_type {
                WireType::Varint => decode_varint(&mut rest).map(|_| 0)?,
                WireType::LengthDelimited => decode_varint(&mut rest)?,
                WireType::SixtyFourBit => 8,
                WireType::ThirtyTwoBit => 4,
                WireType::StartGroup | WireType::EndGroup => u64::MAX,
            };
            Ok::<_, prost::DecodeError>((number, wire_type, content))
        };
        match read() {
            Ok((number, wire_type, content)) => {
                Ok(Some(Self { number, wire_type, length: bytes.len() - rest.len(), content }))
            }
            Err(_) if bytes.len() < LONGEST_HEAD => Ok(None),
            Err(error) => Err(malformed(error)),
        }
    }
}

impl ListParser {
    pub fn feed(&mut self, chunk: &[u8], on_item: &mut OnItem<'_>) -> Result<(), String> {
        self.buffer.extend_from_slice(chunk);
        let bytes = std::mem::take(&mut self.buffer);
        let mut rest = &bytes[..];
        while let Some(length) = self.part(rest, on_item)? {
            rest = &rest[length..];
        }
        let read = bytes.len() - rest.len();
        self.buffer = bytes;
        self.buffer.advance(read);
        Ok(())
    }

    /// Reads the part at the beginning of these bytes, and returns its length; `None` if it is
    /// incomplete.
    fn part(&mut self, bytes: &[u8], on_item: &mut OnItem<'_>) -> Result<Option<usize>, String> {
        let left = match self.section {
            Section::Magic => return self.magic(bytes),
            Section::Around => None,
            Section::List { left } => Some(left),
        };
        let Some(head) = Head::read(bytes)? else { return Ok(None) };
        if let (None, RAW, WireType::LengthDelimited) = (left, head.number, head.wire_type) {
            self.enter(head.content)?;
            return Ok(Some(head.length));
        }
        let length = head.content.saturating_add(head.length as u64);
        if left.is_some_and(|left| length > left) {
            return Err(malformed("the message has a field that is longer than the message"));
        }
        let Some(length) = usize::try_from(length).ok().filter(|length| *length <= LONGEST) else {
            return Err(part_too_long());
        };
        let Some(field) = bytes.get(head.length..length) else { return Ok(None) };
        match (left, head.number, head.wire_type) {
            (None, 1, WireType::LengthDelimited) => self.type_meta(field)?,
            (None, 3 | 4, WireType::LengthDelimited) => must_be_empty(field)?,
            (Some(_), 1, WireType::LengthDelimited) => self.metadata(field)?,
            (Some(_), 2, WireType::LengthDelimited) => on_item(field)?,
            (None, 1..=4, _) | (Some(_), 1 | 2, _) => {
                return Err(malformed("the message has a field of the wrong type"));
            }
            (None | Some(_), _, _) => {}
        }
        if let Some(left) = left {
            self.section = match left - length as u64 {
                0 => Section::Around,
                left => Section::List { left },
            };
        }
        Ok(Some(length))
    }

    fn magic(&mut self, bytes: &[u8]) -> Result<Option<usize>, String> {
        let length = bytes.len().min(MAGIC.len());
        if bytes[..length] != MAGIC[..length] {
            return Err(no_prefix());
        }
        if length < MAGIC.len() {
            return Ok(None);
        }
        self.section = Section::Around;
        Ok(Some(length))
    }

    fn type_meta(&mut self, field: &[u8]) -> Result<(), String> {
        let type_meta: TypeMeta = decode(field)?;
        // A single object would otherwise read as an empty list, and all objects would count
        // as gone.
        if self.is_list || !type_meta.is(METADATA_VERSION, b"PartialObjectMetadataList") {
            return Err("the response is not a list of metadata".into());
        }
        self.is_list = true;
        Ok(())
    }

    fn enter(&mut self, length: u64) -> Result<(), String> {
        if !self.is_list || std::mem::replace(&mut self.has_begun, true) {
            return Err("the response is not a list of metadata".into());
        }
        if length > 0 {
            self.section = Section::List { left: length };
        }
        Ok(())
    }

    fn metadata(&mut self, field: &[u8]) -> Result<(), String> {
        let ListMeta { resource_version, next } = decode(field)?;
        let resource_version = ResourceVersion::parse(&string(resource_version));
        match self.envelope.replace(Envelope { resource_version, next: string(next) }) {
            None => Ok(()),
            Some(_) => Err(malformed("the message has a field twice")),
        }
    }

    pub fn finish(self) -> Result<Envelope, String> {
        if !self.buffer.is_empty() || !matches!(self.section, Section::Around) || !self.has_begun {
            return Err("the list is cut off".into());
        }
        self.envelope.ok_or_else(|| "the list has no metadata".into())
    }
}
