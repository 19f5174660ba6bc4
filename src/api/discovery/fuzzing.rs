//! The discovery parser as the fuzz targets see it.

mod naive;

use std::collections::BTreeSet;

use super::document::{self, Group, Served, Version};
use super::select;
use super::services::{self, Services};
use kube_gc_core::object::Scope;
pub use naive::discovery;

/// A resource that a document lists.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ListMeta {
    pub group: String,
    pub version: String,
    pub resource: String,
    pub kind: String,
    pub namespaced: bool,
    pub collectable: bool,
}

/// The group versions with whether they are complete, and what they serve.
type Groups = (Vec<(String, String, bool)>, Vec<ListMeta>);

fn listed(group: &str, version: &str, served: &Served) -> ListMeta {
    ListMeta {
        group: group.into(),
        version: version.into(),
        resource: served.resource.to_string(),
        kind: served.kind.to_string(),
        namespaced: served.namespaced,
        collectable: served.watchable,
    }
}

/// What `/api` or `/apis` says.
fn root(body: &[u8]) -> Option<Groups> {
    let groups = document::root(body).ok()?;
    let versions =
        || groups.iter().flat_map(|group| group.versions.iter().map(move |version| (group, version)));
    Some((
        versions()
            .map(|(group, version)| (group.name.to_string(), version.name.to_string(), version.current))
            .collect(),
        versions()
            .flat_map(|(group, version)| {
                version.resources.iter().map(|served| listed(&group.name, &version.name, served))
            })
            .collect(),
    ))
}

/// What `/apis/GROUP/VERSION` says.
fn resources(body: &[u8]) -> Option<Vec<ListMeta>> {
    Some(document::resources(body).ok()?.iter().map(|served| listed("", "", served)).collect())
}

/// Makes a catalog of whatever the document is, and holds it to the document.
fn select(body: &[u8]) {
    let services = services::services(body).map(Services::of).unwrap_or_default();
    let groups = match (document::root(body), document::resources(body)) {
        (Ok(groups), _) => groups,
        (_, Ok(resources)) => {
            let versions = vec![Version { name: "v1".into(), resources, current: true }];
            vec![Group { name: "example.com".into(), versions }]
        }
        _ => return,
    };
    let served: Vec<ListMeta> = groups
        .iter()
        .flat_map(|group| group.versions.iter().map(move |version| (group, version)))
        .flat_map(|(group, version)| {
            version.resources.iter().map(|served| listed(&group.name, &version.name, served))
        })
        .collect();
    let (catalog, watchable) = select::select(&groups, &services, None);
    for known in catalog.types() {
        let fits = |served: &&ListMeta| {
            *served.group == *known.group_resource.group
                && *served.version == *known.version
                && *served.resource == *known.group_resource.resource
                && *served.kind == *known.kind
                && served.namespaced == (known.scope == Scope::Namespaced)
        };
        assert!(served.iter().any(|served| fits(&served)), "nobody serves {known:?}");
    }
    let mut seen = BTreeSet::new();
    for watchable in &watchable {
        let resource = &watchable.resource;
        assert!(
            seen.insert(resource.group_resource.clone()),
            "{:?} would be watched twice",
            resource.group_resource
        );
        let fits = |served: &&ListMeta| {
            *served.group == *resource.group_resource.group
                && *served.version == *resource.version
                && *served.resource == *resource.group_resource.resource
                && served.collectable
        };
        assert!(served.iter().any(|served| fits(&served)), "nobody lets {resource:?} be collected");
        assert!(catalog.resource(&resource.group_resource).is_some(), "{resource:?} is not in the catalog");
    }
    for served in &served {
        let of = kube_gc_core::object::GroupResource::new(&served.group, &served.resource);
        assert!(catalog.resource(&of).is_some(), "{served:?} was lost");
        assert!(!served.collectable || seen.contains(&of), "{served:?} would not be watched");
    }
}
