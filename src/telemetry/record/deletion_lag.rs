//! Recording how long it takes from an owner's deletion to its dependents'.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::Instant;

use super::{histogram, names};

tokio::task_local! {
    static CURRENT: DeletionLag;
}

/// The time since the event came that an owner is gone. It travels with the task that
/// works on a dependent, as a tracing span does, and with the DELETE through the
/// client's layers, down to the one before the transport. Clones are one and the same.
#[derive(Clone, Debug)]
pub struct DeletionLag(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    since: Instant,
    ended: AtomicBool,
}

impl DeletionLag {
    /// The event came then.
    #[must_use]
    pub fn since(event: Instant) -> Self {
        Self(Arc::new(Inner { since: event, ended: AtomicBool::new(false) }))
    }

    /// When the event came, unless a DELETE has been sent since.
    #[must_use]
    pub fn open_since(&self) -> Option<Instant> {
        (!self.0.ended.load(Ordering::Relaxed)).then_some(self.0.since)
    }

    /// A DELETE goes out. Only the first one counts: what follows is another matter.
    pub fn deletion_sent(&self) {
        self.deletion_sent_at(Instant::now());
    }

    /// A DELETE went out then.
    pub fn deletion_sent_at(&self, moment: Instant) {
        if !self.0.ended.swap(true, Ordering::Relaxed) {
            histogram(&names::DELETION_LAG, []).record(moment.saturating_duration_since(self.0.since));
        }
    }

    /// Runs a task that works on a dependent of that owner.
    pub async fn scope<F: Future>(lag: Option<Self>, work: F) -> F::Output {
        match lag {
            Some(lag) => CURRENT.scope(lag, work).await,
            None => work.await,
        }
    }

    /// The one of the current task.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }
}
