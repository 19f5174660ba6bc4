//! Which types know strategic merge patches, found out by one request.
//!
//! Nothing in discovery says it. Custom resources do not (415), built-in ones do, and an
//! aggregated API may or may not. So the first patch of a type goes ahead of all others:
//! without that, every release that is under way at once would find out by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;

use kube_gc_core::object::GroupResource;

/// How long others wait for the first one. It may hang, in a webhook for its object alone.
const AHEAD: Duration = Duration::from_secs(1);

/// What is known of all types that were patched.
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
    /// That of this type.
    pub fn of(&self, resource: &GroupResource) -> Arc<TypeSupport> {
        if let Some(support) = self.0.get(resource) {
            return Arc::clone(&support);
        }
        Arc::clone(&self.0.entry(resource.clone()).or_default())
    }

    /// Whether this type is known to refuse such patches.
    pub fn is_refused(&self, resource: &GroupResource) -> bool {
        self.0.get(resource).is_some_and(|support| support.is_refused())
    }
}

impl TypeSupport {
    /// Whether the type has refused.
    pub fn is_refused(&self) -> bool {
        self.is_refused.load(Ordering::Acquire)
    }

    /// Waits for the first patch of the type, for a moment. Whoever is the first, holds
    /// this until it has said what came of its own.
    pub async fn wait_for_first(&self) -> Option<MutexGuard<'_, ()>> {
        if self.is_over.load(Ordering::Acquire) {
            return None;
        }
        let first = timeout(AHEAD, self.first.lock()).await.ok();
        first.filter(|_| !self.is_over.load(Ordering::Acquire))
    }

    /// A patch has been answered, by which the type has refused it or not.
    pub fn ended(&self, refused: bool) {
        if refused {
            self.is_refused.store(true, Ordering::Release);
        }
        self.is_over.store(true, Ordering::Release);
    }
}
