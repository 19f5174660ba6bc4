//! Requests that can be sent to several servers although uids, versions and
//! generated names differ between them.
//!
//! Strings contain references to what was answered before: `<17/metadata/uid>` is
//! the uid in the answer to step 17, whatever it was on that server. `<run>` is
//! what tells this run's names from another's.

use serde_json::Value;

/// What kind of request it is, for the count of outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Create,
    Get,
    Update,
    MergePatch,
    JsonPatch,
    StrategicPatch,
    Delete,
    DeleteCollection,
    List,
    ListMetadata,
    ListPaged,
    ListAtVersion,
    Watch,
    NamespaceDelete,
    NamespaceFinalize,
    Definition,
    /// A watch whose bookmarks are compared, too.
    Bookmarks,
    /// Something that no other kind is.
    Odd,
}

/// A body.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// None.
    None,
    /// Text, as it is.
    Text(String),
    /// JSON with references.
    Json(Value),
    /// What this step answered, changed by a merge patch with references.
    Answer(usize, Value),
}

/// A request with references.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What it is.
    pub kind: Kind,
    /// The method.
    pub method: &'static str,
    /// The path.
    pub path: String,
    /// The query.
    pub query: Vec<(String, String)>,
    /// `Accept`.
    pub accept: String,
    /// `Content-Type`, if there is a body.
    pub content_type: &'static str,
    /// The body.
    pub body: Body,
}

impl Request {
    /// A request without query and body.
    pub fn new(kind: Kind, method: &'static str, path: impl Into<String>) -> Self {
        Self {
            kind,
            method,
            path: path.into(),
            query: Vec::new(),
            accept: "application/json".to_owned(),
            content_type: "application/json",
            body: Body::None,
        }
    }

    /// With a parameter.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.query.push((name.to_owned(), value.into()));
        self
    }

    /// With a JSON body.
    #[must_use]
    pub fn json(mut self, body: Value) -> Self {
        self.body = Body::Json(body);
        self
    }

    /// With a body of another content type.
    #[must_use]
    pub fn typed(mut self, content_type: &'static str, body: Body) -> Self {
        (self.content_type, self.body) = (content_type, body);
        self
    }

    /// With an `Accept`.
    #[must_use]
    pub fn accept(mut self, accept: &str) -> Self {
        self.accept = accept.to_owned();
        self
    }
}

/// A step of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A request with one answer.
    Send(Request),
    /// A watch that is read at once: until an object of this name is added, or to
    /// its end.
    Watch(Request, Option<String>),
    /// A watch that goes on beside the following steps.
    Open(Request),
    /// Reads a watch that goes on.
    Close {
        /// The step that opened it.
        opened: usize,
        /// It is read until an object of this name is added.
        until: String,
        /// Which step answered the newest object that existed before, if the watch
        /// begins with all that exist: their order means nothing.
        existing: Option<usize>,
    },
    /// A request that is repeated on each server until the answer has this code and
    /// this value at a place. What was answered last is compared.
    Until(Request, u16, Option<(&'static str, Value)>),
}

/// What references mean on one server.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// `<run>`.
    pub run: String,
    /// The answer to each step.
    pub bodies: Vec<Value>,
}

impl Answers {
    /// Replaces the references in a text. What was not answered is `missing`.
    pub fn resolve(&self, text: &str) -> String {
        let mut resolved = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('<') {
            // Selectors have a "<" of their own.
            let Some((reference, after)) = after.split_once('>') else { break };
            resolved.push_str(before);
            match reference.find('/').map(|slash| reference.split_at(slash)) {
                None => resolved.push_str(&self.run),
                Some((step, pointer)) => {
                    let step: usize = step.parse().expect("a reference begins with a step");
                    let value = self.bodies.get(step).and_then(|body| body.pointer(pointer)?.as_str());
                    resolved.push_str(value.unwrap_or("missing"));
                }
            }
            rest = after;
        }
        resolved + rest
    }

    /// Replaces the references in all strings of a value.
    pub fn resolve_value(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => self.resolve(text).into(),
            Value::Array(items) => items.iter().map(|item| self.resolve_value(item)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, field)| (self.resolve(name), self.resolve_value(field)))
                .collect::<serde_json::Map<_, _>>()
                .into(),
            other => other.clone(),
        }
    }

    /// The bytes of a body.
    pub fn body(&self, body: &Body) -> Vec<u8> {
        match body {
            Body::None => Vec::new(),
            Body::Text(text) => self.resolve(text).into_bytes(),
            Body::Json(value) => self.resolve_value(value).to_string().into_bytes(),
            Body::Answer(step, changes) => {
                let mut body = self.bodies.get(*step).cloned().unwrap_or_default();
                merge(&mut body, &self.resolve_value(changes));
                body.to_string().into_bytes()
            }
        }
    }

    /// Path and query.
    pub fn uri(&self, request: &Request) -> String {
        let mut uri = self.resolve(&request.path);
        for (index, (name, value)) in request.query.iter().enumerate() {
            uri.push(if index == 0 { '?' } else { '&' });
            uri.push_str(name);
            uri.push('=');
            for byte in self.resolve(value).bytes() {
                match byte {
                    b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                        uri.push(byte.into());
                    }
                    byte => uri.push_str(&format!("%{byte:02X}")),
                }
            }
        }
        uri
    }
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut target[name], value);
        }
    }
}
