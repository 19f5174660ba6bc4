//! Summaries in the log instead of a line for each decision.
//!
//! A cascade of 100,000 objects has as many decisions, which nobody reads one by one. Only
//! decisions that succeeded are summed up: a failure, a refusal or an object that waits always has
//! the line that it had.
//!
//! Owners, kinds and namespaces come from the cluster, so their number is bounded twice: by the
//! memory that a period takes and by the lines that it becomes. Whatever does not fit is counted
//! in one sum, so the totals of all lines are the number of all decisions.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::ser::Serializer;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use kube_gc_config::DecisionLines;
use kube_gc_core::object::{GroupResource, Namespace, OwnerReference};
use kube_gc_core::text::{LISTED, listed};
use kube_gc_observe::telemetry::logging::{self, PendingLines};
use kube_gc_observe::telemetry::{Structured, owner_reference, record};

/// How the log shows a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedAs {
    /// By a line of its own.
    Line,
    /// In the number of a summary.
    Summary,
    /// Not at all.
    Hidden,
}

/// Decisions a second that have a line each with [`DecisionLines::Auto`].
const MAX_RATE: u32 = 20;
/// What one summary covers.
const PERIOD: Duration = Duration::from_secs(1);
/// How many owners have a sum of their own while a period lasts.
const MAX_SUMS: usize = 1000;
/// How many owners have a line of their own. These are the ones with the most decisions.
const MAX_LINES: usize = 10;

/// Sums up decisions for the log. Clones share the sums.
#[derive(Clone, Debug)]
pub struct Summaries(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    period: Mutex<Period>,
    /// Wakes the task: there is something to sum up.
    begun: Notify,
}

impl Summaries {
    /// No decisions yet. Its task must [run](Self::run).
    pub fn new(lines: DecisionLines) -> Self {
        let (period, begun) = (Mutex::new(Period::new(lines)), Notify::new());
        let summaries = Self(Arc::new(Inner { period, begun }));
        // The process may end without having stopped the collector.
        logging::before_end(Arc::downgrade(&summaries.0) as _);
        summaries
    }

    /// Counts a decision that succeeded, and returns how the log is to show it.
    pub fn add(&self, decision: impl FnOnce() -> (Group, Counted)) -> LoggedAs {
        let mut period = self.0.period();
        let was_above = period.is_above;
        let (shown, finished) = period.add(Instant::now(), decision);
        let is_above = period.is_above;
        drop(period);
        write(finished);
        if is_above && !was_above {
            tracing::info!(
                "more than {MAX_RATE} decisions in a second: the log has summaries per owner and second until the \
                 rate falls; to log each decision, set log.decisions = \"all\""
            );
        }
        if shown == LoggedAs::Summary {
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
    pub async fn run(self) {
        loop {
            self.0.begun.notified().await;
            let ends = self.0.period().ends();
            if let Some(ends) = ends {
                sleep_until(ends).await;
                let finished = self.0.period().end(Instant::now());
                write(finished);
            }
        }
    }
}

impl Inner {
    fn period(&self) -> MutexGuard<'_, Period> {
        // After a panic, a summary may count one decision too many or too few.
        self.period.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingLines for Inner {
    fn write_lines(&self) {
        let finished = self.period().close(Instant::now());
        write(finished);
    }
}

/// Nothing is lost if the collector is dropped instead of stopped.
impl Drop for Inner {
    fn drop(&mut self) {
        self.write_lines();
    }
}

/// How long a period lasted, and its summaries. That of all other owners has no group.
type Finished = (Duration, Vec<(Option<Group>, Counts)>);

fn write(finished: Option<Finished>) {
    let Some((lasted, summaries)) = finished else { return };
    let seconds = (lasted.as_secs_f64() * 1000.0).round() / 1000.0;
    for (group, counts) in summaries {
        let (namespace, owner, message) = match group {
            Some(Group { namespace, owner }) => {
                (namespace, Some(owner_reference(&owner)), "summary of decisions")
            }
            None => (None, None, "summary of decisions: all other owners"),
        };
        let count = counts.total;
        tracing::info!(
            namespace = namespace.as_ref().map(Namespace::as_str),
            owner = owner.as_ref().map(Structured::logged),
            count,
            counts = Structured::field(counts).logged(),
            seconds,
            "{message}"
        );
    }
}

/// What the decisions of the present period are.
#[derive(Debug)]
struct Period {
    lines: DecisionLines,
    /// When it began, with a decision. `None` after a period and before a decision.
    began: Option<Instant>,
    decisions: u32,
    /// Until when there are summaries because of the decisions of the last period.
    summaries_until: Option<Instant>,
    /// Whether there are summaries because there are too many decisions.
    is_above: bool,
    sums: Sums,
}

impl Period {
    fn new(lines: DecisionLines) -> Self {
        let (began, summaries_until, sums) = (None, None, Sums::default());
        Self { lines, began, decisions: 0, summaries_until, is_above: false, sums }
    }

    /// Counts a decision. Returns how the log shows it, and the period that it has ended.
    fn add(
        &mut self,
        now: Instant,
        decision: impl FnOnce() -> (Group, Counted),
    ) -> (LoggedAs, Option<Finished>) {
        let finished = self.end(now);
        if self.began.is_none() {
            (self.began, self.decisions) = (Some(now), 0);
            self.is_above = self.summaries_until.is_some_and(|until| now < until);
        }
        self.decisions = self.decisions.saturating_add(1);
        self.is_above |= self.lines == DecisionLines::Auto && self.decisions > MAX_RATE;
        let shown = match self.lines {
            DecisionLines::Auto if self.is_above => LoggedAs::Summary,
            DecisionLines::Summaries => LoggedAs::Summary,
            DecisionLines::None => LoggedAs::Hidden,
            _ => LoggedAs::Line,
        };
        if shown == LoggedAs::Summary {
            let (group, counted) = decision();
            self.sums.add(group, counted);
        }
        (shown, finished)
    }

    /// When it ends, if there is anything to sum up.
    fn ends(&self) -> Option<Instant> {
        self.began.filter(|_| !self.sums.is_empty()).map(|began| began + PERIOD)
    }

    /// Ends it if it is over.
    fn end(&mut self, now: Instant) -> Option<Finished> {
        let lasted = now.saturating_duration_since(self.began?);
        if lasted < PERIOD {
            return None;
        }
        let is_above = f64::from(self.decisions) > f64::from(MAX_RATE) * lasted.as_secs_f64();
        self.summaries_until = is_above.then(|| now + PERIOD);
        self.finish(now)
    }

    /// Ends it at once. From now on, each decision has a line, because nothing would end another
    /// period.
    fn close(&mut self, now: Instant) -> Option<Finished> {
        if self.lines != DecisionLines::None {
            self.lines = DecisionLines::All;
        }
        self.finish(now)
    }

    fn finish(&mut self, now: Instant) -> Option<Finished> {
        let lasted = now.saturating_duration_since(self.began.take()?);
        let summaries = self.sums.take();
        (!summaries.is_empty()).then_some((lasted, summaries))
    }
}

/// The decisions that follow from one owner, whose flags mean nothing here. The namespace is that of
/// the objects that are decided on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Group {
    pub namespace: Option<Namespace>,
    pub owner: OwnerReference,
}

/// The sums of a period.
#[derive(Debug, Default)]
struct Sums {
    owners: HashMap<Group, Counts>,
    /// All other owners.
    others: Counts,
}

impl Sums {
    fn add(&mut self, group: Group, counted: Counted) {
        let is_full = self.owners.len() >= MAX_SUMS && !self.owners.contains_key(&group);
        let sum = if is_full { &mut self.others } else { self.owners.entry(group).or_default() };
        sum.merge(Counts { total: 1, each: vec![(counted, 1)] });
    }

    fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// The lines: the largest sums, and the rest.
    fn take(&mut self) -> Vec<(Option<Group>, Counts)> {
        let Self { owners, mut others } = std::mem::take(self);
        let mut lines: Vec<_> = owners.into_iter().map(|(group, counts)| (Some(group), counts)).collect();
        lines.sort_by_key(|(_, counts)| Reverse(counts.total));
        for (_, counts) in lines.split_off(lines.len().min(MAX_LINES)) {
            others.merge(counts);
        }
        if others.total > 0 {
            lines.push((None, others));
        }
        lines
    }
}

/// What a decision is counted by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// The action, as in the line of a decision.
    pub action: &'static str,
    /// The type of the object.
    pub resource: GroupResource,
    /// The outcome, as in the line of a decision.
    pub outcome: &'static str,
}

/// Counts decisions. The number of different entries is bounded, because the types come from the
/// cluster; the total counts all.
#[derive(Clone, Debug, Default)]
struct Counts {
    total: u64,
    each: Vec<(Counted, u64)>,
}

impl Counts {
    fn merge(&mut self, other: Self) {
        self.total += other.total;
        for (decision, count) in other.each {
            if let Some((_, known)) = self.each.iter_mut().find(|(known, _)| *known == decision) {
                *known += count;
            } else if self.each.len() < LISTED {
                self.each.push((decision, count));
            }
        }
    }
}

impl Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.each.iter().map(|(Counted { action, resource, outcome }, count)| {
            format!("{count} {action} {resource} {outcome}")
        });
        let mut text = listed("; ", self.each.len(), entries);
        let rest = self.total - self.each.iter().map(|(_, count)| count).sum::<u64>();
        if rest > 0 {
            text = format!("{text}; {rest} others");
        }
        // Quoted, because it has spaces.
        fmt::Debug::fmt(&text, f)
    }
}

/// An array with an object for each entry.
impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Count<'a> {
            #[serde(flatten)]
            counted: &'a Counted,
            count: u64,
        }
        serializer.collect_seq(self.each.iter().map(|(counted, count)| Count { counted, count: *count }))
    }
}

#[cfg(test)]
mod tests;
