//! Shows the oracle everything at the moment when it happens.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use kube_gc::embedded::Embedded;
use kube_gc::embedded::resources::{Resource, ResourceName};

use super::oracle::{Bounds, Oracle, Violation};

/// The oracle, and how far it has read. Clones are the same judge.
#[derive(Clone, Debug)]
pub struct Judge(Arc<Mutex<Inner>>);

#[derive(Debug)]
struct Inner {
    server: Embedded,
    started: SystemTime,
    /// By how much the clock has jumped: nothing took longer for it.
    jumped: Duration,
    oracle: Oracle,
    read: usize,
    served: Vec<Arc<Resource>>,
    violation: Option<Violation>,
}

impl Judge {
    /// A judge of an empty server.
    pub fn new(server: Embedded, ignored: Vec<ResourceName>, remembered: usize) -> Self {
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
        })))
    }

    fn with<T>(&self, look: impl FnOnce(&mut Inner, Duration) -> T) -> T {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = inner.server.now().duration_since(inner.started).unwrap_or_default();
        let now = passed.saturating_sub(inner.jumped);
        look(&mut inner, now)
    }

    /// The clock is about to jump.
    pub fn jump(&self, by: Duration) {
        self.with(|inner, _| inner.jumped += by);
    }

    /// Reads what has changed since the last time. To be called right after each
    /// request, since a change is judged by the time at which it is read.
    pub fn look(&self) {
        self.with(|inner, now| {
            let Inner { server, oracle, read, served, violation, .. } = inner;
            server.with(|server| {
                if !server.catalog.all().map(Arc::as_ptr).eq(served.iter().map(Arc::as_ptr)) {
                    *served = server.catalog.all().cloned().collect();
                    oracle.types(served.iter().map(|resource| &**resource), now);
                }
                for change in server.store.journal().get(*read..).unwrap_or_default() {
                    *read += 1;
                    if let Err(wrong) = oracle.observe(change, now) {
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
        self.with(|inner, now| inner.oracle.shown(resource, version, now));
    }

    /// The collector is a new one.
    pub fn restarted(&self) {
        self.with(|inner, _| inner.oracle.restarted());
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
