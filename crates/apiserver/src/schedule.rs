//! What falls due later, in order.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// How long the server's own controllers take to notice a change: long enough that
/// no answer is computed with what they have not done yet, short enough for nobody
/// to wait for it.
pub const REACTION: Duration = Duration::from_millis(1);

/// Something to look at. It says where to look, not what to do: what is done
/// depends on what is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Whether a custom resource definition needs conditions or cleaning up.
    Definition(Box<str>),
    /// Whether the type of a custom resource definition is served.
    Serving(Box<str>),
    /// Which groups APIServices send elsewhere.
    Services,
    /// Whether a namespace is to be emptied.
    Namespace(Box<str>),
}

/// What is due, by time and then in the order in which it was asked for.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    entries: BTreeMap<(SystemTime, u64), Due>,
    count: u64,
}

impl Schedule {
    /// Asks for something. The same thing at the same time is done once.
    pub fn at(&mut self, time: SystemTime, due: Due) {
        let same_time = self.entries.range((time, 0)..=(time, u64::MAX));
        if same_time.into_iter().any(|(_, other)| *other == due) {
            return;
        }
        self.entries.insert((time, self.count), due);
        self.count += 1;
    }

    /// When the first of it is due.
    #[must_use]
    pub fn next(&self) -> Option<SystemTime> {
        self.entries.first_key_value().map(|((time, _), _)| *time)
    }

    /// Takes the first that is due by now.
    pub fn pop(&mut self, now: SystemTime) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        self.entries.pop_first().map(|(_, due)| due)
    }
}
