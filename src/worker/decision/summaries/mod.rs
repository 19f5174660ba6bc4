//! Summaries in the log instead of a line for each decision.
//!
//! A cascade of 100,000 objects has as many decisions, which nobody reads one by one. Only
//! decisions that succeeded are summed up: a failure, a refusal or an object that waits always has
//! the line that it had.

mod aggregator;
mod counts;
mod period;
#[cfg(test)]
mod tests;

use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::ser::{Serialize, SerializeStruct as _, Serializer};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

pub use self::aggregator::{DecisionLines, LoggedAs};
pub use self::counts::Counted;
pub use self::period::Subject;

use self::aggregator::{Aggregator, Finished, MAX_RATE};
use self::period::{Kind, Summary, SummaryOf};
use crate::telemetry::logging::{self, PendingLines};
use crate::telemetry::{Structured, owner_reference, record};
use kube_gc_core::object::Namespace;
use kube_gc_core::text::word;

/// Sums up decisions for the log. Clones share the sums.
#[derive(Clone, Debug)]
pub struct Summaries(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    aggregator: Mutex<Aggregator>,
    /// Wakes the task: there is something to sum up.
    begun: Notify,
}

impl Summaries {
    /// The summaries, and the task that must be run for them.
    pub fn new(lines: DecisionLines, ending: CancellationToken) -> (Self, impl Future<Output = ()> + Send) {
        let inner = Inner { aggregator: Mutex::new(Aggregator::new(lines)), begun: Notify::new() };
        let inner = Arc::new(inner);
        // The process may end without having stopped the collector.
        logging::before_end(Arc::downgrade(&inner) as _);
        let summaries = Self(inner);
        let task = summaries.clone();
        (summaries, async move { ending.run_until_cancelled(task.run()).await.unwrap_or_default() })
    }

    /// No summaries, and no task.
    #[cfg(test)]
    #[must_use]
    pub fn off() -> Self {
        let aggregator = Mutex::new(Aggregator::new(DecisionLines::All));
        Self(Arc::new(Inner { aggregator, begun: Notify::new() }))
    }

    /// Counts a decision that succeeded, and returns how the log is to show it.
    pub fn add(&self, decision: impl FnOnce() -> (Subject, Counted)) -> LoggedAs {
        let mut aggregator = self.0.aggregator();
        let (shown, finished) = aggregator.add(Instant::now(), decision);
        drop(aggregator);
        write(finished);
        if shown == LoggedAs::FirstSummary {
            tracing::info!(
                "more than {MAX_RATE} decisions in a second: the log has summaries per owner and second until the \
                 rate falls; to log each decision, set log.decisions = \"all\""
            );
        }
        if matches!(shown, LoggedAs::Summary | LoggedAs::FirstSummary) {
            record::decision_in_summary();
            self.0.begun.notify_one();
        }
        shown
    }

    /// Writes what has been summed up so far. From now on, each decision has a line.
    pub fn close(&self) {
        self.0.write_lines();
    }

    /// Ends each period in time, although no further decision follows.
    async fn run(self) {
        loop {
            self.0.begun.notified().await;
            let ends = self.0.aggregator().ends();
            if let Some(ends) = ends {
                sleep_until(ends).await;
                let finished = self.0.aggregator().end_period(Instant::now());
                write(finished);
            }
        }
    }
}

impl Inner {
    fn aggregator(&self) -> MutexGuard<'_, Aggregator> {
        // After a panic, a summary may count one decision too many or too few.
        self.aggregator.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingLines for Inner {
    fn write_lines(&self) {
        let finished = self.aggregator().close(Instant::now());
        write(finished);
    }
}

/// Nothing is lost if the collector is dropped instead of stopped.
impl Drop for Inner {
    fn drop(&mut self) {
        self.write_lines();
    }
}

fn write(finished: Option<Finished>) {
    let Some(Finished { lasted, summaries }) = finished else { return };
    let seconds = (lasted.as_secs_f64() * 1000.0).round() / 1000.0;
    for Summary { of, counts } in summaries {
        let (namespace, owner, message) = match of {
            SummaryOf::Owner(Subject { namespace, owner }) => {
                (namespace, Some(owner_reference(&owner)), "summary of decisions")
            }
            SummaryOf::Kind(kind) => (
                kind.namespace.clone(),
                Some(Structured::field(LoggedKind(kind))),
                "summary of decisions: other owners of this kind",
            ),
            SummaryOf::Others => (None, None, "summary of decisions: all other owners"),
        };
        tracing::info!(
            namespace = namespace.as_ref().map(Namespace::as_str),
            owner = owner.as_ref().map(Structured::logged),
            count = counts.total(),
            counts = Structured::field(counts).logged(),
            seconds,
            "{message}"
        );
    }
}

/// The kind of several owners, in the form of one owner.
#[derive(Debug)]
struct LoggedKind(Kind);

impl Display for LoggedKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Kind { api_version, kind, .. } = &self.0;
        // Quoted, because it may have spaces.
        fmt::Debug::fmt(&format!("{}/{}", word(api_version), word(kind)), f)
    }
}

impl Serialize for LoggedKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Kind { api_version, kind, .. } = &self.0;
        let mut fields = serializer.serialize_struct("Owner", 2)?;
        fields.serialize_field("api_version", &word(api_version).to_string())?;
        fields.serialize_field("kind", &word(kind).to_string())?;
        fields.end()
    }
}
