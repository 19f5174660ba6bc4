//! Building responses.

use std::fmt::Write as _;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::FutureExt as _;
use serde::Serialize;

use super::{Ended, TextStream};
use kube_gc_core::text::escape::escape_json;

/// The timeout of a page, so that an actor that does not respond cannot hold connections
/// forever.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

pub(super) const TEXT: &str = "text/plain; charset=utf-8";
pub(super) const JSON: &str = "application/json";

/// A response that must not be cached, and whose content type must not be guessed.
pub(super) fn page(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(content_type)),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (status, headers, body.into()).into_response()
}

/// A response that is sent while it is generated, as fast as it is read. It has no total
/// timeout.
pub(super) fn stream(content_type: &'static str, text: TextStream) -> Response {
    page(StatusCode::OK, content_type, Body::from_stream(text))
}

/// The response if an actor has ended, and the process is about to.
pub(super) fn ended(ended: Ended) -> Response {
    text(StatusCode::SERVICE_UNAVAILABLE, ended.to_string())
}

/// Plain text that ends with a line break.
pub(super) fn text(status: StatusCode, text: impl Into<String>) -> Response {
    let mut text = text.into();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    page(status, TEXT, text)
}

/// Indented JSON, because people read these pages with curl, in a terminal.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_string_pretty(value) {
        Ok(body) => json_text(status, &body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// The same for a value that is indented JSON already.
pub(super) fn json_text(status: StatusCode, body: &str) -> Response {
    let mut escaped = String::with_capacity(body.len() + 1);
    // Writing to a string cannot fail.
    let _ = body.lines().try_for_each(|line| {
        escape_json(line, &mut escaped)?;
        escaped.write_char('\n')
    });
    page(status, JSON, escaped)
}

/// JSON on one line, escaped. `None` cannot happen: only maps with other keys than strings cannot be
/// written as JSON.
pub(super) fn json_line(value: &impl Serialize) -> Option<String> {
    let text = serde_json::to_string(value).ok()?;
    let mut escaped = String::with_capacity(text.len());
    escape_json(&text, &mut escaped).ok()?;
    Some(escaped)
}

/// Applies the timeout of a page.
pub(super) async fn within_timeout(answer: impl Future<Output = Response> + Send) -> Response {
    // Boxed, and so compiled once and not for each page.
    tokio::time::timeout(TIMEOUT, answer.boxed()).await.unwrap_or_else(|_| {
        text(
            StatusCode::GATEWAY_TIMEOUT,
            format!("the collector did not respond within {} s", TIMEOUT.as_secs()),
        )
    })
}

/// The response to a question to the collector.
pub(super) fn answered(answer: Result<impl Serialize, Ended>) -> Response {
    match answer {
        Ok(answer) => json(StatusCode::OK, &answer),
        Err(error) => ended(error),
    }
}

/// Answers a request within the timeout, unless its parameters are wrong.
pub(super) async fn asked<Q, A: Future<Output = Response> + Send>(
    request: Result<Q, String>,
    answer: impl FnOnce(Q) -> A,
) -> Response {
    match request {
        Ok(request) => within_timeout(answer(request)).await,
        Err(problem) => text(StatusCode::BAD_REQUEST, problem),
    }
}

/// The response for unknown paths.
pub(super) async fn not_found() -> Response {
    text(StatusCode::NOT_FOUND, "there is no such page; / lists all pages")
}
