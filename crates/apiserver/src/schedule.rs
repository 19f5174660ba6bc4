//! Scheduled work, in order.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The delay of the server's own controllers: long enough that the answer to a request does not
/// contain their work, and short enough that it delays no client noticeably.
pub const REACTION: Duration = Duration::from_millis(1);

/// Something to check. It says what to check and not what to do, which depends on the state at that
/// time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Conditions and clean-up of a CustomResourceDefinition.
    Definition(Box<str>),
    /// Whether to serve the type of a CustomResourceDefinition.
    Serving(Box<str>),
    /// The groups that APIServices send to backends.
    Services,
    /// The content of a terminating namespace.
    Namespace(Box<str>),
}

/// Scheduled work by time, and then in the order of the requests.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    entries: BTreeMap<(SystemTime, u64), Due>,
    count: u64,
}

impl Schedule {
    /// Schedules work. The same work at the same time is done once.
    pub fn at(&mut self, time: SystemTime, due: Due) {
        let same_time = self.entries.range((time, 0)..=(time, u64::MAX));
        if same_time.into_iter().any(|(_, other)| *other == due) {
            return;
        }
        self.entries.insert((time, self.count), due);
        self.count += 1;
    }

    /// When the first work is due.
    #[must_use]
    pub fn next(&self) -> Option<SystemTime> {
        self.entries.first_key_value().map(|((time, _), _)| *time)
    }

    /// Takes the first work that is due.
    pub fn pop(&mut self, now: SystemTime) -> Option<Due> {
        if self.next()? > now {
            return None;
        }
        self.entries.pop_first().map(|(_, due)| due)
    }
}
