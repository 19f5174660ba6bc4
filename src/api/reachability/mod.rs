//! Whether the API server is reachable.
//!
//! During an outage, every request fails by itself: those of thousands of keys, one watch for
//! each type, and discovery. Each has its own backoff, which grows to half a minute and more
//! and goes on after the server is back. So the outage is tracked in one place:
//!
//! - Three failures in a row (no connection, no answer in time, or 502, 503 and 504) raise the
//!   suspicion of an outage. From then on requests are held: those about objects fail at once
//!   with [`Deferred`](crate::api::ErrorClass::Deferred), which does not count as an attempt, and
//!   lists and watches wait.
//! - A caller that would send a request while a probe is due sends the probe: `GET /version`,
//!   after 0.1 s at first and later once a second, however many callers wait. If the first
//!   probe is answered, nothing is logged.
//! - Any answer ends the outage, an event of a watch included. Then all waiting callers are
//!   woken at once, and their backoffs are reset.
//!
//! An aggregated API is another server behind the API server: its 503 and its silence do not
//! count. The elector has its own client and goes on renewing its lease.

mod probe;
mod state;
#[cfg(test)]
mod tests;
mod unanswered;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
#[cfg(test)]
use std::time::SystemTime;

use tokio::sync::watch;
use tokio::time::Instant;

use super::error::ApiError;
use crate::telemetry::record;
use state::{OutageReport, State};

/// Whether the API server is reachable. Clones share one state.
#[derive(Clone, Debug)]
pub(super) struct Reachability(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Whether anything has failed since the last success. If not, a success changes nothing.
    is_troubled: AtomicBool,
    is_down: AtomicBool,
    /// The time of the last success, in microseconds since the origin.
    last_success: AtomicU64,
    origin: Instant,
    /// The number of outages and refusals that are over.
    recoveries: watch::Sender<u64>,
}

impl Default for Reachability {
    fn default() -> Self {
        record::api_server_reachable(true);
        Self(Arc::new(Inner {
            state: Mutex::default(),
            is_troubled: AtomicBool::new(false),
            is_down: AtomicBool::new(false),
            last_success: AtomicU64::new(0),
            origin: Instant::now(),
            recoveries: watch::Sender::new(0),
        }))
    }
}

/// The present outage.
#[cfg(test)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// When it began.
    pub since: SystemTime,
    /// The last error.
    pub error: String,
}

impl Reachability {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state: MutexGuard<'_, State> = self.0.state.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut state);
        self.0.is_troubled.store(state.is_troubled(), Ordering::Release);
        self.0.is_down.store(state.is_down(), Ordering::Release);
        result
    }

    /// Whether requests are held.
    pub fn is_down(&self) -> bool {
        self.0.is_down.load(Ordering::Acquire)
    }

    /// A request that began then got no answer, or a 502, 503 or 504.
    pub fn failed(&self, began: Instant, error: &ApiError) {
        // A request that began before the last success may have met the previous server.
        if self.micros(began) >= self.0.last_success.load(Ordering::Acquire) {
            self.with(|state| state.failed(Instant::now(), &error.to_string()));
        }
    }

    fn micros(&self, moment: Instant) -> u64 {
        u64::try_from(moment.saturating_duration_since(self.0.origin).as_micros()).unwrap_or(u64::MAX)
    }

    /// Something was answered. Returns whether that ended an outage. The end of a mere
    /// suspicion resets no backoff: a server that often fails must not be flooded.
    pub fn succeeded(&self) -> bool {
        self.0.last_success.store(self.micros(Instant::now()), Ordering::Release);
        if !self.0.is_troubled.load(Ordering::Acquire) {
            return false;
        }
        let report = self.with(|state| state.succeeded(Instant::now()));
        let is_over = report.is_some();
        log(report);
        if is_over {
            self.recovered();
        }
        is_over
    }

    /// Something has ended that made every request fail.
    pub fn recovered(&self) {
        self.0.recoveries.send_modify(|count| *count += 1);
    }

    /// Changes whenever an outage ends, or a refusal of the credentials.
    pub fn recoveries(&self) -> watch::Receiver<u64> {
        self.0.recoveries.subscribe()
    }
}

fn log(report: Option<OutageReport>) {
    match report {
        None => {}
        Some(OutageReport::Down { more, error }) => {
            record::api_server_reachable(false);
            record::api_server_outage(more);
            tracing::error!(
                error,
                "the API server is unreachable; requests are held until it answers a probe"
            );
        }
        Some(OutageReport::StillDown { more, lasts, probes, held, error }) => {
            record::api_server_outage(more);
            let seconds = lasts.as_secs_f64();
            tracing::warn!(seconds, probes, held, error, "the API server is still unreachable");
        }
        Some(OutageReport::Back { more, lasted, probes, held }) => {
            record::api_server_reachable(true);
            record::api_server_outage(more);
            let seconds = lasted.as_secs_f64();
            tracing::info!(
                seconds,
                probes,
                held,
                "the API server is reachable again; the requests that were held are sent"
            );
        }
    }
}
