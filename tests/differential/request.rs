//! Requests that can be sent to several servers although uids and versions differ between them.
//!
//! Strings contain references to earlier answers: `<17/metadata/uid>` is the uid in the answer to
//! step 17 of the same server. `<run>` distinguishes the names of this run from those of others.

use serde_json::Value;

/// A request, whose strings may contain references.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The method.
    pub method: &'static str,
    /// The path.
    pub path: String,
    /// The query.
    pub query: Vec<(&'static str, String)>,
    /// `Accept`.
    pub accept: &'static str,
    /// `Content-Type`, if there is a body.
    pub content_type: &'static str,
    /// The body, in JSON.
    pub body: Option<Value>,
}

impl Request {
    /// A request without query and body.
    pub fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            query: Vec::new(),
            accept: "application/json",
            content_type: "application/json",
            body: None,
        }
    }

    /// With a parameter.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.query.push((name, value.into()));
        self
    }

    /// With a body.
    pub fn json(self, body: Value) -> Self {
        Self { body: Some(body), ..self }
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { method, path, query, accept, content_type, body } = self;
        write!(f, "{method} {path} {query:?} as {content_type}, accept {accept}")?;
        body.iter().try_for_each(|body| write!(f, ": {body}"))
    }
}

/// A step of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A request with one answer.
    Send(Request),
    /// A watch that continues during the following steps.
    Open(Request),
    /// Reads a watch that was opened earlier.
    Close {
        /// The step that opened it.
        opened: usize,
        /// It is read until an object with this name is added, or to its end.
        until: &'static str,
    },
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Send(request) => request.fmt(f),
            Self::Open(request) => write!(f, "open {request}"),
            Self::Close { opened, until } => write!(f, "close {opened} at {until}"),
        }
    }
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

    /// The body without references. In JSON, `<` and `>` are never escaped.
    pub fn body(&self, request: &Request) -> Vec<u8> {
        request.body.iter().flat_map(|body| self.resolve(&body.to_string()).into_bytes()).collect()
    }

    /// The path with the query.
    pub fn uri(&self, request: &Request) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(request.query.iter().map(|(name, value)| (name, self.resolve(value))));
        format!("{}?{}", self.resolve(&request.path), query.finish())
    }
}
