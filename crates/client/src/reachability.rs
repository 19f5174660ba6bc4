//! Whether the API server is reachable, and whether it accepts the credentials.
//!
//! During an outage, every request fails by itself: those of thousands of keys, one watch for each type,
//! and discovery. Each has its own backoff, which would go on after the server is back. So the outage is
//! tracked in one place:
//!
//! - Three failures in a row (no connection, no answer in time, or 502, 503 and 504) raise the
//!   suspicion of an outage. From then on requests are held: those about objects fail at once
//!   with [`Deferred`](ErrorClass::Deferred), and lists and watches wait.
//! - A caller that would send a request while a probe is due sends the probe: `GET /version`,
//!   after 0.1 s at first and later once a second, however many callers wait. If the first
//!   probe is answered, nothing is logged.
//! - Any answer ends the outage, an event of a watch included. Then all waiting callers are
//!   woken at once, and their backoffs are reset.
//!
//! An aggregated API is another server behind the API server: its 503 and its silence do not
//! count. The elector has its own client and goes on renewing its lease.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::call::{Call, JSON};
use super::client::Api;
use super::error::{ApiError, ErrorClass};
use kube_gc_observe::telemetry::record;

/// Whether the API server is reachable.
#[derive(Debug)]
pub(super) struct Reachability {
    state: Mutex<State>,
    /// The number of outages and refusals that are over.
    recoveries: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    outages: Outages,
    refusals: Refusals,
}

impl Reachability {
    pub fn new() -> Self {
        record::api_server_reachable(true);
        Self { state: Mutex::default(), recoveries: watch::Sender::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No change can panic halfway.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Something has ended that made every request fail.
    fn recovered(&self) {
        self.recoveries.send_modify(|count| *count += 1);
    }
}

/// The retry time of a held request. The end of the outage wakes it earlier.
const HELD_FOR: Duration = Duration::from_secs(5);
/// The retry time during a mere suspicion. No waiter is woken when the suspicion ends: a server that
/// often fails must not be flooded.
const HELD_FOR_A_MOMENT: Duration = Duration::from_millis(100);
/// The time limit of a probe.
const PROBE_AT_MOST: Duration = Duration::from_secs(10);

impl Api {
    /// Whether requests are held, because the API server is or seems unreachable.
    pub fn is_unreachable(&self) -> bool {
        self.0.reachability.state().outages.is_down()
    }

    /// The last error of the present outage, once it is confirmed.
    pub fn outage(&self) -> Option<String> {
        self.0.reachability.state().outages.outage().map(str::to_owned)
    }

    /// Changes whenever an outage ends, or a refusal of the credentials.
    pub fn recoveries(&self) -> watch::Receiver<u64> {
        self.0.reachability.recoveries.subscribe()
    }

    /// The error of a request that would be held now. For a caller that is about to begin work
    /// that ends in a request.
    pub fn held(&self) -> Option<ApiError> {
        // Unless the caller would send the probe.
        let is_held = {
            let state = self.0.reachability.state();
            state.outages.is_down() && !state.outages.is_probe_due(Instant::now())
        };
        is_held.then(|| self.held_error("WAIT", "the API server".to_owned()))
    }

    /// Waits until the API server is reachable, and sends the probes that are due.
    pub(super) async fn reachable(&self) {
        let mut recoveries = self.recoveries();
        while let Some(wait) = self.probe_if_due(&mut recoveries).await {
            // The sender lives as long as this client.
            let _ = timeout(wait, recoveries.changed()).await;
        }
    }

    /// Before a request: sends a probe if one is due, and fails if requests are held.
    ///
    /// # Errors
    /// The request is held.
    pub(super) async fn pass(&self, call: &Call<'_>) -> Result<(), ApiError> {
        if self.is_unreachable() {
            self.probe_if_due(&mut self.recoveries()).await;
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
        let is_confirmed = self.0.reachability.state().outages.outage().is_some();
        let retry_after = if is_confirmed { HELD_FOR } else { HELD_FOR_A_MOMENT };
        let class = ErrorClass::Deferred { retry_after, unborn: false };
        ApiError::new(class, action, target, "not sent: the API server is unreachable")
    }

    /// Sends a probe if one is due, and waits for its answer or for the answer to another request.
    /// Returns how long to wait before the next one; `None` if requests are not held.
    async fn probe_if_due(&self, recoveries: &mut watch::Receiver<u64>) -> Option<Duration> {
        let admission = self.0.reachability.state().outages.admit(Instant::now());
        match admission {
            Admission::Pass => return None,
            Admission::Wait(wait) => return Some(wait),
            Admission::Probe => {}
        }
        let probe = timeout(PROBE_AT_MOST, Box::pin(self.exchange(Call::discover("/version", JSON))));
        let error = tokio::select! {
            biased;
            _ = recoveries.changed() => return Some(Duration::ZERO),
            answer = probe => match answer {
                // The answer itself was noted as a success.
                Ok(Ok(_)) => return Some(Duration::ZERO),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("GET /version: no answer within {PROBE_AT_MOST:?}"),
            }
        };
        self.0.reachability.state().outages.probe_failed(Instant::now(), error);
        Some(Duration::ZERO)
    }

    /// Notes the result of a request that began at `began`.
    pub(super) fn note_reachable(&self, call: &Call<'_>, began: Instant, result: Result<u16, &ApiError>) {
        if self.0.reachability.state().refusals.note(result) {
            self.0.reachability.recovered();
        }
        let failed = |error: &ApiError| {
            self.0.reachability.state().outages.failed(began, Instant::now(), error);
        };
        let is_aggregated = || self.is_aggregated(call.resource);
        match result {
            Ok(code @ 502..=504) => {
                // An aggregated API may be unavailable, and the API server not.
                if !is_aggregated() {
                    let message = "a proxy answered that no API server is available";
                    failed(&call.error(ErrorClass::Transient, message, Some(code)));
                }
            }
            Ok(_) => self.is_back(),
            Err(error) if error.class == ErrorClass::Transient => {
                // Without a connection, the request did not get as far as the aggregated API.
                if !is_aggregated() || !error.may_have_taken_effect() {
                    failed(error);
                }
            }
            Err(_) => {}
        }
    }

    /// The API server answered something.
    pub(super) fn is_back(&self) {
        let is_recovery = self.0.reachability.state().outages.succeeded(Instant::now());
        if is_recovery {
            self.0.reachability.recovered();
            // What failed was the API server as a whole.
            self.0.limits.resume();
        }
    }
}

/// How many failures in a row raise the suspicion of an outage. The first probe confirms it or not.
const FAILURES: u32 = 3;
/// The wait between the first two probes; doubled with each probe.
const FIRST_PROBE: Duration = Duration::from_millis(100);
/// The longest wait between two probes. The next one is sent even if the previous one is still in
/// flight: a server that leaves one request unanswered may answer the next.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// A suspicion that lasts this long is an outage.
const CONFIRMED_AFTER: Duration = Duration::from_secs(1);
/// How often a lasting outage is logged.
const SAID_EVERY: Duration = Duration::from_secs(30);

/// Whether a request may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Admission {
    Pass,
    /// A probe is due, and the caller is to send it.
    Probe,
    /// No. The next probe is due after this time.
    Wait(Duration),
}

/// The failures since the last success, and the outage that follows from them.
#[derive(Debug, Default)]
struct Outages {
    last_success: Option<Instant>,
    failures: u32,
    first_failure: Option<Instant>,
    outage: Option<Outage>,
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

impl Outages {
    pub const fn is_down(&self) -> bool {
        self.outage.is_some()
    }

    /// The last error of an outage that is confirmed.
    pub fn outage(&self) -> Option<&str> {
        self.outage.as_ref().filter(|outage| outage.said.is_some()).map(|outage| &*outage.error)
    }

    /// A request has failed that began then.
    pub fn failed(&mut self, began: Instant, now: Instant, error: &ApiError) {
        // A request that began before the last success may have met the previous server.
        if self.last_success.is_some_and(|success| began < success) {
            return;
        }
        if let Some(outage) = &mut self.outage {
            outage.error = error.to_string();
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
                wait: FIRST_PROBE,
                probes: 0,
                held: 0,
                error: error.to_string(),
            });
        }
    }

    /// A request was answered. Returns whether that ends a confirmed outage.
    pub fn succeeded(&mut self, now: Instant) -> bool {
        self.last_success = Some(now);
        self.failures = 0;
        self.first_failure = None;
        let Some(Outage { since, said: Some(said), probes, held, .. }) = self.outage.take() else {
            return false;
        };
        record::api_server_reachable(true);
        record::api_server_outage(now - said);
        let seconds = (now - since).as_secs_f64();
        tracing::info!(
            seconds,
            probes,
            held,
            "the API server is reachable again; the requests that were held are sent"
        );
        true
    }

    /// Whether a caller that would send a request now is to probe.
    pub fn is_probe_due(&self, now: Instant) -> bool {
        self.outage.as_ref().is_some_and(|outage| now >= outage.next_probe)
    }

    /// Whether a request may be sent.
    pub fn admit(&mut self, now: Instant) -> Admission {
        let Some(outage) = &mut self.outage else { return Admission::Pass };
        if now < outage.next_probe {
            outage.held += 1;
            return Admission::Wait(outage.next_probe - now);
        }
        outage.next_probe = now + outage.wait;
        outage.wait = (outage.wait * 2).min(PROBE_EVERY);
        outage.say(now, now - outage.suspected >= CONFIRMED_AFTER);
        outage.probes += 1;
        Admission::Probe
    }

    pub fn probe_failed(&mut self, now: Instant, error: String) {
        if let Some(outage) = &mut self.outage {
            outage.error = error;
            outage.say(now, true);
        }
    }
}

impl Outage {
    /// Logs the outage, when it is confirmed and from time to time.
    fn say(&mut self, now: Instant, is_confirmed: bool) {
        let error = &self.error;
        match self.said {
            None if is_confirmed => {
                record::api_server_reachable(false);
                tracing::error!(
                    error,
                    "the API server is unreachable; requests are held until it answers a probe"
                );
            }
            Some(said) if now - said >= SAID_EVERY => {
                let (seconds, probes, held) = ((now - self.since).as_secs_f64(), self.probes, self.held);
                tracing::warn!(seconds, probes, held, error, "the API server is still unreachable");
            }
            _ => return,
        }
        record::api_server_outage(now - self.said.unwrap_or(self.since));
        self.said = Some(now);
    }
}

/// The least time between two lines that say that the credentials are refused. One of several API servers
/// may refuse what the others accept.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// Whether the last answer was a refusal of the credentials. One that new credentials end is not seen here:
/// the client repeats the request by itself.
#[derive(Debug, Default)]
struct Refusals {
    /// Since when, and the last reason.
    refused: Option<(SystemTime, String)>,
    logged: Option<Instant>,
}

impl Refusals {
    /// Notes the result of a request. Returns whether it ended a refusal.
    fn note(&mut self, result: Result<u16, &ApiError>) -> bool {
        match result {
            Ok(401) => self.refused("401 Unauthorized"),
            // There are none, because an exec plugin failed.
            Err(error) if error.class == ErrorClass::Denied && error.code.is_none() => {
                self.refused(&error.message);
            }
            Ok(_) => {
                let Some((since, _)) = self.refused.take() else { return false };
                record::credentials_refused(false);
                let seconds = since.elapsed().unwrap_or_default().as_secs_f64();
                tracing::info!(seconds, "the API server accepts the credentials again");
                return true;
            }
            Err(_) => {}
        }
        false
    }

    fn refused(&mut self, why: &str) {
        if let Some((_, last)) = &mut self.refused {
            why.clone_into(last);
            return;
        }
        self.refused = Some((SystemTime::now(), why.to_owned()));
        record::credentials_refused(true);
        if self.logged.is_none_or(|logged| logged.elapsed() >= LINE_INTERVAL) {
            self.logged = Some(Instant::now());
            tracing::error!(
                error = why,
                "the API server refuses the credentials, or an exec plugin has none; nothing is collected \
                 until this is repaired: renew the certificate, the token or the login"
            );
        }
    }
}

impl Api {
    /// Since when the API server has refused the credentials, and why; `None` if it accepts them.
    pub fn refused_credentials(&self) -> Option<(SystemTime, String)> {
        self.0.reachability.state().refusals.refused.clone()
    }
}

#[cfg(test)]
mod tests;
