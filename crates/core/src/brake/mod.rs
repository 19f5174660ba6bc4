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
mod window;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::time::Duration;

use window::Window;

use crate::object::{Digest, GroupResource, Namespace, Uid};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
/// How many resource types are counted at a time. If deletions affect more types within one
/// window, a person should look.
const TYPES_AT_MOST: usize = 4096;
/// How many namespaces are counted at a time. In others, only the limits for everything apply. The
/// Lease must have room for their names.
pub const NAMESPACES_AT_MOST: usize = 1024;
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
    /// The namespaces in which it is engaged.
    braked: BTreeSet<Namespace>,
    all: Tracked,
    types: HashMap<GroupResource, Tracked>,
    namespaces: HashMap<Namespace, Tracked>,
    /// Deletions that may or may not have taken effect, and when they were counted. A retry does
    /// not count again.
    uncertain: HashMap<Digest, Duration>,
}

#[derive(Debug)]
struct Tracked {
    under_way: u64,
    window: Window,
}

impl Tracked {
    fn new(length: Duration) -> Self {
        Self { under_way: 0, window: Window::new(length) }
    }

    /// Whether another deletion is within a limit for each minute.
    fn headroom(&self, limit: u64, cause: impl FnOnce() -> Cause) -> Headroom {
        match self.window.count() {
            count if count >= limit => Headroom::Full(cause()),
            count if count + self.under_way >= limit => Headroom::Perhaps,
            _ => Headroom::Free,
        }
    }
}

/// Starts counting for a key if necessary, unless there are too many with recent deletions.
fn track<'a, K: Clone + Eq + Hash>(
    all: &'a mut HashMap<K, Tracked>,
    key: &K,
    length: Duration,
    most: usize,
    now: Duration,
) -> Option<&'a mut Tracked> {
    if !all.contains_key(key) && all.len() >= most {
        all.retain(|_, tracked| {
            tracked.window.advance(now);
            tracked.under_way > 0 || !tracked.window.is_empty()
        });
        if all.len() >= most {
            return None;
        }
    }
    Some(all.entry(key.clone()).or_insert_with(|| Tracked::new(length)))
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
    /// The limit is reached, and the brake engages, for what the [cause](Cause::namespace) says.
    Engages(Cause),
    /// The brake is engaged, at least for this namespace.
    Refused,
}

/// A pending deletion, to be [settled](Ledger::settle).
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    uid: Digest,
    resource: GroupResource,
    namespace: Option<Namespace>,
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
    /// Too many within a minute in one namespace.
    NamespaceRate { namespace: Namespace, limit: u64 },
    /// Too many of a resource type's objects.
    Share { resource: GroupResource, deleted: u64, of: u64, share: Share },
    /// Objects of more types than are counted.
    Types,
    /// Too many in more namespaces than the Lease has room for.
    Namespaces,
}

impl Cause {
    /// The name of the limit in metrics.
    pub const fn limit(&self) -> &'static str {
        match self {
            Self::Rate { .. } => "deletions_per_minute",
            Self::NamespaceRate { .. } | Self::Namespaces => "namespace_deletions_per_minute",
            Self::Share { .. } | Self::Types => "percent",
        }
    }

    /// The namespace for which the brake engages; `None` for everything.
    pub const fn namespace(&self) -> Option<&Namespace> {
        match self {
            Self::NamespaceRate { namespace, .. } => Some(namespace),
            Self::Rate { .. } | Self::Share { .. } | Self::Types | Self::Namespaces => None,
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
            Self::NamespaceRate { namespace, limit } => write!(
                f,
                "{limit} objects in the namespace {namespace} were deleted within a minute, as many as \
                 namespace_deletions_per_minute allows"
            ),
            Self::Share { resource, deleted, of, share: Share { percent, window, floor } } => write!(
                f,
                "{deleted} of {of} {resource} were deleted within {}, as many as percent = {percent} and \
                 percent_floor = {floor} allow",
                humantime::format_duration(*window)
            ),
            Self::Types => {
                write!(f, "objects of {TYPES_AT_MOST} resource types were deleted, more than can be counted")
            }
            Self::Namespaces => write!(
                f,
                "deletion is paused in {NAMESPACES_AT_MOST} namespaces, because of \
                 namespace_deletions_per_minute, and would be in another one"
            ),
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
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            engaged: false,
            braked: BTreeSet::new(),
            all: Tracked::new(MINUTE),
            types: HashMap::new(),
            namespaces: HashMap::new(),
            uncertain: HashMap::new(),
        }
    }

    /// Whether the brake is engaged for everything.
    pub const fn is_engaged(&self) -> bool {
        self.engaged
    }

    /// Whether an object may be deleted. `population` is the number of objects of the type, if
    /// [asked for](Admission::PopulationNeeded).
    pub fn admit(
        &mut self,
        uid: &Uid,
        resource: &GroupResource,
        namespace: Option<&Namespace>,
        population: Option<u64>,
        now: Duration,
    ) -> Admission {
        if self.engaged || namespace.is_some_and(|namespace| self.braked.contains(namespace)) {
            return Admission::Refused;
        }
        if let Some(namespace) = namespace.filter(|_| self.limits.namespace_per_minute.is_some()) {
            track(&mut self.namespaces, namespace, MINUTE, NAMESPACES_AT_MOST, now);
        }
        let population = match self.track_type(resource, population, now) {
            Ok(population) => population,
            Err(refused) => return refused,
        };
        self.counting(resource, namespace).for_each(|tracked| tracked.window.advance(now));
        // An earlier attempt was counted.
        let uid = Digest::of(uid);
        let counted = self.uncertain.get(&uid).copied();
        let recount = |ledger: &mut Self, how: fn(&mut Window, Duration)| {
            if let Some(then) = counted {
                ledger.counting(resource, namespace).for_each(|tracked| how(&mut tracked.window, then));
            }
        };
        recount(self, Window::take_back);
        match self.headroom(resource, namespace) {
            Headroom::Free => {
                self.uncertain.remove(&uid);
                self.counting(resource, namespace).for_each(|tracked| tracked.under_way += 1);
                let (resource, namespace) = (resource.clone(), namespace.cloned());
                Admission::Granted(Ticket {
                    uid,
                    resource,
                    namespace,
                    population,
                    uncertain: counted.is_some(),
                })
            }
            Headroom::Perhaps => {
                recount(self, Window::put_back);
                Admission::NotYet
            }
            Headroom::Full(cause) => {
                recount(self, Window::put_back);
                let is_too_many = cause.namespace().is_some() && self.braked.len() >= NAMESPACES_AT_MOST;
                let cause = if is_too_many { Cause::Namespaces } else { cause };
                self.engage(cause.namespace());
                Admission::Engages(cause)
            }
        }
    }

    /// What counts the deletions of such an object.
    fn counting(
        &mut self,
        resource: &GroupResource,
        namespace: Option<&Namespace>,
    ) -> impl Iterator<Item = &mut Tracked> {
        let of_namespace = namespace.and_then(|namespace| self.namespaces.get_mut(namespace));
        [Some(&mut self.all), self.types.get_mut(resource), of_namespace].into_iter().flatten()
    }

    /// Starts counting the type if necessary. Returns how many objects there were when the current
    /// slot began.
    fn track_type(
        &mut self,
        resource: &GroupResource,
        population: Option<u64>,
        now: Duration,
    ) -> Result<Option<u64>, Admission> {
        let Some(share) = self.limits.share else { return Ok(None) };
        let Some(tracked) = track(&mut self.types, resource, share.window, TYPES_AT_MOST, now) else {
            self.engaged = true;
            return Err(Admission::Engages(Cause::Types));
        };
        tracked.window.advance(now);
        match population {
            _ if tracked.window.is_sampled(now) => {}
            Some(population) => tracked.window.sample(now, population),
            None => return Err(Admission::PopulationNeeded),
        }
        Ok(tracked.window.since_each().next().map(|(population, _)| population))
    }

    /// The first limit that is reached, that of the namespace before all others: it stops the least.
    fn headroom(&self, resource: &GroupResource, namespace: Option<&Namespace>) -> Headroom {
        let limit = |limit: Option<NonZeroU32>| limit.map(|limit| u64::from(limit.get()));
        let mut all = Vec::with_capacity(3);
        if let (Some(limit), Some(namespace)) = (limit(self.limits.namespace_per_minute), namespace)
            && let Some(tracked) = self.namespaces.get(namespace)
        {
            all.push(
                tracked.headroom(limit, || Cause::NamespaceRate { namespace: namespace.clone(), limit }),
            );
        }
        if let Some(limit) = limit(self.limits.per_minute) {
            all.push(self.all.headroom(limit, || Cause::Rate { limit }));
        }
        all.extend(self.headroom_of_type(resource));
        let is_perhaps = all.iter().any(|headroom| matches!(headroom, Headroom::Perhaps));
        let full = all.into_iter().find(|headroom| matches!(headroom, Headroom::Full(_)));
        full.unwrap_or(if is_perhaps { Headroom::Perhaps } else { Headroom::Free })
    }

    fn headroom_of_type(&self, resource: &GroupResource) -> Option<Headroom> {
        let (share, tracked) = (self.limits.share?, self.types.get(resource)?);
        let mut headroom = Headroom::Free;
        // Every slot may begin a window.
        for (of, deleted) in tracked.window.since_each() {
            let allowed = share.of(of);
            if deleted >= allowed {
                let resource = resource.clone();
                return Some(Headroom::Full(Cause::Share { resource, deleted, of, share }));
            }
            if deleted + tracked.under_way >= allowed {
                headroom = Headroom::Perhaps;
            }
        }
        Some(headroom)
    }

    /// Ends a pending deletion.
    pub fn settle(&mut self, ticket: Ticket, result: DeletionResult, now: Duration) {
        let Ticket { uid, resource, namespace, population, uncertain } = ticket;
        let result =
            if result == DeletionResult::NoEffect && uncertain { DeletionResult::Unknown } else { result };
        for tracked in self.counting(&resource, namespace.as_ref()) {
            tracked.under_way = tracked.under_way.saturating_sub(1);
            if result != DeletionResult::NoEffect {
                tracked.window.advance(now);
                tracked.window.add(now, population);
            }
        }
        if result == DeletionResult::Unknown {
            self.remember_uncertain(uid, now);
        }
    }

    fn remember_uncertain(&mut self, uid: Digest, now: Duration) {
        if self.uncertain.len() >= UNCERTAIN_BEFORE_CLEANUP {
            let window = self.limits.share.map_or(MINUTE, |share| share.window.max(MINUTE));
            self.uncertain.retain(|_, then| now.saturating_sub(*then) <= window * 2);
        }
        self.uncertain.insert(uid, now);
    }

    /// Engages the brake, for one namespace or for everything.
    pub fn engage(&mut self, namespace: Option<&Namespace>) {
        match namespace {
            Some(namespace) => drop(self.braked.insert(namespace.clone())),
            None => self.engaged = true,
        }
    }

    /// Releases the brake everywhere. All windows start over; pending deletions stay pending.
    pub fn release(&mut self) {
        fn start_over<K>(all: &mut HashMap<K, Tracked>, length: Duration) {
            all.retain(|_, tracked| {
                tracked.window = Window::new(length);
                tracked.under_way > 0
            });
        }
        self.engaged = false;
        self.braked.clear();
        self.uncertain.clear();
        self.all.window = Window::new(MINUTE);
        start_over(&mut self.types, self.limits.share.map_or(MINUTE, |share| share.window));
        start_over(&mut self.namespaces, MINUTE);
    }
}
