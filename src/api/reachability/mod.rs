//! Whether the API server can be reached at all.
//!
//! When it cannot, every request fails, each by itself: thousands of keys, one watch for
//! each type, and discovery, all with a backoff of their own that grows to half a minute and
//! more, and goes on when the server is back. So that is known in one place:
//!
//! - Three failures in a row without a success in between (no connection, no answer in time,
//!   or 502, 503 and 504) raise a suspicion. From then on requests are held: those about
//!   objects fail at once with [`Deferred`](ErrorClass::Deferred), which counts as no
//!   attempt, and lists and watches wait.
//! - Whoever would send a request when a probe is due sends that: `GET /version`, first after
//!   0.1 s and at last once a second, however many wait. If the first one is answered nothing
//!   is said.
//! - Any answer to anything ends it, an event of a watch included. Then everybody is woken
//!   at once, and no backoff is left.
//!
//! An aggregated API is another server behind the first: its 503 and its silence are its own.
//! The elector has a client of its own, and goes on renewing whatever is held here.

mod probe;
mod state;
#[cfg(test)]
mod tests;
mod unanswered;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::watch;
use tokio::time::Instant;

use super::error::ApiError;
use crate::telemetry::record;
use state::{News, State};

/// What is known of the API server as a whole. Clones share one state.
#[derive(Clone, Debug)]
pub(super) struct Reachability(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Mutex<State>,
    /// Whether anything has failed since the last success: else an answer is no news.
    is_troubled: AtomicBool,
    is_down: AtomicBool,
    /// When the last success was, in microseconds since the origin.
    last_success: AtomicU64,
    origin: Instant,
    /// Counts the outages that are over.
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

/// The outage under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// Since when the API server cannot be reached.
    pub since: SystemTime,
    /// Why.
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

    /// A request that began then got no answer, or one that says that nobody is there.
    pub fn failed(&self, began: Instant, error: &ApiError) {
        // What began before the last success may have met a server that is no more.
        if self.micros(began) >= self.0.last_success.load(Ordering::Acquire) {
            self.with(|state| state.failed(Instant::now(), &error.to_string()));
        }
    }

    fn micros(&self, moment: Instant) -> u64 {
        u64::try_from(moment.saturating_duration_since(self.0.origin).as_micros()).unwrap_or(u64::MAX)
    }

    /// Something was answered. Returns whether that ended an outage, and not only the
    /// suspicion of one: a server that fails often, and is there, must not be hammered.
    pub fn succeeded(&self) -> bool {
        self.0.last_success.store(self.micros(Instant::now()), Ordering::Release);
        if !self.0.is_troubled.load(Ordering::Acquire) {
            return false;
        }
        let news = self.with(|state| state.succeeded(Instant::now()));
        let is_over = news.is_some();
        log(news);
        if is_over {
            self.0.recoveries.send_modify(|count| *count += 1);
        }
        is_over
    }

    /// Changes whenever an outage ends.
    pub fn recoveries(&self) -> watch::Receiver<u64> {
        self.0.recoveries.subscribe()
    }
}

fn log(news: Option<News>) {
    match news {
        None => {}
        Some(News::Down { more, error }) => {
            record::api_server_reachable(false);
            record::api_server_outage(more);
            tracing::error!(
                error,
                "the API server cannot be reached; requests are held until it answers, and one at a time probes"
            );
        }
        Some(News::StillDown { more, lasts, probes, held, error }) => {
            record::api_server_outage(more);
            let seconds = lasts.as_secs_f64();
            tracing::warn!(seconds, probes, held, error, "the API server still cannot be reached");
        }
        Some(News::Back { more, lasted, probes, held }) => {
            record::api_server_reachable(true);
            record::api_server_outage(more);
            let seconds = lasted.as_secs_f64();
            tracing::info!(
                seconds,
                probes,
                held,
                "the API server can be reached again; everything that was held goes on"
            );
        }
    }
}
