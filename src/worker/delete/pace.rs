//! How fast the owners of large objects are looked up.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// How many owners of large objects are looked up in a second, over all objects.
/// kube-controller-manager looks up 20 owners in a second for all kinds of objects.
const LOOK_UPS_PER_SECOND: u32 = 250;
/// How many look-ups may follow each other without a pause after an idle time.
const BURST: u32 = 250;
/// Owners of one object that are looked up before the next object has its turn.
pub(super) const LOOK_UPS_A_TURN: usize = 250;
/// References that are classified between two yields, about half a millisecond of work.
pub(super) const REFERENCES_A_TURN: usize = 256;

/// Yields to other tasks of the thread at regular intervals.
#[derive(Debug, Default)]
pub(super) struct Turns(usize);

impl Turns {
    /// Counts one more reference.
    pub(super) async fn next(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(REFERENCES_A_TURN) {
            tokio::task::yield_now().await;
        }
    }
}

/// A rate limit for look-ups. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct LookUpLimiter(Arc<Mutex<Instant>>);

impl Default for LookUpLimiter {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl LookUpLimiter {
    /// Waits for the turn of one look-up.
    pub(super) async fn turn(&self) {
        let at = self.next(Instant::now());
        if at > Instant::now() {
            sleep_until(at).await;
        }
    }

    fn next(&self, now: Instant) -> Instant {
        const EACH: Duration = Duration::from_nanos(1_000_000_000 / LOOK_UPS_PER_SECOND as u64);
        // The value is consistent even after a panic elsewhere.
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.checked_sub(EACH * BURST).unwrap_or(now);
        let at = (*next).max(earliest);
        *next = at + EACH;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lookups_keep_their_rate_after_a_burst() {
        let pace = LookUpLimiter::default();
        assert_eq!((BURST, LOOK_UPS_PER_SECOND), (250, 250), "the documented limit");
        let began = Instant::now();
        tokio::time::advance(Duration::from_secs(60)).await;
        let rested = Instant::now();
        for _ in 0..BURST + 4 * LOOK_UPS_PER_SECOND {
            pace.turn().await;
        }
        let took = rested.elapsed();
        assert!(took > Duration::from_millis(3900) && took < Duration::from_millis(4100), "{took:?}");
        assert!(began.elapsed() > took);
    }
}
