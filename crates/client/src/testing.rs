//! A scripted API server for tests: it notes every request and gives the next
//! reply of its script, or what a function says.

#![allow(missing_docs, clippy::unwrap_used, reason = "only tests call it")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use kube::client::Body;

use super::{Api, ApiSettings, DeleteOrder, WriteGate};
use kube_gc_core::object::{Identity, Namespace, PropagationPolicy, ResourceType, Scope, Uid};

/// A request as the server saw it.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub method: String,
    pub path: String,
    pub headers: http::HeaderMap,
    pub body: String,
    /// When it came, since the server's start.
    pub at: Duration,
}

impl ReceivedRequest {
    /// Method and path with query.
    pub fn line(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// The value of a query parameter.
    pub fn query(&self, key: &str) -> Option<&str> {
        let (_, query) = self.path.split_once('?')?;
        query.split('&').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
    }
}

#[derive(Clone, Debug)]
pub enum Part {
    Data(Bytes),
    /// Nothing comes for so long.
    Pause(Duration),
    /// The connection breaks.
    Break,
    /// Nothing more comes, and the connection stays.
    Hang,
}

/// A reply.
#[derive(Clone, Debug)]
pub struct Reply {
    code: u16,
    headers: Vec<(&'static str, String)>,
    parts: Vec<Part>,
    never: bool,
}

impl Reply {
    pub fn ok(body: impl Into<String>) -> Self {
        Self::code(200, body)
    }

    pub fn code(code: u16, body: impl Into<String>) -> Self {
        let body = Part::Data(Bytes::from(body.into()));
        Self { code, headers: Vec::new(), parts: vec![body], never: false }
    }

    /// An error with a `Status`.
    pub fn status(code: u16, message: &str, details: &str) -> Self {
        let message = serde_json::to_string(message).unwrap();
        Self::code(
            code,
            format!(
                r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","message":{message},"code":{code},"details":{details}}}"#
            ),
        )
    }

    /// The own 404 of [`widget`]s.
    pub fn not_found() -> Self {
        Self::status(404, "widgets \"w\" not found", r#"{"name":"w","group":"example.com","kind":"widgets"}"#)
    }

    /// A stream of parts, which ends cleanly after the last.
    pub fn stream(parts: impl IntoIterator<Item = Part>) -> Self {
        Self { code: 200, headers: Vec::new(), parts: parts.into_iter().collect(), never: false }
    }

    /// No answer, ever.
    pub fn never() -> Self {
        Self { code: 200, headers: Vec::new(), parts: Vec::new(), never: true }
    }

    /// The same with another code.
    pub fn with_code(mut self, code: u16) -> Self {
        self.code = code;
        self
    }

    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// Lines of a watch that arrive at once.
pub fn lines<const N: usize>(lines: [&str; N]) -> Part {
    Part::Data(Bytes::from(lines.map(|line| format!("{line}\n")).concat()))
}

type Script = dyn FnMut(&ReceivedRequest) -> Reply + Send;

/// The server.
#[derive(Clone)]
pub struct Server {
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    script: Arc<Mutex<Box<Script>>>,
    start: tokio::time::Instant,
}

impl Server {
    /// Replies in this order, and then never again.
    pub fn replying(replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut replies: VecDeque<Reply> = replies.into_iter().collect();
        Self::answering(move |_| replies.pop_front().unwrap_or_else(Reply::never))
    }

    /// Replies what the function says.
    pub fn answering(script: impl FnMut(&ReceivedRequest) -> Reply + Send + 'static) -> Self {
        Self {
            seen: Arc::default(),
            script: Arc::new(Mutex::new(Box::new(script))),
            start: tokio::time::Instant::now(),
        }
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// Method and path of all requests so far.
    pub fn requests(&self) -> Vec<String> {
        self.seen().iter().map(ReceivedRequest::line).collect()
    }

    pub fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (mut parts, body) = request.into_parts();
                // So that nothing is reported through them about a connection.
                parts.extensions.clear();
                let body = body.collect().await.unwrap().to_bytes();
                let seen = ReceivedRequest {
                    method: parts.method.to_string(),
                    path: parts.uri.to_string(),
                    headers: parts.headers,
                    body: String::from_utf8(body.to_vec()).unwrap(),
                    at: server.start.elapsed(),
                };
                let reply = (server.script.lock().unwrap())(&seen);
                server.seen.lock().unwrap().push(seen);
                if reply.never {
                    std::future::pending::<()>().await;
                }
                let mut response = Response::builder().status(reply.code);
                for (name, value) in reply.headers {
                    response = response.header(name, value);
                }
                let frames = futures::stream::iter(reply.parts).filter_map(|part| async {
                    match part {
                        Part::Data(bytes) => Some(Ok(Frame::data(bytes))),
                        Part::Pause(time) => {
                            tokio::time::sleep(time).await;
                            None
                        }
                        Part::Break => Some(Err(std::io::Error::other("connection reset"))),
                        Part::Hang => std::future::pending().await,
                    }
                });
                Ok::<_, Infallible>(response.body(StreamBody::new(frames)).unwrap())
            }
        });
        kube::Client::new(service, "default")
    }

    pub fn api(&self) -> Api {
        self.api_with(paged(), WriteGate::open())
    }

    pub fn api_with(&self, settings: ApiSettings, gate: WriteGate) -> Api {
        Api::from_clients(self.client(), settings, gate)
    }
}

/// The default settings with a fixed seed, and with lists that are no streams.
pub fn paged() -> ApiSettings {
    ApiSettings { seed: 1, streaming_lists: false, ..ApiSettings::default() }
}

/// A namespaced type.
pub fn widgets() -> Arc<ResourceType> {
    ResourceType::of("widgets.example.com", "v1", "Widget", Scope::Namespaced)
}

/// The widget `ns/w` with uid `u`.
pub fn widget() -> Identity {
    Identity {
        resource: widgets(),
        namespace: Namespace::parse("ns"),
        name: "w".into(),
        uid: Uid::parse("u").unwrap(),
    }
}

/// The order to delete an object in the background.
pub fn order(object: &Identity) -> DeleteOrder {
    DeleteOrder::of_test(object, PropagationPolicy::Background)
}

/// The namespace `ns` with uid `u`.
pub fn namespace() -> Identity {
    let resource = ResourceType::of("namespaces", "v1", "Namespace", Scope::Cluster);
    Identity { resource, namespace: None, name: "ns".into(), uid: Uid::parse("u").unwrap() }
}

/// The JSON of `ns/w` with uid `u`, version 7, and more metadata: `,"key":value…`.
pub fn widget_json(more: &str) -> String {
    format!(
        r#"{{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{{"name":"w","namespace":"ns","uid":"u","resourceVersion":"7"{more}}}}}"#
    )
}
