//! From discovery documents to a catalog: one type per group and resource.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::document::{Group, Served, Version};
use super::services::Services;
use kube_gc_core::object::{Catalog, GroupResource, ResourceType, Scope, ServedKind};

/// A type that can be collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watchable {
    /// The type. Successive discoveries share the `Arc` while the type does not change.
    pub resource: Arc<ResourceType>,
    /// Whether an aggregated API serves the type, or may serve it. A deletion in its watch is not
    /// proof of absence.
    pub aggregated: bool,
}

/// Makes the catalog and the list of the types that can be collected.
///
/// Requests for a resource use the first version, in the group's order of preference, that can
/// delete, list and watch it. If there is none, they use the first version that can get it,
/// because an owner may be of any kind.
pub(super) fn select(
    groups: &[Group],
    services: &Services,
    previous: Option<&Catalog>,
) -> (Catalog, Vec<Watchable>) {
    let mut deletable = Vec::new();
    let mut others = Vec::new();
    let mut watchable = Vec::new();
    let mut builder = Catalog::builder();
    // A group may be listed twice. Its versions are merged, so that no type appears twice.
    let mut versions_of: BTreeMap<&str, Vec<&Version>> = BTreeMap::new();
    for group in groups {
        versions_of.entry(&group.name).or_default().extend(&group.versions);
    }
    for (group, versions) in versions_of {
        let mut resources: BTreeMap<&str, Vec<(&str, &Served)>> = BTreeMap::new();
        for version in versions {
            if version.is_unread() {
                builder.unread(group, &version.name);
            }
            for served in version.resources.iter() {
                resources.entry(&served.resource).or_default().push((&version.name, served));
            }
        }
        for (resource, versions) in resources {
            let by = |fits: fn(&Served) -> bool| versions.iter().find(|(_, served)| fits(served));
            let chosen = by(|served| served.watchable).or_else(|| by(|served| served.can_get));
            let Some(&(version, served)) = chosen.or(versions.first()) else { continue };
            let describe = |served: &Served| ResourceType {
                group_resource: GroupResource::new(group, resource),
                version: version.into(),
                kind: served.kind.clone(),
                scope: if served.namespaced { Scope::Namespaced } else { Scope::Cluster },
            };
            let described = describe(served);
            let known = previous.and_then(|catalog| catalog.resource(&described.group_resource));
            let chosen = match known {
                Some(known) if **known == described => Arc::clone(known),
                _ => Arc::new(described),
            };
            if served.watchable {
                let aggregated = services.is_aggregated(group, version);
                watchable.push(Watchable { resource: Arc::clone(&chosen), aggregated });
            }
            let kinds = if served.can_delete { &mut deletable } else { &mut others };
            kinds.push(ServedKind { version: version.into(), resource: Arc::clone(&chosen) });
            for &(other_version, other) in versions.iter().filter(|(name, _)| *name != version) {
                // The kind of a resource may differ between versions.
                let resource =
                    if other.kind == chosen.kind { Arc::clone(&chosen) } else { Arc::new(describe(other)) };
                kinds.push(ServedKind { version: other_version.into(), resource });
            }
        }
    }
    watchable.sort_by(|a, b| a.resource.group_resource.cmp(&b.resource.group_resource));
    for served in deletable.into_iter().chain(others) {
        builder.add(served);
    }
    (builder.build(), watchable)
}
