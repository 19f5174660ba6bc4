//! Arguments and results of the mailbox's methods.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::object::Key;

/// A point in time on a monotonic clock: the time since an origin that the caller chooses. The
/// mailbox has no clock of its own, so that tests and simulations control the time.
pub type Time = Duration;

/// Exponential backoff per key: `min` after the first failure, doubled after each further one,
/// up to `max`. There is no jitter. The keys share one client and one set of workers, which
/// spread the requests, and simulations can be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first delay, at least a millisecond.
    pub min: Duration,
    pub max: Duration,
}

impl Backoff {
    /// The delay after this many consecutive failures.
    pub fn delay(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1);
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        self.min.max(Duration::from_millis(1)).saturating_mul(factor).min(self.max)
    }
}

impl Default for Backoff {
    /// What Kubernetes' own work queues use: 5 ms to 1000 s.
    fn default() -> Self {
        Self { min: Duration::from_millis(5), max: Duration::from_secs(1000) }
    }
}

/// A key to work on. [`Mailbox::finish`](super::Mailbox::finish) must follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub key: Key,
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
    /// It is tried again later.
    Later {
        /// Why, for metrics and [`Mailbox::wake`](super::Mailbox::wake).
        reason: R,
        /// What happened, or what it waits for, for people.
        error: Arc<str>,
        wait: Wait,
    },
}

/// When a key is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// After a delay that grows with every failure.
    Backoff,
    /// When it is [woken](super::Mailbox::wake), and otherwise after this time or the longest backoff.
    Woken(Duration),
    /// After this time, or when it is [woken](super::Mailbox::wake) or added. It was not tried, for a
    /// reason that is not its own failure. This counts as no attempt, and an earlier error of its own
    /// is kept.
    Untried(Duration),
    /// After this time, and not earlier, even if it is added or woken: the API server said when to retry
    /// (429 with `Retry-After`). This counts as a failure and does not lengthen the backoff.
    RetryAfter(Duration),
}

impl<R> Completion<R> {
    pub fn later(reason: R, wait: Wait, error: impl Into<Arc<str>>) -> Self {
        Self::Later { reason, error: error.into(), wait }
    }

    /// It has failed, and is retried with backoff.
    pub fn retry(reason: R, error: impl Into<Arc<str>>) -> Self {
        Self::later(reason, Wait::Backoff, error)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats<R> {
    /// Keys that wait for a worker.
    pub ready: usize,
    /// Since when each running key runs.
    pub running: Vec<Time>,
    /// Delayed keys, by the reason of their last failure.
    pub delayed: BTreeMap<R, usize>,
    /// The bytes of failing keys' error texts, each text counted once.
    pub error_bytes: usize,
    /// Since when the oldest ready key is ready.
    pub oldest_ready_since: Option<Time>,
}

/// A failing key, for debug pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailingKey<'a, R> {
    pub key: &'a Key,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 8.3.
    #[test]
    fn delays_double_from_five_milliseconds_to_a_thousand_seconds() {
        let backoff = Backoff::default();
        let delays: Vec<_> = (1..=19).map(|failures| backoff.delay(failures).as_millis()).collect();
        assert_eq!(delays[..4], [5, 10, 20, 40]);
        assert_eq!(delays[17..], [655_360, 1_000_000]);
        assert_eq!(backoff.delay(u32::MAX), backoff.max);
        assert_eq!(backoff.delay(0), backoff.min);
        let hasty = Backoff { min: Duration::ZERO, ..backoff };
        assert_eq!(hasty.delay(1), Duration::from_millis(1), "never zero");
    }
}
