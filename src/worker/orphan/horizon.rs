//! The versions that the graph must reach to know everything that a list has shown.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::actors::registry::Registry;
use kube_gc_core::object::{GroupResource, ResourceVersion};

/// The latest relevant version of each type. A watch delivers the events of a type in the order of
/// their versions (KEP-5504), so a monitor that has reached a version has seen all earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Horizon {
    latest: BTreeMap<GroupResource, ResourceVersion>,
    /// Whether something was seen whose version cannot be compared.
    is_open: bool,
}

impl Horizon {
    /// Includes a version; `None` where versions cannot be compared.
    pub fn include(&mut self, resource: &GroupResource, version: Option<&ResourceVersion>) {
        let Some(version) = version else {
            self.is_open = true;
            return;
        };
        let Some(latest) = self.latest.get_mut(resource) else {
            self.latest.insert(resource.clone(), version.clone());
            return;
        };
        match version.partial_cmp(latest) {
            Some(Ordering::Greater) => latest.clone_from(version),
            Some(Ordering::Less | Ordering::Equal) => {}
            None => self.is_open = true,
        }
    }

    /// Includes everything that another horizon includes.
    pub fn include_all(&mut self, other: &Self) {
        self.is_open |= other.is_open;
        for (resource, version) in &other.latest {
            self.include(resource, Some(version));
        }
    }

    /// Waits until the monitors have put all of it into the graph. False if that cannot be known.
    pub async fn reached(&self, registry: &Registry) -> bool {
        if self.is_open {
            return false;
        }
        for (resource, version) in &self.latest {
            if !registry.reached(resource, version).await {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use kube_gc_core::object::{ResourceType, Scope};

    fn name(resource: &str) -> GroupResource {
        GroupResource::parse(resource)
    }

    fn horizon(seen: &[(&str, Option<&str>)]) -> Horizon {
        let mut horizon = Horizon::default();
        for (resource, version) in seen {
            horizon.include(&name(resource), version.and_then(ResourceVersion::parse).as_ref());
        }
        horizon
    }

    /// Monitors that have come so far.
    fn registry(applied: &[(&str, u64)]) -> Registry {
        let registry = Registry::default();
        for (resource, version) in applied {
            registry.started(&std::sync::Arc::new(ResourceType {
                group_resource: name(resource),
                version: "v1".into(),
                kind: "Thing".into(),
                scope: Scope::Namespaced,
            }));
            registry.applied_up_to(&name(resource), Some(ResourceVersion::number(*version)));
            registry.synced(&name(resource), None);
        }
        registry
    }

    #[tokio::test]
    async fn a_horizon_is_reached_when_every_type_has_reached_its_latest_version() {
        let horizon = horizon(&[("pods", Some("7")), ("pods", Some("9")), ("secrets", Some("3"))]);
        let registry = registry(&[("pods", 8), ("secrets", 3)]);
        let mut reached = std::pin::pin!(horizon.reached(&registry));
        assert_eq!(reached.as_mut().now_or_never(), None, "pods are at 8");
        registry.applied_up_to(&name("pods"), Some(ResourceVersion::number(9)));
        assert!(reached.await);
    }

    #[tokio::test]
    async fn a_horizon_is_never_reached_without_a_watch_or_ordered_versions() {
        let all = registry(&[("pods", 9)]);
        assert!(horizon(&[("pods", Some("9"))]).reached(&all).await);
        assert!(!horizon(&[("secrets", Some("9"))]).reached(&all).await, "it has no monitor");
        assert!(!horizon(&[("pods", Some("a"))]).reached(&all).await, "the text is no number");
        assert!(!horizon(&[("pods", Some("9")), ("pods", Some("a"))]).reached(&all).await);
        assert!(!horizon(&[("pods", Some("9")), ("pods", None)]).reached(&all).await);
        assert!(all.lost(&name("pods"), "no list".into()));
        assert!(!horizon(&[("pods", Some("9"))]).reached(&all).await, "its monitor has lost track");
    }

    #[test]
    fn horizons_can_be_merged() {
        let mut sum = horizon(&[("pods", Some("7")), ("secrets", Some("3"))]);
        sum.include_all(&horizon(&[("pods", Some("9")), ("secrets", Some("2"))]));
        assert_eq!(sum, horizon(&[("pods", Some("9")), ("secrets", Some("3"))]));
        sum.include_all(&horizon(&[("pods", None)]));
        assert!(sum.is_open);
    }
}
