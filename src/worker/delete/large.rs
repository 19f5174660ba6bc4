//! Objects that name very many owners, apart from all others.
//!
//! Work on one of them takes as long as work on thousands of others, and a namespace may
//! hold many. They have a pool of their own with few workers, so that no other object waits
//! for a worker behind them; they give way to everything else on their thread; and owners
//! that have to be looked up are looked up at a [pace](Pace), some of one object, then some
//! of another.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::DeleteWork;
use crate::actors::pool::{Outcome, Place, Work};
use crate::telemetry::Queue;
use kube_gc_core::mailbox::Backoff;
use kube_gc_core::object::Key;

/// Large objects that are worked on at a time. Each takes some 3 MB for 8,000 references.
pub const LARGE_WORKERS: usize = 4;
/// The first pause after a try that ended without a decision: each try looks at thousands of
/// references again.
const LEAST_BACKOFF: Duration = Duration::from_millis(250);
/// How many owners of large objects are looked up in a second, all in all. kube-controller-manager
/// looks up 20, of whatever objects.
const LOOK_UPS_PER_SECOND: u32 = 250;
/// How many may be looked up at once after a rest.
const BURST: u32 = 250;
/// Owners of one object that are looked up before it is another one's turn.
pub(super) const LOOK_UPS_A_TURN: usize = 250;
/// References that are looked at before others on the thread have their turn: these take
/// about half a millisecond.
pub(super) const REFERENCES_A_TURN: usize = 256;

/// The backoff of large objects.
#[must_use]
pub fn large_backoff(backoff: Backoff) -> Backoff {
    Backoff { min: backoff.min.max(LEAST_BACKOFF).min(backoff.max), ..backoff }
}

/// Decides about large objects, as the delete pool does about others.
#[derive(Debug)]
pub struct LargeWork(Arc<DeleteWork>);

impl LargeWork {
    /// The same work, in a pool of its own.
    #[must_use]
    pub const fn new(work: Arc<DeleteWork>) -> Self {
        Self(work)
    }
}

impl Work for LargeWork {
    const QUEUE: Queue = Queue::AttemptToDeleteLarge;

    async fn work(&self, key: Key, _: Place) -> Outcome {
        self.0.work(key, Place::none()).await
    }
}

/// Lets others on the thread have their turn, again and again.
#[derive(Debug, Default)]
pub(super) struct Turns(usize);

impl Turns {
    /// One more reference is looked at.
    pub(super) async fn next(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(REFERENCES_A_TURN) {
            tokio::task::yield_now().await;
        }
    }
}

/// So many look-ups in a second, and no more. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Pace(Arc<Mutex<Instant>>);

impl Default for Pace {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl Pace {
    /// Waits for the turn of one look-up.
    pub(super) async fn turn(&self) {
        let at = self.next(Instant::now());
        if at > Instant::now() {
            sleep_until(at).await;
        }
    }

    fn next(&self, now: Instant) -> Instant {
        const EACH: Duration = Duration::from_nanos(1_000_000_000 / LOOK_UPS_PER_SECOND as u64);
        // A moment is whole whoever has panicked.
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
    async fn look_ups_keep_their_pace_after_a_burst() {
        let pace = Pace::default();
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

    #[test]
    fn large_objects_are_not_tried_again_at_once() {
        let backoff =
            large_backoff(Backoff { min: Duration::from_millis(5), max: Duration::from_secs(1000) });
        assert_eq!((backoff.min, backoff.max), (LEAST_BACKOFF, Duration::from_secs(1000)));
        let short = large_backoff(Backoff { min: Duration::from_millis(5), max: Duration::from_millis(50) });
        assert_eq!(short.min, short.max);
    }
}
