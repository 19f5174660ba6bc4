//! What the monitors say of themselves, for readiness, metrics and debugging.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use crate::object::{GroupResource, ResourceType, ResourceVersion};

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

/// The state of every monitor. Written by the monitors, read by whoever asks; it
/// decides nothing.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<Mutex<BTreeMap<GroupResource, MonitorState>>>);

impl Registry {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<GroupResource, MonitorState>> {
        // Each entry is replaced whole, so a panic elsewhere leaves none half written.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    }

    /// A monitor has ended.
    pub fn ended(&self, resource: &GroupResource) {
        self.entries().remove(resource);
    }

    /// Changes what is known of a monitor, if it runs.
    pub fn update(&self, resource: &GroupResource, change: impl FnOnce(&mut MonitorState)) {
        if let Some(state) = self.entries().get_mut(resource) {
            change(state);
        }
    }

    /// A monitor has all of its list in the graph.
    pub fn synced(&self, resource: &GroupResource) {
        self.update(resource, |state| {
            if !state.synced {
                (state.synced, state.since) = (true, SystemTime::now());
            }
            state.last_error = None;
        });
    }

    /// Something went wrong; what was synced stays so.
    pub fn failed(&self, resource: &GroupResource, error: String) {
        self.update(resource, |state| state.last_error = Some(error));
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

    /// Whether this resource's monitor is synced.
    #[must_use]
    pub fn is_synced(&self, resource: &GroupResource) -> bool {
        self.entries().get(resource).is_some_and(|state| state.synced)
    }
}
