//! Suppresses repeated log lines.
//!
//! An object that waits for a kind to be served, or whose deletion a webhook denies, is tried again
//! and again with the same result. The first result is logged, and the repetitions are counted.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::telemetry::record;
use kube_gc_core::object::{Digest, Key};

/// How many objects are remembered. Beyond that, lines repeat.
const REMEMBERED: usize = 8192;
/// The least time between two lines about one object, whatever they say: its author may change it
/// all the time.
const LEAST_PAUSE: Duration = Duration::from_secs(10);

/// The last line about each object that waits or fails.
#[derive(Debug, Default)]
pub struct Repeats(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    lines: HashMap<Digest, Line>,
    order: VecDeque<Digest>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    /// What it said; `None` if the object has made progress since.
    text: Option<Digest>,
    at: Instant,
    /// Decisions that were not logged since.
    repeated: u64,
}

impl Line {
    /// The decisions since the last line, if there are any. The next line starts at 0.
    fn take_repeated(&mut self) -> Option<u64> {
        Some(std::mem::take(&mut self.repeated)).filter(|repeated| *repeated > 0)
    }
}

/// Whether to log a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineAction {
    /// Yes.
    Write {
        /// The decisions about the object that were not logged since the last line.
        repeated: Option<u64>,
    },
    /// No. The decision was counted.
    Suppress,
}

impl Repeats {
    /// Whether to log a line about an object that waits or fails.
    pub fn check(&self, object: &Key, line: &str, now: Instant) -> LineAction {
        let (object, text) = (Digest::of(object), Some(Digest::of(line)));
        let mut last = self.last();
        if let Some(known) = last.lines.get_mut(&object) {
            if known.text == text || now.duration_since(known.at) < LEAST_PAUSE {
                known.repeated += 1;
                record::decision_repeated();
                return LineAction::Suppress;
            }
            let repeated = known.take_repeated();
            *known = Line { text, at: now, repeated: 0 };
            return LineAction::Write { repeated };
        }
        if last.lines.len() >= REMEMBERED
            && let Some(oldest) = last.order.pop_front()
        {
            last.lines.remove(&oldest);
        }
        last.lines.insert(object, Line { text, at: now, repeated: 0 });
        last.order.push_back(object);
        LineAction::Write { repeated: None }
    }

    /// A decision about an object was carried out. Returns the number of decisions that were not
    /// logged since the last line. A later failure is news even if it says the same.
    pub fn succeeded(&self, object: &Key) -> Option<u64> {
        let mut last = self.last();
        // Almost always there are none.
        if last.lines.is_empty() {
            return None;
        }
        let known = last.lines.get_mut(&Digest::of(object))?;
        known.text = None;
        known.take_repeated()
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        // After a panic, there may be one line too many or too few.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::tests::key;

    const FIRST: LineAction = LineAction::Write { repeated: None };

    #[test]
    fn a_line_is_logged_again_only_if_it_differs_and_not_too_often() {
        let (repeats, began) = (Repeats::default(), Instant::now());
        let (object, other) = (key("a", "x"), key("a", "y"));
        assert_eq!(repeats.check(&object, "parked", began), FIRST);
        for _ in 0..3 {
            assert_eq!(repeats.check(&object, "parked", began + LEAST_PAUSE), LineAction::Suppress);
        }
        assert_eq!(repeats.check(&other, "parked", began), FIRST, "it is another object");
        assert_eq!(
            repeats.check(&other, "changed", began + LEAST_PAUSE / 2),
            LineAction::Suppress,
            "too soon"
        );
        let changed = repeats.check(&object, "changed", began + LEAST_PAUSE);
        assert_eq!(changed, LineAction::Write { repeated: Some(3) });
    }

    #[test]
    fn after_progress_the_same_line_is_news_but_not_too_soon() {
        let (repeats, began) = (Repeats::default(), Instant::now());
        let object = key("a", "x");
        assert_eq!(repeats.succeeded(&object), None);
        assert_eq!(repeats.check(&object, "denied", began), FIRST);
        assert_eq!(repeats.check(&object, "denied", began + LEAST_PAUSE), LineAction::Suppress);
        assert_eq!(repeats.succeeded(&object), Some(1));
        assert_eq!(
            repeats.check(&object, "denied", began + LEAST_PAUSE / 2),
            LineAction::Suppress,
            "too soon"
        );
        let again = repeats.check(&object, "denied", began + LEAST_PAUSE);
        assert_eq!(again, LineAction::Write { repeated: Some(1) });
    }

    #[test]
    fn the_number_of_remembered_lines_is_bounded() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        for number in 0..=REMEMBERED {
            assert_eq!(repeats.check(&key("a", &number.to_string()), "parked", now), FIRST);
        }
        let last = repeats.last();
        assert_eq!((last.lines.len(), last.order.len()), (REMEMBERED, REMEMBERED));
    }
}
