//! The page for browsers at `/` of the debug listener, and the static files it is made of.
//!
//! The files contain no data, so they are open: the page asks for a token where the debug pages
//! need one, and keeps it in memory.

use axum::Router;
use axum::extract::{Path, Request};
use axum::http::header::{
    ACCEPT, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, VARY, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use tower_http::compression::CompressionLayer;

use super::page::{not_found, page, text};

/// What the page may do. It loads nothing from elsewhere, and no text can become code.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

const PAGE: &[u8] = include_bytes!("ui/index.html");

/// The prefix of the static files.
const PREFIX: &str = "/ui/";

/// A static file: its name, its content type, its content.
type File = (&'static str, &'static str, &'static [u8]);

macro_rules! files {
    ($($name:literal $kind:ident),* $(,)?) => {
        &[$(($name, $kind, include_bytes!(concat!("ui/", $name)))),*]
    };
}

/// The static files.
const FILES: &[File] = files![
    "address.js" SCRIPT,
    "announcer.js" SCRIPT,
    "api.js" SCRIPT,
    "dom.js" SCRIPT,
    "drawing.css" CSS,
    "drawing.js" SCRIPT,
    "explanation.js" SCRIPT,
    "history.js" SCRIPT,
    "icon.svg" SVG,
    "latencies.js" SCRIPT,
    "layout.js" SCRIPT,
    "list.js" SCRIPT,
    "live.js" SCRIPT,
    "main.js" SCRIPT,
    "object.css" CSS,
    "object.js" SCRIPT,
    "page.css" CSS,
    "panels.js" SCRIPT,
    "pulse.js" SCRIPT,
    "rows.js" SCRIPT,
    "search.js" SCRIPT,
    "shapes.js" SCRIPT,
    "view.js" SCRIPT,
    "words.js" SCRIPT,
];

/// The page for browsers, and `index` for all others. Clients that can read it get it compressed.
pub fn routes(index: &'static str) -> Router {
    Router::new()
        .route("/", get(async move |headers: HeaderMap| root(&headers, index)))
        .route("/ui/{name}", get(async |Path(name): Path<String>| file(&name).await))
        .layer(CompressionLayer::new())
}

/// Whether a request is for a static file, which contains no data.
pub(super) fn is_static(request: &Request) -> bool {
    match request.uri().path() {
        "/" => wants_html(request.headers()),
        path => path.strip_prefix(PREFIX).is_some_and(|name| find(name).is_some()),
    }
}

fn root(headers: &HeaderMap, index: &'static str) -> Response {
    let mut response = if wants_html(headers) { answer(HTML, PAGE) } else { text(StatusCode::OK, index) };
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    response
}

async fn file(name: &str) -> Response {
    match find(name) {
        Some((_, content_type, content)) => answer(content_type, content),
        None => not_found().await,
    }
}

fn find(name: &str) -> Option<&'static File> {
    FILES.iter().find(|(of, ..)| *of == name)
}

/// Whether a client names HTML among what it accepts, as browsers do and curl does not.
fn wants_html(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|value| value.split(',')).filter_map(|of| of.split(';').next());
    types.any(|of| of.trim().eq_ignore_ascii_case("text/html"))
}

fn answer(content_type: &'static str, content: &'static [u8]) -> Response {
    const HEADERS: [(HeaderName, &str); 3] =
        [(CONTENT_SECURITY_POLICY, POLICY), (REFERRER_POLICY, "no-referrer"), (X_FRAME_OPTIONS, "DENY")];
    let mut response = page(StatusCode::OK, content_type, content);
    let headers = HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

#[cfg(test)]
mod tests;
