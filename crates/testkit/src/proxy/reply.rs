//! Made-up answers, and the other things that can happen to a request.

use std::convert::Infallible;
use std::io;

use anyhow::Result;
use bytes::Bytes;
use http::Response;
use http::header::CONTENT_TYPE;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

/// The answer to a request of the collector.
pub(super) type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;

/// A made-up answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) status: u16,
    body: Bytes,
}

impl Reply {
    /// A `Status`, without details.
    pub fn status(code: u16, reason: &str, message: &str) -> Self {
        Self::status_with(code, reason, message, &json!({}))
    }

    /// A `Status` with these details.
    pub fn status_with(code: u16, reason: &str, message: &str, details: &Value) -> Self {
        let body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": details,
            "code": code,
        });
        Self::json(code, &body)
    }

    /// Any JSON.
    pub fn json(code: u16, body: &Value) -> Self {
        Self::text(code, &body.to_string())
    }

    /// Any text.
    pub fn text(code: u16, body: &str) -> Self {
        Self { status: code, body: Bytes::copy_from_slice(body.as_bytes()) }
    }

    /// 409.
    pub fn conflict() -> Self {
        Self::status(409, "Conflict", "a conflict made by the test")
    }

    /// 410, as to a watch whose version is too old.
    pub fn expired() -> Self {
        Self::status(410, "Expired", "too old resource version: made by the test")
    }

    /// 500.
    pub fn broken() -> Self {
        Self::status(500, "InternalError", "an error made by the test")
    }

    /// The HTTP response.
    pub(super) fn into_response(self) -> Result<Answer> {
        let response = Response::builder().status(self.status).header(CONTENT_TYPE, "application/json");
        let body = Full::new(self.body).map_err(|never: Infallible| match never {}).boxed_unsync();
        Ok(response.body(body)?)
    }
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum Fault {
    /// It is not forwarded, and gets this answer.
    Instead(Reply),
    /// It takes effect, but gets this answer.
    After(Reply),
    /// It takes effect, and the connection breaks before the answer.
    AnswerLost,
    /// It takes effect, and the answer never arrives.
    AnswerLate,
}
