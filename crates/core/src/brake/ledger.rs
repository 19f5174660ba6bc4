//! What was deleted lately, what is on its way, and what may follow.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use super::window::Window;
use super::{Limits, Share};
use crate::object::{GroupResource, Uid};

/// What "per minute" means.
const MINUTE: Duration = Duration::from_secs(60);
/// How many resource types are counted at a time. More of them than this with deletions
/// within one window is nothing that a person should not look at.
const TYPES_AT_MOST: usize = 4096;
/// From so many on, deletions that are in doubt are looked through for old ones.
const DOUBTFUL_AT_EASE: usize = 1024;

/// Counts deletions and says whether there may be another one.
///
/// A deletion counts as under way from when it is admitted until its answer is known, and
/// from then on for as long as the window is. So whenever it takes effect in between, in
/// no minute (or window) do more of them take effect than are allowed.
///
/// Times are since some origin, and never go back.
#[derive(Debug)]
pub struct Ledger {
    limits: Limits,
    engaged: bool,
    under_way: u64,
    minute: Window,
    types: HashMap<GroupResource, Tracked>,
    /// Deletions of which nobody knows whether they took effect, and when they were
    /// counted for that: trying again is not another deletion.
    doubtful: HashMap<Uid, Duration>,
}

#[derive(Debug)]
struct Tracked {
    under_way: u64,
    window: Window,
}

/// The answer to the question for another deletion.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may be sent.
    Granted(Ticket),
    /// It is to be asked again, with the number of objects that there are of the type.
    PopulationNeeded,
    /// So many are under way that, if all take effect, the limit is reached: ask again
    /// when they are answered.
    NotYet,
    /// The limit is reached: the brake engages now.
    Engages(Cause),
    /// The brake is engaged.
    Refused,
}

/// A deletion that is under way; to be [settled](Ledger::settle).
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    uid: Uid,
    resource: GroupResource,
    population: Option<u64>,
    /// It may have taken effect before, when it was tried for the first time.
    doubtful: bool,
}

/// What became of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It took effect.
    Effective,
    /// Nobody knows: it counts, but trying it again does not.
    Doubtful,
    /// It was not sent, or it was refused.
    Void,
}

/// Why the brake engages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// So many within a minute.
    Rate { limit: u64 },
    /// So many of a resource type's objects.
    Share { resource: GroupResource, deleted: u64, of: u64, share: Share },
    /// Objects of more types than can be counted.
    Types,
}

impl Cause {
    /// The word for it in metrics.
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

/// Whether there is room for one more.
enum Room {
    Free,
    /// Not if all that is under way takes effect.
    Perhaps,
    Full(Cause),
}

impl Ledger {
    /// Nothing was deleted so far.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            engaged: false,
            under_way: 0,
            minute: Window::new(MINUTE),
            types: HashMap::new(),
            doubtful: HashMap::new(),
        }
    }

    /// Whether the brake is engaged.
    #[must_use]
    pub const fn is_engaged(&self) -> bool {
        self.engaged
    }

    /// May an object of this type be deleted? The population is how many objects of the
    /// type there are, if that was [asked for](Admission::PopulationNeeded).
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
        // It was counted when it was tried before.
        let counted = self.doubtful.get(uid).copied();
        self.recount(resource, counted, Window::take_back);
        match self.room(resource) {
            Room::Free => {
                self.doubtful.remove(uid);
                self.under_way += 1;
                if let Some(tracked) = self.types.get_mut(resource) {
                    tracked.under_way += 1;
                }
                let (uid, resource) = (uid.clone(), resource.clone());
                Admission::Granted(Ticket { uid, resource, population, doubtful: counted.is_some() })
            }
            Room::Perhaps => {
                self.recount(resource, counted, Window::put_back);
                Admission::NotYet
            }
            Room::Full(cause) => {
                self.recount(resource, counted, Window::put_back);
                self.engaged = true;
                Admission::Engages(cause)
            }
        }
    }

    /// Makes sure that the type is counted, and that it is known how many objects there
    /// were when the window began.
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

    fn room(&self, resource: &GroupResource) -> Room {
        let mut room = Room::Free;
        if let Some(limit) = self.limits.per_minute {
            let (limit, count) = (u64::from(limit.get()), self.minute.count());
            if count >= limit {
                return Room::Full(Cause::Rate { limit });
            }
            if count + self.under_way >= limit {
                room = Room::Perhaps;
            }
        }
        if let (Some(share), Some(tracked)) = (self.limits.share, self.types.get(resource)) {
            // A window may begin with any slot.
            for (of, deleted) in tracked.window.since_each() {
                let allowed = share.of(of);
                if deleted >= allowed {
                    return Room::Full(Cause::Share { resource: resource.clone(), deleted, of, share });
                }
                if deleted + tracked.under_way >= allowed {
                    room = Room::Perhaps;
                }
            }
        }
        room
    }

    /// A deletion is not under way any more.
    pub fn settle(&mut self, ticket: Ticket, fate: Fate, now: Duration) {
        let Ticket { uid, resource, population, doubtful } = ticket;
        let tracked = self.types.get_mut(&resource);
        self.under_way = self.under_way.saturating_sub(1);
        let fate = if fate == Fate::Void && doubtful { Fate::Doubtful } else { fate };
        let counts = fate != Fate::Void;
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
        if fate == Fate::Doubtful {
            self.doubt(uid, now);
        }
    }

    fn doubt(&mut self, uid: Uid, now: Duration) {
        if self.doubtful.len() >= DOUBTFUL_AT_EASE {
            let window = self.limits.share.map_or(MINUTE, |share| share.window.max(MINUTE));
            self.doubtful.retain(|_, then| now.saturating_sub(*then) <= window * 2);
        }
        self.doubtful.insert(uid, now);
    }

    /// Engages it, because it is known from elsewhere that it is.
    pub fn engage(&mut self) {
        self.engaged = true;
    }

    /// Releases it. All windows begin anew; what is under way stays so.
    pub fn release(&mut self) {
        self.engaged = false;
        self.minute = Window::new(MINUTE);
        self.doubtful.clear();
        self.types.retain(|_, tracked| tracked.under_way > 0);
        if let Some(share) = self.limits.share {
            for tracked in self.types.values_mut() {
                tracked.window = Window::new(share.window);
            }
        }
    }
}
