//! Exponential backoff.

use std::time::Duration;

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
    }

    #[test]
    fn a_delay_is_never_zero() {
        let backoff = Backoff { min: Duration::ZERO, max: Duration::from_secs(1) };
        assert_eq!(backoff.delay(1), Duration::from_millis(1));
    }
}
