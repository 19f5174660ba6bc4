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

mod state;
#[cfg(test)]
mod tests;
mod unanswered;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::client::{Api, Call};
use super::error::{ApiError, ErrorClass};
use super::media_type::JSON;
use super::settings::Verb;
use crate::telemetry::record;
use kube_gc_core::object::GroupResource;
use state::{Admission, News, State};
use unanswered::Lines;

/// How long a request that was held waits, unless the server is back before.
const HELD_FOR: Duration = Duration::from_secs(5);
/// The same while nothing but a suspicion holds it, of whose end nobody is told.
const HELD_FOR_A_MOMENT: Duration = Duration::from_millis(100);
/// How long a probe may take.
const PROBE_AT_MOST: Duration = Duration::from_secs(10);

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
        say(news);
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

fn say(news: Option<News>) {
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

impl Api {
    /// Whether requests are held, because the API server cannot be reached.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        self.reachability().is_down()
    }

    /// The outage under way, once it is confirmed.
    #[must_use]
    pub fn outage(&self) -> Option<Outage> {
        let now = Instant::now();
        let outage = self.reachability().with(|state| {
            state.outage().map(|(since, error)| (now.saturating_duration_since(since), error.to_owned()))
        });
        outage.map(|(lasts, error)| Outage { since: self.settings().clock.now() - lasts, error })
    }

    /// Changes whenever an outage of the API server ends.
    #[must_use]
    pub fn recoveries(&self) -> watch::Receiver<u64> {
        self.reachability().recoveries()
    }

    /// Whether one more decision whose request got no answer, or was not sent, is to have a
    /// line in the log.
    /// A few speak for all of them; the others are counted in the metrics.
    #[must_use]
    pub fn may_log_unanswered(&self) -> bool {
        let reachability = self.reachability();
        if reachability.is_down() {
            return false;
        }
        let lines = reachability.with(|state| state.unanswered.one_more(Instant::now()));
        if lines == Lines::Last {
            tracing::warn!(
                "many requests get no answer or cannot be sent; their decisions have no line each for {} s, \
                 and are counted in kube_gc_decisions_total",
                unanswered::WINDOW.as_secs()
            );
        }
        lines == Lines::Another
    }

    /// The error of what is held at this moment, if anything is: for whoever would begin
    /// work that ends in a request.
    #[must_use]
    pub fn held(&self) -> Option<ApiError> {
        if !self.is_unreachable() {
            return None;
        }
        // Unless it would be the one to probe.
        let is_due = self.reachability().with(|state| state.is_probe_due(Instant::now()));
        (!is_due).then(|| self.held_error("WAIT", "the API server".to_owned()))
    }

    /// Waits until the API server can be reached, and sends the probes that are due.
    pub(super) async fn reachable(&self) {
        let mut recoveries = self.recoveries();
        loop {
            let (admission, news) = self.reachability().with(|state| state.admit(Instant::now()));
            say(news);
            match admission {
                Admission::Pass => return,
                Admission::Held(wait) => {
                    // An end of all clients is the end of the process.
                    let _ = timeout(wait, recoveries.changed()).await;
                }
                Admission::Probe => self.probe_once(&mut recoveries).await,
            }
        }
    }

    /// Before a request: lets it pass unless requests are held.
    ///
    /// # Errors
    /// It is held.
    pub(super) async fn pass(&self, call: &Call<'_>) -> Result<(), ApiError> {
        if !self.is_unreachable() {
            return Ok(());
        }
        let mut recoveries = self.recoveries();
        let (admission, news) = self.reachability().with(|state| state.admit(Instant::now()));
        say(news);
        if admission == Admission::Probe {
            self.probe_once(&mut recoveries).await;
        }
        self.pass_at_once(call)
    }

    /// The same without a probe, for who must not wait.
    ///
    /// # Errors
    /// It is held.
    pub(super) fn pass_at_once(&self, call: &Call<'_>) -> Result<(), ApiError> {
        if !self.is_unreachable() {
            return Ok(());
        }
        record::request_deferred("unreachable");
        let error = self.held_error(call.action, String::new());
        Err(call.error(error.class, error.message, None))
    }

    fn held_error(&self, action: &'static str, target: String) -> ApiError {
        let is_confirmed = self.reachability().with(|state| state.outage().is_some());
        let retry_after = if is_confirmed { HELD_FOR } else { HELD_FOR_A_MOMENT };
        let message = "not sent: the API server cannot be reached".to_owned();
        ApiError { class: ErrorClass::Deferred { retry_after }, action, target, message, code: None }
    }

    /// Sends a probe, and waits for its answer or for that of anything else.
    async fn probe_once(&self, recoveries: &mut watch::Receiver<u64>) {
        let discovery = GroupResource::new("", "discovery");
        let call = Call::get(Verb::Discover, "/version".into(), JSON, &discovery);
        let probe = timeout(PROBE_AT_MOST, Box::pin(self.exchange(call)));
        let error = tokio::select! {
            biased;
            _ = recoveries.changed() => return,
            answer = probe => match answer {
                // An answer has told so by itself.
                Ok((Ok(_), _)) => return,
                Ok((Err(error), _)) => error.to_string(),
                Err(_) => format!("GET /version: no answer within {PROBE_AT_MOST:?}"),
            }
        };
        if self.is_unreachable() {
            say(self.reachability().with(|state| state.probe_failed(Instant::now(), &error)));
        }
    }

    /// Takes note of how a request ended that began then.
    pub(super) fn note_reachable(&self, call: &Call<'_>, began: Instant, result: Result<u16, &ApiError>) {
        let is_aggregated = || self.is_aggregated(call.resource);
        match result {
            Ok(502..=504) if !is_aggregated() => {
                let message = "the answer is that no server is there".to_owned();
                let code = result.ok();
                self.reachability().failed(began, &call.error(ErrorClass::Transient, message, code));
            }
            // Behind the API server, another one is away.
            Ok(502..=504) => {}
            Ok(_) => self.is_back(),
            Err(error) if error.class == ErrorClass::Transient => {
                // Without a connection, it is none of the aggregated API.
                if !is_aggregated() || !error.may_have_taken_effect() {
                    self.reachability().failed(began, error);
                }
            }
            Err(_) => {}
        }
    }

    /// The API server has answered something.
    pub(super) fn is_back(&self) {
        if self.reachability().succeeded() {
            self.bulkhead().close_circuits();
        }
    }
}
