//! Parsed requests.

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use crate::guards::Begun;
use crate::resources::Resource;
use crate::status::Status;

/// A parsed request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// `GET`, `POST`, …
    pub method: http::Method,
    /// The path, percent-decoded.
    pub path: String,
    /// The query parameters, decoded, in order.
    pub query: Vec<(String, String)>,
    /// `Accept`, empty if there is none.
    pub accept: String,
    /// `Content-Type` without its parameters.
    pub content_type: String,
    /// `User-Agent`, recorded as the cause of a change.
    pub user_agent: String,
    /// The bearer token of `Authorization`, empty if there is none.
    pub token: String,
    /// The unparsed body.
    pub body: Bytes,
}

impl Call {
    /// The first value of a query parameter; empty counts as absent, as in
    /// Kubernetes.
    pub fn query(&self, name: &str) -> Option<&str> {
        let (_, value) = self.query.iter().find(|(key, _)| key == name)?;
        (!value.is_empty()).then_some(value)
    }

    /// Whether a query parameter is a Kubernetes "true": it is present, even if empty, and is
    /// neither `false` nor `0`.
    pub fn flag(&self, name: &str) -> bool {
        let value = self.query.iter().find(|(key, _)| key == name);
        value.is_some_and(|(_, value)| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    /// A request of the server itself, or of a controller that it stands in for.
    pub(super) fn own(agent: &str, (method, path): (http::Method, &str), body: &serde_json::Value) -> Self {
        Self {
            method,
            path: path.to_owned(),
            query: Vec::new(),
            accept: "application/json".to_owned(),
            content_type: "application/json".to_owned(),
            user_agent: agent.to_owned(),
            token: String::new(),
            body: if body.is_null() { Bytes::new() } else { body.to_string().into() },
        }
    }

    /// The target of the path.
    pub fn target(&self) -> Target<'_> {
        Target::parse(&self.path)
    }
}

/// What a request does with objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// GET of one object.
    Get,
    /// GET of a collection.
    List,
    /// GET of a collection with `watch`.
    Watch,
    /// POST.
    Create,
    /// PUT.
    Update,
    /// PATCH.
    Patch,
    /// DELETE of one object.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
}

impl Verb {
    /// The verb of a request, whether the target supports it or not.
    pub fn asked(call: &Call, path: ObjectPath<'_>) -> Option<Self> {
        Some(match (call.method.as_str(), path.name.is_some()) {
            ("GET", true) => Self::Get,
            ("GET", false) if call.flag("watch") => Self::Watch,
            ("GET", false) => Self::List,
            ("POST", _) => Self::Create,
            ("PUT", _) => Self::Update,
            ("PATCH", _) => Self::Patch,
            ("DELETE", true) => Self::Delete,
            ("DELETE", false) => Self::DeleteCollection,
            _ => return None,
        })
    }

    /// The name in discovery.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        }
    }

    /// The name in the metrics of kube-apiserver.
    pub(super) fn counted_as(self) -> String {
        match self {
            Self::Create => "POST".to_owned(),
            Self::Update => "PUT".to_owned(),
            other => other.name().to_uppercase(),
        }
    }

    pub(super) const fn changes(self) -> bool {
        !matches!(self, Self::Get | Self::List | Self::Watch)
    }
}

/// The target of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target<'a> {
    /// `/api`.
    CoreVersions,
    /// `/apis`.
    Groups,
    /// `/apis/{group}`.
    Group(&'a str),
    /// `/api/v1`, `/apis/{group}/{version}`: the resources of a version.
    Resources(&'a str, &'a str),
    /// One or more objects.
    Objects(ObjectPath<'a>),
    /// Anything else: `/version`, `/healthz`, `/openapi/v2`, …
    Other(&'a str),
}

/// A path to one object, to the objects of a namespace, or to all objects of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectPath<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// The version.
    pub version: &'a str,
    /// The namespace, if the path names one.
    pub namespace: Option<&'a str>,
    /// The plural.
    pub plural: &'a str,
    /// The name, if the path names one.
    pub name: Option<&'a str>,
    /// `status`, `finalize`, …
    pub subresource: Option<&'a str>,
}

impl<'a> Target<'a> {
    /// Reads a path. `/namespaces/{name}` is the namespace itself, and
    /// `/namespaces/{name}/status` and `/finalize` are its subresources.
    pub fn parse(path: &'a str) -> Self {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, version, rest) = match parts.as_slice() {
            ["api"] => return Self::CoreVersions,
            ["apis"] => return Self::Groups,
            ["apis", group] => return Self::Group(group),
            ["api", version] => return Self::Resources("", version),
            ["apis", group, version] => return Self::Resources(group, version),
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return Self::Other(path),
        };
        let (namespace, rest) = match rest {
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, None, None),
            [plural, name] => (*plural, Some(*name), None),
            [plural, name, subresource] => (*plural, Some(*name), Some(*subresource)),
            _ => return Self::Other(path),
        };
        Self::Objects(ObjectPath { group, version, namespace, plural, name, subresource })
    }
}

/// A request for objects of a type, with everything that it depends on besides the objects.
///
/// The dispatcher has checked that the type is served in this version, has the verb and the
/// subresource, and that the path has a namespace if the type needs one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// The type.
    pub resource: &'a Arc<Resource>,
    /// The target. Answers use its version.
    pub path: ObjectPath<'a>,
    /// The request as it came.
    pub call: &'a Call,
    /// The number of the request, for the cause of the change, and what admission has answered.
    pub begun: &'a Begun,
    /// The time of the request.
    pub now: SystemTime,
}

/// The 404 of a path that is not served. It is no statement about any object.
pub(crate) fn no_such_path() -> Status {
    let mut status = Status::new(404, "NotFound", "the server could not find the requested resource");
    status.details = Some(serde_json::json!({}));
    status
}
