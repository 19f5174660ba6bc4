//! Summaries in the log instead of a line for each decision.
//!
//! A cascade of 100,000 objects has as many decisions, which nobody reads one by one. Only
//! decisions that succeeded are summed up: a failure, a refusal or an object that waits always has
//! the line that it had.
//!
//! Owners, kinds and namespaces come from the cluster, so their number is bounded twice: by the
//! memory that a period takes and by the lines that it becomes. Whatever does not fit is counted
//! in a coarser sum, so the totals of all lines are the number of all decisions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::{self, Display};
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::ser::{Serialize, Serializer};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::telemetry::logging::{self, PendingLines};
use crate::telemetry::{Structured, owner_reference, record};
use kube_gc_core::object::{Namespace, OwnerReference, ResourceType};
use kube_gc_core::text::{LISTED, listed, word};

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
        let of = [("api_version", word(api_version).to_string()), ("kind", word(kind).to_string())];
        serializer.collect_map(of)
    }
}

/// Which successful decisions have a line of their own in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecisionLines {
    /// All, until there are more than [`MAX_RATE`] a second. Then summaries, until there are fewer.
    #[default]
    Auto,
    /// All.
    All,
    /// None: each second has summaries by owner.
    Summaries,
    /// None, and there are no summaries.
    None,
}

/// How the log shows a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedAs {
    /// By a line of its own.
    Line,
    /// In the number of a summary.
    Summary,
    /// In the number of a summary, as the first one. The log says so.
    FirstSummary,
    /// Not at all.
    Hidden,
}

/// Decisions a second that have a line each with [`DecisionLines::Auto`].
pub const MAX_RATE: u32 = 20;
/// What one summary covers.
const PERIOD: Duration = Duration::from_secs(1);

/// The summaries of a period that is over.
#[derive(Debug)]
pub struct Finished {
    /// How long it lasted.
    pub lasted: Duration,
    /// Its lines.
    pub summaries: Vec<Summary>,
}

/// What the decisions of the present period are.
#[derive(Debug)]
pub struct Aggregator {
    lines: DecisionLines,
    /// When the present period began, with a decision. `None` after a period and before a decision.
    began: Option<Instant>,
    /// The decisions of the present period.
    decisions: u32,
    /// Until when there are summaries because of the decisions of the last period.
    summaries_until: Option<Instant>,
    /// Whether decisions are in summaries, for [`LoggedAs::FirstSummary`].
    is_above: bool,
    period: Period,
}

impl Aggregator {
    /// Begins without a decision.
    pub fn new(lines: DecisionLines) -> Self {
        Self {
            lines,
            began: None,
            decisions: 0,
            summaries_until: None,
            is_above: false,
            period: Period::default(),
        }
    }

    /// Counts a decision. Returns how the log shows it, and the period that it has ended.
    pub fn add(
        &mut self,
        now: Instant,
        decision: impl FnOnce() -> (Subject, Counted),
    ) -> (LoggedAs, Option<Finished>) {
        let finished = self.end_period(now);
        if self.began.is_none() {
            (self.began, self.decisions) = (Some(now), 0);
            self.is_above = self.summaries_until.is_some_and(|until| now < until);
        }
        self.decisions = self.decisions.saturating_add(1);
        let shown = match self.lines {
            DecisionLines::All => LoggedAs::Line,
            DecisionLines::None => LoggedAs::Hidden,
            DecisionLines::Summaries => LoggedAs::Summary,
            DecisionLines::Auto if self.is_above => LoggedAs::Summary,
            DecisionLines::Auto if self.decisions <= MAX_RATE => LoggedAs::Line,
            DecisionLines::Auto => {
                self.is_above = true;
                LoggedAs::FirstSummary
            }
        };
        if matches!(shown, LoggedAs::Summary | LoggedAs::FirstSummary) {
            let (subject, counted) = decision();
            self.period.add(subject, counted);
        }
        (shown, finished)
    }

    /// When the present period ends, if there is anything to sum up.
    pub fn ends(&self) -> Option<Instant> {
        self.began.filter(|_| !self.period.is_empty()).map(|began| began + PERIOD)
    }

    /// Ends the present period if it is over.
    pub fn end_period(&mut self, now: Instant) -> Option<Finished> {
        let lasted = now.saturating_duration_since(self.began?);
        if lasted < PERIOD {
            return None;
        }
        let is_above = f64::from(self.decisions) > f64::from(MAX_RATE) * lasted.as_secs_f64();
        self.summaries_until = is_above.then(|| now + PERIOD);
        self.finish(now)
    }

    /// Ends the present period at once. From now on, each decision has a line, because nothing
    /// would end another period.
    pub fn close(&mut self, now: Instant) -> Option<Finished> {
        if self.lines != DecisionLines::None {
            self.lines = DecisionLines::All;
        }
        self.finish(now)
    }

    fn finish(&mut self, now: Instant) -> Option<Finished> {
        let lasted = now.saturating_duration_since(self.began.take()?);
        let summaries = self.period.take();
        (!summaries.is_empty()).then_some(Finished { lasted, summaries })
    }
}

/// How many owners have a sum of their own while a period lasts, and how many kinds.
pub const MAX_SUMS: usize = 1000;
/// How many owners have a line of their own, and how many kinds. These are the ones with the most
/// decisions.
pub const MAX_LINES: usize = 10;

/// The owner whose deletion a decision follows from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Subject {
    /// The namespace of the objects that are decided on.
    pub namespace: Option<Namespace>,
    /// The owner. Its flags mean nothing here.
    pub owner: OwnerReference,
}

/// Which decisions a summary counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SummaryOf {
    /// Those that follow from one owner.
    Owner(Subject),
    /// Those that follow from other owners of one kind in one namespace.
    Kind(Kind),
    /// All others.
    Others,
}

/// Owners of one kind whose dependents are in one namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kind {
    /// The namespace of the objects that are decided on.
    pub namespace: Option<Namespace>,
    /// The owners' `apiVersion`.
    pub api_version: Arc<str>,
    /// The owners' kind.
    pub kind: Arc<str>,
}

impl Kind {
    fn of(subject: &Subject) -> Self {
        let OwnerReference { api_version, kind, .. } = &subject.owner;
        Self {
            namespace: subject.namespace.clone(),
            api_version: Arc::clone(api_version),
            kind: Arc::clone(kind),
        }
    }
}

/// One line that stands for many decisions.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Which decisions it counts.
    pub of: SummaryOf,
    /// How many.
    pub counts: Counts,
}

/// The sums of one period.
#[derive(Debug, Default)]
pub struct Period {
    pub(super) owners: Sums<Subject>,
    pub(super) kinds: Sums<Kind>,
    others: Counts,
}

impl Period {
    /// Counts one decision.
    pub fn add(&mut self, subject: Subject, decision: Counted) {
        match self.owners.of(subject) {
            Ok(counts) => counts,
            Err(subject) => self.of_kind(&subject),
        }
        .add(decision);
    }

    /// Whether nothing has been counted.
    pub fn is_empty(&self) -> bool {
        self.owners.0.is_empty()
    }

    /// The lines, and an empty period.
    pub fn take(&mut self) -> Vec<Summary> {
        let mut period = std::mem::take(self);
        let [owners, more] = period.owners.largest();
        for (subject, counts) in more {
            period.of_kind(&subject).merge(counts);
        }
        let [kinds, more] = period.kinds.largest();
        for (_, counts) in more {
            period.others.merge(counts);
        }
        let owners = owners.into_iter().map(|(of, counts)| (SummaryOf::Owner(of), counts));
        let kinds = kinds.into_iter().map(|(of, counts)| (SummaryOf::Kind(of), counts));
        let others = (period.others.total() > 0).then_some((SummaryOf::Others, period.others));
        owners.chain(kinds).chain(others).map(|(of, counts)| Summary { of, counts }).collect()
    }

    fn of_kind(&mut self, subject: &Subject) -> &mut Counts {
        self.kinds.of(Kind::of(subject)).unwrap_or(&mut self.others)
    }
}

/// Counts by a key from the cluster.
#[derive(Debug)]
pub(super) struct Sums<K>(pub(super) HashMap<K, Counts>);

impl<K> Default for Sums<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Sums<K> {
    /// The counts of a key, or the key if there are too many.
    fn of(&mut self, key: K) -> Result<&mut Counts, K> {
        let is_full = self.0.len() >= MAX_SUMS;
        match self.0.entry(key) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) if is_full => Err(unknown.into_key()),
            Entry::Vacant(unknown) => Ok(unknown.insert(Counts::default())),
        }
    }

    /// The largest, each on a line of its own, and the others.
    fn largest(&mut self) -> [Vec<(K, Counts)>; 2] {
        let mut all: Vec<_> = std::mem::take(&mut self.0).into_iter().collect();
        all.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.total()));
        let others = all.split_off(all.len().min(MAX_LINES));
        [all, others]
    }
}

/// What a decision is counted by.
#[derive(Clone, Debug)]
pub struct Counted {
    /// The action, as in the line of a decision.
    pub action: &'static str,
    /// The type of the object.
    pub resource: Arc<ResourceType>,
    /// The outcome, as in the line of a decision.
    pub outcome: &'static str,
}

impl Counted {
    fn is_like(&self, other: &Self) -> bool {
        self.action == other.action
            && self.outcome == other.outcome
            && self.resource.group_resource == other.resource.group_resource
    }
}

/// Counts decisions. The number of different entries is bounded, because the types come from the
/// cluster; the total counts all.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    total: u64,
    each: Vec<(Counted, u64)>,
}

impl Counts {
    /// Counts one decision.
    pub fn add(&mut self, decision: Counted) {
        self.add_many(decision, 1);
        self.total += 1;
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: Self) {
        self.total += other.total;
        for (decision, count) in other.each {
            self.add_many(decision, count);
        }
    }

    /// The number of all decisions.
    pub const fn total(&self) -> u64 {
        self.total
    }

    fn add_many(&mut self, decision: Counted, count: u64) {
        if let Some((_, known)) = self.each.iter_mut().find(|(known, _)| known.is_like(&decision)) {
            *known += count;
        } else if self.each.len() < LISTED {
            self.each.push((decision, count));
        }
    }

    /// The number of decisions that no entry counts.
    fn rest(&self) -> u64 {
        self.total - self.each.iter().map(|(_, count)| count).sum::<u64>()
    }
}

impl Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entries = self.each.iter().map(|(Counted { action, resource, outcome }, count)| {
            format!("{count} {action} {} {outcome}", resource.group_resource)
        });
        let mut text = listed("; ", self.each.len(), entries);
        if self.rest() > 0 {
            text = format!("{text}; {} others", self.rest());
        }
        // Quoted, because it has spaces.
        fmt::Debug::fmt(&text, f)
    }
}

/// An array with an object for each entry.
impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(serde::Serialize)]
        struct Count {
            action: &'static str,
            resource: String,
            outcome: &'static str,
            count: u64,
        }
        serializer.collect_seq(self.each.iter().map(|(counted, count)| Count {
            action: counted.action,
            resource: counted.resource.group_resource.to_string(),
            outcome: counted.outcome,
            count: *count,
        }))
    }
}

#[cfg(test)]
mod tests;
