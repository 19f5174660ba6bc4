//! The status of a pool.

use std::sync::Arc;
use std::time::Duration;

use actix::{Handler, Message, MessageResult};

use super::{Pool, Work};
use crate::telemetry::StuckReason;
use kube_gc_core::object::Key;

/// Asks a pool for its status.
#[derive(Debug, Message)]
#[rtype(result = "PoolStatus")]
pub struct AskPool {
    /// The maximum number of failing keys to name.
    pub failing: usize,
}

/// The status of a pool.
#[derive(Clone, Debug, Default)]
pub struct PoolStatus {
    /// Keys that a worker could take now.
    pub ready: usize,
    /// Keys in progress.
    pub processing: usize,
    /// Keys that failed and wait for their next try.
    pub delayed: usize,
    /// Keys that wait for a change elsewhere: a type, an owner, the brake.
    pub parked: usize,
    /// Those of the parked keys that wait for the brake.
    pub braked: usize,
    /// The size of the error texts of failing keys, in bytes.
    pub error_bytes: usize,
    /// The number of keys ever added. Two equal readings mean that nothing was added in between.
    pub adds: u64,
    /// The number of tries that ended in a retry.
    pub retries: u64,
    /// How long the oldest ready key has waited for a worker.
    pub oldest_ready: Option<Duration>,
    /// The total time that the keys in progress have taken so far.
    pub unfinished: Duration,
    /// The time that the longest of them has taken so far.
    pub longest_running: Duration,
    /// Keys whose last try failed.
    pub failing: Vec<FailingObject>,
}

/// A key whose last try failed.
#[derive(Clone, Debug)]
pub struct FailingObject {
    pub key: Key,
    pub reason: StuckReason,
    pub attempts: u32,
    /// The time since the first try failed.
    pub failing_for: Duration,
    /// The error of the last try.
    pub error: Arc<str>,
    /// The time until the next try.
    pub next_retry: Duration,
}

impl<W: Work> Handler<AskPool> for Pool<W> {
    type Result = MessageResult<AskPool>;

    fn handle(&mut self, AskPool { failing }: AskPool, _: &mut actix::Context<Self>) -> Self::Result {
        let now = self.now();
        let stats = self.mailbox.stats();
        let (mut delayed, mut parked) = (0, 0);
        for (reason, count) in &stats.delayed {
            *(if reason.is_parked() { &mut parked } else { &mut delayed }) += count;
        }
        let running: Vec<_> = self.mailbox.running().map(|(_, since)| now.since(since)).collect();
        let failing = self
            .mailbox
            .failing()
            .take(failing)
            .map(|item| FailingObject {
                key: item.key.clone(),
                reason: item.reason,
                attempts: item.attempts,
                failing_for: now.since(item.since),
                error: Arc::clone(item.error),
                next_retry: item.next_retry.map(|at| at.since(now)).unwrap_or_default(),
            })
            .collect();
        MessageResult(PoolStatus {
            ready: stats.ready,
            processing: stats.processing,
            delayed,
            parked,
            braked: stats.delayed.get(&StuckReason::Braked).copied().unwrap_or_default(),
            error_bytes: stats.error_bytes,
            adds: stats.adds_total,
            retries: stats.retries_total,
            oldest_ready: stats.oldest_ready_since.map(|since| now.since(since)),
            unfinished: running.iter().sum(),
            longest_running: running.into_iter().max().unwrap_or_default(),
            failing,
        })
    }
}
