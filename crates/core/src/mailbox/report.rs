//! What the mailbox is told and what it tells.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::Time;

/// What became of a key that was added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    /// It is new and was queued.
    Queued,
    /// It was queued already.
    AlreadyQueued,
    /// It is being worked on and will run again afterwards.
    RunsAgain,
    /// It was delayed by backoff and was queued at once; its failures still count.
    BackoffCutShort,
    /// The API server asked for this key to be left alone for a while
    /// ([`Completion::RetryAfter`]); it will run when that time is over.
    RetryAfterPending,
}

/// A key to work on. [`Mailbox::finish`](super::Mailbox::finish) must follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job<K> {
    pub key: K,
    /// How many times in a row it has failed before.
    pub failures: u32,
    /// How long it was queued.
    pub waited: Duration,
    /// The first moment of its causes ([`Mailbox::note_trigger`](super::Mailbox::note_trigger)).
    pub triggered_at: Option<Time>,
}

/// How the work on a key ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Completion<R> {
    /// Done: its failures are forgotten.
    Done,
    /// It has to run again at once, behind the other keys of its flow; this is
    /// no failure, and forgets none.
    Again,
    /// It has to be tried again, after a delay that grows with every failure.
    Retry {
        /// Why, for metrics and [`Mailbox::wake`](super::Mailbox::wake).
        reason: R,
        /// What happened, for people.
        error: Arc<str>,
    },
    /// It waits for something that will [wake](super::Mailbox::wake) it, and is not tried
    /// again before, but for once in the longest time that backoff comes to.
    Park {
        /// Why, for metrics and [`Mailbox::wake`](super::Mailbox::wake).
        reason: R,
        /// What it waits for, for people.
        error: Arc<str>,
    },
    /// It was not tried, for something that is no failure of its own: it waits so long, or
    /// until it is [woken](super::Mailbox::wake) or added. No attempt is counted, and an
    /// error of its own is kept.
    Defer {
        after: Duration,
        /// Why, for metrics and [`Mailbox::wake`](super::Mailbox::wake).
        reason: R,
        /// What it waits for, for people.
        error: Arc<str>,
    },
    /// The API server told when to try again (429 with `Retry-After`). Counts as
    /// a failure, and does not make later backoff longer.
    RetryAfter {
        /// Not before this time has passed, whatever is added or woken meanwhile.
        after: Duration,
        reason: R,
        /// What happened, for people.
        error: Arc<str>,
    },
}

/// A mailbox in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats<R> {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Keys that are being worked on.
    pub processing: usize,
    /// Keys that wait for their time, by the reason of their last failure.
    pub delayed: BTreeMap<R, usize>,
    /// Keys that have failed since they were last done.
    pub failing: usize,
    /// How many bytes the errors of these keys take up, each text counted once.
    pub error_bytes: usize,
    /// Flows with something ready.
    pub flows: usize,
    /// How often a key was queued, merged additions not counted.
    pub adds_total: u64,
    /// How often the work on a key ended with a retry.
    pub retries_total: u64,
    /// Since when the key that waits longest for a worker has been ready.
    pub oldest_ready_since: Option<Time>,
    /// Since when the key that is worked on longest has been.
    pub longest_running_since: Option<Time>,
}

/// A key that keeps failing, for a debug page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing<'a, K, R> {
    pub key: &'a K,
    /// How many times in a row.
    pub attempts: u32,
    /// When it first failed.
    pub since: Time,
    /// Why it failed last.
    pub reason: R,
    /// What happened last.
    pub error: &'a Arc<str>,
    /// When it will be tried again; `None`: it is queued or being worked on.
    pub next_retry: Option<Time>,
}
