//! A complete answer.

use bytes::Bytes;
use serde_json::Value;

use super::status::Status;

/// A complete answer.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The HTTP status code.
    pub code: u16,
    /// The content, with its content type.
    pub body: Body,
}

/// The body of a complete answer.
#[derive(Clone, Debug)]
pub enum Body {
    /// JSON, with its content type.
    Json(Value, &'static str),
    /// Serialized JSON, with its content type.
    Written(Bytes, &'static str),
    /// Text, such as `ok`.
    Text(String),
}

impl Reply {
    /// An answer in JSON.
    #[must_use]
    pub fn json(code: u16, value: Value) -> Self {
        Self { code, body: Body::Json(value, "application/json") }
    }

    /// An answer in plain text.
    #[must_use]
    pub fn text(code: u16, text: impl Into<String>) -> Self {
        Self { code, body: Body::Text(text.into()) }
    }

    /// The 404 of a path that is unknown to every part of the server.
    #[must_use]
    pub fn unknown_path() -> Self {
        Self::text(404, "404 page not found\n")
    }

    /// The answer for a group and version whose backend is unavailable.
    #[must_use]
    pub fn unavailable() -> Self {
        Self::text(503, "service unavailable\n")
    }
}

impl From<Status> for Reply {
    fn from(status: Status) -> Self {
        Self::json(status.code, status.to_value())
    }
}
