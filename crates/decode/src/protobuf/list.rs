//! Reads a protobuf list while it arrives.
//!
//! The list is one field of a message, and may have hundreds of megabytes. At most one of the
//! list's own fields, such as an item, is buffered.

use super::wire::{Content, Fields, Head, Malformed, Once};
use super::{MAGIC, METADATA_VERSION, must_be_empty, object, type_meta};
use crate::ObjectView;
use crate::envelope::{Envelope, ListError};
use crate::list::LONGEST;
use kube_gc_core::object::ResourceVersion;

/// The field with a message's content.
const RAW: u64 = 2;

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
    torn: Vec<u8>,
    /// The least length of that part.
    wanted: usize,
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
        let Some(head) = Head::read(bytes).map_err(fault)? else { return Ok(Part::AtLeast(bytes.len() + 1)) };
        if let (None, RAW, Content::Bytes(length)) = (left, head.number, head.content) {
            self.enter(length)?;
            return Ok(Part::Whole(head.length));
        }
        let length = head.follow().saturating_add(head.length as u64);
        if left.is_some_and(|left| length > left) {
            return Err(fault(Malformed("has a field that is longer than the message")));
        }
        let Some(length) = usize::try_from(length).ok().filter(|length| *length <= LONGEST) else {
            return Err(ListError(format!("a part of the list is longer than {LONGEST} bytes")));
        };
        let Some(field) = bytes.get(head.length..length) else { return Ok(Part::AtLeast(length)) };
        match (left, head.number, head.content) {
            (None, 1, Content::Bytes(_)) => self.type_meta(field)?,
            (None, 3 | 4, Content::Bytes(_)) => must_be_empty(field).map_err(fault)?,
            (None, 1..=4, _) | (Some(_), 1 | 2, Content::Number(_) | Content::Fixed(_)) => {
                return Err(fault(Malformed("has a field of the wrong type")));
            }
            (Some(_), 1, Content::Bytes(_)) => self.metadata(field).map_err(fault)?,
            (Some(_), 2, Content::Bytes(_)) => on_item(object::object(field).map_err(ListError)?),
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
            return Err(fault(Malformed("does not begin with Kubernetes' prefix")));
        }
        if length < MAGIC.len() {
            return Ok(Part::AtLeast(MAGIC.len()));
        }
        self.section = Section::Around;
        Ok(Part::Whole(length))
    }

    fn type_meta(&mut self, field: &[u8]) -> Result<(), ListError> {
        let (api_version, kind) = type_meta(field).map_err(fault)?;
        // A single object would otherwise read as an empty list, and all objects would count
        // as gone.
        if self.is_list || &*api_version != METADATA_VERSION || &*kind != "PartialObjectMetadataList" {
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

    /// `ListMeta`.
    fn metadata(&mut self, field: &[u8]) -> Result<(), Malformed> {
        let (mut version, mut next) = (Once::default(), Once::default());
        let mut fields = Fields::of(field);
        while let Some((number, value)) = fields.next()? {
            match number {
                2 => version.set(value.bytes()?)?,
                3 => next.set(value.bytes()?)?,
                _ => {}
            }
        }
        let envelope = Envelope {
            resource_version: ResourceVersion::parse(&version.text()),
            next: next.text().to_string(),
        };
        match self.envelope.replace(envelope) {
            None => Ok(()),
            Some(_) => Err(Malformed("has a field twice")),
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

fn fault(error: Malformed) -> ListError {
    ListError(error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::encoder;

    #[test]
    fn at_most_one_item_is_buffered() {
        let items: Vec<Value> = (0..10_000)
            .map(|number| json!({"metadata": {"name": format!("o{number}"), "uid": "u", "labels": {"a": "b".repeat(300)}}}))
            .collect();
        let body = encoder::list(&json!({"metadata": {"resourceVersion": "5"}, "items": items}));
        assert!(body.len() > 3_000_000);
        let mut parser = ListParser::default();
        let mut seen = 0;
        for chunk in body.chunks(100) {
            parser.feed(chunk, &mut |_| seen += 1).unwrap();
            assert!(parser.torn.capacity() < 1000, "{} bytes are held", parser.torn.capacity());
        }
        assert_eq!(seen, 10_000);
        assert_eq!(parser.finish().unwrap().resource_version, Some(ResourceVersion::number(5)));
    }
}
