//! Rules for requests and events.

use anyhow::{Context as _, Result};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Proxy;
use super::reply::Fault;
use super::request::Matcher;
use super::state::{Action, Entry, EventHold, HeldRequest, Shared};
use crate::DEADLINE;

/// A rule about requests, which applies until it is used up or removed.
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
            .until(&format!("{times} requests that match the rule"), |state| state.hits(self.id) >= times)
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
pub struct Hold {
    pub(super) rule: Rule,
    pub(super) arrivals: mpsc::UnboundedReceiver<HeldRequest>,
}

impl Hold {
    /// Waits for the next matching request.
    pub async fn next(&mut self) -> Result<HeldRequest> {
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

/// Holds watch events until the test decides: the first matching event and, because a watch keeps
/// its order, all later events of that watch. Dropping it forwards them.
pub struct WatchHold {
    pub(super) shared: Shared,
    pub(super) id: u64,
}

impl WatchHold {
    /// Waits until it holds an event.
    pub async fn caught(&self) -> Result<()> {
        self.shared
            .until("an event to hold", |state| {
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
    pub fn always(&self, matcher: Matcher, fault: Fault) -> Rule {
        self.rule(matcher, Action::Fault(fault), None)
    }

    /// Applies this to the next `times` matching requests.
    pub fn times(&self, times: usize, matcher: Matcher, fault: Fault) -> Rule {
        self.rule(matcher, Action::Fault(fault), Some(times))
    }

    /// Holds the matching requests.
    pub fn hold(&self, matcher: Matcher) -> Hold {
        let (sender, arrivals) = mpsc::unbounded_channel();
        Hold { rule: self.rule(matcher, Action::Hold(sender), None), arrivals }
    }

    /// Holds the matching watch events.
    pub fn hold_events(&self, matcher: Matcher) -> WatchHold {
        let id = self.shared.with(|state| {
            state.last_id += 1;
            state.event_holds.push(EventHold { id: state.last_id, matcher, caught: false });
            state.last_id
        });
        WatchHold { shared: self.shared.clone(), id }
    }

    fn rule(&self, matcher: Matcher, action: Action, left: Option<usize>) -> Rule {
        let id = self.shared.with(|state| {
            state.last_id += 1;
            state.rules.push(Entry { id: state.last_id, matcher, action, left, hits: 0 });
            state.last_id
        });
        Rule { shared: self.shared.clone(), id }
    }
}
