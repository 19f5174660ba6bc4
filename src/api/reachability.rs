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

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::call::{Call, JSON, discovery_resource};
use super::client::Api;
use super::error::{ApiError, ErrorClass};
use super::settings::Verb;
use crate::telemetry::record;

/// Whether the API server is reachable.
#[derive(Debug)]
pub(super) struct Reachability {
    state: Mutex<State>,
    /// The number of outages and refusals that are over.
    recoveries: watch::Sender<u64>,
}

impl Default for Reachability {
    fn default() -> Self {
        record::api_server_reachable(true);
        Self { state: Mutex::default(), recoveries: watch::Sender::new(0) }
    }
}

impl Reachability {
    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        // No change can panic halfway.
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether requests are held.
    pub fn is_down(&self) -> bool {
        self.with(|state| state.is_down())
    }

    /// A request that began then got no answer, or a 502, 503 or 504.
    pub fn failed(&self, began: Instant, error: &ApiError) {
        self.with(|state| state.failed(began, Instant::now(), || error.to_string()));
    }

    /// Something was answered. Returns whether that ended an outage. The end of a mere
    /// suspicion resets no backoff: a server that often fails must not be flooded.
    pub fn succeeded(&self) -> bool {
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
        self.recoveries.send_modify(|count| *count += 1);
    }

    /// Changes whenever an outage ends, or a refusal of the credentials.
    pub fn recoveries(&self) -> watch::Receiver<u64> {
        self.recoveries.subscribe()
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

/// The retry time of a held request. The end of the outage wakes it earlier.
const HELD_FOR: Duration = Duration::from_secs(5);
/// The retry time during a mere suspicion. No waiter is woken when the suspicion ends.
const HELD_FOR_A_MOMENT: Duration = Duration::from_millis(100);
/// The time limit of a probe.
const PROBE_AT_MOST: Duration = Duration::from_secs(10);

impl Api {
    /// Whether requests are held, because the API server is or seems unreachable.
    #[must_use]
    pub fn is_unreachable(&self) -> bool {
        self.0.reachability.is_down()
    }

    /// The last error of the present outage, once it is confirmed.
    #[cfg(test)]
    #[must_use]
    pub fn outage(&self) -> Option<String> {
        self.0.reachability.with(|state| state.outage().map(str::to_owned))
    }

    /// Changes whenever an outage ends.
    #[must_use]
    pub fn recoveries(&self) -> watch::Receiver<u64> {
        self.0.reachability.recoveries()
    }

    /// Whether to log one more decision whose request got no answer or was not sent. A few are
    /// logged; all are counted in the metrics.
    #[must_use]
    pub fn may_log_unanswered(&self) -> bool {
        let reachability = &self.0.reachability;
        if reachability.is_down() {
            return false;
        }
        let lines = reachability.with(|state| state.unanswered.one_more(Instant::now()));
        if lines == Lines::Last {
            tracing::warn!(
                "many requests get no answer or cannot be sent; their decisions are not logged one by one for \
                 {} s, only counted in kube_gc_decisions_total",
                WINDOW.as_secs()
            );
        }
        lines == Lines::Another
    }

    /// The error of a request that would be held now. For a caller that is about to begin work
    /// that ends in a request.
    #[must_use]
    pub fn held(&self) -> Option<ApiError> {
        if !self.is_unreachable() {
            return None;
        }
        // Unless the caller would send the probe.
        let is_due = self.0.reachability.with(|state| state.is_probe_due(Instant::now()));
        (!is_due).then(|| self.held_error("WAIT", "the API server".to_owned()))
    }

    /// Waits until the API server is reachable, and sends the probes that are due.
    pub(super) async fn reachable(&self) {
        let mut recoveries = self.recoveries();
        loop {
            let (decision, news) = self.0.reachability.with(|state| state.admit(Instant::now()));
            log(news);
            match decision {
                OutageDecision::Pass => return,
                OutageDecision::Wait(wait) => {
                    // The sender lives as long as this client.
                    let _ = timeout(wait, recoveries.changed()).await;
                }
                OutageDecision::Probe => self.probe_once(&mut recoveries).await,
            }
        }
    }

    /// Before a request: sends a probe if one is due, and fails if requests are held.
    ///
    /// # Errors
    /// The request is held.
    pub(super) async fn pass(&self, call: &Call<'_>) -> Result<(), ApiError> {
        if !self.is_unreachable() {
            return Ok(());
        }
        let mut recoveries = self.recoveries();
        let (decision, news) = self.0.reachability.with(|state| state.admit(Instant::now()));
        log(news);
        if decision == OutageDecision::Probe {
            self.probe_once(&mut recoveries).await;
        }
        self.pass_at_once(call)
    }

    /// As [`pass`](Self::pass), without a probe: it never waits.
    ///
    /// # Errors
    /// The request is held.
    pub(super) fn pass_at_once(&self, call: &Call<'_>) -> Result<(), ApiError> {
        if !self.is_unreachable() {
            return Ok(());
        }
        record::request_deferred("unreachable");
        let error = self.held_error(call.action, String::new());
        Err(call.error(error.class, error.message, None))
    }

    fn held_error(&self, action: &'static str, target: String) -> ApiError {
        let is_confirmed = self.0.reachability.with(|state| state.outage().is_some());
        let retry_after = if is_confirmed { HELD_FOR } else { HELD_FOR_A_MOMENT };
        let message = "not sent: the API server is unreachable".to_owned();
        let class = ErrorClass::Deferred { retry_after, unborn: false };
        ApiError { class, action, target, message, code: None }
    }

    /// Sends a probe, and waits for its answer or for the answer to another request.
    async fn probe_once(&self, recoveries: &mut watch::Receiver<u64>) {
        let discovery = discovery_resource();
        let call = Call::get(Verb::Discover, "/version".into(), JSON, &discovery);
        let probe = timeout(PROBE_AT_MOST, Box::pin(self.exchange(call)));
        let error = tokio::select! {
            biased;
            _ = recoveries.changed() => return,
            answer = probe => match answer {
                // The answer itself was noted as a success.
                Ok((Ok(_), _)) => return,
                Ok((Err(error), _)) => error.to_string(),
                Err(_) => format!("GET /version: no answer within {PROBE_AT_MOST:?}"),
            }
        };
        if self.is_unreachable() {
            log(self.0.reachability.with(|state| state.probe_failed(Instant::now(), &error)));
        }
    }

    /// Notes the result of a request that began at `began`.
    pub(super) fn note_reachable(&self, call: &Call<'_>, began: Instant, result: Result<u16, &ApiError>) {
        if self.0.refusals.note(result) {
            self.0.reachability.recovered();
        }
        let is_aggregated = || self.is_aggregated(call.resource);
        match result {
            Ok(502..=504) if !is_aggregated() => {
                let message = "a proxy answered that no API server is available".to_owned();
                let code = result.ok();
                self.0.reachability.failed(began, &call.error(ErrorClass::Transient, message, code));
            }
            // An aggregated API is unavailable, not the API server.
            Ok(502..=504) => {}
            Ok(_) => self.is_back(),
            Err(error) if error.class == ErrorClass::Transient => {
                // Without a connection, the request did not get as far as the aggregated API.
                if !is_aggregated() || !error.may_have_taken_effect() {
                    self.0.reachability.failed(began, error);
                }
            }
            Err(_) => {}
        }
    }

    /// The API server answered something.
    pub(super) fn is_back(&self) {
        if self.0.reachability.succeeded() {
            self.0.bulkhead.close_circuits();
        }
    }
}

/// How many failures in a row raise the suspicion of an outage. The first probe confirms it or
/// not.
const FAILURES: u32 = 3;
/// The wait between the first two probes; doubled with each probe.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The longest wait between two probes. The next one is sent even if the previous one is still
/// in flight: a server that leaves one request unanswered may answer the next.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// A suspicion that lasts this long is an outage.
const CONFIRMED_AFTER: Duration = Duration::from_secs(1);
/// How often a lasting outage is logged.
const SAID_EVERY: Duration = Duration::from_secs(30);

/// Whether a request may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutageDecision {
    /// Yes.
    Pass,
    /// A probe is due, and the caller is to send it.
    Probe,
    /// No. The next probe is due after this time.
    Wait(Duration),
}

/// A change to log. `more` is the duration of the outage since the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OutageReport {
    /// The API server is unreachable.
    Down { more: Duration, error: String },
    /// It is still unreachable.
    StillDown { more: Duration, lasts: Duration, probes: u64, held: u64, error: String },
    /// It is reachable again.
    Back { more: Duration, lasted: Duration, probes: u64, held: u64 },
}

/// The failures since the last success, and the outage that follows from them.
#[derive(Debug, Default)]
struct State {
    last_success: Option<Instant>,
    failures: u32,
    first_failure: Option<Instant>,
    outage: Option<Outage>,
    /// Limits the log lines about unanswered requests.
    pub unanswered: Unanswered,
}

/// An outage, or the suspicion of one.
#[derive(Debug)]
struct Outage {
    since: Instant,
    suspected: Instant,
    /// When it was last logged.
    said: Option<Instant>,
    next_probe: Instant,
    wait: Duration,
    probes: u64,
    held: u64,
    error: String,
}

impl State {
    /// Whether requests are held.
    pub const fn is_down(&self) -> bool {
        self.outage.is_some()
    }

    /// The last error of the confirmed outage.
    pub fn outage(&self) -> Option<&str> {
        let outage = self.outage.as_ref().filter(|outage| outage.said.is_some())?;
        Some(&outage.error)
    }

    /// A request has failed.
    pub fn failed(&mut self, began: Instant, now: Instant, error: impl FnOnce() -> String) {
        // A request that began before the last success may have met the previous server.
        if self.last_success.is_some_and(|success| began < success) {
            return;
        }
        if let Some(outage) = &mut self.outage {
            outage.error = error();
            return;
        }
        self.failures += 1;
        let since = *self.first_failure.get_or_insert(now);
        if self.failures >= FAILURES {
            self.outage = Some(Outage {
                since,
                suspected: now,
                said: None,
                next_probe: now,
                wait: FIRST_WAIT,
                probes: 0,
                held: 0,
                error: error(),
            });
        }
    }

    /// A request was answered.
    pub fn succeeded(&mut self, now: Instant) -> Option<OutageReport> {
        self.last_success = Some(now);
        self.failures = 0;
        self.first_failure = None;
        let Outage { since, said, probes, held, .. } = self.outage.take()?;
        said.map(|said| OutageReport::Back { more: now - said, lasted: now - since, probes, held })
    }

    /// Whether a caller that would send a request now is to probe.
    pub fn is_probe_due(&self, now: Instant) -> bool {
        self.outage.as_ref().is_some_and(|outage| now >= outage.next_probe)
    }

    /// Whether a request may be sent, and what to log.
    pub fn admit(&mut self, now: Instant) -> (OutageDecision, Option<OutageReport>) {
        let Some(outage) = &mut self.outage else { return (OutageDecision::Pass, None) };
        if now < outage.next_probe {
            outage.held += 1;
            let wait = outage.next_probe - now;
            return (OutageDecision::Wait(wait), None);
        }
        outage.next_probe = now + outage.wait;
        outage.wait = (outage.wait * 2).min(LONGEST_WAIT);
        let is_confirmed = now - outage.suspected >= CONFIRMED_AFTER;
        let report = outage.report(now, is_confirmed);
        outage.probes += 1;
        (OutageDecision::Probe, report)
    }

    /// A probe failed.
    pub fn probe_failed(&mut self, now: Instant, error: &str) -> Option<OutageReport> {
        let outage = self.outage.as_mut()?;
        error.clone_into(&mut outage.error);
        outage.report(now, true)
    }
}

impl Outage {
    fn report(&mut self, now: Instant, is_confirmed: bool) -> Option<OutageReport> {
        let error = || self.error.clone();
        let more = now - self.said.unwrap_or(self.since);
        let report = match self.said {
            None if is_confirmed => OutageReport::Down { more, error: error() },
            Some(said) if now - said >= SAID_EVERY => OutageReport::StillDown {
                more,
                lasts: now - self.since,
                probes: self.probes,
                held: self.held,
                error: error(),
            },
            _ => return None,
        };
        self.said = Some(now);
        Some(report)
    }
}

/// The greatest number of lines in a window.
const AT_MOST: u32 = 16;
/// The length of a window.
const WINDOW: Duration = Duration::from_secs(10);

/// The number of lines in the present window.
#[derive(Debug, Default)]
struct Unanswered {
    began: Option<Instant>,
    lines: u32,
}

/// Whether to log a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lines {
    /// Yes.
    Another,
    /// A line that says that no more follow.
    Last,
    /// No.
    Full,
}

impl Unanswered {
    /// Counts one more unanswered request.
    pub fn one_more(&mut self, now: Instant) -> Lines {
        if self.began.is_none_or(|began| now - began >= WINDOW) {
            (self.began, self.lines) = (Some(now), 0);
        }
        self.lines = self.lines.saturating_add(1);
        match self.lines {
            lines if lines <= AT_MOST => Lines::Another,
            lines if lines == AT_MOST + 1 => Lines::Last,
            _ => Lines::Full,
        }
    }
}

#[cfg(test)]
mod tests;
