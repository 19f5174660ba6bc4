//! Suppresses repeated log lines.
//!
//! An object that waits for a kind to be served is retried again and again with the same result.
//! The first result is logged, and the repetitions are counted.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::telemetry::record;
use kube_gc_core::object::Key;

/// How many objects are remembered. Beyond that, lines repeat.
const REMEMBERED: usize = 8192;
/// The least time between two lines about one object, whatever they say: its author may change it
/// all the time.
const LEAST_PAUSE: Duration = Duration::from_secs(10);

/// The last line about each object that waits.
#[derive(Debug, Default)]
pub struct Repeats {
    hasher: RandomState,
    last: Mutex<Last>,
}

#[derive(Debug, Default)]
struct Last {
    lines: HashMap<Key, Line>,
    order: VecDeque<Key>,
}

#[derive(Clone, Copy, Debug)]
struct Line {
    hash: u64,
    at: Instant,
    /// Decisions that were not logged since.
    repeated: u64,
}

impl Repeats {
    /// Whether to log a line about an object. `Some` has the number of lines that were suppressed
    /// since the last one. `None` means that the line is suppressed, and counted.
    pub fn news(&self, object: &Key, line: &str, now: Instant) -> Option<u64> {
        let hash = self.hasher.hash_one(line);
        let mut last = self.last();
        if let Some(known) = last.lines.get_mut(object) {
            if known.hash == hash || now.duration_since(known.at) < LEAST_PAUSE {
                known.repeated += 1;
                record::decision_repeated();
                return None;
            }
            let repeated = known.repeated;
            *known = Line { hash, at: now, repeated: 0 };
            return Some(repeated);
        }
        if last.lines.len() >= REMEMBERED
            && let Some(oldest) = last.order.pop_front()
        {
            last.lines.remove(&oldest);
        }
        last.lines.insert(object.clone(), Line { hash, at: now, repeated: 0 });
        last.order.push_back(object.clone());
        Some(0)
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        // What a panic leaves half done is one line too many or too few.
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actors::tests::key;

    #[test]
    fn a_line_is_logged_again_only_if_it_differs_and_not_too_often() {
        let (repeats, began) = (Repeats::default(), Instant::now());
        let (object, other) = (key("a", "x"), key("a", "y"));
        assert_eq!(repeats.news(&object, "parked", began), Some(0));
        for _ in 0..3 {
            assert_eq!(repeats.news(&object, "parked", began + LEAST_PAUSE), None);
        }
        assert_eq!(repeats.news(&other, "parked", began), Some(0), "it is another object");
        assert_eq!(repeats.news(&other, "changed", began + LEAST_PAUSE / 2), None, "too soon");
        assert_eq!(repeats.news(&object, "changed", began + LEAST_PAUSE), Some(3));
    }

    #[test]
    fn the_number_of_remembered_lines_is_bounded() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        for number in 0..=REMEMBERED {
            assert_eq!(repeats.news(&key("a", &number.to_string()), "parked", now), Some(0));
        }
        let last = repeats.last();
        assert_eq!((last.lines.len(), last.order.len()), (REMEMBERED, REMEMBERED));
    }
}
