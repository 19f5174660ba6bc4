//! The rules of reachability, as a state machine without a clock.

use std::time::Duration;

use tokio::time::Instant;

use super::unanswered::Unanswered;

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
pub(super) enum OutageDecision {
    /// Yes.
    Pass,
    /// A probe is due, and the caller is to send it.
    Probe,
    /// No. The next probe is due after this time.
    Wait(Duration),
}

/// A change to log. `more` is the duration of the outage since the last one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OutageReport {
    /// The API server is unreachable.
    Down { more: Duration, error: String },
    /// It is still unreachable.
    StillDown { more: Duration, lasts: Duration, probes: u64, held: u64, error: String },
    /// It is reachable again.
    Back { more: Duration, lasted: Duration, probes: u64, held: u64 },
}

/// The failures since the last success, and the outage that follows from them.
#[derive(Debug, Default)]
pub(super) struct State {
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

    /// Whether anything has failed since the last success.
    pub const fn is_troubled(&self) -> bool {
        self.failures > 0 || self.outage.is_some()
    }

    /// When the confirmed outage began, and its last error.
    pub fn outage(&self) -> Option<(Instant, &str)> {
        let outage = self.outage.as_ref().filter(|outage| outage.said.is_some())?;
        Some((outage.since, &outage.error))
    }

    /// A request that began after the last success has failed.
    pub fn failed(&mut self, now: Instant, error: &str) {
        if let Some(outage) = &mut self.outage {
            error.clone_into(&mut outage.error);
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
                error: error.to_owned(),
            });
        }
    }

    /// A request was answered.
    pub fn succeeded(&mut self, now: Instant) -> Option<OutageReport> {
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
