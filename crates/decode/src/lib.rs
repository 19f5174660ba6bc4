//! Lean readers of what API servers answer.
//!
//! The readers borrow from JSON or protobuf and skip what is not needed without allocating
//! it: labels, annotations, managed fields, specs and statuses are never stored. They read
//! `PartialObjectMetadata` and whole objects alike, because some aggregated APIs do not
//! support metadata-only answers.
//!
//! Nothing here does I/O, reads a clock, spawns a task or knows a connection. Callers pass in
//! the bytes of an answer, in chunks of any size, and get objects and events. All of it comes
//! from a cluster and may be hostile: a reader buffers at most one item or event, which has a
//! greatest length, and an error quotes nothing of the content.
//!
//! | Item | Reads |
//! |---|---|
//! | [`ListReader`] | a list while it arrives: its items, and its [`Envelope`] |
//! | [`WatchReader`] | the body of a watch: each [`DecodedEvent`] |
//! | [`Object`], [`Metadata`], [`Decoded`] | the metadata of an object, and the facts that the graph needs of it |
//! | [`Status`] | what the server says about a failure |
//! | [`Encoding`] | the encoding that an answer declares |
//! | [`Keyed`], [`Text`], [`or_default`], [`keyed_or_default`] | parts of other documents, strictly: Go's `null` is a missing field, and an array is no object |

#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a comment has to say more than the name; the crate is not published")]

mod json;
mod list;
mod object;
mod protobuf;
mod status;
#[cfg(any(test, feature = "test-util"))]
mod testing;
mod watch;

use http::HeaderMap;
use http::header::CONTENT_TYPE;

pub use json::{Keyed, Text, keyed_or_default, or_default};
pub use list::{Envelope, ListReader};
pub use object::{Decoded, Metadata, Object, reference};
pub use status::{Named, Status};
#[cfg(any(test, feature = "test-util"))]
pub use testing::encoder;
#[cfg(any(test, feature = "test-util"))]
pub use testing::fuzzing;
pub use watch::{Bookmark, Change, DecodedEvent, WatchReader};

/// An encoding of requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Every server supports it.
    Json,
    /// Kubernetes' own servers support it. It takes less CPU and bandwidth.
    Protobuf,
}

impl Encoding {
    /// The encoding that an answer's headers declare, whatever was requested. Anything but
    /// protobuf is read as JSON.
    pub fn of(headers: &HeaderMap) -> Self {
        let media_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let essence = media_type.split(';').next().unwrap_or_default().trim();
        if essence.eq_ignore_ascii_case(protobuf::MEDIA_TYPE) { Self::Protobuf } else { Self::Json }
    }
}

/// Reads JSON.
///
/// # Errors
///
/// It is not JSON, or not of this shape. The description does not quote it.
pub fn read_json<'a, T: serde::Deserialize<'a>>(json: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(json).map_err(|error| json_fault(&error))
}

/// Describes an error in JSON without quoting the JSON. serde's own message contains values,
/// which may be secret.
fn json_fault(error: &serde_json::Error) -> String {
    let kind = match error.classify() {
        serde_json::error::Category::Io => "unreadable",
        serde_json::error::Category::Syntax => "no JSON",
        serde_json::error::Category::Data => "not of the expected shape",
        serde_json::error::Category::Eof => "cut off",
    };
    format!("the response is {kind} (line {}, column {})", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_the_encoding_of_its_content_type() {
        let encoding = |content_type: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
            Encoding::of(&headers)
        };
        for protobuf in [
            "application/vnd.kubernetes.protobuf",
            "application/vnd.kubernetes.protobuf;stream=watch",
            "Application/vnd.kubernetes.Protobuf ; stream=watch",
        ] {
            assert_eq!(encoding(protobuf), Encoding::Protobuf, "{protobuf}");
        }
        for json in ["application/json", "application/json;stream=watch", "text/plain", ""] {
            assert_eq!(encoding(json), Encoding::Json, "{json}");
        }
        assert_eq!(Encoding::of(&HeaderMap::new()), Encoding::Json);
    }
}
