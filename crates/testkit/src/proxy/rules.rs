//! What is done with the requests and events that a test has named.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use super::request::{On, Request};
use super::{DEADLINE, Proxy, Shared};

/// An answer that the API server did not give.
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

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum How {
    /// The API server never hears of it; this is the answer.
    Instead(Reply),
    /// It takes effect, and this is the answer all the same.
    After(Reply),
    /// It takes effect, and the connection breaks before the answer.
    AnswerLost,
    /// It takes effect, and the answer never comes.
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

/// A rule about requests; it holds until it is used up or removed.
#[derive(Debug)]
#[must_use = "a rule is removed by its value"]
pub struct Rule {
    pub(super) shared: Shared,
    pub(super) id: u64,
}

impl Rule {
    /// How many requests it has met.
    pub fn hits(&self) -> usize {
        self.shared.with(|state| state.hits(self.id))
    }

    /// Waits until it has met so many.
    pub async fn hit(&self, times: usize) -> Result<()> {
        self.shared
            .until(&format!("rule to be hit {times} times"), |state| state.hits(self.id) >= times)
            .await
    }

    /// From now on the requests go through.
    pub fn remove(&self) {
        self.shared.with(|state| {
            if let Some(rule) = state.rules.iter_mut().find(|rule| rule.id == self.id) {
                rule.left = Some(0);
            }
        });
    }
}

/// Requests that wait for the test. Dropping it lets all of them pass, and
/// those to come.
#[derive(Debug)]
pub struct Hold {
    pub(super) rule: Rule,
    pub(super) arrivals: mpsc::UnboundedReceiver<Held>,
}

impl Hold {
    /// Waits for the next request to hold.
    pub async fn next(&mut self) -> Result<Held> {
        let next = timeout(DEADLINE, self.arrivals.recv()).await;
        next.with_context(|| format!("no request to hold within {DEADLINE:?}"))?.context("the proxy ended")
    }

    /// Lets everything pass that is held and will come.
    pub fn release(self) {}
}

impl Drop for Hold {
    fn drop(&mut self) {
        // First the rule: what comes now must not find the receiver closed.
        self.rule.remove();
    }
}

/// A request that waits. It passes when this is dropped.
#[derive(Debug)]
pub struct Held {
    /// The request.
    pub request: Request,
    pub(super) verdict: oneshot::Sender<Option<How>>,
}

impl Held {
    /// On to the API server.
    pub fn pass(self) {
        // The collector may have given it up.
        let _ = self.verdict.send(None);
    }

    /// Something else becomes of it.
    pub fn end(self, how: How) {
        let _ = self.verdict.send(Some(how));
    }
}

pub(super) struct EventHold {
    pub id: u64,
    pub on: On,
    pub caught: bool,
}

/// Watch events that wait for the test: the first one that is meant and, as a
/// watch keeps its order, all that follow it in its watch. Dropping this lets
/// them pass.
#[derive(Debug)]
pub struct WatchHold {
    pub(super) shared: Shared,
    pub(super) id: u64,
}

impl WatchHold {
    /// Waits until there is an event that it holds back.
    pub async fn caught(&self) -> Result<()> {
        self.shared
            .until("event to be held back", |state| {
                state.event_holds.iter().any(|hold| hold.id == self.id && hold.caught)
            })
            .await
    }

    /// Lets the events pass.
    pub fn release(self) {}
}

impl Drop for WatchHold {
    fn drop(&mut self) {
        self.shared.with(|state| state.event_holds.retain(|hold| hold.id != self.id));
    }
}

impl Proxy {
    /// Does this with every request that is meant, until the rule is removed.
    pub fn always(&self, on: On, how: How) -> Rule {
        self.rule(on, Do::How(how), None)
    }

    /// Does this with the next requests that are meant.
    pub fn times(&self, times: usize, on: On, how: How) -> Rule {
        self.rule(on, Do::How(how), Some(times))
    }

    /// Holds the requests that are meant.
    pub fn hold(&self, on: On) -> Hold {
        let (sender, arrivals) = mpsc::unbounded_channel();
        Hold { rule: self.rule(on, Do::Hold(sender), None), arrivals }
    }

    /// Holds back watch events.
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

/// An answer that never comes, comes when the client is long gone.
pub(super) const NEVER: Duration = Duration::from_secs(3600);
