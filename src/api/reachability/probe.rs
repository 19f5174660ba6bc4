//! Holds requests during an outage, and probes the API server.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

#[cfg(test)]
use super::Outage;
use super::log;
use super::state::OutageDecision;
use super::unanswered::{self, Lines};
use crate::api::call::{Call, discovery_resource};
use crate::api::client::Api;
use crate::api::error::{ApiError, ErrorClass};
use crate::api::media_type::JSON;
use crate::api::settings::Verb;
use crate::telemetry::record;

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
        self.reachability().is_down()
    }

    /// The present outage, once it is confirmed.
    #[cfg(test)]
    #[must_use]
    pub fn outage(&self) -> Option<Outage> {
        let now = Instant::now();
        let outage = self.reachability().with(|state| {
            state.outage().map(|(since, error)| (now.saturating_duration_since(since), error.to_owned()))
        });
        outage.map(|(lasts, error)| Outage { since: self.settings().clock.now() - lasts, error })
    }

    /// Changes whenever an outage ends.
    #[must_use]
    pub fn recoveries(&self) -> watch::Receiver<u64> {
        self.reachability().recoveries()
    }

    /// Whether to log one more decision whose request got no answer or was not sent. A few are
    /// logged; all are counted in the metrics.
    #[must_use]
    pub fn may_log_unanswered(&self) -> bool {
        let reachability = self.reachability();
        if reachability.is_down() {
            return false;
        }
        let lines = reachability.with(|state| state.unanswered.one_more(Instant::now()));
        if lines == Lines::Last {
            tracing::warn!(
                "many requests get no answer or cannot be sent; their decisions are not logged one by one for \
                 {} s, only counted in kube_gc_decisions_total",
                unanswered::WINDOW.as_secs()
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
        let is_due = self.reachability().with(|state| state.is_probe_due(Instant::now()));
        (!is_due).then(|| self.held_error("WAIT", "the API server".to_owned()))
    }

    /// Waits until the API server is reachable, and sends the probes that are due.
    pub(in crate::api) async fn reachable(&self) {
        let mut recoveries = self.recoveries();
        loop {
            let (decision, news) = self.reachability().with(|state| state.admit(Instant::now()));
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
    pub(in crate::api) async fn pass(&self, call: &Call<'_>) -> Result<(), ApiError> {
        if !self.is_unreachable() {
            return Ok(());
        }
        let mut recoveries = self.recoveries();
        let (decision, news) = self.reachability().with(|state| state.admit(Instant::now()));
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
    pub(in crate::api) fn pass_at_once(&self, call: &Call<'_>) -> Result<(), ApiError> {
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
            log(self.reachability().with(|state| state.probe_failed(Instant::now(), &error)));
        }
    }

    /// Notes the result of a request that began at `began`.
    pub(in crate::api) fn note_reachable(
        &self,
        call: &Call<'_>,
        began: Instant,
        result: Result<u16, &ApiError>,
    ) {
        if self.refusals().note(result) {
            self.reachability().recovered();
        }
        let is_aggregated = || self.is_aggregated(call.resource);
        match result {
            Ok(502..=504) if !is_aggregated() => {
                let message = "a proxy answered that no API server is available".to_owned();
                let code = result.ok();
                self.reachability().failed(began, &call.error(ErrorClass::Transient, message, code));
            }
            // An aggregated API is unavailable, not the API server.
            Ok(502..=504) => {}
            Ok(_) => self.is_back(),
            Err(error) if error.class == ErrorClass::Transient => {
                // Without a connection, the request did not get as far as the aggregated API.
                if !is_aggregated() || !error.may_have_taken_effect() {
                    self.reachability().failed(began, error);
                }
            }
            Err(_) => {}
        }
    }

    /// The API server answered something.
    pub(in crate::api) fn is_back(&self) {
        if self.reachability().succeeded() {
            self.bulkhead().close_circuits();
        }
    }
}
