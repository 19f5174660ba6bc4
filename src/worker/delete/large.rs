//! Objects with many owner references.
//!
//! One of them can take as long as thousands of other objects, and each owner that nobody has seen
//! costs a GET. They have a pool of their own with few workers, so that no other object waits behind
//! them. They yield to everything else on their thread. Their owners are looked up at a limited
//! [rate](super::pace), in turns between namespaces.

use std::sync::Arc;
use std::time::Duration;

use super::work::DeleteWork;
use crate::actors::pool::{Outcome, Work, WorkerSlot};
use crate::telemetry::Queue;
use kube_gc_core::mailbox::Backoff;
use kube_gc_core::object::Key;

/// Workers for large objects. Each takes about 3 MB for 8,000 references.
pub const LARGE_WORKERS: usize = 4;
/// The shortest backoff: each try classifies thousands of references again.
const LEAST_BACKOFF: Duration = Duration::from_millis(250);
/// The backoff of large objects.
#[must_use]
pub fn large_backoff(backoff: Backoff) -> Backoff {
    Backoff { min: backoff.min.max(LEAST_BACKOFF).min(backoff.max), ..backoff }
}

/// Decides about large objects, as the delete pool does about others.
#[derive(Debug)]
pub struct LargeWork(Arc<DeleteWork>);

impl LargeWork {
    /// The delete pool's work, for a pool of its own.
    #[must_use]
    pub const fn new(work: Arc<DeleteWork>) -> Self {
        Self(work)
    }
}

impl Work for LargeWork {
    const QUEUE: Queue = Queue::AttemptToDeleteLarge;

    async fn work(&self, key: Key, _: WorkerSlot) -> Outcome {
        self.0.work(key, WorkerSlot::none()).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_objects_are_not_retried_at_once() {
        let backoff =
            large_backoff(Backoff { min: Duration::from_millis(5), max: Duration::from_secs(1000) });
        assert_eq!((backoff.min, backoff.max), (LEAST_BACKOFF, Duration::from_secs(1000)));
        let short = large_backoff(Backoff { min: Duration::from_millis(5), max: Duration::from_millis(50) });
        assert_eq!(short.min, short.max);
    }
}
