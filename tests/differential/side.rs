//! One of the servers that are compared.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::request::{self, Answers, Request};

/// The time limit for a marker to appear.
const DEADLINE: Duration = Duration::from_secs(15);
/// The interval at which an answer is polled.
const POLL: Duration = Duration::from_millis(25);

/// A server. Both servers are a `tower` service below the same client, so that the client affects
/// both in the same way.
#[derive(Clone)]
pub struct Side {
    /// Its name in reports.
    pub name: &'static str,
    /// The client.
    pub client: kube::Client,
    /// Its clock.
    pub now: Arc<dyn Fn() -> std::time::SystemTime + Send + Sync>,
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The HTTP code.
    pub code: u16,
    /// `Content-Type`.
    pub content_type: String,
    /// The body: JSON, or text as a string.
    pub body: Value,
    /// The events, if it answers a watch.
    pub events: Option<Vec<Value>>,
}

/// A watch that is read during other steps.
#[derive(Debug)]
pub struct Opened {
    seen: Arc<ReadEvents>,
    reader: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct ReadEvents {
    events: Mutex<Vec<Value>>,
    ended: Mutex<bool>,
    more: Notify,
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Side {
    async fn response(&self, request: &Request, answers: &Answers) -> http::Response<Body> {
        let mut sent = http::Request::builder()
            .method(request.method)
            .uri(answers.uri(request))
            .header("accept", &request.accept);
        if request.body != request::Body::None {
            sent = sent.header("content-type", request.content_type);
        }
        let sent = sent.body(Body::from(answers.body(&request.body))).unwrap();
        let answer = timeout(DEADLINE, self.client.send(sent)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{} does not answer {request:?}", self.name));
        answer.unwrap_or_else(|error| panic!("{}: {error}: {request:?}", self.name))
    }

    /// Sends a request.
    pub async fn send(&self, request: &Request, answers: &Answers) -> Answer {
        let (head, body) = self.response(request, answers).await.into_parts();
        let body = body.collect().await.unwrap_or_else(|error| panic!("{}: {error}: {request:?}", self.name));
        let bytes = body.to_bytes();
        let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
        Answer {
            code: head.status.as_u16(),
            content_type: content_type(&head),
            body: serde_json::from_slice(&bytes).unwrap_or_else(|_| text()),
            events: None,
        }
    }

    /// Repeats a request until the answer is as expected.
    pub async fn send_until(
        &self,
        request: &Request,
        answers: &Answers,
        wanted: (u16, &Option<(&'static str, Value)>),
    ) -> Answer {
        let (code, value) = wanted;
        let last = Mutex::new(Value::Null);
        let tries = async {
            loop {
                let answer = self.send(request, answers).await;
                lock(&last).clone_from(&answer.body);
                let is_it =
                    value.as_ref().is_none_or(|(pointer, value)| answer.body.pointer(pointer) == Some(value));
                if answer.code == code && is_it {
                    return answer;
                }
                sleep(POLL).await;
            }
        };
        let answer = timeout(2 * DEADLINE, tries).await;
        // A request that is never answered is a difference, even if the other server does not
        // answer either.
        answer.unwrap_or_else(|_| Answer {
            content_type: format!("never answered by {}", self.name),
            body: lock(&last).clone(),
            ..Answer::default()
        })
    }

    /// Opens a watch. The answer has no events yet. If it is not a stream, it is complete.
    pub async fn open(&self, request: &Request, answers: &Answers) -> (Answer, Option<Opened>) {
        let response = self.response(request, answers).await;
        if !response.status().is_success() {
            let (head, body) = response.into_parts();
            let bytes = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let body = serde_json::from_slice(&bytes).unwrap_or_default();
            let code = head.status.as_u16();
            return (Answer { code, content_type: content_type(&head), body, events: None }, None);
        }
        let (head, body) = response.into_parts();
        let seen = Arc::new(ReadEvents::default());
        let reader = tokio::spawn(read(Arc::clone(&seen), body));
        let answer = Answer {
            code: head.status.as_u16(),
            content_type: content_type(&head),
            body: Value::Null,
            events: None,
        };
        (answer, Some(Opened { seen, reader }))
    }

    /// The events of a watch, until an object with this name was added, or all events if `None`.
    pub async fn close(&self, opened: &Opened, until: Option<&str>) -> Vec<Value> {
        let wait = async {
            loop {
                let more = opened.seen.more.notified();
                {
                    let events = lock(&opened.seen.events);
                    let marker = |event: &Value| {
                        Some(&event["object"]["metadata"]["name"]) == until.map(Value::from).as_ref()
                            && event["type"] == "ADDED"
                    };
                    if let Some(last) = events.iter().position(marker) {
                        return events[..=last].to_vec();
                    }
                    if *lock(&opened.seen.ended) {
                        return events.clone();
                    }
                }
                more.await;
            }
        };
        match timeout(DEADLINE, wait).await {
            Ok(events) => events,
            Err(_) => lock(&opened.seen.events).clone(),
        }
    }
}

async fn read(seen: Arc<ReadEvents>, mut body: Body) {
    let mut text = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        text.extend_from_slice(&frame.into_data().unwrap_or_else(|_| Bytes::new()));
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            if let Ok(event) = serde_json::from_slice(&line) {
                lock(&seen.events).push(event);
            }
        }
        seen.more.notify_one();
    }
    *lock(&seen.ended) = true;
    seen.more.notify_one();
}

fn content_type(head: &http::response::Parts) -> String {
    let value = head.headers.get("content-type").and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens and reads a watch.
pub async fn watched(side: &Side, request: &Request, until: Option<&str>, answers: &Answers) -> Answer {
    let (mut answer, opened) = side.open(request, answers).await;
    if let Some(opened) = opened {
        let until = until.map(|name| answers.resolve(name));
        answer.events = Some(side.close(&opened, until.as_deref()).await);
    }
    answer
}
