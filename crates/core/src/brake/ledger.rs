//! Counts recent and pending deletions, and decides whether another one is allowed.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use super::window::Window;
use super::{Limits, Share};
use crate::object::{GroupResource, Uid};

const MINUTE: Duration = Duration::from_secs(60);
/// How many resource types are counted at a time. If deletions affect more types within one
/// window, a person should look.
const TYPES_AT_MOST: usize = 4096;
/// Old uncertain deletions are dropped when there are this many.
const UNCERTAIN_BEFORE_CLEANUP: usize = 1024;

/// Counts deletions and decides whether another one is allowed.
///
/// A deletion counts as pending from its admission until its answer is known, and afterwards for
/// the length of the window. So no minute (or window) contains more deletions than are allowed,
/// whenever each of them took effect.
///
/// Times are relative to some origin and never go back.
#[derive(Debug)]
pub struct Ledger {
    limits: Limits,
    engaged: bool,
    under_way: u64,
    minute: Window,
    types: HashMap<GroupResource, Tracked>,
    /// Deletions that may or may not have taken effect, and when they were counted. A retry does
    /// not count again.
    uncertain: HashMap<Uid, Duration>,
}

#[derive(Debug)]
struct Tracked {
    under_way: u64,
    window: Window,
}

/// The answer to a request for another deletion.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// The DELETE may be sent.
    Granted(Ticket),
    /// Ask again with the number of objects of the type.
    PopulationNeeded,
    /// If all pending deletions take effect, the limit is reached: ask again when they are
    /// answered.
    NotYet,
    /// The limit is reached, and the brake engages.
    Engages(Cause),
    /// The brake is engaged.
    Refused,
}

/// A pending deletion, to be [settled](Ledger::settle).
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    uid: Uid,
    resource: GroupResource,
    population: Option<u64>,
    /// An earlier attempt may have taken effect.
    uncertain: bool,
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionResult {
    /// It took effect.
    TookEffect,
    /// Unknown. It counts, and a retry does not count again.
    Unknown,
    /// It was not sent, or was rejected.
    NoEffect,
}

/// Why the brake engages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Too many within a minute.
    Rate { limit: u64 },
    /// Too many of a resource type's objects.
    Share { resource: GroupResource, deleted: u64, of: u64, share: Share },
    /// Objects of more types than are counted.
    Types,
}

impl Cause {
    /// The name of the limit in metrics.
    #[must_use]
    pub const fn limit(&self) -> &'static str {
        match self {
            Self::Rate { .. } => "deletions_per_minute",
            Self::Share { .. } | Self::Types => "percent",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate { limit } => {
                write!(
                    f,
                    "{limit} objects were deleted within a minute, as many as deletions_per_minute allows"
                )
            }
            Self::Share { resource, deleted, of, share: Share { percent, window, floor } } => write!(
                f,
                "{deleted} of {of} {resource} were deleted within {}, as many as percent = {percent} and \
                 percent_floor = {floor} allow",
                humantime::format_duration(*window)
            ),
            Self::Types => {
                write!(f, "objects of {TYPES_AT_MOST} resource types were deleted, more than can be counted")
            }
        }
    }
}

/// Whether another deletion is within the limits.
enum Headroom {
    Free,
    /// Only if some pending deletion does not take effect.
    Perhaps,
    Full(Cause),
}

impl Ledger {
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            engaged: false,
            under_way: 0,
            minute: Window::new(MINUTE),
            types: HashMap::new(),
            uncertain: HashMap::new(),
        }
    }

    /// Whether the brake is engaged.
    #[must_use]
    pub const fn is_engaged(&self) -> bool {
        self.engaged
    }

    /// Whether an object of this type may be deleted. `population` is the number of objects of the
    /// type, if [asked for](Admission::PopulationNeeded).
    pub fn admit(
        &mut self,
        uid: &Uid,
        resource: &GroupResource,
        population: Option<u64>,
        now: Duration,
    ) -> Admission {
        if self.engaged {
            return Admission::Refused;
        }
        self.minute.advance(now);
        let population = match self.track(resource, population, now) {
            Ok(population) => population,
            Err(refused) => return refused,
        };
        // An earlier attempt was counted.
        let counted = self.uncertain.get(uid).copied();
        self.recount(resource, counted, Window::take_back);
        match self.headroom(resource) {
            Headroom::Free => {
                self.uncertain.remove(uid);
                self.under_way += 1;
                if let Some(tracked) = self.types.get_mut(resource) {
                    tracked.under_way += 1;
                }
                let (uid, resource) = (uid.clone(), resource.clone());
                Admission::Granted(Ticket { uid, resource, population, uncertain: counted.is_some() })
            }
            Headroom::Perhaps => {
                self.recount(resource, counted, Window::put_back);
                Admission::NotYet
            }
            Headroom::Full(cause) => {
                self.recount(resource, counted, Window::put_back);
                self.engaged = true;
                Admission::Engages(cause)
            }
        }
    }

    /// Starts counting the type if necessary. Returns how many objects there were when the current
    /// slot began.
    fn track(
        &mut self,
        resource: &GroupResource,
        population: Option<u64>,
        now: Duration,
    ) -> Result<Option<u64>, Admission> {
        let Some(share) = self.limits.share else { return Ok(None) };
        if !self.types.contains_key(resource) && self.types.len() >= TYPES_AT_MOST {
            self.types.retain(|_, tracked| {
                tracked.window.advance(now);
                tracked.under_way > 0 || !tracked.window.is_empty()
            });
            if self.types.len() >= TYPES_AT_MOST {
                self.engaged = true;
                return Err(Admission::Engages(Cause::Types));
            }
        }
        let new = || Tracked { under_way: 0, window: Window::new(share.window) };
        let tracked = self.types.entry(resource.clone()).or_insert_with(new);
        tracked.window.advance(now);
        match population {
            _ if tracked.window.is_sampled(now) => {}
            Some(population) => tracked.window.sample(now, population),
            None => return Err(Admission::PopulationNeeded),
        }
        Ok(tracked.window.since_each().next().map(|(population, _)| population))
    }

    fn recount(&mut self, resource: &GroupResource, then: Option<Duration>, how: fn(&mut Window, Duration)) {
        let Some(then) = then else { return };
        how(&mut self.minute, then);
        if let Some(tracked) = self.types.get_mut(resource) {
            how(&mut tracked.window, then);
        }
    }

    fn headroom(&self, resource: &GroupResource) -> Headroom {
        let mut headroom = Headroom::Free;
        if let Some(limit) = self.limits.per_minute {
            let (limit, count) = (u64::from(limit.get()), self.minute.count());
            if count >= limit {
                return Headroom::Full(Cause::Rate { limit });
            }
            if count + self.under_way >= limit {
                headroom = Headroom::Perhaps;
            }
        }
        if let (Some(share), Some(tracked)) = (self.limits.share, self.types.get(resource)) {
            // Every slot may begin a window.
            for (of, deleted) in tracked.window.since_each() {
                let allowed = share.of(of);
                if deleted >= allowed {
                    return Headroom::Full(Cause::Share { resource: resource.clone(), deleted, of, share });
                }
                if deleted + tracked.under_way >= allowed {
                    headroom = Headroom::Perhaps;
                }
            }
        }
        headroom
    }

    /// Ends a pending deletion.
    pub fn settle(&mut self, ticket: Ticket, result: DeletionResult, now: Duration) {
        let Ticket { uid, resource, population, uncertain } = ticket;
        let tracked = self.types.get_mut(&resource);
        self.under_way = self.under_way.saturating_sub(1);
        let result =
            if result == DeletionResult::NoEffect && uncertain { DeletionResult::Unknown } else { result };
        let counts = result != DeletionResult::NoEffect;
        if counts {
            self.minute.advance(now);
            self.minute.add(now, None);
        }
        if let Some(tracked) = tracked {
            tracked.under_way = tracked.under_way.saturating_sub(1);
            if counts {
                tracked.window.advance(now);
                tracked.window.add(now, population);
            }
        }
        if result == DeletionResult::Unknown {
            self.remember_uncertain(uid, now);
        }
    }

    fn remember_uncertain(&mut self, uid: Uid, now: Duration) {
        if self.uncertain.len() >= UNCERTAIN_BEFORE_CLEANUP {
            let window = self.limits.share.map_or(MINUTE, |share| share.window.max(MINUTE));
            self.uncertain.retain(|_, then| now.saturating_sub(*then) <= window * 2);
        }
        self.uncertain.insert(uid, now);
    }

    /// Engages the brake because another replica had engaged it.
    pub fn engage(&mut self) {
        self.engaged = true;
    }

    /// Releases the brake. All windows start over; pending deletions stay pending.
    pub fn release(&mut self) {
        self.engaged = false;
        self.minute = Window::new(MINUTE);
        self.uncertain.clear();
        self.types.retain(|_, tracked| tracked.under_way > 0);
        if let Some(share) = self.limits.share {
            for tracked in self.types.values_mut() {
                tracked.window = Window::new(share.window);
            }
        }
    }
}
