//! Passes every change to the oracle at the moment when it happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use kube_gc_apiserver::ApiServer;
use kube_gc_apiserver::resources::{Resource, ResourceName};

use super::oracle::{Bounds, Oracle, Violation};
use super::sieve::{Patterns, Sieve};

/// The oracle, and the position up to which it has read the history. Clones share both.
#[derive(Clone, Debug)]
pub struct Judge(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    server: ApiServer,
    started: SystemTime,
    /// The total of the jumps of the clock, during which nothing happened.
    jumped: Duration,
    oracle: Oracle,
    read: usize,
    served: Vec<Arc<Resource>>,
    violation: Option<Violation>,
    sieve: Sieve,
    /// For each type, the last version that the collector has certainly seen.
    seen: BTreeMap<ResourceName, u64>,
    /// What the collector had seen when the store was restored, without the types that have shown
    /// the restore since. The collector starts again with the first of them that it believes.
    unaware: BTreeMap<ResourceName, u64>,
}

impl Judge {
    /// A judge for an empty server.
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
            sieve: Sieve::default(),
            seen: BTreeMap::new(),
            unaware: BTreeMap::new(),
        })))
    }

    fn with<T>(&self, look: impl FnOnce(&mut Inner, Duration) -> T) -> T {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = inner.server.now().duration_since(inner.started).unwrap_or_default();
        let now = passed.saturating_sub(inner.jumped);
        look(&mut inner, now)
    }

    /// The time, as the oracle counts it.
    pub fn now(&self) -> Duration {
        self.with(|_, now| now)
    }

    /// Notes that the clock is about to jump.
    pub fn jump(&self, by: Duration) {
        self.with(|inner, now| {
            inner.oracle.jumped(now);
            inner.jumped += by;
        });
    }

    /// Reads the changes since the last call. Must be called right after each request, because a
    /// change is judged by the time at which it is read.
    pub fn look(&self) {
        self.look_at(self.now());
    }

    /// As [`look`](Self::look), after a request that was sent at this time.
    pub fn look_at(&self, sent: Duration) {
        self.with(|inner, now| {
            let Inner { server, oracle, read, served, violation, sieve, .. } = inner;
            server.with(|server| {
                if !server.catalog.all().map(Arc::as_ptr).eq(served.iter().map(Arc::as_ptr)) {
                    *served = server.catalog.all().cloned().collect();
                    oracle.types(served.iter().map(|resource| &**resource), now);
                }
                for change in server.store.journal().get(*read..).unwrap_or_default() {
                    *read += 1;
                    sieve.changed(change, oracle.is_collectors(change));
                    if let Err(wrong) = oracle.observe(change, now, sent) {
                        violation.get_or_insert(wrong);
                    }
                }
            });
        });
    }

    /// The collector received a complete list of a type, or failed to.
    pub fn listed(&self, resource: &ResourceName, whole: bool) {
        self.with(|inner, now| inner.oracle.knowledge.listed(resource, whole, now));
    }

    /// The collector has received all changes of a type up to a version.
    pub fn shown(&self, resource: &ResourceName, version: u64) {
        self.with(|inner, now| {
            inner.oracle.shown(resource, version, now);
            inner.sieve.shown(resource, version);
            inner.sees(resource, version);
        });
    }

    /// A list, or a part of one, told the collector the version of the store. If that is lower
    /// than what the collector has seen of the type, the collector knows that the store was
    /// restored. After a complete list that the collector follows with a watch, it has seen that
    /// version.
    pub fn shown_store_version(&self, resource: &ResourceName, version: u64, has_seen: bool) {
        self.with(|inner, _| {
            if inner.unaware.get(resource).is_some_and(|seen| version < *seen) {
                inner.unaware.remove(resource);
                inner.forgets();
            }
            if has_seen {
                inner.sieve.listed(resource, version);
                inner.sees(resource, version);
            }
        });
    }

    /// The last version of a type that the collector has certainly seen.
    pub fn seen(&self, resource: &ResourceName) -> u64 {
        self.with(|inner, _| inner.seen.get(resource).copied().unwrap_or_default())
    }

    /// The collector has just started, and this group does not answer.
    pub fn away(&self, group: &str) {
        self.with(|inner, now| inner.oracle.knowledge.away(group, now));
    }

    /// The collector was restarted.
    pub fn restarted(&self) {
        self.with(|inner, _| {
            inner.sieve.killed();
            inner.unaware.clear();
            inner.forgets();
        });
    }

    /// A backup of the store is taken.
    pub fn backed_up(&self) {
        self.look();
        self.with(|inner, _| inner.oracle.backed_up());
    }

    /// The store was restored from the last backup, which has this version. The server was
    /// stopped for that.
    pub fn restored(&self, version: u64, stopped: Duration) {
        self.with(|inner, _| {
            inner.oracle.restored(version, stopped);
            inner.sieve.restored();
            inner.unaware = inner.seen.clone();
        });
        self.look();
    }

    /// As [`restored`](Self::restored), with a version that is higher than any before. No list
    /// shows the restore; the collector may or may not notice it by an object.
    pub fn restored_raised(&self, stopped: Duration) {
        self.with(|inner, _| {
            inner.oracle.restored(u64::MAX, stopped);
            inner.sieve.restored();
            inner.oracle.knowledge.raised();
            inner.unaware.clear();
        });
        self.look();
    }

    /// Notes what happens to a request of the collector.
    pub fn notes(&self, note: impl FnOnce(&mut Sieve)) {
        self.with(|inner, _| note(&mut inner.sieve));
    }

    /// How often the patterns of failures occurred.
    pub fn patterns(&self) -> Patterns {
        self.with(|inner, _| inner.sieve.had)
    }

    /// The first violation.
    pub fn violation(&self) -> Option<Violation> {
        self.with(|inner, _| inner.violation.clone())
    }

    /// Judges the final state.
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
        self.oracle.knowledge.restarted();
        self.seen.clear();
    }
}
