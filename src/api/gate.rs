//! The write gate: whether this process may change anything in the cluster.
//!
//! Every write asks the gate in the innermost place, right before the request
//! is handed to the transport, because whatever was true when a worker took up
//! an item may be over by the time its request is ready.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Opens and closes the way for writes. Clones share one state.
#[derive(Clone, Debug)]
pub struct WriteGate(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dry_run: bool,
    paused: AtomicBool,
}

/// Why a write may not go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateClosed {
    /// This process never writes; what it would have done is for the log.
    #[error("dry run: nothing is written")]
    DryRun,
    /// Not now: the graph is being rebuilt.
    #[error("the write gate is closed")]
    Closed,
}

/// Leave for one write, given out by [`WriteGate::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permit {
    /// How long the leave lasts; `None`: as long as the request takes.
    time_left: Option<Duration>,
}

impl Permit {
    /// A request's timeout must not exceed the time that the permit is good for.
    #[must_use]
    pub fn limit(&self, timeout: Duration) -> Duration {
        self.time_left.map_or(timeout, |left| left.min(timeout))
    }
}

impl WriteGate {
    /// A gate that lets writes through until it is paused.
    #[must_use]
    pub fn open() -> Self {
        Self(Arc::new(Inner { dry_run: false, paused: AtomicBool::new(false) }))
    }

    /// A gate that never lets a write through.
    #[must_use]
    pub fn dry_run() -> Self {
        Self(Arc::new(Inner { dry_run: true, paused: AtomicBool::new(false) }))
    }

    /// Asks for leave for one write, to be used at once.
    ///
    /// # Errors
    ///
    /// The gate is closed, or this is a dry run.
    pub fn check(&self) -> Result<Permit, GateClosed> {
        if self.0.dry_run {
            Err(GateClosed::DryRun)
        } else if self.0.paused.load(Ordering::SeqCst) {
            Err(GateClosed::Closed)
        } else {
            Ok(Permit { time_left: None })
        }
    }

    /// Lets no write through until [`resume`](Self::resume): what is believed
    /// about the cluster is in doubt. Pausing twice is pausing once.
    pub fn pause(&self) {
        self.0.paused.store(true, Ordering::SeqCst);
    }

    /// Lets writes through again.
    pub fn resume(&self) {
        self.0.paused.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_the_state() {
        let gate = WriteGate::open();
        let other = gate.clone();
        assert!(gate.check().is_ok());
        other.pause();
        other.pause();
        assert_eq!(gate.check(), Err(GateClosed::Closed));
        gate.resume();
        assert!(other.check().is_ok());
    }

    #[test]
    fn a_dry_run_never_opens() {
        let gate = WriteGate::dry_run();
        gate.resume();
        assert_eq!(gate.check(), Err(GateClosed::DryRun));
    }

    #[test]
    fn a_permit_shortens_a_timeout_and_never_lengthens_it() {
        let short = Permit { time_left: Some(Duration::from_secs(3)) };
        assert_eq!(short.limit(Duration::from_secs(30)), Duration::from_secs(3));
        assert_eq!(short.limit(Duration::from_secs(1)), Duration::from_secs(1));
    }
}
