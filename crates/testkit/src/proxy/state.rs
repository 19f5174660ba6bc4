//! The record of requests, and what the test has ordered.

use std::net::SocketAddr;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::reply::Fault;
use super::request::{Exchange, Matcher, Request};

#[derive(Default)]
pub(super) struct State {
    pub log: Vec<Exchange>,
    pub rules: Vec<Entry>,
    pub event_holds: Vec<EventHold>,
    pub streams: Vec<Stream>,
    pub limit: Limit,
    pub echo: usize,
    pub bookmarks_dropped: bool,
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

/// The limit, and the requests in progress.
#[derive(Debug, Default)]
pub(super) struct Limit {
    pub limit: Option<usize>,
    pub in_progress: usize,
    /// The maximum of the number in progress.
    pub peak: usize,
    /// The arrival of the latest request, admitted or not.
    pub last: Option<Instant>,
}
