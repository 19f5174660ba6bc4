//! The record of requests, and what the test has ordered.

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::reply::How;
use super::request::{Exchange, On, Request};

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
}

impl State {
    pub(super) fn hits(&self, rule: u64) -> usize {
        self.rules.iter().find(|entry| entry.id == rule).map_or(0, |entry| entry.hits)
    }

    pub(super) fn watching(&self, resource: &str) -> usize {
        self.streams.iter().filter(|stream| stream.resource == resource).count()
    }

    /// Applies the first matching rule.
    pub(super) fn rule_for(&mut self, request: &Request) -> Option<Met> {
        let rule = self.rules.iter_mut().find(|rule| rule.left != Some(0) && rule.on.means(request))?;
        rule.left = rule.left.map(|left| left - 1);
        rule.hits += 1;
        Some(match &rule.then {
            Do::How(how) => Met::How(how.clone()),
            Do::Hold(sender) => {
                let (verdict, held) = oneshot::channel();
                // Without a receiver, the request is forwarded.
                let _ = sender.send(Held { request: request.clone(), verdict });
                Met::Held(held)
            }
        })
    }
}

/// The result of applying the rules to a request.
pub(super) enum Met {
    How(How),
    Held(oneshot::Receiver<Option<How>>),
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

/// An open watch.
pub(super) struct Stream {
    pub id: u64,
    pub resource: String,
    pub orders: mpsc::UnboundedSender<Order>,
}

/// How a watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Cleanly, as servers end it after its timeout.
    Cleanly,
    /// By a broken connection.
    Abruptly,
    /// With an ERROR event of code 410.
    Expired,
}

/// A command of the test to a watch.
pub(super) enum Order {
    /// End it.
    End(Cut),
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
