//! Requests that can be sent to several servers although uids, versions and generated names
//! differ between them.
//!
//! Strings contain references to earlier answers: `<17/metadata/uid>` is the uid in the answer to
//! step 17 of the same server. `<run>` distinguishes the names of this run from those of others.

use serde_json::Value;

/// A body.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// None.
    None,
    /// JSON with references.
    Json(Value),
}

/// A request, whose strings may contain references.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Whether bookmarks of the watch are compared.
    pub bookmarks: bool,
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
    pub fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self {
            bookmarks: false,
            method,
            path: path.into(),
            query: Vec::new(),
            accept: "application/json".to_owned(),
            content_type: "application/json",
            body: Body::None,
        }
    }

    /// With a parameter.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.query.push((name.to_owned(), value.into()));
        self
    }

    /// With a JSON body.
    pub fn json(mut self, body: Value) -> Self {
        self.body = Body::Json(body);
        self
    }

    /// With a body of another content type.
    pub fn typed(mut self, content_type: &'static str, body: Body) -> Self {
        (self.content_type, self.body) = (content_type, body);
        self
    }

    /// With an `Accept`.
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
    /// A watch that is read at once: until an object with this name is added, or to its end.
    Watch(Request, Option<String>),
    /// A watch that continues during the following steps.
    Open(Request),
    /// Reads a watch that was opened earlier.
    Close {
        /// The step that opened it.
        opened: usize,
        /// It is read until an object with this name is added.
        until: String,
    },
    /// A request that is repeated on each server until the answer has this code, and this value
    /// at a place. The last answers are compared.
    Until(Request, u16, Option<(&'static str, Value)>),
}

/// The values of references on one server.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// `<run>`.
    pub run: String,
    /// The answer to each step.
    pub bodies: Vec<Value>,
}

impl Answers {
    /// Replaces the references in a text. A reference to nothing becomes `missing`.
    pub fn resolve(&self, text: &str) -> String {
        let mut resolved = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('<') {
            // Selectors may contain "<", too.
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
            Body::Json(value) => self.resolve_value(value).to_string().into_bytes(),
        }
    }

    /// The path with the query.
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
