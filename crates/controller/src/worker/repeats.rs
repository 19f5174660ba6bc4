//! Suppresses repeated log lines.
//!
//! An object that waits for a kind to be served, or whose deletion a webhook denies, is tried again
//! and again with the same result. The first result is logged, and the repetitions are counted. An
//! outage, or one broken connection, fails every request that is in flight, and few lines stand for all.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use kube_gc_core::object::{Digest, Key};
use kube_gc_observe::telemetry::record;

/// How many objects are remembered. Beyond that, lines repeat.
const REMEMBERED: usize = 8192;
/// The least time between two lines about one object, whatever they say: its author may change it
/// all the time. Also that between two lines with a shared cause.
const LEAST_PAUSE: Duration = Duration::from_secs(10);

/// The last line about each object that waits or fails.
#[derive(Debug, Default)]
pub struct Repeats(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    of: HashMap<Digest, Line>,
    /// When there was the last line with a shared cause.
    shared: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    /// What it said; `None` if the object has made progress since.
    text: Option<Digest>,
    at: Instant,
    /// Decisions that were not logged since.
    repeated: u64,
}

impl Repeats {
    /// Whether to log a line about an object that waits or fails, perhaps for a cause that it shares
    /// with all others: with the number of decisions about it that were not logged since the last
    /// line, or not at all.
    pub fn check(&self, object: &Key, line: &str, is_shared: bool, now: Instant) -> Option<u64> {
        let (object, text) = (Digest::of(object), Some(Digest::of(line)));
        let is_over = |at| now.duration_since(at) >= LEAST_PAUSE;
        let mut lines = self.lines();
        let must_wait = is_shared && !lines.shared.is_none_or(is_over);
        let known = lines.of.get_mut(&object);
        let is_news = known.as_ref().is_none_or(|known| known.text != text && is_over(known.at));
        if must_wait || !is_news {
            if let Some(known) = known {
                known.repeated += 1;
                record::decision_repeated();
            }
            return None;
        }
        let repeated = known.map_or(0, |known| known.repeated);
        if is_shared {
            lines.shared = Some(now);
        }
        if lines.of.len() >= REMEMBERED && !lines.of.contains_key(&object) {
            lines.of.clear();
        }
        lines.of.insert(object, Line { text, at: now, repeated: 0 });
        Some(repeated)
    }

    /// A decision about an object was carried out. Returns the number of decisions that were not
    /// logged since the last line. A later failure is news even if it says the same.
    pub fn succeeded(&self, object: &Key) -> u64 {
        let mut lines = self.lines();
        let Some(known) = lines.of.get_mut(&Digest::of(object)) else { return 0 };
        known.text = None;
        std::mem::take(&mut known.repeated)
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        // After a panic, there may be one line too many or too few.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::tests::key;

    #[test]
    fn a_line_is_logged_again_only_if_it_is_news_and_not_too_often() {
        let (repeats, began) = (Repeats::default(), Instant::now());
        let object = key("a", "x");
        let check = |line, pauses: u32| repeats.check(&object, line, false, began + LEAST_PAUSE * pauses / 2);
        assert_eq!(repeats.succeeded(&object), 0);
        assert_eq!(check("parked", 0), Some(0));
        assert_eq!([2, 2, 2].map(|at| check("parked", at)), [None; 3]);
        assert_eq!(repeats.check(&key("a", "y"), "parked", false, began), Some(0), "it is another object");
        assert_eq!(check("changed", 1), None, "too soon");
        assert_eq!(check("changed", 2), Some(4));
        assert_eq!(check("changed", 4), None);
        assert_eq!(repeats.succeeded(&object), 1);
        assert_eq!(check("changed", 3), None, "too soon");
        assert_eq!(check("changed", 4), Some(1), "after progress it is news");
    }

    #[test]
    fn the_number_of_remembered_lines_is_bounded() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        for number in 0..=REMEMBERED {
            assert_eq!(repeats.check(&key("a", &number.to_string()), "parked", false, now), Some(0));
        }
        assert!(repeats.lines().of.len() <= REMEMBERED);
    }
}
