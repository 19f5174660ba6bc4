//! Suppresses repeated log lines.
//!
//! An object that waits for a kind to be served, or whose deletion a webhook denies, is tried again
//! and again with the same result. The first result is logged, and the repetitions are counted.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use kube_gc_core::object::{Digest, Key};
use kube_gc_observe::telemetry::record;

/// How many objects are remembered. Beyond that, lines repeat.
const REMEMBERED: usize = 8192;
/// The least time between two lines about one object, whatever they say: its author may change it
/// all the time.
const LEAST_PAUSE: Duration = Duration::from_secs(10);

/// The last line about each object that waits or fails.
#[derive(Debug, Default)]
pub struct Repeats(Mutex<HashMap<Digest, Line>>);

#[derive(Clone, Copy, Debug)]
struct Line {
    /// What it said; `None` if the object has made progress since.
    text: Option<Digest>,
    at: Instant,
    /// Decisions that were not logged since.
    repeated: u64,
}

impl Repeats {
    /// Whether to log a line about an object that waits or fails: with the number of decisions about
    /// it that were not logged since the last line, or not at all.
    pub fn check(&self, object: &Key, line: &str, now: Instant) -> Option<u64> {
        let (object, text) = (Digest::of(object), Some(Digest::of(line)));
        let mut lines = self.lines();
        let Some(known) = lines.get_mut(&object) else {
            if lines.len() >= REMEMBERED {
                lines.clear();
            }
            lines.insert(object, Line { text, at: now, repeated: 0 });
            return Some(0);
        };
        if known.text == text || now.duration_since(known.at) < LEAST_PAUSE {
            known.repeated += 1;
            record::decision_repeated();
            return None;
        }
        (known.text, known.at) = (text, now);
        Some(std::mem::take(&mut known.repeated))
    }

    /// A decision about an object was carried out. Returns the number of decisions that were not
    /// logged since the last line. A later failure is news even if it says the same.
    pub fn succeeded(&self, object: &Key) -> u64 {
        let mut lines = self.lines();
        let Some(known) = lines.get_mut(&Digest::of(object)) else { return 0 };
        known.text = None;
        std::mem::take(&mut known.repeated)
    }

    fn lines(&self) -> MutexGuard<'_, HashMap<Digest, Line>> {
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
        let check = |line, pauses: u32| repeats.check(&object, line, began + LEAST_PAUSE * pauses / 2);
        assert_eq!(repeats.succeeded(&object), 0);
        assert_eq!(check("parked", 0), Some(0));
        assert_eq!([2, 2, 2].map(|at| check("parked", at)), [None; 3]);
        assert_eq!(repeats.check(&key("a", "y"), "parked", began), Some(0), "it is another object");
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
            assert_eq!(repeats.check(&key("a", &number.to_string()), "parked", now), Some(0));
        }
        assert!(repeats.lines().len() <= REMEMBERED);
    }
}
