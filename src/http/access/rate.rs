//! Limits the reviews that one source may cause.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::http::connections::Source;

/// Reviews in a burst.
pub(super) const BURST: u32 = 20;

/// The interval after which one more review is allowed.
pub(super) const REFILL: Duration = Duration::from_millis(200);

/// The most sources to track. Requests of further sources are rejected.
const SOURCES: usize = 4096;

/// Limits each source separately. A client that sends made-up tokens causes at most five
/// reviews per second, and does not use up the limit of others.
#[derive(Debug, Default)]
pub(super) struct RateLimiter(Mutex<HashMap<Source, Instant>>);

impl RateLimiter {
    /// Counts one review of this source; false if it exceeds the limit.
    pub(super) fn try_acquire(&self, source: Source) -> bool {
        let now = Instant::now();
        let mut sources = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sources.len() >= SOURCES {
            // A source whose burst is full again is the same as a new one.
            sources.retain(|_, refilled| *refilled > now);
        }
        if sources.len() >= SOURCES && !sources.contains_key(&source) {
            return false;
        }
        // The time at which the burst is full again.
        let refilled = sources.entry(source).or_insert(now);
        let next = (*refilled).max(now) + REFILL;
        let may = next <= now + REFILL * BURST;
        if may {
            *refilled = next;
        }
        may
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn source(number: u32) -> Source {
        IpAddr::V4(Ipv4Addr::from_bits(number)).into()
    }

    #[tokio::test]
    async fn a_source_has_a_burst_and_then_a_steady_rate() {
        tokio::time::pause();
        let rate = RateLimiter::default();
        assert_eq!((BURST, REFILL, SOURCES), (20, Duration::from_millis(200), 4096), "the documented limits");
        let asks = |times: u32| (0..times).filter(|_| rate.try_acquire(source(1))).count();
        assert_eq!(asks(1000), BURST as usize);
        assert!(rate.try_acquire(source(2)), "another one may");
        tokio::time::advance(REFILL).await;
        assert_eq!(asks(1000), 1);
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert_eq!(asks(1000), BURST as usize);
    }

    #[tokio::test]
    async fn the_number_of_remembered_sources_is_bounded() {
        tokio::time::pause();
        let rate = RateLimiter::default();
        let asks =
            |from: u32| (from..from + 10_000).filter(|number| rate.try_acquire(source(*number))).count();
        assert_eq!(asks(0), SOURCES);
        assert_eq!(rate.0.lock().unwrap().len(), SOURCES);
        tokio::time::advance(REFILL).await;
        assert_eq!(asks(20_000), SOURCES);
    }
}
