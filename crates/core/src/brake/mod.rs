//! The brake: optional limits on how much the collector deletes.
//!
//! After a mistake, such as a deleted CRD or half a restore, the collector should stop and ask.
//! There are three limits, all off by default: on deletions per minute, of all objects and of those
//! in one namespace, and on the share of a resource type's objects within a window ([`Limits`]).
//! When a limit is reached, the brake engages, for everything or for that namespace, and stays
//! engaged until a person resumes.
//!
//! The [`Ledger`] gets the time and the number of objects from its caller, and decides which
//! DELETEs may be sent. [`lease`] defines what the replicas share through the annotations of
//! their Lease.

pub mod lease;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

use crate::object::{Digest, GroupResource, Identity, Namespace};

/// Optional limits. Without any, every deletion is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// How many deletions are allowed in any minute.
    pub per_minute: Option<NonZeroU32>,
    /// How many of them may be in one namespace. Beyond that, deletion pauses only there.
    pub namespace_per_minute: Option<NonZeroU32>,
    /// Which share of a resource type's objects may be deleted within a window.
    pub share: Option<Share>,
}

impl Limits {
    pub const fn is_off(&self) -> bool {
        let Self { per_minute, namespace_per_minute, share } = self;
        per_minute.is_none() && namespace_per_minute.is_none() && share.is_none()
    }
}

/// A share of the objects of a resource type, within a window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Share {
    pub percent: NonZeroU32,
    pub window: Duration,
    /// This many deletions are always allowed, because a small type reaches any percentage soon.
    pub floor: u32,
}

impl Share {
    /// How many of this many objects may be deleted: at least one, rounded up.
    pub fn of(&self, population: u64) -> u64 {
        let part = (u128::from(population) * u128::from(self.percent.get())).div_ceil(100);
        u64::try_from(part).unwrap_or(u64::MAX).max(u64::from(self.floor)).max(1)
    }
}

const MINUTE: Duration = Duration::from_secs(60);
/// The number of slots of a window. A slot is dropped as a whole, late rather than early, so a
/// window covers up to a sixtieth more than its length.
const SLOTS: u32 = 60;
/// How many namespaces are counted at a time. In others, only the limits for everything apply. The
/// Lease must have room for their names.
const NAMESPACES_AT_MOST: usize = 1024;
/// Old uncertain deletions are dropped when there are this many.
const UNCERTAIN_BEFORE_CLEANUP: usize = 1024;

/// Why deletion is paused, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Engagement {
    pub since: SystemTime,
    pub why: String,
}

impl fmt::Display for Engagement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "since {}: {}", humantime::format_rfc3339_seconds(self.since), self.why)
    }
}

/// Where the brake is engaged: for everything (`None`), or in single namespaces.
pub type Engaged = BTreeMap<Option<Namespace>, Engagement>;

/// The deletions that one limit counts, and the limit. That of a namespace comes before all others,
/// because it stops the least.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Counted {
    InNamespace(Namespace, u64),
    All(u64),
    OfType(GroupResource, Share),
}

impl Counted {
    /// The name of the limit in metrics.
    const fn limit(&self) -> &'static str {
        match self {
            Self::InNamespace(..) => "namespace_deletions_per_minute",
            Self::All(_) => "deletions_per_minute",
            Self::OfType(..) => "percent",
        }
    }

    /// How many deletions are allowed in a window that began with so many objects.
    fn allowed(&self, population: u64) -> u64 {
        match self {
            Self::InNamespace(_, limit) | Self::All(limit) => *limit,
            Self::OfType(_, share) => share.of(population),
        }
    }

    fn why(&self, deleted: u64, of: u64) -> String {
        match self {
            Self::InNamespace(namespace, limit) => format!(
                "{limit} objects in the namespace {namespace} were deleted within a minute, as many as \
                 namespace_deletions_per_minute allows"
            ),
            Self::All(limit) => format!(
                "{limit} objects were deleted within a minute, as many as deletions_per_minute allows"
            ),
            Self::OfType(resource, Share { percent, window, floor }) => format!(
                "{deleted} of {of} {resource} were deleted within {}, as many as percent = {percent} and \
                 percent_floor = {floor} allow",
                humantime::format_duration(*window)
            ),
        }
    }
}

/// The deletions within a sliding window, in constant memory.
#[derive(Debug)]
struct Window {
    /// The length of a slot in nanoseconds.
    width: u128,
    /// The slots with deletions, oldest first.
    slots: VecDeque<Slot>,
    /// Deletions whose answer is not known yet.
    pending: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    number: u128,
    deleted: u64,
    /// How many objects there were when the slot began.
    population: u64,
}

impl Window {
    fn new(length: Duration) -> Self {
        // Rounded up, so that all slots together cover the window.
        let width = length.as_nanos().div_ceil(u128::from(SLOTS)).max(1);
        Self { width, slots: VecDeque::new(), pending: 0 }
    }

    /// Drops expired slots. The slot in which the window begins counts as a whole, so there are up
    /// to [`SLOTS`] + 1.
    fn advance(&mut self, now: Duration) {
        let now = now.as_nanos() / self.width;
        while self.slots.front().is_some_and(|slot| slot.number + u128::from(SLOTS) < now) {
            self.slots.pop_front();
        }
    }

    /// The present slot, which begins with this population if it is new.
    fn present(&mut self, now: Duration, population: u64) -> Option<&mut Slot> {
        self.advance(now);
        let number = now.as_nanos() / self.width;
        if self.slots.back().is_none_or(|slot| slot.number < number) {
            self.slots.push_back(Slot { number, deleted: 0, population });
        }
        self.slots.back_mut()
    }

    /// The slot of an earlier deletion, unless it has expired.
    fn at(&mut self, then: Duration) -> Option<&mut Slot> {
        let number = then.as_nanos() / self.width;
        self.slots.iter_mut().rfind(|slot| slot.number == number)
    }

    /// Whether another deletion is allowed, one of an object whose earlier deletion was counted at
    /// that time. Every slot may begin a window.
    fn headroom(&self, earlier: Option<Duration>, allowed: impl Fn(u64) -> u64) -> Headroom {
        let earlier = earlier.map(|then| then.as_nanos() / self.width);
        let (mut deleted, mut headroom) = (0, Headroom::Free);
        for slot in self.slots.iter().rev() {
            deleted += slot.deleted.saturating_sub(u64::from(earlier == Some(slot.number)));
            let allowed = allowed(slot.population);
            if deleted >= allowed {
                return Headroom::Full { deleted, of: slot.population };
            }
            if deleted + self.pending >= allowed {
                headroom = Headroom::Perhaps;
            }
        }
        headroom
    }
}

/// Whether another deletion is within a limit.
enum Headroom {
    Free,
    /// Only if some pending deletion does not take effect.
    Perhaps,
    Full {
        deleted: u64,
        of: u64,
    },
}

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
    engaged: Engaged,
    windows: HashMap<Counted, Window>,
    /// Deletions that may or may not have taken effect, and when they were counted. A retry does
    /// not count again.
    uncertain: HashMap<Digest, Duration>,
}

/// A pending deletion, to be [settled](Ledger::settle).
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    uid: Digest,
    counted: Vec<Counted>,
    population: u64,
    /// An earlier attempt may have taken effect.
    uncertain: bool,
}

/// Why an object is not deleted now.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// If all pending deletions take effect, the limit is reached: ask again when they are
    /// answered.
    NotYet,
    /// The limit of this name is reached, and the brake has engaged, for everything (`None`) or for
    /// a namespace.
    Engages { limit: &'static str, namespace: Option<Namespace>, why: String },
    /// The brake was engaged before, at least for this namespace.
    Engaged,
}

/// The result of a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionResult {
    TookEffect,
    /// Unknown. It counts, and a retry does not count again.
    Unknown,
    /// It was not sent, or was rejected.
    NoEffect,
}

impl Ledger {
    pub fn new(limits: Limits) -> Self {
        Self { limits, engaged: Engaged::new(), windows: HashMap::new(), uncertain: HashMap::new() }
    }

    pub const fn engaged(&self) -> &Engaged {
        &self.engaged
    }

    /// Whether an object may be deleted, of whose type there are `population` objects.
    ///
    /// # Errors
    /// A limit is reached, or may be.
    pub fn admit(
        &mut self,
        object: &Identity,
        population: u64,
        (now, at): (Duration, SystemTime),
    ) -> Result<Ticket, Refusal> {
        if self.engaged.contains_key(&None) || self.engaged.contains_key(&object.namespace) {
            return Err(Refusal::Engaged);
        }
        let uid = Digest::of(&object.uid);
        let earlier = self.uncertain.get(&uid).copied();
        let (mut counted, mut may_be_full) = (Vec::with_capacity(3), false);
        for what in self.limited(object) {
            let Some(window) = self.window(&what, now) else { continue };
            window.present(now, population);
            match self.windows[&what].headroom(earlier, |population| what.allowed(population)) {
                Headroom::Free => {}
                Headroom::Perhaps => may_be_full = true,
                Headroom::Full { deleted, of } => {
                    let namespace = match &what {
                        Counted::InNamespace(namespace, _) => Some(namespace.clone()),
                        Counted::All(_) | Counted::OfType(..) => None,
                    };
                    return Err(self.reached(&what, namespace, what.why(deleted, of), at));
                }
            }
            counted.push(what);
        }
        if may_be_full {
            return Err(Refusal::NotYet);
        }
        self.uncertain.remove(&uid);
        for what in &counted {
            let Some(window) = self.windows.get_mut(what) else { continue };
            window.pending += 1;
            if let Some(slot) = earlier.and_then(|then| window.at(then)) {
                slot.deleted = slot.deleted.saturating_sub(1);
            }
        }
        Ok(Ticket { uid, counted, population, uncertain: earlier.is_some() })
    }

    /// What the limits count about such an object.
    fn limited(&self, object: &Identity) -> impl Iterator<Item = Counted> + use<> {
        let Limits { per_minute, namespace_per_minute, share } = self.limits;
        let [here, all] =
            [namespace_per_minute, per_minute].map(|limit| limit.map(|limit| limit.get().into()));
        let here = object.namespace.clone().zip(here);
        let here = here.map(|(namespace, limit)| Counted::InNamespace(namespace, limit));
        let of_type = share.map(|share| Counted::OfType(object.resource.group_resource.clone(), share));
        [here, all.map(Counted::All), of_type].into_iter().flatten()
    }

    /// The window that counts this; `None` for a namespace if there are too many others with recent
    /// deletions.
    fn window(&mut self, what: &Counted, now: Duration) -> Option<&mut Window> {
        let length = match what {
            Counted::InNamespace(..) | Counted::All(_) => MINUTE,
            Counted::OfType(_, share) => share.window,
        };
        if self.windows.len() >= NAMESPACES_AT_MOST && !self.windows.contains_key(what) {
            self.windows.retain(|_, window| {
                window.advance(now);
                window.pending > 0 || window.slots.iter().any(|slot| slot.deleted > 0)
            });
            let is_namespace = |what: &Counted| matches!(what, Counted::InNamespace(..));
            let namespaces = self.windows.keys().filter(|other| is_namespace(other)).count();
            if is_namespace(what) && namespaces >= NAMESPACES_AT_MOST {
                return None;
            }
        }
        Some(self.windows.entry(what.clone()).or_insert_with(|| Window::new(length)))
    }

    /// Engages the brake because a limit is reached.
    fn reached(
        &mut self,
        what: &Counted,
        namespace: Option<Namespace>,
        why: String,
        since: SystemTime,
    ) -> Refusal {
        let (namespace, why) = match namespace {
            Some(_) if self.engaged.len() >= NAMESPACES_AT_MOST => {
                let why = format!(
                    "deletion is paused in {NAMESPACES_AT_MOST} namespaces, because of \
                     namespace_deletions_per_minute, and would be in another one"
                );
                (None, why)
            }
            namespace => (namespace, why),
        };
        self.engage(namespace.clone(), Engagement { since, why: why.clone() });
        Refusal::Engages { limit: what.limit(), namespace, why }
    }

    /// Ends a pending deletion.
    pub fn settle(&mut self, ticket: Ticket, result: DeletionResult, now: Duration) {
        let Ticket { uid, counted, population, uncertain } = ticket;
        let result =
            if result == DeletionResult::NoEffect && uncertain { DeletionResult::Unknown } else { result };
        for what in &counted {
            let Some(window) = self.windows.get_mut(what) else { continue };
            window.pending = window.pending.saturating_sub(1);
            if result != DeletionResult::NoEffect
                && let Some(slot) = window.present(now, population)
            {
                slot.deleted += 1;
            }
        }
        if result == DeletionResult::Unknown && !counted.is_empty() {
            if self.uncertain.len() >= UNCERTAIN_BEFORE_CLEANUP {
                let window = self.limits.share.map_or(MINUTE, |share| share.window.max(MINUTE));
                self.uncertain.retain(|_, then| now.saturating_sub(*then) <= window * 2);
            }
            self.uncertain.insert(uid, now);
        }
    }

    /// Engages the brake, for one namespace or for everything. False if it was engaged there.
    pub fn engage(&mut self, namespace: Option<Namespace>, engagement: Engagement) -> bool {
        let is_new = !self.engaged.contains_key(&namespace);
        self.engaged.entry(namespace).or_insert(engagement);
        is_new
    }

    /// Releases the brake everywhere. All windows start over; pending deletions stay pending.
    pub fn release(&mut self) {
        self.engaged.clear();
        self.uncertain.clear();
        self.windows.retain(|_, window| {
            window.slots.clear();
            window.pending > 0
        });
    }
}
