//! What a pool says of itself.

use std::sync::Arc;
use std::time::Duration;

use actix::{Handler, Message, MessageResult};

use super::{Pool, Work};
use crate::telemetry::StuckReason;
use kube_gc_core::object::Key;

/// What is in the queue?
#[derive(Debug, Message)]
#[rtype(result = "PoolStatus")]
pub struct AskPool {
    /// How many failing items to name at most.
    pub failing: usize,
}

/// What a pool says of itself.
#[derive(Clone, Debug, Default)]
pub struct PoolStatus {
    /// Keys that a worker could take now.
    pub ready: usize,
    /// Keys that are being worked on.
    pub processing: usize,
    /// Keys that wait for their next try after a failure.
    pub delayed: usize,
    /// Keys that wait for the world to change.
    pub parked: usize,
    /// How many of these wait for the brake.
    pub held: usize,
    /// How many bytes the errors of failing keys take up.
    pub error_bytes: usize,
    /// How many keys were ever put in: two equal readings mean nothing happened.
    pub adds: u64,
    /// How many tries ended with another one to come.
    pub retries: u64,
    /// How long the key that waits longest for a worker has waited.
    pub oldest_ready: Option<Duration>,
    /// How long the items that are being worked on have been, in all.
    pub unfinished: Duration,
    /// How long the longest of them has been.
    pub longest_running: Duration,
    /// Items whose last try failed.
    pub failing: Vec<Failing>,
}

/// An item that keeps failing.
#[derive(Clone, Debug)]
pub struct Failing {
    /// The item.
    pub key: Key,
    /// Why it waits.
    pub reason: StuckReason,
    /// Tries so far.
    pub attempts: u32,
    /// How long ago the first of them failed.
    pub failing_for: Duration,
    /// What the last one ended with.
    pub error: Arc<str>,
    /// How long until the next one.
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
            .map(|item| Failing {
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
            held: stats.delayed.get(&StuckReason::Braked).copied().unwrap_or_default(),
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
