//! What the collector asked, and which of it is meant.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio::time::Instant;

use super::super::cluster::{Obj, key};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads a collection, or the beginning of it.
    List,
    /// Follows a collection.
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
    /// What it does.
    pub verb: Verb,
    /// The path, without the query.
    pub path: String,
    /// The query; empty when there is none.
    pub query: String,
    /// The content type of the body; empty when there is none.
    pub content_type: String,
    /// `configmaps`, `widgets.example.com`; empty when it is about no resource.
    pub resource: String,
    /// The namespace in the path.
    pub namespace: Option<String>,
    /// The object in the path.
    pub name: Option<String>,
    /// The body; `null` when there is none.
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
        // What is left begins with the root and the version.
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

    /// The `uid` among the preconditions of a DELETE.
    pub fn precondition_uid(&self) -> Option<&str> {
        self.body["preconditions"]["uid"].as_str()
    }

    /// The `resourceVersion` among the preconditions of a DELETE.
    pub fn precondition_version(&self) -> Option<&str> {
        self.body["preconditions"]["resourceVersion"].as_str()
    }

    /// The `propagationPolicy` of a DELETE.
    pub fn policy(&self) -> &str {
        self.body["propagationPolicy"].as_str().unwrap_or_default()
    }

    /// The `uid` that a PATCH names.
    pub fn patched_uid(&self) -> Option<&str> {
        self.body["metadata"]["uid"].as_str()
    }

    /// The `resourceVersion` that a PATCH names.
    pub fn patched_version(&self) -> Option<&str> {
        self.body["metadata"]["resourceVersion"].as_str()
    }

    /// Whether it is a PATCH of finalizers.
    pub fn is_of_finalizers(&self) -> bool {
        let metadata = self.body["metadata"].as_object();
        self.verb == Verb::Patch && metadata.is_some_and(|metadata| metadata.contains_key("finalizers"))
    }

    /// Whether it is a strategic merge patch.
    pub fn is_strategic(&self) -> bool {
        self.content_type == "application/strategic-merge-patch+json"
    }

    /// Whether it lists the whole of a collection, or of one namespace of it,
    /// and neither only asks for the present version nor, as discovery does with
    /// APIServices whenever it looks, without any parameter for who serves what.
    pub fn is_full_list(&self) -> bool {
        self.verb == Verb::List && self.query != "limit=1" && !self.query.is_empty()
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}?{} {}", self.verb, self.path, self.query, self.body)
    }
}

/// A request and what became of it.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The request.
    pub request: Request,
    /// When it came.
    pub arrived: Instant,
    /// What the collector was answered; `None` before that, and if it never was.
    pub status: Option<u16>,
    /// When that was.
    pub answered: Option<Instant>,
    /// What the API server answered, if it was asked.
    pub served: Option<u16>,
    /// Whether the API server said that the version is too old: 410 as the answer
    /// or, to a watch, as an event.
    pub expired: bool,
}

type Condition = Arc<dyn Fn(&Request) -> bool + Send + Sync>;

/// Which requests are meant: all, until it is narrowed down.
#[derive(Clone, Default)]
pub struct On {
    verb: Option<Verb>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    condition: Option<Condition>,
}

impl fmt::Debug for On {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, resource, namespace, name, condition } = self;
        let part = |part: &Option<String>| part.clone().unwrap_or_else(|| "*".to_owned());
        let verb = verb.map_or_else(|| "any request".to_owned(), |verb| format!("{verb:?}"));
        write!(f, "{verb} of {} {}/{}", part(resource), part(namespace), part(name))?;
        f.write_str(if condition.is_some() { " (under a condition)" } else { "" })
    }
}

impl On {
    /// Requests that do this.
    pub fn verb(verb: Verb) -> Self {
        Self { verb: Some(verb), ..Self::default() }
    }

    /// Requests that do this to an object's name.
    pub fn object(verb: Verb, object: &Obj) -> Self {
        Self { namespace: object.namespace.clone(), ..Self::verb(verb) }
            .of(&key(&object.resource))
            .named(&object.name)
    }

    /// Any requests about a resource, or about all events of it.
    pub fn resource(resource: &str) -> Self {
        Self::default().of(resource)
    }

    /// Only those about this resource.
    #[must_use]
    pub fn of(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// Only those in this namespace.
    #[must_use]
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only those about this name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only those of which this holds, too.
    #[must_use]
    pub fn when(mut self, condition: impl Fn(&Request) -> bool + Send + Sync + 'static) -> Self {
        self.condition = Some(Arc::new(condition));
        self
    }

    /// Whether it means this request.
    pub fn means(&self, request: &Request) -> bool {
        let Self { verb, resource, namespace, name, condition } = self;
        verb.is_none_or(|verb| verb == request.verb)
            && resource.as_ref().is_none_or(|resource| *resource == request.resource)
            && (namespace.is_none() || *namespace == request.namespace)
            && (name.is_none() || *name == request.name)
            && condition.as_ref().is_none_or(|condition| condition(request))
    }

    /// Whether it means a watch event about this object.
    pub(super) fn means_event(&self, watched: &str, object: &Value) -> bool {
        let text = |field: &str| object["metadata"][field].as_str();
        self.resource.as_ref().is_none_or(|resource| resource == watched)
            && (self.namespace.is_none() || self.namespace.as_deref() == text("namespace"))
            && (self.name.is_none() || self.name.as_deref() == text("name"))
    }
}
