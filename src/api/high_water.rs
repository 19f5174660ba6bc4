//! The last resource version seen of each type.

use std::sync::Arc;

use dashmap::{DashMap, Entry};

use kube_gc_core::object::{GroupResource, ResourceVersion};

/// The last resource version seen of every type: no list may be older (rule 1.15).
/// It outlives each [`ListWatch`](super::ListWatch). Clones share one state.
#[derive(Clone, Debug, Default)]
pub struct HighWater(Arc<DashMap<GroupResource, ResourceVersion>>);

impl HighWater {
    /// The last version seen of a type.
    #[must_use]
    pub fn get(&self, resource: &GroupResource) -> Option<ResourceVersion> {
        self.0.get(resource).map(|version| version.clone())
    }

    /// Forgets all types, after a restore of the store.
    pub fn forget_all(&self) {
        self.0.clear();
    }

    /// Forgets one type, because another server serves it now.
    pub fn forget(&self, resource: &GroupResource) {
        self.0.remove(resource);
    }

    /// Notes a version that was seen. Never goes back, except among versions that cannot be
    /// compared.
    pub(super) fn advance(&self, resource: &GroupResource, version: &ResourceVersion) {
        match self.0.entry(resource.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(version.clone());
            }
            Entry::Occupied(mut entry) => {
                if !entry.get().is_after(version) {
                    entry.insert(version.clone());
                }
            }
        }
    }

    /// Sets the version, even to a lower one.
    pub(super) fn set(&self, resource: &GroupResource, version: &ResourceVersion) {
        self.0.insert(resource.clone(), version.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_high_water_mark_rises_with_events_and_falls_only_on_request() {
        let (high_water, pods) = (HighWater::default(), GroupResource::parse("pods"));
        let number = ResourceVersion::number;
        for version in [5, 9, 7] {
            high_water.clone().advance(&pods, &number(version));
        }
        assert_eq!(high_water.get(&pods), Some(number(9)));
        high_water.set(&pods, &number(3));
        assert_eq!(high_water.get(&pods), Some(number(3)));
        high_water.forget_all();
        assert_eq!(high_water.get(&pods), None);
    }
}
