//! The stuck keys of a pool. The cost of an answer grows with their number.

use std::sync::Arc;
use std::time::Duration;

use actix::{Context, Handler, Message, MessageResult};

use super::{Pool, Work};
use crate::telemetry::StuckReason;
use kube_gc_core::graph::{StuckCount, keep_first_of_each};
use kube_gc_core::mailbox::Time;
use kube_gc_core::object::{GroupResource, Key, Namespace};

/// Asks a pool for its stuck keys.
#[derive(Clone, Debug, Default, Message)]
#[rtype(result = "StuckKeys")]
pub struct AskStuck {
    /// The maximum number of keys to name, those that waited longest first. All are counted.
    pub limit: usize,
    /// The maximum number of keys to name in each namespace; `None` for no limit of its own.
    pub per_namespace: Option<usize>,
    /// Restricts the answer to this namespace.
    pub namespace: Option<Namespace>,
    /// Restricts the answer to this type.
    pub resource: Option<GroupResource>,
    /// Names only keys that are stuck for this reason.
    pub only: Option<StuckReason>,
}

impl AskStuck {
    fn is_in(&self, key: &Key) -> bool {
        let Self { namespace, resource, .. } = self;
        namespace.as_ref().is_none_or(|wanted| key.namespace.as_ref() == Some(wanted))
            && resource.as_ref().is_none_or(|wanted| key.resource.group_resource == *wanted)
    }
}

/// The answer to [`AskStuck`].
#[derive(Clone, Debug, Default)]
pub struct StuckKeys {
    /// The number of stuck keys for each reason.
    pub tallies: Vec<(StuckReason, StuckCount)>,
    /// The keys that the question selects.
    pub named: Vec<StuckKey>,
}

/// A key that cannot be finished now.
#[derive(Clone, Debug)]
pub struct StuckKey {
    pub key: Key,
    pub reason: StuckReason,
    pub waited: Duration,
    /// The number of failed tries and the error of the last one; `None` while the first try is in
    /// progress.
    pub failure: Option<(u32, Arc<str>)>,
    /// The time until the next try; zero if it is in progress or waits for a worker.
    pub next_retry: Duration,
}

impl<W: Work> Pool<W> {
    fn stuck_keys(&self, now: Time) -> impl Iterator<Item = StuckKey> {
        let failing = self.failing.iter().filter_map(|key| self.mailbox.failure_of(key));
        let failing = failing.map(move |item| StuckKey {
            key: item.key.clone(),
            reason: item.reason,
            waited: now.since(item.since),
            failure: Some((item.attempts, Arc::clone(item.error))),
            next_retry: item.next_retry.map(|at| at.since(now)).unwrap_or_default(),
        });
        // Only pools whose keys are all stuck until they are done are scanned as a whole.
        let first_tries = W::UNTIL_DONE.into_iter().flat_map(move |reason| {
            self.mailbox.unfailed().map(move |(key, since)| StuckKey {
                key: key.clone(),
                reason,
                waited: now.since(since),
                failure: None,
                next_retry: Duration::ZERO,
            })
        });
        failing.chain(first_tries).filter(|stuck| stuck.waited >= stuck.reason.patience())
    }
}

impl<W: Work> Handler<AskStuck> for Pool<W> {
    type Result = MessageResult<AskStuck>;

    fn handle(&mut self, ask: AskStuck, _: &mut Context<Self>) -> Self::Result {
        let mut tallies = StuckReason::ALL.map(|reason| (reason, StuckCount::default()));
        let mut named: Vec<StuckKey> = Vec::new();
        for stuck in self.stuck_keys(self.now()).filter(|stuck| ask.is_in(&stuck.key)) {
            for (reason, tally) in &mut tallies {
                if *reason == stuck.reason {
                    tally.add(stuck.waited);
                }
            }
            if ask.limit > 0 && ask.only.is_none_or(|only| only == stuck.reason) {
                named.push(stuck);
            }
        }
        named.sort_by(|a, b| b.waited.cmp(&a.waited).then_with(|| a.key.uid.cmp(&b.key.uid)));
        if let Some(most) = ask.per_namespace {
            keep_first_of_each(&mut named, most, |stuck| stuck.key.namespace.clone());
        }
        named.truncate(ask.limit);
        MessageResult(StuckKeys { tallies: tallies.into(), named })
    }
}
