//! A request that is about to be sent, and a successful answer.
//!
//! Of the media types in an `Accept` header, the server takes the first that it knows. All but the last
//! ask for metadata only; the last is for servers that can only send whole objects.

use std::sync::LazyLock;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, RETRY_AFTER};
use http::{HeaderValue, Method, Request};
use k8s_openapi::jiff::Timestamp;
use k8s_openapi::jiff::fmt::rfc2822;
use kube::client::Body;
use serde::Deserialize;

use super::error::{self, ApiError, ErrorClass, NO_TEXT};
use super::path;
use super::restore_fence::RESTORED;
use super::settings::{USER_AGENT, Verb};
use kube_gc_core::object::{GroupResource, Identity, Namespace, ResourceType};
use kube_gc_decode::{Encoding, Named, Status, read_json};

/// A successful answer.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub encoding: Encoding,
    pub body: Bytes,
    /// The server's clock: the header `Date`.
    pub date: Option<HeaderValue>,
    /// The request that it answers, for error messages.
    pub action: &'static str,
    pub target: String,
}

impl Answer {
    /// When the server answered, by its own clock if the answer says that.
    pub fn at(&self) -> Timestamp {
        self.server_time()
            .unwrap_or_else(|| Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default())
    }

    /// The server's clock, if the answer says that.
    pub fn server_time(&self) -> Option<Timestamp> {
        rfc2822::DateTimeParser::new().parse_timestamp(self.date.as_ref()?).ok()
    }

    /// Reads the body. The error does not quote it.
    pub fn json<'a, T: Deserialize<'a>>(&'a self) -> Result<T, ApiError> {
        read_json(&self.body).map_err(|why| self.unusable(why))
    }

    /// The error of an answer that proves nothing.
    pub fn unusable(&self, why: impl Into<String>) -> ApiError {
        self.error(ErrorClass::Unusable, why.into())
    }

    /// The error of a write that was accepted and did not do its work. `left` is what the object still has.
    pub fn undone(&self, left: &str) -> ApiError {
        let message = format!(
            "the API server accepted the write, but the object still {left}: a mutating webhook or policy \
             may have restored it"
        );
        self.error(ErrorClass::Denied, message)
    }

    /// The error of an answer that proves a restore of the store.
    pub fn restored(&self) -> ApiError {
        ApiError { code: None, ..self.error(ErrorClass::GateClosed, RESTORED.to_owned()) }
    }

    /// An error of the request that it answers.
    pub fn error(&self, class: ErrorClass, message: String) -> ApiError {
        ApiError { class, action: self.action, target: self.target.clone(), message, code: Some(self.code) }
    }
}

/// A request that is about to be sent.
pub struct Call<'a> {
    pub verb: Verb,
    /// The HTTP method or the verb, for error messages.
    pub action: &'static str,
    pub path: String,
    pub accept: &'static str,
    pub body: Option<(&'static str, Vec<u8>)>,
    /// The type under which metrics count the request.
    pub resource: &'a GroupResource,
    /// The object that the path names, if it names one.
    pub object: Option<Named<'a>>,
    /// The target in error messages, if the path names no object.
    pub target: String,
}

impl<'a> Call<'a> {
    /// A GET of something that the server says about itself.
    pub fn discover(path: impl Into<String>, accept: &'static str) -> Self {
        let (path, (_, _, action)) = (path.into(), Verb::Discover.forms());
        let target = path.clone();
        Self {
            verb: Verb::Discover,
            action,
            path,
            accept,
            body: None,
            resource: &DISCOVERY,
            object: None,
            target,
        }
    }

    /// A list of a type, in one namespace or in all.
    pub fn list(resource: &'a ResourceType, namespace: Option<&str>, accept: &'static str) -> Self {
        Self::collection(Verb::List, resource, namespace, accept)
    }

    /// A request about the objects of a type, in one namespace or in all.
    pub fn collection(
        verb: Verb,
        resource: &'a ResourceType,
        namespace: Option<&str>,
        accept: &'static str,
    ) -> Self {
        let (_, _, action) = verb.forms();
        let path = path::collection(resource, namespace);
        let resource = &resource.group_resource;
        let target = path::describe(resource, namespace, None);
        Self { verb, action, path, accept, body: None, resource, object: None, target }
    }

    /// A request about one object.
    ///
    /// # Errors
    ///
    /// No object can have this identity: see [`path::object`].
    pub fn object(verb: Verb, identity: &'a Identity) -> Result<Self, ApiError> {
        let Identity { resource, namespace, name, .. } = identity;
        Self::named(verb, resource, namespace.as_ref().map(Namespace::as_str), name)
    }

    /// A request about the object of a type that has this name.
    ///
    /// # Errors
    ///
    /// As of [`object`](Self::object).
    pub fn named(
        verb: Verb,
        resource: &'a ResourceType,
        namespace: Option<&'a str>,
        name: &'a str,
    ) -> Result<Self, ApiError> {
        let (_, _, action) = verb.forms();
        let path = path::object(action, resource, namespace, name)?;
        let resource = &resource.group_resource;
        let object = Some(Named { group_resource: resource, namespace, name });
        let target = String::new();
        Ok(Self { verb, action, path, accept: METADATA, body: None, resource, object, target })
    }

    pub fn error(&self, class: ErrorClass, message: impl Into<String>, code: Option<u16>) -> ApiError {
        ApiError { class, action: self.action, target: self.described(), message: message.into(), code }
    }

    pub fn described(&self) -> String {
        match self.object {
            Some(object) => path::describe(object.group_resource, object.namespace, Some(object.name)),
            None => self.target.clone(),
        }
    }

    /// The same with a parameter of the query.
    pub fn with(mut self, key: &str, value: &str) -> Self {
        self.path.push(if self.path.contains('?') { '&' } else { '?' });
        self.path.push_str(key);
        self.path.push('=');
        path::encode(&mut self.path, value);
        self
    }

    /// The same of a subresource.
    pub fn of(mut self, subresource: &str) -> Self {
        self.path.push('/');
        self.path.push_str(subresource);
        self
    }

    /// The same for an answer of these media types.
    pub fn accepting(self, accept: &'static str) -> Self {
        Self { accept, ..self }
    }

    /// The same with a body, for a write.
    pub fn writing(self, content_type: &'static str, body: Vec<u8>) -> Self {
        Self { body: Some((content_type, body)), ..self }
    }

    /// Whether it is about a single object, rather than a collection or the server.
    pub const fn is_about_an_object(&self) -> bool {
        match self.verb {
            Verb::Get | Verb::Delete | Verb::Patch | Verb::Create | Verb::Update => true,
            Verb::List | Verb::Watch | Verb::Discover | Verb::DeleteCollection => false,
        }
    }

    /// The object's name; empty if the request is not about an object.
    pub fn object_name(&self) -> &str {
        self.object.map_or("", |object| object.name)
    }

    pub fn writes(&self) -> bool {
        self.verb.forms().1 != Method::GET
    }

    pub fn refusal(&self, code: u16, headers: &HeaderMap, body: &[u8]) -> ApiError {
        let encoding = Encoding::of(headers);
        let status = Status::read(encoding, body);
        let retry_after = headers
            .get(RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.parse().ok())
            .map(Duration::from_secs);
        let class = match error::classify(code, &status, retry_after, self.object) {
            ErrorClass::Absent if self.writes() => ErrorClass::SaysGone,
            class => class,
        };
        // Only text is quoted.
        let text = if encoding == Encoding::Json { body } else { NO_TEXT };
        self.error(class, error::message(&status, text), Some(code))
    }

    /// Classifies a response with a 2xx code whose body is a `Status` of a failure. Such an
    /// answer contradicts itself, so it proves neither that the object is absent nor that
    /// the request took effect.
    pub fn contradiction(&self, code: u16, status: &Status) -> ApiError {
        let message = format!(
            "the response code is {code}, but its Status is a failure: {}",
            error::message(status, NO_TEXT)
        );
        self.error(ErrorClass::Unusable, message, Some(code))
    }

    pub fn request(&self, compressed_lists: bool) -> Result<Request<Body>, ApiError> {
        let mut builder = Request::builder()
            .method(self.verb.forms().1)
            .uri(self.path.as_str())
            .header(http::header::USER_AGENT, USER_AGENT)
            .header(ACCEPT, self.accept);
        // From 1.37 on, servers compress each event of a watch separately, and the client's
        // decoder reads only the first.
        if self.verb == Verb::Watch
            || self.verb == Verb::List && !(compressed_lists && cfg!(feature = "gzip"))
        {
            builder = builder.header(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        let body = match &self.body {
            None => Body::empty(),
            Some((content_type, body)) => {
                builder = builder.header(CONTENT_TYPE, *content_type);
                Body::from(body.clone())
            }
        };
        builder.body(body).map_err(|error| self.error(ErrorClass::Refused, error.to_string(), None))
    }
}

/// What metrics call the type of discovery requests.
static DISCOVERY: LazyLock<GroupResource> = LazyLock::new(|| GroupResource::new("", "discovery"));

pub(super) const JSON: &str = "application/json";

/// One object's metadata, or the whole object.
pub(super) const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// A list of metadata, or of whole objects.
pub(super) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The `Accept` header of a watch.
pub(super) const fn watch_accept(preferred: Encoding) -> &'static str {
    match preferred {
        Encoding::Json => METADATA,
        Encoding::Protobuf => {
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        }
    }
}

/// The `Accept` header of a list.
pub(super) const fn list_accept(preferred: Encoding) -> &'static str {
    match preferred {
        Encoding::Json => METADATA_LIST,
        Encoding::Protobuf => {
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        }
    }
}
