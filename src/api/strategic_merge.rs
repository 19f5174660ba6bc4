//! Which types accept strategic merge patches.
//!
//! Discovery does not say it. Built-in types accept them, custom resources do not (415), and
//! an aggregated API may or may not. So the first patch of a type goes ahead of all others.
//! Otherwise each of many concurrent patches would find out by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

use kube_gc_core::object::GroupResource;

/// How long other patches wait for the first one, which may hang in a webhook.
const AHEAD: Duration = Duration::from_secs(1);

/// What is known of each type that was patched.
#[derive(Debug, Default)]
pub struct StrategicMergeSupport(DashMap<GroupResource, Arc<TypeSupport>>);

/// What is known of one type.
#[derive(Debug, Default)]
pub struct TypeSupport {
    first: Mutex<()>,
    is_over: AtomicBool,
    is_refused: AtomicBool,
}

impl StrategicMergeSupport {
    pub fn of(&self, resource: &GroupResource) -> Arc<TypeSupport> {
        if let Some(support) = self.0.get(resource) {
            return Arc::clone(&support);
        }
        Arc::clone(&self.0.entry(resource.clone()).or_default())
    }

    /// Whether the type is known to refuse strategic merge patches.
    pub fn is_refused(&self, resource: &GroupResource) -> bool {
        self.0.get(resource).is_some_and(|support| support.is_refused())
    }
}

impl TypeSupport {
    pub fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Acquire)
    }

    /// Waits for the first patch of the type, for a limited time. The caller that is the first
    /// keeps the guard until its patch was answered.
    pub async fn wait_for_first(&self) -> Option<MutexGuard<'_, ()>> {
        if self.is_over.load(Ordering::Acquire) {
            return None;
        }
        let first = timeout(AHEAD, self.first.lock()).await.ok();
        first.filter(|_| !self.is_over.load(Ordering::Acquire))
    }

    /// A patch was answered.
    pub fn ended(&self, refused: bool) {
        if refused {
            self.is_refused.store(true, Ordering::Release);
        }
        self.is_over.store(true, Ordering::Release);
    }
}
