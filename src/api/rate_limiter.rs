//! Rate limits of requests.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::Quota;
use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use tokio::time::Instant;

/// A token bucket. Without a limit, it costs nothing.
#[derive(Debug)]
pub struct RateLimiter(
    Option<governor::RateLimiter<NotKeyed, InMemoryState, TokioClock, NoOpMiddleware<Duration>>>,
);

impl RateLimiter {
    /// Limits requests per second to `qps`, where 0 means no limit, with bursts of `burst`
    /// requests, where 0 means `qps`.
    pub fn new(qps: u32, burst: u32) -> Self {
        let Some(qps) = NonZeroU32::new(qps) else { return Self(None) };
        let quota = Quota::per_second(qps).allow_burst(NonZeroU32::new(burst).unwrap_or(qps));
        Self(Some(governor::RateLimiter::direct_with_clock(quota, TokioClock(Instant::now()))))
    }

    /// Waits for a token.
    pub async fn acquire(&self) {
        let Some(limiter) = &self.0 else { return };
        while let Err(not_until) = limiter.check() {
            tokio::time::sleep(not_until.wait_time_from(limiter.clock().now())).await;
        }
    }
}

/// tokio's clock, which tests and simulations can pause.
#[derive(Clone, Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_passes_at_once_and_the_rest_is_spaced_out() {
        let start = Instant::now();
        let limiter = RateLimiter::new(10, 5);
        for _ in 0..5 {
            limiter.acquire().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        for _ in 0..10 {
            limiter.acquire().await;
        }
        let elapsed = start.elapsed();
        assert!((Duration::from_millis(990)..Duration::from_millis(1100)).contains(&elapsed), "{elapsed:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_configured_burst_one_second_of_requests_is_the_burst() {
        let start = Instant::now();
        let limiter = RateLimiter::new(10, 0);
        for _ in 0..10 {
            limiter.acquire().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
        limiter.acquire().await;
        assert!(start.elapsed() >= Duration::from_millis(90), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn zero_is_no_limit() {
        let start = Instant::now();
        let limiter = RateLimiter::new(0, 0);
        for _ in 0..1000 {
            limiter.acquire().await;
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
