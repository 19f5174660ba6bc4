//! The last decisions, for people.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use super::decision::{Decision, DecisionObserver};

/// Keeps the last decisions. Clones are the same.
///
/// It keeps them as they come: what they look like on a page is made up when
/// somebody asks.
#[derive(Clone, Debug)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    capacity: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    last: VecDeque<Arc<JournalEntry>>,
    total: u64,
}

/// A decision and when it ended.
#[derive(Clone, Debug)]
pub struct JournalEntry {
    /// When.
    pub at: SystemTime,
    /// The decision.
    pub decision: Decision,
}

impl Journal {
    /// One for so many decisions.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self(Arc::new(Inner { capacity, entries: Mutex::default() }))
    }

    /// For how many decisions there is room.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// How many decisions there have been, and the last of them, newest first.
    #[must_use]
    pub fn last(&self) -> (u64, Vec<Arc<JournalEntry>>) {
        let entries = self.entries();
        (entries.total, entries.last.iter().rev().cloned().collect())
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        // What is in it is whole also after a panic elsewhere.
        self.0.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DecisionObserver for Journal {
    fn decided(&self, decision: &Decision) {
        // Made before, and the oldest dropped after the lock is held.
        let entry = (self.0.capacity > 0)
            .then(|| Arc::new(JournalEntry { at: SystemTime::now(), decision: decision.clone() }));
        let mut entries = self.entries();
        entries.total += 1;
        let oldest = if entries.last.len() >= self.0.capacity { entries.last.pop_front() } else { None };
        entries.last.extend(entry);
        drop(entries);
        drop(oldest);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::identity;
    use super::*;

    fn decision(name: &str) -> Decision {
        Decision {
            object: identity("ns", name),
            action: "delete",
            policy: None,
            finalizer: None,
            owners: Vec::new(),
            owner: None,
            outcome: "deleted",
            error: None,
        }
    }

    fn names(journal: &Journal) -> Vec<String> {
        journal.last().1.iter().map(|entry| entry.decision.object.name.to_string()).collect()
    }

    #[test]
    fn the_last_ones_are_kept_newest_first() {
        let journal = Journal::new(2);
        assert_eq!(journal.last().0, 0);
        for name in ["a", "b", "c"] {
            journal.decided(&decision(name));
        }
        assert_eq!((journal.last().0, names(&journal)), (3, vec!["c".to_owned(), "b".to_owned()]));
    }

    #[test]
    fn a_journal_without_room_only_counts() {
        let journal = Journal::new(0);
        journal.decided(&decision("a"));
        assert_eq!((journal.last().0, names(&journal).len()), (1, 0));
    }
}
