//! The page for browsers at `/` of the debug listener, and the static files it is made of.
//!
//! The files contain no data, so they are open: the page asks for a token where the debug pages
//! need one, and keeps it in memory.

#[cfg(test)]
mod compact;

use std::io::{self, Read as _};

use axum::Router;
use axum::extract::{Path, Request};
use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, VARY,
    X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::get;
use flate2::read::GzDecoder;

use super::page::{not_found, page, text};

/// What the page may do. It loads nothing from elsewhere, and no text can become code.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
                      img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// The compact form of a file, compressed with gzip. `build.rs` makes it.
macro_rules! content {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name))
    };
}

const PAGE: &[u8] = content!("index.html");

/// The prefix of the static files.
const PREFIX: &str = "/ui/";

/// A static file: its name, its content type, its compressed content.
type File = (&'static str, &'static str, &'static [u8]);

macro_rules! files {
    ($($name:literal $kind:ident),* $(,)?) => {
        &[$(($name, $kind, content!($name))),*]
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
    "search.js" SCRIPT,
    "shapes.js" SCRIPT,
    "view.js" SCRIPT,
    "words.js" SCRIPT,
];

/// The page for browsers, and `index` for all others.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(index: &'static str) -> Router<S> {
    Router::new().route("/", get(async move |headers: HeaderMap| root(&headers, index))).route(
        "/ui/{name}",
        get(async |Path(name): Path<String>, headers: HeaderMap| file(&name, &headers).await),
    )
}

/// Whether a request is for a static file, which contains no data.
pub(super) fn is_static(request: &Request) -> bool {
    match request.uri().path() {
        "/" => wants_html(request.headers()),
        path => path.strip_prefix(PREFIX).is_some_and(|name| find(name).is_some()),
    }
}

fn root(headers: &HeaderMap, index: &'static str) -> Response {
    let mut response =
        if wants_html(headers) { answer(HTML, PAGE, headers) } else { text(StatusCode::OK, index) };
    response.headers_mut().insert(VARY, HeaderValue::from_static("accept, accept-encoding"));
    response
}

async fn file(name: &str, headers: &HeaderMap) -> Response {
    match find(name) {
        Some((_, content_type, content)) => answer(content_type, content, headers),
        None => not_found().await,
    }
}

fn find(name: &str) -> Option<&'static File> {
    FILES.iter().find(|(of, ..)| *of == name)
}

/// Whether a client names HTML among what it accepts, as browsers do and curl does not.
fn wants_html(headers: &HeaderMap) -> bool {
    accepts(headers, ACCEPT, "text/html")
}

/// Whether a header that says what a client accepts has this value.
fn accepts(headers: &HeaderMap, header: HeaderName, wanted: &str) -> bool {
    let accepted = headers.get_all(header).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|accepted| {
        let (value, parameters) = accepted.split_once(';').unwrap_or((accepted, ""));
        let is_refused = parameters.split(';').any(|parameter| {
            let weight = parameter.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
            weight == Some(0.0)
        });
        value.trim().eq_ignore_ascii_case(wanted) && !is_refused
    })
}

/// A static file: compressed, unless the client cannot read that.
fn answer(content_type: &'static str, content: &'static [u8], headers: &HeaderMap) -> Response {
    const HEADERS: [(HeaderName, &str); 4] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "no-referrer"),
        (X_FRAME_OPTIONS, "DENY"),
        (VARY, "accept-encoding"),
    ];
    let mut response = if accepts(headers, ACCEPT_ENCODING, "gzip") {
        let mut response = page(StatusCode::OK, content_type, content);
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    } else {
        match plain(content) {
            Ok(content) => page(StatusCode::OK, content_type, content),
            Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        }
    };
    let headers = HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value)));
    response.headers_mut().extend(headers);
    response
}

/// The content of a file as it was before it was compressed.
fn plain(content: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    GzDecoder::new(content).read_to_end(&mut plain)?;
    Ok(plain)
}

#[cfg(test)]
mod tests;
