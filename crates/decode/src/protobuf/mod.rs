//! Lean decoding of Kubernetes' protobuf: metadata in lists and watches, and a `Status`.
//!
//! Hand-written, because only eight of a message's twenty fields are needed, borrowed, and the
//! others must cost nothing. The views are the same as those of JSON, so the facts of an
//! object do not depend on its encoding. The decoder is equally strict: a repeated field, or
//! a field of another type, is an error.

#[cfg(any(test, feature = "test-util"))]
pub mod encoder;
mod frames;
mod list;
mod object;
mod watch;
mod wire;

use std::borrow::Cow;

use super::{Status, Text};
use wire::{Fields, Malformed, Once};

pub(super) use frames::FrameSplitter;
pub(super) use list::ListParser;
pub(super) use watch::read_event;

/// The media type.
pub const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// The beginning of every message.
pub const MAGIC: &[u8] = b"k8s\0";

/// The group and version of metadata-only objects.
const METADATA_VERSION: &str = "meta.k8s.io/v1";

/// A message with its type: `runtime.Unknown`.
struct Typed<'a> {
    api_version: Text<'a>,
    kind: Text<'a>,
    raw: &'a [u8],
}

impl<'a> Typed<'a> {
    fn read(message: &'a [u8]) -> Result<Self, Malformed> {
        let message =
            message.strip_prefix(MAGIC).ok_or(Malformed("does not begin with Kubernetes' prefix"))?;
        let (mut meta, mut raw) = (Once::default(), Once::default());
        let mut fields = Fields::of(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => meta.set(value.bytes()?)?,
                2 => raw.set(value.bytes()?)?,
                3 | 4 => must_be_empty(value.bytes()?)?,
                _ => {}
            }
        }
        let (api_version, kind) = type_meta(meta.required()?)?;
        // Go omits empty messages.
        Ok(Self { api_version, kind, raw: raw.get().unwrap_or_default() })
    }
}

/// The version and kind of a `runtime.TypeMeta`.
fn type_meta(bytes: &[u8]) -> Result<(Text<'_>, Text<'_>), Malformed> {
    let (mut api_version, mut kind) = (Once::default(), Once::default());
    let mut fields = Fields::of(bytes);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => api_version.set(value.bytes()?)?,
            2 => kind.set(value.bytes()?)?,
            _ => {}
        }
    }
    Ok((api_version.text(), kind.text()))
}

/// Checks that the content encoding and type are not set: only the default is supported.
fn must_be_empty(bytes: &[u8]) -> Result<(), Malformed> {
    if bytes.is_empty() { Ok(()) } else { Err(Malformed("has a content encoding, which is not supported")) }
}

/// A string. For a byte that is not UTF-8, Go writes a replacement character to JSON and the
/// byte itself to protobuf. A uid must read the same from both.
fn text(bytes: &[u8]) -> Text<'_> {
    Text(match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut text = String::with_capacity(bytes.len() + 8);
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
            }
            Cow::Owned(text)
        }
    })
}

/// Reads a `Status`; `None` if the body is not a `Status`.
pub(super) fn read_status(message: &[u8]) -> Option<Status> {
    let typed = Typed::read(message).ok()?;
    (&*typed.api_version == "v1" && &*typed.kind == "Status").then(|| object::status(typed.raw).ok())?
}

#[cfg(test)]
mod tests;
