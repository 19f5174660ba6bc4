//! What the monitors say of themselves, for readiness, metrics and debugging.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use tokio::sync::Notify;

use kube_gc_core::object::{GroupResource, ResourceType, ResourceVersion};

/// How a monitor is doing.
#[derive(Clone, Debug)]
pub struct MonitorState {
    /// What it watches.
    pub resource: Arc<ResourceType>,
    /// Whether its list, and the links made from it, are in the graph.
    pub synced: bool,
    /// Since when it is synced, or not.
    pub since: SystemTime,
    /// The last failure, until something succeeds again.
    pub last_error: Option<String>,
    /// Everything up to this version is in the graph.
    pub applied: Option<ResourceVersion>,
    /// Whether it runs out because its type is no longer served.
    pub draining: bool,
}

/// The state of every monitor. Written by the monitors, read by whoever asks.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    monitors: Mutex<BTreeMap<GroupResource, MonitorState>>,
    /// Something about one of them is different.
    changed: Notify,
}

impl Registry {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<GroupResource, MonitorState>> {
        // Each entry is replaced whole, so a panic elsewhere leaves none half written.
        self.0.monitors.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A monitor begins.
    pub fn started(&self, resource: &Arc<ResourceType>) {
        let state = MonitorState {
            resource: Arc::clone(resource),
            synced: false,
            since: SystemTime::now(),
            last_error: None,
            applied: None,
            draining: false,
        };
        self.entries().insert(resource.group_resource.clone(), state);
        self.0.changed.notify_waiters();
    }

    /// A monitor has ended.
    pub fn ended(&self, resource: &GroupResource) {
        self.entries().remove(resource);
        self.0.changed.notify_waiters();
    }

    /// All monitors have ended.
    pub fn clear(&self) {
        self.entries().clear();
        self.0.changed.notify_waiters();
    }

    /// Changes what is known of a monitor, if it runs.
    pub fn update(&self, resource: &GroupResource, change: impl FnOnce(&mut MonitorState)) {
        if let Some(state) = self.entries().get_mut(resource) {
            change(state);
        }
        self.0.changed.notify_waiters();
    }

    /// The graph has come so far with what this monitor has read.
    pub fn applied_up_to(&self, resource: &GroupResource, version: Option<ResourceVersion>) {
        self.update(resource, |state| state.applied = version);
    }

    /// A monitor has all of its list in the graph, or goes on from there. `failure` is
    /// what has gone wrong with the watch since that list. Returns whether that is news.
    pub fn synced(&self, resource: &GroupResource, failure: Option<String>) -> bool {
        self.set_synced(resource, true, failure)
    }

    /// Something went wrong, and the watch may go on from where it was: what was
    /// synced stays so.
    pub fn failed(&self, resource: &GroupResource, error: String) {
        self.update(resource, |state| state.last_error = Some(error));
    }

    /// A list failed: nobody knows what has happened since the last one. Returns
    /// whether that is news.
    pub fn lost(&self, resource: &GroupResource, error: String) -> bool {
        self.set_synced(resource, false, Some(error))
    }

    fn set_synced(&self, resource: &GroupResource, synced: bool, error: Option<String>) -> bool {
        let mut news = false;
        self.update(resource, |state| {
            news = state.synced != synced;
            if news {
                (state.synced, state.since) = (synced, SystemTime::now());
            }
            state.last_error = error;
        });
        news
    }

    /// All monitors, ordered by group and resource.
    #[must_use]
    pub fn all(&self) -> Vec<MonitorState> {
        self.entries().values().cloned().collect()
    }

    /// Up to which version this resource is in the graph.
    #[must_use]
    pub fn applied(&self, resource: &GroupResource) -> Option<ResourceVersion> {
        self.entries().get(resource)?.applied.clone()
    }

    /// Waits until everything up to this version of a resource is in the graph. False when
    /// that will not be known: it has no monitor, or one that is not synced, or whose
    /// versions cannot be compared with this one.
    pub async fn reached(&self, resource: &GroupResource, version: &ResourceVersion) -> bool {
        loop {
            // Before the look: what changes after it is not missed.
            let changed = self.0.changed.notified();
            let order = match self.entries().get(resource) {
                Some(MonitorState { synced: true, applied: Some(applied), .. }) => {
                    applied.partial_cmp(version)
                }
                _ => None,
            };
            match order {
                None => return false,
                Some(Ordering::Equal | Ordering::Greater) => return true,
                Some(Ordering::Less) => changed.await,
            }
        }
    }

    /// Whether this resource has a monitor.
    #[must_use]
    pub fn is_monitored(&self, resource: &GroupResource) -> bool {
        self.entries().contains_key(resource)
    }

    /// Whether this resource's monitor is synced.
    #[must_use]
    pub fn is_synced(&self, resource: &GroupResource) -> bool {
        self.entries().get(resource).is_some_and(|state| state.synced)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_gc_core::object::Scope;

    #[test]
    fn a_failed_list_is_no_longer_synced_and_a_failed_watch_is() {
        let resource = Arc::new(ResourceType {
            group_resource: GroupResource::parse("widgets.example.com"),
            version: "v1".into(),
            kind: "Widget".into(),
            scope: Scope::Namespaced,
        });
        let (registry, name) = (Registry::default(), &resource.group_resource);
        registry.started(&resource);
        assert!(registry.synced(name, None) && !registry.synced(name, None), "news once");
        registry.failed(name, "watch".into());
        assert!(registry.is_synced(name));
        assert!(registry.lost(name, "list".into()) && !registry.lost(name, "list again".into()), "news once");
        assert!(!registry.is_synced(name));
        assert_eq!(registry.all()[0].last_error.as_deref(), Some("list again"));
        assert!(registry.synced(name, None) && registry.is_synced(name));
        assert_eq!(registry.all()[0].last_error, None);
        assert!(!registry.synced(name, Some("watch".into())));
        assert_eq!(registry.all()[0].last_error.as_deref(), Some("watch"));
    }
}
