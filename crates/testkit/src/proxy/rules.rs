//! Rules for requests and events, and a limit on concurrent requests about single objects, as that of a
//! busy API server.

use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::Proxy;
use super::reply::{Fault, Reply};
use super::request::{Matcher, Request, Verb};
use super::state::{Action, Entry, EventHold, HeldRequest, Limit, Shared};
use crate::DEADLINE;

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
#[derive(Debug)]
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
#[derive(Debug)]
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

/// The duration of a request, counted from the arrival of the latest one, so that requests sent
/// together also overlap on a busy machine.
const SERVICE: Duration = Duration::from_millis(5);

/// A request in progress, until this is dropped.
pub(super) struct InProgress(Shared);

impl Drop for InProgress {
    fn drop(&mut self) {
        self.0.with(|state| state.limit.in_progress -= 1);
    }
}

impl Proxy {
    /// Delays requests about single objects (by `SERVICE`) from now on, and rejects those that
    /// exceed the limit, as the API server does. A limit of 0 rejects all.
    pub fn limit_concurrency(&self, limit: usize) {
        self.shared.with(|state| state.limit.limit = Some(limit));
    }

    /// Removes the limit and the delay.
    pub fn remove_limit(&self) {
        self.shared.with(|state| state.limit.limit = None);
    }

    /// The maximum number of concurrent requests so far.
    pub fn peak_concurrency(&self) -> usize {
        self.shared.look(|state| state.limit.peak)
    }
}

impl Shared {
    /// Admits a request, unless there are too many.
    pub(super) fn enter(&self, request: &Request) -> Result<Option<InProgress>, Reply> {
        let is_about_an_object =
            matches!(request.verb, Verb::Get | Verb::Delete | Verb::Patch) && request.name.is_some();
        self.with(|state| match &mut state.limit {
            Limit { limit: Some(limit), in_progress, peak, last } if is_about_an_object => {
                *last = Some(Instant::now());
                if *in_progress >= *limit {
                    return Err(
                        Reply::text(429, "Too many requests, please try again later.\n").retry_after(1)
                    );
                }
                *in_progress += 1;
                *peak = (*peak).max(*in_progress);
                Ok(Some(InProgress(self.clone())))
            }
            _ => Ok(None),
        })
    }

    /// Resolves when the delay of a request is over.
    pub(super) async fn service_time(&self) {
        while let Some(end) = self.look(|state| state.limit.last).map(|last| last + SERVICE)
            && end > Instant::now()
        {
            sleep_until(end).await;
        }
    }
}
