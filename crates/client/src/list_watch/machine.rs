//! The rules of listing and watching, as a state machine without I/O.
//!
//! The driver asks for the next action and reports its result. The machine decides what
//! follows. The time is an argument.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::pace::{LEAST_INTERVAL, RequestPace};
use super::{Action, End, ListFreshness, ListFrom, Step};
use crate::error::{ApiError, ErrorClass};
use crate::list::{OBJECTS_OF_AGGREGATED, Pagination};
use crate::restore_fence::HighWater;
use crate::settings::WatchSettings;
use kube_gc_core::mutation::{self, Mutation};
use kube_gc_core::object::{ResourceType, ResourceVersion};

#[derive(Clone, Debug)]
enum Plan {
    List { consistent: bool },
    Page(String),
    Check,
    Watch,
}

/// How many watches in a row may fail without an event before the type is listed again: the
/// event at the watch's version may be the cause.
const FRUITLESS_WATCHES: u32 = 3;

/// How many streamed lists in a row may fail before the type is listed in one piece: a server that
/// knows nothing of them may begin a watch that never ends its list.
const FRUITLESS_STREAMS: u32 = 3;

/// A healthy API server waits 3 s for its cache to reach the version that a list requires, and
/// then fails the list (`blockTimeout` of its watch cache).
const CACHE_WAITS: Duration = Duration::from_secs(5);

/// The state of one type's list and watch.
#[derive(Debug)]
pub(super) struct Machine {
    resource: Arc<ResourceType>,
    high_water: HighWater,
    aggregated: bool,
    pub pace: RequestPace,
    plan: Plan,
    /// Whether lists are requested as streams. The first refusal turns that off for all types, because it
    /// depends on the release and the features of the server.
    streaming: Arc<AtomicBool>,
    /// Whether the present list is streamed.
    streamed: bool,
    /// How many streamed lists have failed since a list succeeded.
    failed_streams: u32,
    /// Set by a refusal: this server supports no lists from its cache.
    only_consistent: bool,
    /// Set when a list from the cache timed out, until a list from the store succeeds.
    cache_hangs: bool,
    /// When the present list was requested.
    asked: Option<Instant>,
    /// The version of the present list, from its first page.
    listed: Option<ResourceVersion>,
    pub pages: Pagination,
    /// The number of objects of the present list.
    objects: u64,
    /// The version from which to watch.
    from: Option<ResourceVersion>,
    fruitless: u32,
    /// Whether the next watch is the first one after a list.
    just_listed: bool,
    /// When the watch began, how long it is to last, and whether it has shown anything.
    watch: (Option<Instant>, Duration, bool),
}

impl Machine {
    pub fn new(
        resource: Arc<ResourceType>,
        high_water: HighWater,
        aggregated: bool,
        streaming: Arc<AtomicBool>,
        settings: WatchSettings,
        seed: u64,
    ) -> Self {
        Self {
            resource,
            high_water,
            aggregated,
            pace: RequestPace::new(settings, seed),
            plan: Plan::List { consistent: false },
            streaming,
            streamed: false,
            failed_streams: 0,
            only_consistent: false,
            cache_hangs: false,
            asked: None,
            listed: None,
            pages: Pagination::default(),
            objects: 0,
            from: None,
            fruitless: 0,
            just_listed: false,
            watch: (None, Duration::ZERO, false),
        }
    }

    pub fn action(&mut self, now: Instant) -> Action {
        if let Some(wait) = self.pace.wait(now) {
            return Action::Wait(wait);
        }
        match &self.plan {
            Plan::List { .. } => {
                self.asked = Some(now);
                (self.pages, self.objects) = (Pagination::default(), 0);
                self.streamed = self.can_stream();
                if self.streamed {
                    let lasting = self.pace.watch_duration();
                    self.watch = (Some(now), lasting, false);
                    return Action::Stream { not_older_than: self.seen(), lasting };
                }
                let from_cache = || self.seen().map_or(ListFrom::Cache, ListFrom::NotOlderThan);
                Action::List(if self.is_consistent() { ListFrom::Store } else { from_cache() })
            }
            Plan::Page(token) => Action::List(ListFrom::Page(token.clone())),
            Plan::Check => Action::Check,
            Plan::Watch => {
                let lasting = self.pace.watch_duration();
                self.watch = (Some(now), lasting, false);
                Action::Watch { from: self.from.clone(), lasting }
            }
        }
    }

    /// Whether the type's versions are those of the API server's store.
    pub fn shares_store(&self) -> bool {
        !self.aggregated
    }

    /// Whether the store may have been restored since the last event. A watch that ended in time
    /// is resumed; otherwise the version is checked first.
    pub fn needs_check(&self) -> bool {
        self.shares_store() && !matches!(self.plan, Plan::Watch)
    }

    /// Whether the cache is too old for its own watches, so that the store is listed.
    pub fn is_behind(&self) -> bool {
        matches!(self.plan, Plan::List { consistent: true })
    }

    fn seen(&self) -> Option<ResourceVersion> {
        self.high_water.get(&self.resource.group_resource).filter(|_| !mutation::is(Mutation::TrustOldList))
    }

    /// Whether to stream the list. A consistent list is read from the store, which needs no stream.
    /// The server of an aggregated API may be anyone's, and ignore what it does not know.
    fn can_stream(&self) -> bool {
        !self.is_consistent()
            && !self.aggregated
            && self.streaming.load(Ordering::Relaxed)
            && self.failed_streams < FRUITLESS_STREAMS
    }

    /// A streamed list has shown an object of this version. It was seen, even if the list breaks off
    /// later.
    pub fn stream_showed(&mut self, version: Option<&ResourceVersion>) {
        if let Some(version) = version {
            self.high_water.advance(&self.resource.group_resource, version);
        }
    }

    /// Whether the present list is read from the store.
    fn is_consistent(&self) -> bool {
        match self.plan {
            Plan::List { consistent } => consistent || self.only_consistent || self.cache_hangs,
            _ => true,
        }
    }

    /// The first page of a list has shown the list's version.
    pub fn list_version(&mut self, found: Option<&ResourceVersion>) -> ListFreshness {
        let Some(found) = found else { return ListFreshness::Fresh };
        let Some(seen) = self.seen().filter(|seen| seen.is_after(found)) else {
            // Even if the list breaks off later: its objects were seen.
            if !matches!(self.plan, Plan::Check) {
                self.high_water.advance(&self.resource.group_resource, found);
            }
            return ListFreshness::Fresh;
        };
        if !self.is_consistent() {
            self.plan = Plan::List { consistent: true };
            ListFreshness::Stale
        } else {
            self.high_water.set(&self.resource.group_resource, found);
            // The versions of an aggregated API may go back; its lists prove nothing.
            if self.aggregated {
                ListFreshness::Fresh
            } else {
                ListFreshness::Restored { seen, found: found.clone() }
            }
        }
    }

    /// Discards the present list, and lists the store.
    pub fn list_again(&mut self) {
        self.plan = Plan::List { consistent: true };
    }

    /// Counts objects of the list that have arrived.
    ///
    /// # Errors
    ///
    /// The list exceeds the limit.
    pub fn objects_came(&mut self, count: u64) -> Result<(), &'static str> {
        self.objects += count;
        if self.aggregated && self.objects > OBJECTS_OF_AGGREGATED {
            return Err("the list of an aggregated API has more than 1,000,000 objects");
        }
        Ok(())
    }

    /// A page, or the whole list, was read.
    pub fn page_ended<E>(&mut self, version: Option<ResourceVersion>, next: String) -> Option<Step<E>> {
        if !matches!(self.plan, Plan::Page(_)) {
            self.listed = version;
        }
        if !next.is_empty() {
            self.plan = Plan::Page(next);
            return None;
        }
        self.cache_hangs = false;
        self.failed_streams = 0;
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

    pub fn list_failed<E>(&mut self, error: ApiError, now: Instant) -> Option<Step<E>> {
        let streamed = std::mem::take(&mut self.streamed);
        if streamed {
            self.failed_streams += 1;
            match (error.class, error.code) {
                (ErrorClass::Refused, _) => {
                    if self.streaming.swap(false, Ordering::Relaxed) {
                        tracing::info!(%error, "the API server does not stream lists; they are requested in one piece");
                    }
                    return None;
                }
                // Without a feature of etcd, streams are answered with 500. In the other cases, the
                // list shows whether the whole type is meant.
                (ErrorClass::Denied | ErrorClass::NotServed, _) | (_, Some(500)) => {
                    self.failed_streams = FRUITLESS_STREAMS;
                    return None;
                }
                _ => {}
            }
        }
        if !self.is_consistent() {
            // The store can answer where the cache cannot.
            match error.class {
                ErrorClass::TooLargeResourceVersion | ErrorClass::Expired => {
                    self.plan = Plan::List { consistent: true };
                    return None;
                }
                ErrorClass::Refused => {
                    self.only_consistent = true;
                    return None;
                }
                // A cache that cannot be filled never reaches the version. A list from the store
                // shows the cause, such as the error of a conversion webhook.
                ErrorClass::Transient
                    if !streamed
                        && self.seen().is_some()
                        && self.asked.is_some_and(|asked| now - asked > CACHE_WAITS) =>
                {
                    self.cache_hangs = true;
                }
                _ => {}
            }
        }
        // After any failure, including an expired continue token, the list starts again. The
        // inconsistent token that the server offers instead is never used.
        self.plan = Plan::List { consistent: false };
        self.listed = None;
        Some(self.failed(error, now))
    }

    /// The present version is known.
    pub fn checked<E>(&mut self, found: Option<&ResourceVersion>) -> Option<Step<E>> {
        self.plan = Plan::Check;
        let seen = self.seen();
        if let ListFreshness::Restored { seen, found } = self.list_version(found) {
            self.plan = Plan::List { consistent: true };
            return Some(Step::StoreRestored { seen, found });
        }
        // An aggregated API may restart its versions or have none. Then a resumed watch might
        // miss events.
        let goes_on = || seen.zip(found).is_some_and(|(seen, found)| *found >= seen);
        let is_lost = self.aggregated && !goes_on();
        self.plan = if is_lost { Plan::List { consistent: true } } else { Plan::Watch };
        None
    }

    /// The watch showed something of this version.
    pub fn saw(&mut self, version: Option<ResourceVersion>) {
        self.pace.succeeded();
        self.fruitless = 0;
        self.watch.2 = true;
        if let Some(version) = version {
            self.high_water.advance(&self.resource.group_resource, &version);
            self.from = Some(version);
        }
    }

    /// The watch ended, or could not begin.
    pub fn watch_ended<E>(&mut self, end: End, now: Instant) -> Step<E> {
        let (start, lasting, fruitful) = self.watch;
        let just_listed = std::mem::take(&mut self.just_listed);
        let lived = start.map_or(Duration::ZERO, |start| now - start);
        let outlived_backoff = lived >= self.pace.settings.greatest_backoff;
        if outlived_backoff {
            self.pace.succeeded();
        }
        let in_time = lived + LEAST_INTERVAL * 5 >= lasting;
        // The only sign of a restore is that the watch breaks. A watch that is resumed at a
        // future version would stay silent for a long time.
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
                self.pace.space_watches(start, now);
                Step::WatchEnded
            }
            End::Failed(error) if matches!(error.class, ErrorClass::Expired) => {
                // If the watch expired right after a list, the cache is too old for its own
                // watches. For a type that does not change, it would return the same version
                // again and again, so list the store.
                self.plan = Plan::List { consistent: just_listed && !fruitful };
                if !fruitful {
                    // It expired without an event, and may do so again.
                    self.pace.retry_in(None, now);
                }
                self.pace.space_watches(start, now);
                Step::Expired { error }
            }
            End::Failed(error) if matches!(error.class, ErrorClass::TooLargeResourceVersion) => {
                self.plan = Plan::List { consistent: false };
                self.failed(error, now)
            }
            // A proxy cuts long connections: the same as a close.
            End::Failed(error)
                if error.class == ErrorClass::Transient && error.code.is_none() && outlived_backoff =>
            {
                self.pace.space_watches(start, now);
                Step::WatchEnded
            }
            End::Failed(error) => {
                // Not transient errors: a busy server must not have to serve a list, too.
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
                self.pace.space_watches(start, now);
                Step::WatchEnded
            }
        }
    }

    pub fn failed<E>(&mut self, error: ApiError, now: Instant) -> Step<E> {
        let retry_after = match error.class {
            ErrorClass::Throttled { retry_after } => retry_after,
            _ => None,
        };
        let retry_in = self.pace.retry_in(retry_after, now);
        Step::Failed { error, retry_in }
    }
}
