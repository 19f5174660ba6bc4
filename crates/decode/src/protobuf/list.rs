//! Reads a protobuf list while it arrives.
//!
//! The list is one field of a message, and may have hundreds of megabytes. At most one of the
//! list's own fields, such as an item, is buffered.

use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};

use super::{MAGIC, METADATA_VERSION, Malformed, TypeMeta, must_be_empty, read_object, string};
use crate::ObjectView;
use crate::list::{Envelope, LONGEST, ListError};
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
    envelope: Option<Envelope>,
    /// The beginning of a part that the end of a chunk cut.
    pub(super) torn: Vec<u8>,
    /// The least length of that part.
    wanted: usize,
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
    fn read(bytes: &[u8]) -> Result<Option<Self>, Malformed> {
        let mut rest = bytes;
        let mut read = || {
            let (number, wire_type) = decode_key(&mut rest)?;
            let content = match wire_type {
                WireType::Varint => decode_varint(&mut rest).map(|_| 0)?,
                WireType::LengthDelimited => decode_varint(&mut rest)?,
                WireType::SixtyFourBit => 8,
                WireType::ThirtyTwoBit => 4,
                WireType::StartGroup | WireType::EndGroup => {
                    return Err(Malformed::Message("has a field of an unknown type"));
                }
            };
            Ok((number, wire_type, content))
        };
        match read() {
            Ok((number, wire_type, content)) => {
                Ok(Some(Self { number, wire_type, length: bytes.len() - rest.len(), content }))
            }
            Err(Malformed::Wire(_)) if bytes.len() < LONGEST_HEAD => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Whether a part is complete.
enum Part {
    /// Yes, with this length.
    Whole(usize),
    /// No; it is at least this long.
    AtLeast(usize),
}

impl ListParser {
    /// Reads the next chunk, and calls `on_item` for each item that it completes.
    ///
    /// # Errors
    ///
    /// The body is not such a list, or an item cannot be read.
    pub fn feed(
        &mut self,
        mut chunk: &[u8],
        on_item: &mut dyn FnMut(ObjectView<'_>),
    ) -> Result<(), ListError> {
        while !chunk.is_empty() {
            if self.torn.is_empty() {
                match self.part(chunk, on_item)? {
                    Part::Whole(length) => chunk = &chunk[length..],
                    Part::AtLeast(length) => {
                        self.torn.extend_from_slice(chunk);
                        self.wanted = length;
                        break;
                    }
                }
                continue;
            }
            let (more, rest) = chunk.split_at(chunk.len().min(self.wanted - self.torn.len()));
            self.torn.extend_from_slice(more);
            chunk = rest;
            if self.torn.len() == self.wanted {
                let mut torn = std::mem::take(&mut self.torn);
                match self.part(&torn, on_item)? {
                    // Exactly as long as needed, because nothing beyond was buffered.
                    Part::Whole(_) => torn.clear(),
                    Part::AtLeast(length) => self.wanted = length,
                }
                self.torn = torn;
            }
        }
        Ok(())
    }

    /// Reads the part at the beginning of these bytes, if it is complete.
    fn part(&mut self, bytes: &[u8], on_item: &mut dyn FnMut(ObjectView<'_>)) -> Result<Part, ListError> {
        let left = match self.section {
            Section::Magic => return self.magic(bytes),
            Section::Around => None,
            Section::List { left } => Some(left),
        };
        let Some(head) = Head::read(bytes)? else { return Ok(Part::AtLeast(bytes.len() + 1)) };
        if let (None, RAW, WireType::LengthDelimited) = (left, head.number, head.wire_type) {
            self.enter(head.content)?;
            return Ok(Part::Whole(head.length));
        }
        let length = head.content.saturating_add(head.length as u64);
        if left.is_some_and(|left| length > left) {
            return Err(Malformed::Message("has a field that is longer than the message").into());
        }
        let Some(length) = usize::try_from(length).ok().filter(|length| *length <= LONGEST) else {
            return Err(ListError(format!("a part of the list is longer than {LONGEST} bytes")));
        };
        let Some(field) = bytes.get(head.length..length) else { return Ok(Part::AtLeast(length)) };
        match (left, head.number, head.wire_type) {
            (None, 1, WireType::LengthDelimited) => self.type_meta(field)?,
            (None, 3 | 4, WireType::LengthDelimited) => must_be_empty(field)?,
            (Some(_), 1, WireType::LengthDelimited) => self.metadata(field)?,
            (Some(_), 2, WireType::LengthDelimited) => on_item(read_object(field).map_err(ListError)?),
            (None, 1..=4, _) | (Some(_), 1 | 2, _) => {
                return Err(Malformed::Message("has a field of the wrong type").into());
            }
            (None | Some(_), _, _) => {}
        }
        if let Some(left) = left {
            self.section = match left - length as u64 {
                0 => Section::Around,
                left => Section::List { left },
            };
        }
        Ok(Part::Whole(length))
    }

    fn magic(&mut self, bytes: &[u8]) -> Result<Part, ListError> {
        let length = bytes.len().min(MAGIC.len());
        if bytes[..length] != MAGIC[..length] {
            return Err(Malformed::Message("does not begin with Kubernetes' prefix").into());
        }
        if length < MAGIC.len() {
            return Ok(Part::AtLeast(MAGIC.len()));
        }
        self.section = Section::Around;
        Ok(Part::Whole(length))
    }

    fn type_meta(&mut self, field: &[u8]) -> Result<(), ListError> {
        let type_meta = TypeMeta::decode(field).map_err(Malformed::from)?;
        // A single object would otherwise read as an empty list, and all objects would count
        // as gone.
        if self.is_list || !type_meta.is(METADATA_VERSION, b"PartialObjectMetadataList") {
            return Err(ListError("the response is not a list of metadata".into()));
        }
        self.is_list = true;
        Ok(())
    }

    fn enter(&mut self, length: u64) -> Result<(), ListError> {
        if !self.is_list || std::mem::replace(&mut self.has_begun, true) {
            return Err(ListError("the response is not a list of metadata".into()));
        }
        if length > 0 {
            self.section = Section::List { left: length };
        }
        Ok(())
    }

    fn metadata(&mut self, field: &[u8]) -> Result<(), Malformed> {
        let ListMeta { resource_version, next } = ListMeta::decode(field)?;
        let resource_version = ResourceVersion::parse(&string(resource_version));
        match self.envelope.replace(Envelope { resource_version, next: string(next) }) {
            None => Ok(()),
            Some(_) => Err(Malformed::Message("has a field twice")),
        }
    }

    /// The envelope as far as it is known. Servers write it before the items.
    pub fn preview(&self) -> Option<Envelope> {
        self.envelope.clone().filter(|envelope| envelope.resource_version.is_some())
    }

    /// The envelope, after the end of the body.
    ///
    /// # Errors
    ///
    /// The body ended early, or it is not a list.
    pub fn finish(self) -> Result<Envelope, ListError> {
        if !self.torn.is_empty() || !matches!(self.section, Section::Around) || !self.has_begun {
            return Err(ListError("the list is cut off".into()));
        }
        self.envelope.ok_or_else(|| ListError("the list has no metadata".into()))
    }
}

impl From<Malformed> for ListError {
    fn from(error: Malformed) -> Self {
        Self(error.to_string())
    }
}
