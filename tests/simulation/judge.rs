//! Shows the oracle everything at the moment when it happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use kube_gc_apiserver::ApiServer;
use kube_gc_apiserver::resources::{Resource, ResourceName};

use super::oracle::{Bounds, Oracle, Violation};

/// The oracle, and how far it has read. Clones are the same judge.
#[derive(Clone, Debug)]
pub struct Judge(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    server: ApiServer,
    started: SystemTime,
    /// By how much the clock has jumped: nothing took longer for it.
    jumped: Duration,
    oracle: Oracle,
    read: usize,
    served: Vec<Arc<Resource>>,
    violation: Option<Violation>,
    /// The last version of each type that the collector is sure to have seen.
    seen: BTreeMap<ResourceName, u64>,
    /// What the collector had seen when the store was restored, without the types that
    /// have told it since. Whichever of them it believes, it begins anew then.
    untold: BTreeMap<ResourceName, u64>,
}

impl Judge {
    /// A judge of an empty server.
    pub fn new(server: ApiServer, ignored: Vec<ResourceName>, remembered: usize) -> Self {
        let started = server.now();
        let oracle = Oracle::new(Bounds { ignored, remembered, ..Bounds::default() });
        Self(Arc::new(Mutex::new(Inner {
            server,
            started,
            jumped: Duration::ZERO,
            oracle,
            read: 0,
            served: Vec::new(),
            violation: None,
            seen: BTreeMap::new(),
            untold: BTreeMap::new(),
        })))
    }

    fn with<T>(&self, look: impl FnOnce(&mut Inner, Duration) -> T) -> T {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = inner.server.now().duration_since(inner.started).unwrap_or_default();
        let now = passed.saturating_sub(inner.jumped);
        look(&mut inner, now)
    }

    /// The time, for the oracle.
    pub fn now(&self) -> Duration {
        self.with(|_, now| now)
    }

    /// The clock is about to jump.
    pub fn jump(&self, by: Duration) {
        self.with(|inner, _| inner.jumped += by);
    }

    /// Reads what has changed since the last time. To be called right after each
    /// request, since a change is judged by the time at which it is read.
    pub fn look(&self) {
        self.look_at(self.now());
    }

    /// The same, after a request that was sent at this time.
    pub fn look_at(&self, sent: Duration) {
        self.with(|inner, now| {
            let Inner { server, oracle, read, served, violation, .. } = inner;
            server.with(|server| {
                if !server.catalog.all().map(Arc::as_ptr).eq(served.iter().map(Arc::as_ptr)) {
                    *served = server.catalog.all().cloned().collect();
                    oracle.types(served.iter().map(|resource| &**resource), now);
                }
                for change in server.store.journal().get(*read..).unwrap_or_default() {
                    *read += 1;
                    if let Err(wrong) = oracle.observe(change, now, sent) {
                        violation.get_or_insert(wrong);
                    }
                }
            });
        });
    }

    /// The collector got a whole list of a type, or failed to.
    pub fn listed(&self, resource: &ResourceName, whole: bool) {
        self.with(|inner, now| inner.oracle.listed(resource, whole, now));
    }

    /// The collector was shown all changes of a type up to a version.
    pub fn shown(&self, resource: &ResourceName, version: u64) {
        self.with(|inner, now| {
            inner.oracle.shown(resource, version, now);
            inner.sees(resource, version);
        });
    }

    /// The collector was told by a list, or a part of one, which version the store is
    /// at. If that is less than it has seen of the type, it knows that the store was
    /// restored. A whole list from which it follows the type it has seen.
    pub fn told(&self, resource: &ResourceName, version: u64, has_seen: bool) {
        self.with(|inner, _| {
            if inner.untold.get(resource).is_some_and(|seen| version < *seen) {
                inner.untold.remove(resource);
                inner.forgets();
            }
            if has_seen {
                inner.sees(resource, version);
            }
        });
    }

    /// The last version that the collector is sure to have seen of a type.
    pub fn seen(&self, resource: &ResourceName) -> u64 {
        self.with(|inner, _| inner.seen.get(resource).copied().unwrap_or_default())
    }

    /// The collector is a new one.
    pub fn restarted(&self) {
        self.with(|inner, _| {
            inner.untold.clear();
            inner.forgets();
        });
    }

    /// Somebody takes a backup of the store.
    pub fn backed_up(&self) {
        self.look();
        self.with(|inner, _| inner.oracle.backed_up());
    }

    /// The store was restored from the last backup, of this version; for that the server
    /// was stopped.
    pub fn restored(&self, version: u64, stopped: Duration) {
        self.with(|inner, _| {
            inner.oracle.restored(version, stopped);
            inner.untold = inner.seen.clone();
        });
        self.look();
    }

    /// The same, with a version that is higher than any before. No list shows that the
    /// store was restored; whether the collector finds out by some object is open.
    pub fn restored_raised(&self, stopped: Duration) {
        self.with(|inner, _| {
            inner.oracle.restored(u64::MAX, stopped);
            inner.oracle.raised();
            inner.untold.clear();
        });
        self.look();
    }

    /// The first thing that was wrong.
    pub fn violation(&self) -> Option<Violation> {
        self.with(|inner, _| inner.violation.clone())
    }

    /// Judges the state as it is, when nothing happens any more.
    pub fn at_rest(&self, visible: &BTreeSet<String>) -> Result<(), Violation> {
        self.with(|inner, _| inner.oracle.at_rest(visible))
    }
}

impl Inner {
    fn sees(&mut self, resource: &ResourceName, version: u64) {
        let seen = self.seen.entry(resource.clone()).or_default();
        *seen = version.max(*seen);
    }

    fn forgets(&mut self) {
        self.oracle.restarted();
        self.seen.clear();
    }
}
