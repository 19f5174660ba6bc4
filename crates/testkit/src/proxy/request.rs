//! Requests of the collector, and filters for them.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use crate::object::{Obj, key};

/// The parameter of a streamed list.
const STREAMED: &str = "sendInitialEvents=true";

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Lists a collection, or the first page of it. This may be the beginning of a watch.
    List,
    /// Watches a collection.
    Watch,
    /// Deletes an object.
    Delete,
    /// Patches an object.
    Patch,
    /// Anything else.
    Other,
}

/// A request of the collector.
#[derive(Clone, Debug)]
pub struct Request {
    /// The kind.
    pub verb: Verb,
    /// The path without the query.
    pub path: String,
    /// The query; may be empty.
    pub query: String,
    /// The content type of the body; may be empty.
    pub content_type: String,
    /// `configmaps`, `widgets.example.com`; empty if the path has no resource.
    pub resource: String,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The object in the path.
    pub name: Option<String>,
    /// The body; `null` if there is none.
    pub body: Value,
}

impl Request {
    pub(super) fn new(
        method: &http::Method,
        uri: &http::Uri,
        headers: &http::HeaderMap,
        body: &[u8],
    ) -> Self {
        let query = uri.query().unwrap_or_default().to_owned();
        let mut parts: Vec<&str> = uri.path().split('/').filter(|part| !part.is_empty()).collect();
        let group = match parts.first() {
            Some(&"api") if parts.len() > 2 => Some(""),
            Some(&"apis") if parts.len() > 3 => Some(parts.remove(1)),
            _ => None,
        };
        // The rest begins with the root and the version.
        let mut rest = if group.is_some() { parts.split_off(2) } else { Vec::new() };
        let namespace = (rest.len() > 2 && rest[0] == "namespaces").then(|| rest[1].to_owned());
        if namespace.is_some() {
            rest.drain(..2);
        }
        let plural = rest.first().copied().unwrap_or_default();
        let resource = match group {
            None | Some("") => plural.to_owned(),
            Some(group) => format!("{plural}.{group}"),
        };
        let name = rest.get(1).map(|&name| name.to_owned());
        let verb = match (method.as_str(), &name) {
            ("GET", None) if query.contains(STREAMED) => Verb::List,
            ("GET", _) if query.split('&').any(|part| part == "watch=1" || part == "watch=true") => {
                Verb::Watch
            }
            ("GET", Some(_)) => Verb::Get,
            ("GET", None) if group.is_some() => Verb::List,
            ("DELETE", _) => Verb::Delete,
            ("PATCH", _) => Verb::Patch,
            _ => Verb::Other,
        };
        let content_type = headers.get(http::header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        Self {
            verb,
            path: uri.path().to_owned(),
            query,
            content_type,
            resource,
            namespace,
            name,
            body: serde_json::from_slice(body).unwrap_or_default(),
        }
    }

    /// The precondition on the `uid` of a DELETE.
    pub fn precondition_uid(&self) -> Option<&str> {
        self.body["preconditions"]["uid"].as_str()
    }

    /// The precondition on the `resourceVersion` of a DELETE.
    pub fn precondition_version(&self) -> Option<&str> {
        self.body["preconditions"]["resourceVersion"].as_str()
    }

    /// The `propagationPolicy` of a DELETE.
    pub fn policy(&self) -> &str {
        self.body["propagationPolicy"].as_str().unwrap_or_default()
    }

    /// The `uid` in a PATCH.
    pub fn patched_uid(&self) -> Option<&str> {
        self.body["metadata"]["uid"].as_str()
    }

    /// The `resourceVersion` in a PATCH.
    pub fn patched_version(&self) -> Option<&str> {
        self.body["metadata"]["resourceVersion"].as_str()
    }

    /// Whether the request patches finalizers.
    pub fn is_of_finalizers(&self) -> bool {
        let metadata = self.body["metadata"].as_object();
        self.verb == Verb::Patch && metadata.is_some_and(|metadata| metadata.contains_key("finalizers"))
    }

    /// Whether the request is a strategic merge patch.
    pub fn is_strategic(&self) -> bool {
        self.content_type == "application/strategic-merge-patch+json"
    }

    /// Whether the request is a watch that begins with a list.
    pub fn is_streamed_list(&self) -> bool {
        self.query.contains(STREAMED)
    }

    /// Whether the request lists a whole collection or a namespace of it. Excludes requests that
    /// only ask for the current version, and those of discovery for all APIServices, which have no
    /// parameters.
    pub fn is_full_list(&self) -> bool {
        self.verb == Verb::List && self.query != "limit=1" && !self.query.is_empty()
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}?{} {}", self.verb, self.path, self.query, self.body)
    }
}

/// A request and its answers.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The request.
    pub request: Request,
    /// The time of its arrival.
    pub arrived: Instant,
    /// The status that the collector received; `None` before that, and if there was no answer.
    pub status: Option<u16>,
    /// The time of that answer.
    pub answered: Option<Instant>,
    /// The status of the API server's answer, if the request was forwarded.
    pub served: Option<u16>,
    /// Whether the API server reported that the version is too old, by a 410 or, in a watch, by an
    /// event.
    pub expired: bool,
}

type Condition = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// A filter for requests. By default, it matches all.
#[derive(Clone, Default)]
pub struct Matcher {
    verb: Option<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    condition: Option<Condition>,
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, resource, namespace, name, condition } = self;
        let part = |part: &Option<String>| part.clone().unwrap_or_else(|| "*".to_owned());
        let verb = verb.map_or_else(|| "any request".to_owned(), |verb| format!("{verb:?}"));
        write!(f, "{verb} of {} {}/{}", part(resource), part(namespace), part(name))?;
        f.write_str(if condition.is_some() { " (under a condition)" } else { "" })
    }
}

impl Matcher {
    /// Matches requests of a kind.
    pub fn verb(verb: Verb) -> Self {
        Self { verb: Some(verb), ..Self::default() }
    }

    /// Matches requests of a kind about an object with this name.
    pub fn object(verb: Verb, object: &Obj) -> Self {
        Self { namespace: object.namespace.clone(), ..Self::verb(verb) }
            .of(&key(&object.resource))
            .named(&object.name)
    }

    /// Matches all requests about a resource, or all events of it.
    pub fn resource(resource: &str) -> Self {
        Self::default().of(resource)
    }

    /// Restricts it to this resource.
    #[must_use]
    pub fn of(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Restricts it to this namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Restricts it to this name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Restricts it by this condition.
    #[must_use]
    pub fn when(mut self, condition: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.condition = Some(Arc::new(condition));
        self
    }

    /// Whether it matches a request.
    pub fn matches(&self, request: &Request) -> bool {
        let Self { verb, resource, namespace, name, condition } = self;
        verb.is_none_or(|verb| verb == request.verb)
            && resource.as_ref().is_none_or(|resource| *resource == request.resource)
            && (namespace.is_none() || *namespace == request.namespace)
            && (name.is_none() || *name == request.name)
            && condition.as_ref().is_none_or(|condition| condition(request))
    }

    /// Whether it matches a watch event about an object.
    pub(super) fn matches_event(&self, watched: &str, object: &Value) -> bool {
        let text = |field: &str| object["metadata"][field].as_str();
        self.resource.as_ref().is_none_or(|resource| resource == watched)
            && (self.namespace.is_none() || self.namespace.as_deref() == text("namespace"))
            && (self.name.is_none() || self.name.as_deref() == text("name"))
    }
}
