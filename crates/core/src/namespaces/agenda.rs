//! Which namespace is worked on when. A namespace has one turn at a time and then goes behind those
//! that are due, so that one with a hundred thousand objects does not delay the others.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::mailbox::Backoff;
use crate::object::Uid;

/// The pause after a turn that removed something.
const NEXT_TURN: Duration = Duration::from_millis(50);

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There is nothing left to do for this namespace.
    Done,
    /// Less is left than before.
    Progress,
    /// It has to wait for somebody else.
    Held,
    /// A whole look has shown nothing. What was admitted before the deletion may still be written.
    Empty,
    /// The same, after the turn had deleted something.
    Emptied,
}

#[derive(Clone, Debug)]
struct Entry {
    uid: Uid,
    /// `None` during a turn.
    due: Option<Duration>,
    /// Turns without progress, one after another.
    fruitless: u32,
    /// Since when all looks have shown nothing.
    empty_since: Option<Duration>,
}

/// A turn of a namespace that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextTurn {
    pub name: Box<str>,
    pub uid: Uid,
    /// Whether all looks have shown nothing for long enough that one more of them leads to finalizing
    /// (rule 11.11).
    pub is_quiet: bool,
}

/// The terminating namespaces. Times are since any fixed moment.
#[derive(Clone, Debug)]
pub struct Agenda {
    entries: BTreeMap<Box<str>, Entry>,
    at_once: usize,
    backoff: Backoff,
    quiet: Duration,
}

impl Agenda {
    /// An empty agenda. At most `at_once` namespaces have a turn at the same time. A namespace is
    /// finalized when looks have shown nothing for `quiet`.
    pub const fn new(at_once: usize, backoff: Backoff, quiet: Duration) -> Self {
        Self { entries: BTreeMap::new(), at_once, backoff, quiet }
    }

    /// A terminating namespace was seen. One that waits already keeps waiting: the event may be
    /// about our own write.
    pub fn seen(&mut self, name: &str, uid: &Uid, now: Duration) {
        match self.entries.get(name) {
            Some(entry) if entry.uid == *uid => {}
            _ => {
                let entry = Entry { uid: uid.clone(), due: Some(now), fruitless: 0, empty_since: None };
                self.entries.insert(name.into(), entry);
            }
        }
    }

    /// How many namespaces are terminating.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many have a turn, or are about to without having to wait for somebody else.
    pub fn busy(&self) -> usize {
        self.entries.values().filter(|entry| entry.due.is_none() || entry.fruitless == 0).count()
    }

    /// Begins the turn of the namespace that has been due for the longest time.
    pub fn next(&mut self, now: Duration) -> Option<NextTurn> {
        let turns = self.entries.values().filter(|entry| entry.due.is_none()).count();
        if turns >= self.at_once {
            return None;
        }
        let due = self.entries.iter_mut().filter(|(_, entry)| entry.due.is_some_and(|due| due <= now));
        let (name, entry) = due.min_by_key(|(_, entry)| entry.due)?;
        entry.due = None;
        let is_quiet =
            self.quiet.is_zero() || entry.empty_since.is_some_and(|since| since + self.quiet <= now);
        Some(NextTurn { name: name.clone(), uid: entry.uid.clone(), is_quiet })
    }

    /// When the next namespace is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.entries.values().filter_map(|entry| entry.due).min()
    }

    /// Ends the turn of a namespace. One that was re-created meanwhile is another one.
    pub fn ended(&mut self, name: &str, uid: &Uid, how: Ended, now: Duration) {
        let Some(entry) = self.entries.get_mut(name).filter(|entry| entry.uid == *uid) else { return };
        entry.empty_since = match how {
            Ended::Empty => entry.empty_since.or(Some(now)),
            Ended::Emptied => Some(now),
            Ended::Done | Ended::Progress | Ended::Held => None,
        };
        match how {
            Ended::Done => {
                self.entries.remove(name);
            }
            Ended::Empty | Ended::Emptied => {
                entry.fruitless = 0;
                entry.due = entry.empty_since.map(|since| since + self.quiet);
            }
            Ended::Progress => {
                entry.fruitless = 0;
                entry.due = Some(now + NEXT_TURN);
            }
            Ended::Held => {
                entry.fruitless = entry.fruitless.saturating_add(1);
                entry.due = Some(now + self.backoff.delay(entry.fruitless));
            }
        }
    }
}
