//! The time from the deletion of an owner to the DELETE of its dependent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;

use super::{histogram, names};

tokio::task_local! {
    static CURRENT: DeletionLag;
}

/// Measures the time since the event that an owner is gone. Like a tracing span, it belongs
/// to the task that processes a dependent, and follows its DELETE through the layers of the
/// client down to the transport. Clones share one measurement.
#[derive(Clone, Debug)]
pub struct DeletionLag(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    since: Instant,
    ended: AtomicBool,
}

impl DeletionLag {
    /// Starts the measurement at the arrival of the event.
    #[must_use]
    pub fn since(event: Instant) -> Self {
        Self(Arc::new(Inner { since: event, ended: AtomicBool::new(false) }))
    }

    /// When the event arrived; `None` if a DELETE has been sent since.
    #[must_use]
    pub fn open_since(&self) -> Option<Instant> {
        (!self.0.ended.load(Ordering::Relaxed)).then_some(self.0.since)
    }

    /// Records that a DELETE is sent now. Only the first one counts.
    pub fn deletion_sent(&self) {
        self.deletion_sent_at(Instant::now());
    }

    /// Records that a DELETE was sent at this moment. Only the first one counts.
    pub fn deletion_sent_at(&self, moment: Instant) {
        if !self.0.ended.swap(true, Ordering::Relaxed) {
            histogram(&names::DELETION_LAG, []).record(moment.saturating_duration_since(self.0.since));
        }
    }

    /// Runs a future that processes a dependent, with this measurement as the current one.
    pub async fn scope<F: Future>(lag: Option<Self>, work: F) -> F::Output {
        match lag {
            Some(lag) => CURRENT.scope(lag, work).await,
            None => work.await,
        }
    }

    /// The measurement of the current task.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }
}
