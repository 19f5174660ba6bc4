//! Rules for requests and events.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::request::{On, Request};
use super::{DEADLINE, Proxy, Shared};

/// A made-up answer.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) status: u16,
    pub(super) retry_after: Option<u64>,
    pub(super) body: Bytes,
}

impl Reply {
    /// A `Status`, without details.
    pub fn status(code: u16, reason: &str, message: &str) -> Self {
        Self::status_with(code, reason, message, &json!({}))
    }

    /// A `Status` with these details.
    pub fn status_with(code: u16, reason: &str, message: &str, details: &Value) -> Self {
        let body = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "details": details,
            "code": code,
        });
        Self::json(code, &body)
    }

    /// Any JSON.
    pub fn json(code: u16, body: &Value) -> Self {
        Self::text(code, &body.to_string())
    }

    /// Any text.
    pub fn text(code: u16, body: &str) -> Self {
        Self { status: code, retry_after: None, body: Bytes::copy_from_slice(body.as_bytes()) }
    }

    /// 409.
    pub fn conflict() -> Self {
        Self::status(409, "Conflict", "a conflict made by the test")
    }

    /// 410, as to a watch whose version is too old.
    pub fn expired() -> Self {
        Self::status(410, "Expired", "too old resource version: made by the test")
    }

    /// 500.
    pub fn broken() -> Self {
        Self::status(500, "InternalError", "an error made by the test")
    }

    /// With the header `Retry-After`.
    #[must_use]
    pub fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

/// What happens to a request.
#[derive(Clone, Debug)]
pub enum How {
    /// It is not forwarded, and gets this answer.
    Instead(Reply),
    /// It takes effect, but gets this answer.
    After(Reply),
    /// It takes effect, and the connection breaks before the answer.
    AnswerLost,
    /// It takes effect, and the answer never arrives.
    AnswerLate,
}

pub(super) enum Do {
    How(How),
    Hold(mpsc::UnboundedSender<Held>),
}

pub(super) struct Entry {
    pub id: u64,
    pub on: On,
    pub then: Do,
    pub left: Option<usize>,
    pub hits: usize,
}

/// A rule about requests, which applies until it is used up or removed.
#[derive(Debug)]
#[must_use = "a rule is removed by its value"]
pub struct Rule {
    pub(super) shared: Shared,
    pub(super) id: u64,
}

impl Rule {
    /// The number of requests that it has matched.
    pub fn hits(&self) -> usize {
        self.shared.with(|state| state.hits(self.id))
    }

    /// Waits until it has matched this many requests.
    pub async fn hit(&self, times: usize) -> Result<()> {
        self.shared
            .until(&format!("rule to be hit {times} times"), |state| state.hits(self.id) >= times)
            .await
    }

    /// Removes the rule.
    pub fn remove(&self) {
        self.shared.with(|state| {
            if let Some(rule) = state.rules.iter_mut().find(|rule| rule.id == self.id) {
                rule.left = Some(0);
            }
        });
    }
}

/// Holds requests until the test decides. Dropping it forwards all of them, and later ones.
#[derive(Debug)]
pub struct Hold {
    pub(super) rule: Rule,
    pub(super) arrivals: mpsc::UnboundedReceiver<Held>,
}

impl Hold {
    /// Waits for the next matching request.
    pub async fn next(&mut self) -> Result<Held> {
        let next = timeout(DEADLINE, self.arrivals.recv()).await;
        next.with_context(|| format!("no request to hold within {DEADLINE:?}"))?.context("the proxy ended")
    }

    /// Forwards all held requests, and later ones.
    pub fn release(self) {}
}

impl Drop for Hold {
    fn drop(&mut self) {
        // The rule is removed first, so that no request finds the receiver closed.
        self.rule.remove();
    }
}

/// A held request. Dropping this forwards it.
#[derive(Debug)]
pub struct Held {
    /// The request.
    pub request: Request,
    pub(super) verdict: oneshot::Sender<Option<How>>,
}

impl Held {
    /// Forwards the request to the API server.
    pub fn pass(self) {
        // The collector may have cancelled it.
        let _ = self.verdict.send(None);
    }

    /// Handles the request in another way.
    pub fn end(self, how: How) {
        let _ = self.verdict.send(Some(how));
    }
}

pub(super) struct EventHold {
    pub id: u64,
    pub on: On,
    pub caught: bool,
}

/// Holds watch events until the test decides: the first matching event and, because a watch keeps
/// its order, all later events of that watch. Dropping it forwards them.
#[derive(Debug)]
pub struct WatchHold {
    pub(super) shared: Shared,
    pub(super) id: u64,
}

impl WatchHold {
    /// Waits until it holds an event.
    pub async fn caught(&self) -> Result<()> {
        self.shared
            .until("event to be held back", |state| {
                state.event_holds.iter().any(|hold| hold.id == self.id && hold.caught)
            })
            .await
    }

    /// Forwards the events.
    pub fn release(self) {}
}

impl Drop for WatchHold {
    fn drop(&mut self) {
        self.shared.with(|state| state.event_holds.retain(|hold| hold.id != self.id));
    }
}

impl Proxy {
    /// Applies this to every matching request, until the rule is removed.
    pub fn always(&self, on: On, how: How) -> Rule {
        self.rule(on, Do::How(how), None)
    }

    /// Applies this to the next `times` matching requests.
    pub fn times(&self, times: usize, on: On, how: How) -> Rule {
        self.rule(on, Do::How(how), Some(times))
    }

    /// Holds the matching requests.
    pub fn hold(&self, on: On) -> Hold {
        let (sender, arrivals) = mpsc::unbounded_channel();
        Hold { rule: self.rule(on, Do::Hold(sender), None), arrivals }
    }

    /// Holds the matching watch events.
    pub fn hold_events(&self, on: On) -> WatchHold {
        let id = self.shared.with(|state| {
            state.last_id += 1;
            state.event_holds.push(EventHold { id: state.last_id, on, caught: false });
            state.last_id
        });
        WatchHold { shared: self.shared.clone(), id }
    }

    fn rule(&self, on: On, then: Do, left: Option<usize>) -> Rule {
        let id = self.shared.with(|state| {
            state.last_id += 1;
            state.rules.push(Entry { id: state.last_id, on, then, left, hits: 0 });
            state.last_id
        });
        Rule { shared: self.shared.clone(), id }
    }
}

/// A delay that is longer than the client waits.
pub(super) const NEVER: Duration = Duration::from_secs(3600);
