//! The discovery parser as the fuzz targets see it.

use std::collections::BTreeSet;

use super::document::{self, Group, Served, Version};
use super::fetch::Services;
use kube_gc_core::object::{GroupResource, Scope};

/// Makes a catalog of whatever the document is, and holds it to the document.
pub fn discovery(body: &[u8]) {
    let services = Services::read(body).unwrap_or_default();
    let groups = match (document::root(body), document::resources(body)) {
        (Ok(groups), _) => groups,
        (_, Ok(resources)) => {
            let versions = vec![Version { name: "v1".into(), resources, current: true }];
            vec![Group { name: "example.com".into(), versions }]
        }
        _ => return,
    };
    let mut served: Vec<(GroupResource, &str, &Served)> = Vec::new();
    for group in &groups {
        for version in &group.versions {
            let of = |served: &Served| GroupResource::new(&group.name, &served.name);
            served.extend(version.resources.iter().map(|found| (of(found), &*version.name, found)));
        }
    }
    let (catalog, watchable) = super::select(&groups, &services);
    for known in catalog.types() {
        let is_it = |(of, version, served): &(GroupResource, &str, &Served)| {
            *of == known.group_resource
                && **version == *known.version
                && *served.kind() == *known.kind
                && served.is_namespaced() == (known.scope == Scope::Namespaced)
        };
        assert!(served.iter().any(is_it), "nobody serves {known:?}");
    }
    let mut seen = BTreeSet::new();
    for watchable in &watchable {
        let resource = &watchable.resource;
        assert!(seen.insert(&resource.group_resource), "{resource:?} would be watched twice");
        let is_it = |(of, version, served): &(GroupResource, &str, &Served)| {
            *of == resource.group_resource && **version == *resource.version && served.is_watchable()
        };
        assert!(served.iter().any(is_it), "nobody lets {resource:?} be collected");
        assert!(catalog.resource(&resource.group_resource).is_some(), "{resource:?} is not in the catalog");
    }
    for (of, _, served) in &served {
        assert!(catalog.resource(of).is_some(), "{served:?} was lost");
        assert!(!served.is_watchable() || seen.contains(of), "{served:?} would not be watched");
    }
}
