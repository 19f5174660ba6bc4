//! Lean decoding of answers.
//!
//! The decoders borrow from JSON or protobuf and skip what is not needed without allocating
//! it: labels, annotations, managed fields, specs and statuses are never stored. They read
//! `PartialObjectMetadata` and whole objects alike, because some aggregated APIs do not
//! support metadata-only answers.

mod answer;
mod envelope;
mod keyed;
mod lines;
mod list;
mod object;
mod protobuf;
mod status;
mod text;
mod watch;

#[cfg(test)]
pub(super) use protobuf::encoder;

pub use answer::Encoding;
pub use status::Status;

pub(super) use answer::{ListReader, WatchReader};
pub(super) use envelope::{Envelope, ListError};
pub(super) use keyed::{Keyed, keyed_or_default, or_default};
pub(super) use lines::LineSplitter;
pub(super) use list::ListScanner;
pub(super) use object::{FactsReader, ObjectView, reference};
pub(super) use protobuf::{MAGIC as PROTOBUF_MAGIC, MEDIA_TYPE as PROTOBUF};
pub(super) use status::Named;
pub(super) use text::Text;
pub(super) use watch::{DecodedEvent, EventError};

/// Describes an error in JSON without quoting the JSON. serde's own message contains values,
/// which may be secret.
pub(super) fn json_fault(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        serde_json::error::Category::Io => "unreadable",
        serde_json::error::Category::Syntax => "no JSON",
        serde_json::error::Category::Data => "not of the expected shape",
        serde_json::error::Category::Eof => "cut off",
    };
    format!("the response is {kind} (line {}, column {})", error.line(), error.column())
}
