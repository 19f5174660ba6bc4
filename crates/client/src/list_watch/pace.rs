//! When the next request of a type may be sent: backoff after failures, and the interval
//! between watches.

use std::time::Duration;

use tokio::time::Instant;

use crate::settings::{Jitter, WatchSettings};

/// The least time between two starts of a watch, with up to half of it added at random: a server
/// that closes every watch at once must not be flooded.
pub(super) const LEAST_INTERVAL: Duration = Duration::from_secs(1);

/// The pace of one type's requests.
#[derive(Debug)]
pub(super) struct RequestPace {
    pub settings: WatchSettings,
    jitter: Jitter,
    not_before: Option<Instant>,
    failures: u32,
}

impl RequestPace {
    pub fn new(settings: WatchSettings, seed: u64) -> Self {
        Self { settings, jitter: Jitter::new(seed), not_before: None, failures: 0 }
    }

    /// How long to wait before the next request, if at all.
    pub fn wait(&mut self, now: Instant) -> Option<Duration> {
        let wait = self.not_before.filter(|not_before| *not_before > now).map(|not_before| not_before - now);
        if wait.is_none() {
            self.not_before = None;
        }
        wait
    }

    /// How long the next watch lasts: random, so that the watches of all types do not end at once.
    pub fn watch_duration(&mut self) -> Duration {
        let WatchSettings { shortest, longest, .. } = self.settings;
        Duration::from_secs(self.jitter.within(&(shortest..longest)).as_secs())
    }

    /// Resets the backoff: the server answers.
    pub const fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// Resets the backoff after an outage.
    pub const fn recovered(&mut self) {
        self.failures = 0;
        self.not_before = None;
    }

    /// Schedules the next request after a failure, at the earliest when the server asks for it,
    /// and returns how long that is from now.
    pub fn retry_in(&mut self, retry_after: Option<Duration>, now: Instant) -> Duration {
        let retry_in = self.backoff().max(retry_after.unwrap_or_default());
        self.not_before = Some(now + retry_in);
        retry_in
    }

    /// Keeps the least interval between the starts of two watches.
    pub fn space_watches(&mut self, start: Option<Instant>, now: Instant) {
        let next = start.unwrap_or(now) + self.jitter.within(&(LEAST_INTERVAL..LEAST_INTERVAL * 3 / 2));
        self.not_before = Some(self.not_before.map_or(next, |not_before| not_before.max(next)));
    }

    fn backoff(&mut self) -> Duration {
        let WatchSettings { least_backoff, greatest_backoff, .. } = self.settings;
        // Beyond 2^16 times the least, any sensible greatest is reached.
        let base = least_backoff.saturating_mul(1 << self.failures.min(16)).min(greatest_backoff);
        self.failures = self.failures.saturating_add(1);
        self.jitter.within(&(base..base * 3 / 2)).min(greatest_backoff)
    }
}
