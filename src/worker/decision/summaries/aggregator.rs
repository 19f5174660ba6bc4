//! Chooses between a line for each decision and summaries.

use std::time::Duration;

use tokio::time::Instant;

use super::counts::Counted;
use super::period::{Period, Subject, Summary};

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
    #[must_use]
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
    #[must_use]
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
