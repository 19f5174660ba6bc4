//! Arguments and results of the mailbox's methods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::time::Time;

/// What [`Mailbox::add`](super::Mailbox::add) did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// The key is new and was queued.
    Queued,
    /// It was queued already.
    AlreadyQueued,
    /// It is running and will run again afterwards.
    RunsAgain,
    /// It was delayed by backoff and was queued. Its failures still count.
    BackoffCutShort,
    /// The API server asked for a delay ([`Completion::RetryAfter`]), which is not over yet.
    RetryAfterPending,
}

/// A key to work on. [`Mailbox::finish`](super::Mailbox::finish) must follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job<K> {
    pub key: K,
    /// Its consecutive failures so far.
    pub failures: u32,
    /// How long it was ready.
    pub waited: Duration,
    /// See [`Mailbox::note_trigger`](super::Mailbox::note_trigger).
    pub triggered_at: Option<Time>,
}

/// How the work on a key ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion<R> {
    /// It is done, and its failures are forgotten.
    Done,
    /// It runs again without delay, behind the other keys of its flow. This is no failure, and
    /// earlier failures still count.
    Again,
    /// It is retried after a delay that grows with every failure.
    Retry {
        /// Why, for metrics and [`Mailbox::wake`](super::Mailbox::wake).
        reason: R,
        /// What happened, for people.
        error: Arc<str>,
    },
    /// It waits until it is [woken](super::Mailbox::wake), and is retried otherwise after the
    /// longest backoff, or earlier.
    Park {
        at_most: Duration,
        /// Why, for metrics and [`Mailbox::wake`](super::Mailbox::wake).
        reason: R,
        /// What it waits for, for people.
        error: Arc<str>,
    },
    /// It was not tried, for a reason that is not its own failure. It waits for the given time,
    /// or until it is [woken](super::Mailbox::wake) or added. This counts as no attempt, and an
    /// earlier error of its own is kept.
    Defer {
        after: Duration,
        /// Why, for metrics and [`Mailbox::wake`](super::Mailbox::wake).
        reason: R,
        /// What it waits for, for people.
        error: Arc<str>,
    },
    /// The API server said when to retry (429 with `Retry-After`). This counts as a failure and
    /// does not lengthen the backoff.
    RetryAfter {
        /// The key is not retried earlier, even if it is added or woken.
        after: Duration,
        reason: R,
        /// What happened, for people.
        error: Arc<str>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats<R> {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Running keys.
    pub processing: usize,
    /// Delayed keys, by the reason of their last failure.
    pub delayed: BTreeMap<R, usize>,
    /// Keys that have failed since they were last done.
    pub failing: usize,
    /// The bytes of these keys' error texts, each text counted once.
    pub error_bytes: usize,
    /// Flows with ready keys.
    pub flows: usize,
    /// How often a key was queued, without additions that were merged.
    pub adds_total: u64,
    /// How often work ended with a retry.
    pub retries_total: u64,
    /// Since when the oldest ready key is ready.
    pub oldest_ready_since: Option<Time>,
    /// Since when the longest running key runs.
    pub longest_running_since: Option<Time>,
}

/// A failing key, for debug pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingKey<'a, K, R> {
    pub key: &'a K,
    /// Consecutive attempts that failed.
    pub attempts: u32,
    /// When it first failed.
    pub since: Time,
    /// Why it failed last.
    pub reason: R,
    /// What happened last.
    pub error: &'a Arc<str>,
    /// `None` if the key is ready or running.
    pub next_retry: Option<Time>,
}
