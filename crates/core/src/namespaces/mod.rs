//! The end of a namespace where no kube-controller-manager runs: what a look at its content has shown,
//! what follows from it (delete, wait or finalize), what its conditions say, and which namespace is
//! worked on when.
//!
//! A namespace has one turn at a time and then goes behind those that are due, so that one with a
//! hundred thousand objects does not delay the others.

mod condition;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::mailbox::Backoff;
use crate::object::{GroupResource, Uid};

pub use condition::{
    Condition, FieldOwner, LeaderRecord, RECENT, Rival, conditions, merged, wrote_conditions,
};

/// The finalizer in the `spec` of a namespace that stands for its content.
pub const FINALIZER: &str = "kubernetes";

/// The objects of a type in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// How many there are.
    pub count: u64,
    /// How many of these are not being deleted yet.
    pub alive: u64,
    /// How many have each finalizer.
    pub finalizers: BTreeMap<String, u64>,
}

/// A look at one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeSurvey {
    pub resource: GroupResource,
    /// The objects, or why they could not be listed.
    pub found: Result<Found, String>,
}

impl TypeSurvey {
    /// Whether there is nothing of this type. What could not be listed may be there.
    pub fn is_empty(&self) -> bool {
        self.found.as_ref().is_ok_and(|found| found.count == 0)
    }

    fn is_pods(&self) -> bool {
        self.resource.group.is_empty() && &*self.resource.resource == "pods"
    }
}

/// A look at a whole namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// The parts of the API that could not be discovered, with the reason.
    pub undiscovered: Vec<(String, String)>,
    /// The group versions in discovery that are not valid.
    pub unparsed: Vec<String>,
    /// Every namespaced type that can be deleted.
    pub types: Vec<TypeSurvey>,
    /// Why deletions have failed.
    pub failures: Vec<String>,
}

impl Survey {
    /// Whether everything was looked at, and there was nothing.
    pub fn is_empty(&self) -> bool {
        let Self { undiscovered, unparsed, types, failures } = self;
        undiscovered.is_empty()
            && unparsed.is_empty()
            && failures.is_empty()
            // An API server has namespaced types. If discovery shows none, it is wrong.
            && !types.is_empty()
            && types.iter().all(TypeSurvey::is_empty)
    }

    /// How many objects are known to be left.
    pub fn remaining(&self) -> u64 {
        self.sum(|found| found.count)
    }

    /// Whether fewer objects are left than in an earlier look, or fewer of them wait for their
    /// deletion: one that is held by a finalizer is left for now, but its deletion is done.
    pub fn has_less_than(&self, earlier: &Self) -> bool {
        let alive = |survey: &Self| survey.sum(|found| found.alive);
        self.remaining() < earlier.remaining() || alive(self) < alive(earlier)
    }

    /// How many objects have to go before more can be done: the Pods, or else everything.
    pub fn awaited(&self) -> u64 {
        let pods = self.types.iter().filter(|of_type| of_type.is_pods());
        let pods = pods.filter_map(|pods| Some(pods.found.as_ref().ok()?.count)).sum();
        if pods > 0 { pods } else { self.remaining() }
    }

    fn sum(&self, of: impl Fn(&Found) -> u64) -> u64 {
        let found = self.types.iter().filter_map(|of_type| of_type.found.as_ref().ok());
        found.fold(0, |sum, found| sum.saturating_add(of(found)))
    }

    /// Replaces what an earlier look has shown of this type.
    pub fn update(&mut self, newer: TypeSurvey) {
        match self.types.iter_mut().find(|of_type| of_type.resource == newer.resource) {
            Some(of_type) => *of_type = newer,
            None => self.types.push(newer),
        }
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Everything was looked at, and nothing is left.
    Finalize,
    /// Delete the objects of these types.
    Delete(Vec<GroupResource>),
    /// Objects wait for finalizers or for their grace period, or a type could not be looked at.
    Wait,
}

/// The next step (rules 11.2 to 11.4).
///
/// Pods go first, and nothing else is deleted while there are any: they may need what is around
/// them to shut down, and a network policy must not go before the pods that it restricts.
pub fn step(survey: &Survey) -> Step {
    if survey.is_empty() {
        return Step::Finalize;
    }
    let pods_may_remain = survey.types.iter().any(|of_type| of_type.is_pods() && !of_type.is_empty());
    let has_living = |of_type: &&TypeSurvey| of_type.found.as_ref().is_ok_and(|found| found.alive > 0);
    let types: Vec<_> = survey
        .types
        .iter()
        .filter(|of_type| of_type.is_pods() || !pods_may_remain)
        .filter(has_living)
        .map(|of_type| of_type.resource.clone())
        .collect();
    if types.is_empty() { Step::Wait } else { Step::Delete(types) }
}

/// The pause after a turn that removed something.
const NEXT_TURN: Duration = Duration::from_millis(50);

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// There is nothing left to do for this namespace.
    Done,
    /// Less is left than before.
    Progress,
    /// It has to wait for somebody else, and goes on when that many objects are gone; 0 if that is not
    /// known.
    Held { awaited: u64 },
    /// A request has failed, and kube-gc tries again.
    Failed,
    /// A whole look has shown nothing. What was admitted before the deletion may still be written.
    Empty,
    /// The same, after the turn had deleted something.
    Emptied,
}

/// What has turns.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TurnOf {
    /// The terminating namespace with this name.
    Namespace(Box<str>),
    /// All claims and volumes together.
    Storage,
}

impl TurnOf {
    /// The name of the namespace, if it is one.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Self::Namespace(name) => Some(name),
            Self::Storage => None,
        }
    }
}

#[derive(Clone, Debug)]
struct Entry {
    /// Of a namespace.
    uid: Option<Uid>,
    /// `None` during a turn.
    due: Option<Duration>,
    /// Turns without progress, one after another.
    fruitless: u32,
    /// Whether it waits for somebody else.
    is_held: bool,
    /// Since when all looks have shown nothing.
    empty_since: Option<Duration>,
}

/// A turn that begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextTurn {
    pub of: TurnOf,
    /// Of a namespace.
    pub uid: Option<Uid>,
    /// Whether all looks have shown nothing for long enough that one more of them leads to finalizing
    /// (rule 11.11).
    pub is_quiet: bool,
}

/// The terminating namespaces, and perhaps the storage. Times are since any fixed moment.
#[derive(Clone, Debug)]
pub struct Agenda {
    entries: BTreeMap<TurnOf, Entry>,
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
        let of = TurnOf::Namespace(name.into());
        if self.entries.get(&of).is_none_or(|entry| entry.uid.as_ref() != Some(uid)) {
            self.add(of, Some(uid.clone()), now);
        }
    }

    /// From now on, the storage has turns, too.
    pub fn add_storage(&mut self) {
        self.add(TurnOf::Storage, None, Duration::ZERO);
    }

    fn add(&mut self, of: TurnOf, uid: Option<Uid>, now: Duration) {
        let entry = Entry { uid, due: Some(now), fruitless: 0, is_held: false, empty_since: None };
        self.entries.insert(of, entry);
    }

    /// How many namespaces are terminating.
    pub fn len(&self) -> usize {
        self.entries.len() - usize::from(self.entries.contains_key(&TurnOf::Storage))
    }

    /// Those that have a turn, or are about to without having to wait for somebody else, with the uid of
    /// a namespace.
    pub fn busy(&self) -> impl Iterator<Item = (&TurnOf, &Option<Uid>)> {
        let is_busy = |entry: &Entry| entry.due.is_none() || !entry.is_held;
        self.entries.iter().filter(move |(_, entry)| is_busy(entry)).map(|(of, entry)| (of, &entry.uid))
    }

    /// Begins the turn that has been due for the longest time.
    pub fn next(&mut self, now: Duration) -> Option<NextTurn> {
        let turns = self.entries.values().filter(|entry| entry.due.is_none()).count();
        if turns >= self.at_once {
            return None;
        }
        let due = self.entries.iter_mut().filter(|(_, entry)| entry.due.is_some_and(|due| due <= now));
        let (of, entry) = due.min_by_key(|(_, entry)| entry.due)?;
        entry.due = None;
        let is_quiet =
            self.quiet.is_zero() || entry.empty_since.is_some_and(|since| since + self.quiet <= now);
        Some(NextTurn { of: of.clone(), uid: entry.uid.clone(), is_quiet })
    }

    /// When the next turn is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.entries.values().filter_map(|entry| entry.due).min()
    }

    /// Ends a turn. A namespace that was re-created meanwhile is another one.
    pub fn ended(&mut self, NextTurn { of, uid, .. }: &NextTurn, how: Ended, now: Duration) {
        let Some(entry) = self.entries.get_mut(of).filter(|entry| entry.uid == *uid) else { return };
        entry.empty_since = match how {
            Ended::Empty => entry.empty_since.or(Some(now)),
            Ended::Emptied => Some(now),
            Ended::Done | Ended::Progress | Ended::Held { .. } | Ended::Failed => None,
        };
        entry.is_held = matches!(how, Ended::Held { .. });
        match how {
            Ended::Done => {
                self.entries.remove(of);
            }
            Ended::Empty | Ended::Emptied => {
                entry.fruitless = 0;
                entry.due = entry.empty_since.map(|since| since + self.quiet);
            }
            Ended::Progress => {
                entry.fruitless = 0;
                entry.due = Some(now + NEXT_TURN);
            }
            Ended::Held { .. } | Ended::Failed => {
                entry.fruitless = entry.fruitless.saturating_add(1);
                entry.due = Some(now + self.backoff.delay(entry.fruitless));
            }
        }
    }

    /// What this waited for is gone, so it is due soon.
    pub fn hasten(&mut self, of: &TurnOf, now: Duration) {
        if let Some(entry) = self.entries.get_mut(of)
            && let Some(due) = &mut entry.due
        {
            *due = (*due).min(now + NEXT_TURN);
            (entry.fruitless, entry.is_held) = (0, false);
        }
    }
}
