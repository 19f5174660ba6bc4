//! The form of the pages: how their parameters are read and their answers are written. A mistyped or
//! repeated parameter is an error: if it was ignored, the answer would mislead.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequestParts, Query};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::telemetry::Escaped;
use kube_gc_core::text::escape::escaped_json;

/// The time until a response begins, authorization included, so that an actor that does not respond
/// cannot hold connections forever. The rest of a response must make progress.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// The content type of plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// The content type of JSON.
pub const JSON: &str = "application/json";

/// The parameters of a request.
pub struct Asked<T>(pub T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        read(&parts.uri).map(Self).map_err(|problem| text(StatusCode::BAD_REQUEST, problem))
    }
}

/// The parameters in an address, or what is wrong with them.
pub fn read<T: DeserializeOwned>(uri: &Uri) -> Result<T, String> {
    let read = Query::try_from_uri(uri).map(|Query(parameters)| parameters);
    read.map_err(|problem| format!("{}; / lists all parameters", Escaped(problem.body_text())))
}

/// A response that must not be cached, and whose content type must not be guessed.
pub fn page(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (status, headers, body.into()).into_response()
}

/// Plain text that ends with a line break.
pub fn text(status: StatusCode, text: impl Into<String>) -> Response {
    let mut text = text.into();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    page(status, TEXT, text)
}

/// Indented JSON, because people read these pages with curl, in a terminal.
pub fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_string_pretty(value) {
        Ok(body) => json_text(status, &body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// The same for a value that is indented JSON already.
pub fn json_text(status: StatusCode, body: &str) -> Response {
    page(status, JSON, escaped_json(body) + "\n")
}

/// JSON on one line, escaped. `None` cannot happen: only maps with other keys than strings cannot be
/// written as JSON.
pub fn json_line(value: &impl Serialize) -> Option<String> {
    serde_json::to_string(value).ok().map(|text| escaped_json(&text))
}

/// The response for unknown paths.
pub async fn not_found() -> Response {
    text(StatusCode::NOT_FOUND, "there is no such page; / lists all pages")
}
