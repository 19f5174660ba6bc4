//! The rules of listing and watching, without I/O.
//!
//! The driver asks what to do next and tells what came of it; the machine says
//! what that means. Time comes in as an argument.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::step::{Step, WatchStart};
use crate::api::error::{ApiError, ErrorClass};
use crate::api::high_water::HighWater;
use crate::api::jitter::Jitter;
use crate::api::pagination::{OBJECTS_OF_AGGREGATED, Pagination};
use crate::api::settings::WatchSettings;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{ResourceType, ResourceVersion};

/// What the driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Wait.
    Wait(Duration),
    /// List, or go on listing.
    List(ListFrom),
    /// Ask for the present version: a consistent list of one object.
    Check,
    /// Watch from this version on, for this long.
    Watch { from: Option<ResourceVersion>, lasting: Duration },
}

/// Which list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ListFrom {
    /// Whatever the server's cache holds: nothing was seen before that it could
    /// be older than. In one piece, because pages are read from the store, and a
    /// big type's first page can be out of the watch's reach when the last comes
    /// (kube-rs/kube#1748).
    Cache,
    /// The server's cache, which must have come as far as this.
    NotOlderThan(ResourceVersion),
    /// The store as it is now, in pages.
    Store,
    /// The page after the one that gave this token.
    Page(String),
}

/// What a list's version means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Good.
    Fresh,
    /// Older than what was seen: this list counts for nothing.
    Stale,
    /// The store itself is older than what was seen.
    Restored { seen: ResourceVersion, found: ResourceVersion },
}

/// How a watch ended.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// Closed by the server.
    Closed,
    /// Nothing came for longer than it was to last.
    Silent,
    /// Refused, broken, or ended with an ERROR event.
    Failed(ApiError),
}

#[derive(Clone, Debug)]
enum Plan {
    List { consistent: bool },
    Page(String),
    Check,
    Watch,
}

/// A watch that fails so often without showing anything is not resumed again:
/// what stands at its version may be what the server stumbles over.
const FRUITLESS_WATCHES: u32 = 3;

/// How long an API server that has just started may refuse what it will allow: until its
/// roles are loaded.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// The longest wait after a failure within that time.
const SOON: Duration = Duration::from_secs(1);

/// A healthy API server waits for 3 s until its cache is as new as a list asks for, and then
/// says that it is not (`blockTimeout` of its watch cache).
const CACHE_WAITS: Duration = Duration::from_secs(5);

/// The state of one type's list and watch.
#[derive(Debug)]
pub(super) struct Machine {
    resource: Arc<ResourceType>,
    high_water: HighWater,
    aggregated: bool,
    settings: WatchSettings,
    jitter: Jitter,
    plan: Plan,
    /// Set by a refusal: this server knows no lists from its cache.
    only_consistent: bool,
    /// The cache has given no list in time; until the store has given one.
    cache_hangs: bool,
    /// When the list under way was asked for.
    asked: Option<Instant>,
    /// The version of the list under way, from its first page.
    listed: Option<ResourceVersion>,
    pages: Pagination,
    /// Objects of the list under way.
    objects: u64,
    /// Where the watch goes on.
    from: Option<ResourceVersion>,
    not_before: Option<Instant>,
    failures: u32,
    /// Until then it is tried again soon, whatever fails.
    soon_until: Option<Instant>,
    fruitless: u32,
    /// Whether the next watch is the first one after a list.
    just_listed: bool,
    /// When the watch began, how long it is to last, whether it showed anything.
    watch: (Option<Instant>, Duration, bool),
}

impl Machine {
    pub fn new(resource: Arc<ResourceType>, start: WatchStart, settings: WatchSettings, seed: u64) -> Self {
        Self {
            resource,
            high_water: start.high_water,
            aggregated: start.aggregated,
            settings,
            jitter: Jitter::new(seed),
            plan: Plan::List { consistent: false },
            only_consistent: false,
            cache_hangs: false,
            asked: None,
            listed: None,
            pages: Pagination::default(),
            objects: 0,
            from: None,
            not_before: None,
            failures: 0,
            soon_until: None,
            fruitless: 0,
            just_listed: false,
            watch: (None, Duration::ZERO, false),
        }
    }

    /// The API server can be reached again after an outage. What failed before failed for
    /// that; and one that has just started may refuse for a while what it knows no role for.
    pub fn recovered(&mut self, now: Instant) {
        self.failures = 0;
        self.not_before = None;
        self.soon_until = Some(now + STARTS_WITHIN);
    }

    /// What to do now.
    pub fn action(&mut self, now: Instant) -> Action {
        match self.not_before {
            Some(not_before) if not_before > now => return Action::Wait(not_before - now),
            _ => self.not_before = None,
        }
        match &self.plan {
            Plan::List { .. } => {
                self.asked = Some(now);
                (self.pages, self.objects) = (Pagination::default(), 0);
                let from_cache = || self.seen().map_or(ListFrom::Cache, ListFrom::NotOlderThan);
                Action::List(if self.is_consistent() { ListFrom::Store } else { from_cache() })
            }
            Plan::Page(token) => Action::List(ListFrom::Page(token.clone())),
            Plan::Check => Action::Check,
            Plan::Watch => {
                let WatchSettings { shortest, longest, .. } = self.settings;
                let lasting = Duration::from_secs(self.jitter.within(&(shortest..longest)).as_secs());
                self.watch = (Some(now), lasting, false);
                Action::Watch { from: self.from.clone(), lasting }
            }
        }
    }

    /// Whether the type's versions are those of the API server's store.
    pub fn tells_of_the_store(&self) -> bool {
        !self.aggregated
    }

    /// Whether what was seen may be of a store that is no more: a watch goes on where
    /// one ended in time, and otherwise only when the version has been asked for.
    pub fn is_in_doubt(&self) -> bool {
        self.tells_of_the_store() && !matches!(self.plan, Plan::Watch)
    }

    /// Whether the cache is out of reach of its own watches: it is not listed again.
    pub fn is_behind(&self) -> bool {
        matches!(self.plan, Plan::List { consistent: true })
    }

    fn seen(&self) -> Option<ResourceVersion> {
        self.high_water.get(&self.resource.group_resource).filter(|_| !mutation::is(Mutation::TrustOldList))
    }

    /// True while the list under way is read from the store.
    fn is_consistent(&self) -> bool {
        match self.plan {
            Plan::List { consistent } => consistent || self.only_consistent || self.cache_hangs,
            _ => true,
        }
    }

    /// A list's version has become known, on its first page.
    pub fn list_version(&mut self, found: Option<&ResourceVersion>) -> Verdict {
        let Some(found) = found else { return Verdict::Fresh };
        let Some(seen) = self.seen().filter(|seen| seen.is_after(found)) else {
            // Also if the list breaks off: what it has shown was seen.
            if !matches!(self.plan, Plan::Check) {
                self.high_water.advance(&self.resource.group_resource, found);
            }
            return Verdict::Fresh;
        };
        if !self.is_consistent() {
            self.plan = Plan::List { consistent: true };
            Verdict::Stale
        } else {
            self.high_water.set(&self.resource.group_resource, found);
            // An aggregated API's versions may be anything; its lists prove nothing.
            if self.aggregated { Verdict::Fresh } else { Verdict::Restored { seen, found: found.clone() } }
        }
    }

    /// The list just read counts for nothing: read the store.
    pub fn list_again(&mut self) {
        self.plan = Plan::List { consistent: true };
    }

    /// So many objects of the list have come.
    ///
    /// # Errors
    ///
    /// There are more than there can be.
    pub fn objects_came(&mut self, count: u64) -> Result<(), &'static str> {
        self.objects += count;
        if self.aggregated && self.objects > OBJECTS_OF_AGGREGATED {
            return Err("an aggregated API has listed more than 1,000,000 objects of a type");
        }
        Ok(())
    }

    /// A page of so many objects has said with which token to go on.
    ///
    /// # Errors
    ///
    /// The list would not come to an end.
    pub fn goes_on(&mut self, token: &str, objects: usize) -> Result<(), &'static str> {
        self.pages.go_on(token, objects)
    }

    /// A page, or the whole list, has been read.
    pub fn page_ended(&mut self, version: Option<ResourceVersion>, next: String) -> Option<Step> {
        if !matches!(self.plan, Plan::Page(_)) {
            self.listed = version;
        }
        if !next.is_empty() {
            self.plan = Plan::Page(next);
            return None;
        }
        self.cache_hangs = false;
        let version = self.listed.take();
        if let Some(version) = &version {
            self.high_water.advance(&self.resource.group_resource, version);
        }
        self.from.clone_from(&version);
        self.plan = Plan::Watch;
        self.fruitless = 0;
        self.just_listed = true;
        Some(Step::InitDone { resource_version: version })
    }

    /// A list could not be read.
    pub fn list_failed(&mut self, error: ApiError, now: Instant) -> Option<Step> {
        if !self.is_consistent() {
            // What the cache cannot do, the store can.
            match error.class {
                ErrorClass::TooLargeResourceVersion | ErrorClass::Expired => {
                    self.plan = Plan::List { consistent: true };
                    return None;
                }
                ErrorClass::Refused => {
                    self.only_consistent = true;
                    return None;
                }
                // A cache that cannot be filled never comes as far as it is to; the store
                // says why, such as the words of a conversion webhook.
                ErrorClass::Transient if self.seen().is_some() && self.waited(now) > CACHE_WAITS => {
                    self.cache_hangs = true;
                }
                _ => {}
            }
        }
        // A lost continue token, or any other failure: the list starts anew. The
        // inconsistent token that the server offers instead is never used.
        self.plan = Plan::List { consistent: false };
        self.listed = None;
        Some(self.failed(error, now))
    }

    /// How long ago the list was asked for.
    fn waited(&self, now: Instant) -> Duration {
        self.asked.map_or(Duration::ZERO, |asked| now - asked)
    }

    /// The present version is known.
    pub fn checked(&mut self, found: Option<&ResourceVersion>) -> Option<Step> {
        self.plan = Plan::Check;
        let seen = self.seen();
        if let Verdict::Restored { seen, found } = self.list_version(found) {
            self.plan = Plan::List { consistent: true };
            return Some(Step::StoreRestored { seen, found });
        }
        // An aggregated API may count anew each time that it starts, or not count at
        // all: nobody can tell what a watch would leave out.
        let goes_on = || seen.zip(found).is_some_and(|(seen, found)| *found >= seen);
        let is_lost = self.aggregated && !goes_on();
        self.plan = if is_lost { Plan::List { consistent: true } } else { Plan::Watch };
        None
    }

    /// The present version could not be asked for.
    pub fn check_failed(&mut self, error: ApiError, now: Instant) -> Step {
        self.failed(error, now)
    }

    /// The watch showed something of this version.
    pub fn saw(&mut self, version: Option<ResourceVersion>) {
        self.failures = 0;
        self.fruitless = 0;
        self.watch.2 = true;
        if let Some(version) = version {
            self.high_water.advance(&self.resource.group_resource, &version);
            self.from = Some(version);
        }
    }

    /// The watch has ended, or could not begin.
    pub fn watch_ended(&mut self, end: End, now: Instant) -> Step {
        let (start, lasting, fruitful) = self.watch;
        let just_listed = std::mem::take(&mut self.just_listed);
        let lived = start.map_or(Duration::ZERO, |start| now - start);
        // A store restored under a watch shows only in that the watch breaks;
        // resumed at a version that is yet to come, it would be silent for long.
        if lived >= self.settings.greatest_backoff {
            self.failures = 0;
        }
        let in_time = lived + self.settings.least_interval * 5 >= lasting;
        self.plan = if self.from.is_none() {
            // Nothing to resume from.
            Plan::List { consistent: false }
        } else if in_time && matches!(end, End::Closed) {
            Plan::Watch
        } else {
            Plan::Check
        };
        match end {
            End::Failed(error)
                if matches!(error.class, ErrorClass::Expired) && mutation::is(Mutation::ResumeAfterGap) =>
            {
                (self.plan, self.from) = (Plan::Watch, None);
                self.pause_after(start, now);
                Step::WatchEnded
            }
            End::Failed(error) if matches!(error.class, ErrorClass::Expired) => {
                // A cache whose own version is out of its watches' reach is behind, and
                // would give the same version again: for a type that nobody changes, for ever.
                self.plan = Plan::List { consistent: just_listed && !fruitful };
                if !fruitful {
                    // Listed and expired at once, perhaps over and over.
                    self.not_before = Some(now + self.backoff(now));
                }
                self.pause_after(start, now);
                Step::Expired { error }
            }
            End::Failed(error) if matches!(error.class, ErrorClass::TooLargeResourceVersion) => {
                self.plan = Plan::List { consistent: false };
                self.failed(error, now)
            }
            // Something in between cuts long connections: as good as a close.
            End::Failed(error)
                if error.class == ErrorClass::Transient
                    && error.code.is_none()
                    && lived >= self.settings.greatest_backoff =>
            {
                self.pause_after(start, now);
                Step::WatchEnded
            }
            End::Failed(error) => {
                // Not what passes: a busy server must not be listed in addition.
                if error.class == ErrorClass::Refused || error.code == Some(500) {
                    self.fruitless += 1;
                }
                if error.class == ErrorClass::Unusable || self.fruitless >= FRUITLESS_WATCHES {
                    self.plan = Plan::List { consistent: false };
                    self.fruitless = 0;
                }
                self.failed(error, now)
            }
            End::Closed | End::Silent => {
                self.pause_after(start, now);
                Step::WatchEnded
            }
        }
    }

    /// Keeps the least interval between two watch starts.
    fn pause_after(&mut self, start: Option<Instant>, now: Instant) {
        let least = self.settings.least_interval;
        let next = start.unwrap_or(now) + self.jitter.within(&(least..least * 3 / 2));
        self.not_before = Some(self.not_before.map_or(next, |not_before| not_before.max(next)));
    }

    fn failed(&mut self, error: ApiError, now: Instant) -> Step {
        let mut retry_in = self.backoff(now);
        if let ErrorClass::Throttled { retry_after: Some(retry_after) } = error.class {
            retry_in = retry_in.max(retry_after);
        }
        self.not_before = Some(now + retry_in);
        Step::Failed { error, retry_in }
    }

    fn backoff(&mut self, now: Instant) -> Duration {
        let WatchSettings { least_backoff, mut greatest_backoff, .. } = self.settings;
        if self.soon_until.is_some_and(|until| now < until) {
            greatest_backoff = greatest_backoff.min(SOON);
        }
        // Beyond 2^16 times the least, any sensible greatest is reached.
        let base = least_backoff.saturating_mul(1 << self.failures.min(16)).min(greatest_backoff);
        self.failures = self.failures.saturating_add(1);
        self.jitter.within(&(base..base * 3 / 2)).min(greatest_backoff)
    }
}
