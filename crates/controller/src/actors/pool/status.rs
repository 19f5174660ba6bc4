//! The status of a pool, and its stuck keys.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use actix::{Context, Handler, MessageResult};

use super::{Class, Pool, Work};
use kube_gc_core::graph::{StuckCount, StuckFilter, keep_first_of_each};
use kube_gc_core::mailbox::{FailingKey, Time};
use kube_gc_core::object::{Key, Namespace};
use kube_gc_observe::telemetry::{Queue, QueueSample, StuckReason};

messages!(AskPool => Vec<(Queue, PoolStatus)>, AskStuck => StuckKeys);

/// Asks a pool for the status of each of its classes.
#[derive(Clone, Debug, Default)]
pub struct AskPool {
    /// The maximum number of failing keys to name.
    pub failing: usize,
    pub only: Option<Arc<Only>>,
}

/// Some of all keys.
#[derive(Clone, Debug, Default)]
pub struct Only {
    /// All keys of these namespaces; those without one for `None`.
    pub namespaces: HashSet<Option<Namespace>>,
    pub keys: HashSet<Key>,
}

impl Only {
    fn has(&self, key: &Key) -> bool {
        self.namespaces.contains(&key.namespace) || self.keys.contains(key)
    }

    /// Whether some are in this namespace.
    pub fn touches(&self, namespace: &str) -> bool {
        let mut all = self.namespaces.iter().chain(self.keys.iter().map(|key| &key.namespace)).flatten();
        all.any(|of| of.as_str() == namespace)
    }
}

/// The status of a class of a pool.
#[derive(Clone, Debug, Default)]
pub struct PoolStatus {
    /// Its keys in each state.
    pub sample: QueueSample,
    /// Those of the parked keys that wait for the brake.
    pub braked: usize,
    /// The number of keys ever added. Two equal readings mean that nothing was added in between. For
    /// namespaces, keys of others may be counted, too; single keys are not.
    pub adds: u64,
    /// The number of tries that ended in a retry.
    pub retries: u64,
    /// How long the oldest ready key has waited for a worker.
    pub oldest_ready: Option<Duration>,
    pub failing: Vec<StuckKey>,
}

impl Class {
    fn status(&self, now: Time, AskPool { failing, only }: &AskPool) -> PoolStatus {
        let stats = self.mailbox.stats(|key| only.as_ref().is_none_or(|only| only.has(key)));
        let (mut delayed, mut parked) = (0, 0);
        for (reason, count) in &stats.delayed {
            *(if reason.is_parked() { &mut parked } else { &mut delayed }) += count;
        }
        let running = || stats.running.iter().map(|since| now.saturating_sub(*since));
        PoolStatus {
            sample: QueueSample {
                ready: stats.ready,
                processing: stats.running.len(),
                delayed,
                parked,
                error_bytes: stats.error_bytes,
                unfinished: running().sum(),
                longest_running: running().max().unwrap_or_default(),
            },
            braked: stats.delayed.get(&StuckReason::Braked).copied().unwrap_or_default(),
            adds: only.as_ref().map_or_else(
                || self.mailbox.adds_total(),
                |only| only.namespaces.iter().map(|of| self.mailbox.queued_of(of.as_ref())).sum(),
            ),
            retries: self.mailbox.retries_total(),
            oldest_ready: stats.oldest_ready_since.map(|since| now.saturating_sub(since)),
            failing: self.mailbox.failing().take(*failing).map(|key| StuckKey::failing(&key, now)).collect(),
        }
    }

    /// The stuck keys. `until_done` is why keys that have not failed are stuck, too, if they are.
    fn stuck(
        &self,
        now: Time,
        until_done: Option<StuckReason>,
        older: Duration,
    ) -> impl Iterator<Item = StuckKey> {
        let failing = self.mailbox.failing().map(move |item| StuckKey::failing(&item, now));
        let first_tries = until_done.into_iter().flat_map(move |reason| {
            self.mailbox.unfailed().map(move |(key, since)| StuckKey {
                key: key.clone(),
                reason,
                waited: now.saturating_sub(since),
                failure: None,
                next_retry: Duration::ZERO,
            })
        });
        failing.chain(first_tries).filter(move |stuck| stuck.waited >= stuck.reason.patience(older))
    }
}

impl<W: Work> Handler<AskPool> for Pool<W> {
    type Result = MessageResult<AskPool>;

    fn handle(&mut self, asked: AskPool, _: &mut Context<Self>) -> Self::Result {
        let now = self.now();
        MessageResult(self.classes.iter().map(|class| (class.queue, class.status(now, &asked))).collect())
    }
}

/// Asks a pool for its stuck keys. The cost of an answer grows with the number of its keys.
#[derive(Clone, Debug, Default)]
pub struct AskStuck {
    pub filter: StuckFilter,
    /// Names only keys that are stuck for this reason. All are counted.
    pub only: Option<StuckReason>,
}

/// The answer to [`AskStuck`].
#[derive(Clone, Debug, Default)]
pub struct StuckKeys {
    pub tallies: Vec<(StuckReason, StuckCount)>,
    /// The keys that the question selects.
    pub named: Vec<StuckKey>,
}

/// A key that cannot be finished now.
#[derive(Clone, Debug)]
pub struct StuckKey {
    pub key: Key,
    pub reason: StuckReason,
    /// The time since the first try failed, or since it was queued.
    pub waited: Duration,
    /// The number of failed tries and the error of the last one; `None` while the first try is in
    /// progress.
    pub failure: Option<(u32, Arc<str>)>,
    /// The time until the next try; zero if it is in progress or waits for a worker.
    pub next_retry: Duration,
}

impl StuckKey {
    fn failing(item: &FailingKey<'_, StuckReason>, now: Time) -> Self {
        Self {
            key: item.key.clone(),
            reason: item.reason,
            waited: now.saturating_sub(item.since),
            failure: Some((item.attempts, Arc::clone(item.error))),
            next_retry: item.next_retry.map(|at| at.saturating_sub(now)).unwrap_or_default(),
        }
    }
}

impl<W: Work> Handler<AskStuck> for Pool<W> {
    type Result = MessageResult<AskStuck>;

    fn handle(&mut self, ask: AskStuck, _: &mut Context<Self>) -> Self::Result {
        let mut tallies = StuckReason::ALL.map(|reason| (reason, StuckCount::default()));
        let mut named: Vec<StuckKey> = Vec::new();
        let now = self.now();
        let AskStuck { filter, only } = ask;
        let stuck = self.classes.iter().flat_map(|class| class.stuck(now, W::UNTIL_DONE, filter.patience));
        let is_in = |key: &Key| filter.has(key.namespace.as_ref(), &key.resource.group_resource);
        for stuck in stuck.filter(|stuck| is_in(&stuck.key)) {
            for (reason, tally) in &mut tallies {
                if *reason == stuck.reason {
                    tally.add(stuck.waited);
                }
            }
            if filter.limit > 0 && only.is_none_or(|only| only == stuck.reason) {
                named.push(stuck);
            }
        }
        named.sort_by(|a, b| b.waited.cmp(&a.waited).then_with(|| a.key.uid.cmp(&b.key.uid)));
        if let Some(most) = filter.per_namespace {
            keep_first_of_each(&mut named, most, |stuck| stuck.key.namespace.clone());
        }
        named.truncate(filter.limit);
        MessageResult(StuckKeys { tallies: tallies.into(), named })
    }
}
