//! The namespaces that the watch has shown as being deleted, for those who finish them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use kube_gc_core::object::{GroupResource, ObjectFacts, Uid};

/// Names and uids that nobody has taken yet. It keeps nothing unless somebody wants it.
#[derive(Debug, Default)]
pub struct TerminatingNamespaces {
    wanted: AtomicBool,
    seen: Mutex<BTreeMap<Box<str>, Uid>>,
    news: Notify,
    /// How many were taken and are being worked on.
    busy: AtomicUsize,
}

impl TerminatingNamespaces {
    fn seen(&self) -> MutexGuard<'_, BTreeMap<Box<str>, Uid>> {
        // Nothing can panic while it is locked.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to keep them. Call it before the first monitor starts.
    pub fn want(&self) {
        self.wanted.store(true, Ordering::Release);
    }

    /// Forgets them and keeps no more.
    pub fn abandon(&self) {
        self.wanted.store(false, Ordering::Release);
        self.seen().clear();
        self.busy.store(0, Ordering::Release);
    }

    /// Notes an object that a watch or a list has shown, if it is a terminating namespace.
    pub fn notice(&self, resource: &GroupResource, facts: &ObjectFacts) {
        let is_namespace = resource.group.is_empty() && &*resource.resource == "namespaces";
        if is_namespace && facts.being_deleted && self.wanted.load(Ordering::Acquire) {
            self.seen().insert(facts.name.clone(), facts.uid.clone());
            self.news.notify_one();
        }
    }

    /// Takes what was noted since the last call. They count as busy until
    /// [`work_on`](Self::work_on) is called.
    pub fn take(&self) -> BTreeMap<Box<str>, Uid> {
        let mut seen = self.seen();
        self.busy.fetch_add(seen.len(), Ordering::AcqRel);
        std::mem::take(&mut *seen)
    }

    /// Sets how many are being worked on.
    pub fn work_on(&self, count: usize) {
        self.busy.store(count, Ordering::Release);
    }

    /// Resolves when something was noted.
    pub async fn news(&self) {
        self.news.notified().await;
    }

    /// How many are not finished and do not wait for somebody else.
    pub fn busy(&self) -> usize {
        let seen = self.seen();
        seen.len() + self.busy.load(Ordering::Acquire)
    }
}
