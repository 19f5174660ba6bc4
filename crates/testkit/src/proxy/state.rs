//! What the proxy, its connections and the rules of a test share: the record of requests, and what the
//! test has ordered.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, timeout};

use super::reply::Fault;
use super::request::{Exchange, Matcher, Request};
use crate::{DEADLINE, lock};

/// The state that the proxy, its connections and the rules of the test share.
#[derive(Clone)]
pub(super) struct Shared {
    pub state: Arc<Mutex<State>>,
    /// Counts changes, so that tests can wait for them.
    pub changes: watch::Sender<u64>,
    /// The outage that the proxy simulates, if any.
    pub outage: watch::Sender<Option<Outage>>,
}

impl Shared {
    /// Changes the state and notifies waiters.
    pub(super) fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        self.with_quietly(|state| (change(state), true))
    }

    /// The same, but notifies only if something changed.
    pub(super) fn with_quietly<T>(&self, change: impl FnOnce(&mut State) -> (T, bool)) -> T {
        let (result, changed) = change(&mut lock(&self.state));
        if changed {
            self.changes.send_modify(|count| *count += 1);
        }
        result
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        self.with_quietly(|state| (look(state), false))
    }

    pub(super) async fn until(&self, description: &str, condition: impl Fn(&State) -> bool) -> Result<()> {
        let mut changes = self.changes.subscribe();
        let met = timeout(DEADLINE, changes.wait_for(|_| self.look(&condition))).await;
        met.with_context(|| format!("waited {DEADLINE:?} for {description}"))?.context("the proxy ended")?;
        Ok(())
    }

    /// Records the answer of a request.
    pub(super) fn answered(&self, index: usize, status: u16) {
        self.with(|state| {
            let exchange = &mut state.log[index];
            (exchange.status, exchange.answered) = (Some(status), Some(Instant::now()));
        });
    }
}

/// Kinds of outages of the API server. In all of them, open connections break when the outage
/// begins and when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Connections are refused.
    Refused,
    /// Connections are accepted, and requests are never answered.
    Hanging,
    /// Every request is answered with 503.
    Unavailable,
}

#[derive(Default)]
pub(super) struct State {
    pub log: Vec<Exchange>,
    pub rules: Vec<Entry>,
    pub event_holds: Vec<EventHold>,
    pub streams: Vec<Stream>,
    pub echo: usize,
    pub last_id: u64,
    /// Where the ports of pods are forwarded to.
    pub ports: Option<SocketAddr>,
}

impl State {
    pub(super) fn hits(&self, rule: u64) -> usize {
        self.rules.iter().find(|entry| entry.id == rule).map_or(0, |entry| entry.hits)
    }

    pub(super) fn watching(&self, resource: &str) -> usize {
        self.streams.iter().filter(|stream| stream.resource == resource).count()
    }

    /// Applies the first matching rule.
    pub(super) fn rule_for(&mut self, request: &Request) -> Option<Applied> {
        let rule =
            self.rules.iter_mut().find(|rule| rule.left != Some(0) && rule.matcher.matches(request))?;
        rule.left = rule.left.map(|left| left - 1);
        rule.hits += 1;
        Some(match &rule.action {
            Action::Fault(fault) => Applied::Fault(fault.clone()),
            Action::Hold(sender) => {
                let (verdict, held) = oneshot::channel();
                // Without a receiver, the request is forwarded.
                let _ = sender.send(HeldRequest { request: request.clone(), verdict });
                Applied::Held(held)
            }
        })
    }
}

/// The result of applying the rules to a request.
pub(super) enum Applied {
    Fault(Fault),
    Held(oneshot::Receiver<Option<Fault>>),
}

pub(super) enum Action {
    Fault(Fault),
    Hold(mpsc::UnboundedSender<HeldRequest>),
}

pub(super) struct Entry {
    pub id: u64,
    pub matcher: Matcher,
    pub action: Action,
    pub left: Option<usize>,
    pub hits: usize,
}

/// A held request. Dropping this forwards it.
#[derive(Debug)]
pub struct HeldRequest {
    /// The request.
    pub request: Request,
    pub(super) verdict: oneshot::Sender<Option<Fault>>,
}

impl HeldRequest {
    /// Forwards the request to the API server.
    pub fn pass(self) {
        // The collector may have cancelled it.
        let _ = self.verdict.send(None);
    }

    /// Handles the request in another way.
    pub fn end(self, fault: Fault) {
        let _ = self.verdict.send(Some(fault));
    }
}

pub(super) struct EventHold {
    pub id: u64,
    pub matcher: Matcher,
    pub caught: bool,
}

/// An open watch.
pub(super) struct Stream {
    pub id: u64,
    pub resource: String,
    pub commands: mpsc::UnboundedSender<StreamCommand>,
}

/// How a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchEnd {
    /// Cleanly, as servers end it after its timeout.
    Cleanly,
    /// By a broken connection.
    Abruptly,
    /// With an ERROR event of code 410.
    Expired,
}

/// A command of the test to a watch.
pub(super) enum StreamCommand {
    /// End it.
    End(WatchEnd),
    /// Send a line.
    Show(Bytes),
}
