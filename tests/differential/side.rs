//! One of the servers that are compared.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;

use super::request::{Answers, Request, Step};

/// The time limit for an answer, and for a marker to appear.
const DEADLINE: Duration = Duration::from_secs(15);

/// A server. Both servers are a `tower` service below the same client, so that the client affects
/// both in the same way.
#[derive(Clone)]
pub struct Side {
    /// Its name in reports.
    pub name: &'static str,
    /// The client.
    pub client: kube::Client,
    /// Its clock.
    pub now: Arc<dyn Fn() -> SystemTime + Send + Sync>,
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
    /// The events, if it closes a watch.
    pub events: Option<Vec<Value>>,
}

/// The events of an open watch so far. Its sender ends with the watch.
pub type Opened = watch::Receiver<Vec<Value>>;

impl Side {
    /// Executes a step. `opened` is the watch that it closes; a watch that it opens is returned.
    pub async fn step(
        &self,
        step: &Step,
        answers: &Answers,
        opened: Option<Opened>,
    ) -> (Answer, Option<Opened>) {
        match (step, opened) {
            (Step::Send(request), _) => (self.send(request, answers).await, None),
            (Step::Open(request), _) => self.open(request, answers).await,
            (Step::Close { until, .. }, Some(opened)) => {
                let events = Some(close(opened, &answers.resolve(until)).await);
                (Answer { code: 200, events, ..Answer::default() }, None)
            }
            // It was answered with an error.
            (Step::Close { .. }, None) => (Answer::default(), None),
        }
    }

    async fn response(&self, request: &Request, answers: &Answers) -> (Answer, Body) {
        let mut sent = http::Request::builder()
            .method(request.method)
            .uri(answers.uri(request))
            .header("accept", request.accept);
        if request.body.is_some() {
            sent = sent.header("content-type", request.content_type);
        }
        let sent = sent.body(Body::from(answers.body(request))).unwrap();
        let answer = timeout(DEADLINE, self.client.send(sent)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{} does not answer {request}", self.name));
        let (head, body) =
            answer.unwrap_or_else(|error| panic!("{}: {error}: {request}", self.name)).into_parts();
        let content_type = head.headers.get("content-type").and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or_default().to_owned();
        (Answer { code: head.status.as_u16(), content_type, ..Answer::default() }, body)
    }

    /// Sends a request.
    pub async fn send(&self, request: &Request, answers: &Answers) -> Answer {
        let (answer, body) = self.response(request, answers).await;
        Answer { body: self.whole(request, body).await, ..answer }
    }

    async fn whole(&self, request: &Request, body: Body) -> Value {
        let body = body.collect().await.unwrap_or_else(|error| panic!("{}: {error}: {request}", self.name));
        let bytes = body.to_bytes();
        serde_json::from_slice(&bytes).unwrap_or_else(|_| String::from_utf8_lossy(&bytes).into())
    }

    /// Opens a watch. An answer that is not a stream is complete.
    async fn open(&self, request: &Request, answers: &Answers) -> (Answer, Option<Opened>) {
        let (answer, body) = self.response(request, answers).await;
        if answer.code >= 300 {
            return (Answer { body: self.whole(request, body).await, ..answer }, None);
        }
        let (events, opened) = watch::channel(Vec::new());
        tokio::spawn(read(events, body));
        (answer, Some(opened))
    }
}

/// Reads the events of a watch, until it ends or nobody wants them.
async fn read(events: watch::Sender<Vec<Value>>, mut body: Body) {
    let mut text = Vec::new();
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            () = events.closed() => return,
        };
        let Some(Ok(frame)) = frame else { return };
        text.extend_from_slice(frame.data_ref().map_or(&[], |data| &data[..]));
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = text.drain(..=end).collect();
            if let Ok(event) = serde_json::from_slice(&line) {
                events.send_modify(|events| events.push(event));
            }
        }
    }
}

/// The events of a watch, until an object with this name was added, or to its end.
async fn close(mut opened: Opened, until: &str) -> Vec<Value> {
    let is_last = |event: &Value| event["type"] == "ADDED" && event["object"]["metadata"]["name"] == until;
    // It may also end by itself, or not at all.
    let _ = timeout(DEADLINE, opened.wait_for(|events| events.iter().any(is_last))).await;
    let events = opened.borrow();
    let end = events.iter().position(is_last).map_or(events.len(), |last| last + 1);
    events[..end].to_vec()
}
