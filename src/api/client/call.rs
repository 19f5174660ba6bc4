//! A request about to be made.

use std::time::Duration;

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http::{HeaderValue, Method, Request};
use kube::client::Body;

use super::NO_TEXT;
use crate::api::decode::{Encoding, Status};
use crate::api::error::{self, ApiError, ErrorClass, Named};
use crate::api::path;
use crate::api::settings::{USER_AGENT, Verb};
use kube_gc_core::object::GroupResource;

/// A request about to be made.
pub struct Call<'a> {
    pub verb: Verb,
    pub method: Method,
    /// For the error: the method, or what is attempted.
    pub action: &'static str,
    pub path: String,
    pub accept: &'static str,
    /// Content type and body.
    pub body: Option<(&'static str, Vec<u8>)>,
    /// For the observer.
    pub resource: &'a GroupResource,
    /// The object that the path names, when it does.
    pub object: Option<Named<'a>>,
    /// For the error, when the path names no object.
    pub target: String,
}

impl<'a> Call<'a> {
    /// A GET of something that is no object.
    pub fn get(verb: Verb, path: String, accept: &'static str, resource: &'a GroupResource) -> Self {
        Self {
            verb,
            method: Method::GET,
            action: "GET",
            target: path.clone(),
            path,
            accept,
            body: None,
            resource,
            object: None,
        }
    }

    /// An error of this call.
    pub fn error(&self, class: ErrorClass, message: impl Into<String>, code: Option<u16>) -> ApiError {
        ApiError {
            class,
            action: self.action,
            target: self.object.map_or_else(
                || self.target.clone(),
                |object| path::describe(object.group_resource, object.namespace, Some(object.name)),
            ),
            message: message.into(),
            code,
        }
    }

    /// Whether it is about a single object, rather than a collection or the server.
    pub const fn is_about_an_object(&self) -> bool {
        match self.verb {
            Verb::Get | Verb::Delete | Verb::Patch | Verb::Create => true,
            Verb::List | Verb::Watch | Verb::Discover => false,
        }
    }

    /// The name of the object, if it is about one.
    pub fn object_name(&self) -> &str {
        self.object.map_or("", |object| object.name)
    }

    /// Whether it changes anything.
    pub fn writes(&self) -> bool {
        self.method != Method::GET
    }

    /// Sorts an answer that is an error.
    pub fn refusal(&self, code: u16, headers: &HeaderMap, status: &Status, body: &[u8]) -> ApiError {
        let retry_after = headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        let class = error::classify(code, status, retry_after, self.object);
        // What is no text is not quoted.
        let text = if Encoding::of(headers) == Encoding::Json { body } else { NO_TEXT };
        self.error(class, error::message(status, text), Some(code))
    }

    /// Sorts an answer that is a success to HTTP, and a failure in its own words. Nobody
    /// knows what it means, so it proves neither that the object is absent nor that
    /// anything was done.
    pub fn contradiction(&self, code: u16, status: &Status) -> ApiError {
        let message = format!("the answer is a failure all the same: {}", error::message(status, NO_TEXT));
        self.error(ErrorClass::Unusable, message, Some(code))
    }

    /// The request as it is sent; its body goes with it.
    pub fn request(&mut self, compressed_lists: bool) -> Result<Request<Body>, ApiError> {
        let mut builder = Request::builder()
            .method(self.method.clone())
            .uri(self.path.as_str())
            .header(http::header::USER_AGENT, USER_AGENT)
            .header(ACCEPT, self.accept);
        // Servers from 1.37 on compress each event of a watch by itself, and the
        // decoder underneath reads only the first.
        if self.verb == Verb::Watch || self.verb == Verb::List && !compressed_lists {
            builder = builder.header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let body = match self.body.take() {
            None => Body::empty(),
            Some((content_type, body)) => {
                builder = builder.header(CONTENT_TYPE, content_type);
                Body::from(body)
            }
        };
        builder.body(body).map_err(|error| self.error(ErrorClass::Refused, error.to_string(), None))
    }
}
