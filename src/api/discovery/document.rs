//! Discovery documents, aggregated and plain.

use std::sync::Arc;

use serde::Deserialize;

use kube_gc_decode::{Keyed, json_fault, or_default};

/// A group and its versions, in the order of preference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Group {
    pub name: Box<str>,
    pub versions: Vec<Version>,
}

/// A version of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub name: Box<str>,
    /// What it serves.
    pub resources: Arc<[Served]>,
    /// Whether `resources` comes from a current document. If not, it must be requested
    /// separately.
    pub current: bool,
}

impl Version {
    /// Whether its resources are unknown, because it could never be read.
    pub(super) fn is_unread(&self) -> bool {
        !self.current && self.resources.is_empty()
    }
}

/// A resource in one version. Subresources are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Served {
    pub resource: Box<str>,
    pub kind: Box<str>,
    /// The singular name; empty if the server gives none.
    pub singular: Box<str>,
    /// What people type instead of the name.
    pub short_names: Box<[Box<str>]>,
    pub namespaced: bool,
    pub can_get: bool,
    pub can_delete: bool,
    pub can_list: bool,
    pub can_delete_collection: bool,
    /// Its verbs include delete, list and watch.
    pub watchable: bool,
}

/// The greatest number of types in a group version. Each type is listed and watched, and an
/// aggregated API may claim any number.
pub(super) const MOST_TYPES: usize = 2_000;

/// The greatest number of group versions.
pub(super) const MOST_VERSIONS: usize = 10_000;

/// Whether a resource's name is safe in a URL path. The API server's names are DNS names, but
/// an aggregated API may send `..`.
fn is_name(resource: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    (1..=253).contains(&resource.len()) && !resource.starts_with('.') && resource.bytes().all(is_usual)
}

/// The names of a resource.
struct Names {
    resource: String,
    kind: String,
    singular: String,
    short_names: Vec<String>,
}

/// The greatest number of short names of a type. An aggregated API may send any number.
const MOST_SHORT_NAMES: usize = 16;

fn served(names: Names, namespaced: bool, verbs: &[String]) -> Option<Served> {
    let Names { resource, kind, singular, short_names } = names;
    let can = |verb: &str| verbs.iter().any(|known| known == verb);
    if !is_name(&resource) || kind.is_empty() || verbs.is_empty() {
        return None;
    }
    Some(Served {
        resource: resource.into(),
        kind: kind.into(),
        singular: singular.into(),
        short_names: short_names.into_iter().take(MOST_SHORT_NAMES).map(Into::into).collect(),
        namespaced,
        can_get: can("get"),
        can_delete: can("delete"),
        can_list: can("list"),
        can_delete_collection: can("deletecollection"),
        watchable: can("delete") && can("list") && can("watch"),
    })
}

/// Reads the answer of `/api` or `/apis`. Its `kind` tells whether it is aggregated; old servers
/// ignore the `Accept` header.
pub(super) fn root(body: &[u8]) -> Result<Vec<Group>, String> {
    #[derive(Deserialize)]
    struct Kind {
        #[serde(default)]
        kind: String,
    }
    let fault = |error: serde_json::Error| json_fault(&error);
    let Keyed(Kind { kind }) = serde_json::from_slice(body).map_err(fault)?;
    let groups = match &*kind {
        "APIGroupDiscoveryList" => {
            serde_json::from_slice::<aggregated::List>(body).map(aggregated::List::groups).map_err(fault)
        }
        "APIGroupList" => {
            serde_json::from_slice::<plain::Groups>(body).map(plain::Groups::groups).map_err(fault)
        }
        "APIVersions" => serde_json::from_slice::<plain::Core>(body).map(plain::Core::groups).map_err(fault),
        _ => Err("the response is not a discovery document".into()),
    }?;
    if groups.iter().map(|group: &Group| group.versions.len()).sum::<usize>() > MOST_VERSIONS {
        return Err(format!("the response has more than {MOST_VERSIONS} group versions"));
    }
    Ok(groups)
}

/// Reads the answer of `/api/VERSION` or `/apis/GROUP/VERSION`.
pub(super) fn resources(body: &[u8]) -> Result<Arc<[Served]>, String> {
    let Keyed(list): Keyed<plain::Resources> =
        serde_json::from_slice(body).map_err(|error| json_fault(&error))?;
    if list.kind != "APIResourceList" {
        return Err("the response is not a discovery document".into());
    }
    let resources: Arc<[Served]> =
        list.resources.into_iter().filter_map(|Keyed(resource)| resource.served()).collect();
    if resources.len() > MOST_TYPES {
        return Err(format!("the group version has {} types, more than {MOST_TYPES}", resources.len()));
    }
    Ok(resources)
}

/// `apidiscovery.k8s.io`, v2 and v2beta1 alike.
mod aggregated {
    use std::sync::Arc;

    use super::{Deserialize, Group, Keyed, MOST_TYPES, Names, Served, Version, or_default, served};

    #[derive(Deserialize)]
    pub(super) struct List {
        #[serde(default, deserialize_with = "or_default")]
        items: Vec<Keyed<Item>>,
    }

    #[derive(Deserialize)]
    struct Item {
        #[serde(default)]
        metadata: Keyed<Metadata>,
        #[serde(default, deserialize_with = "or_default")]
        versions: Vec<Keyed<ItemVersion>>,
    }

    #[derive(Default, Deserialize)]
    struct Metadata {
        /// Left out for the core group.
        #[serde(default)]
        name: String,
    }

    #[derive(Deserialize)]
    struct ItemVersion {
        version: String,
        #[serde(default)]
        freshness: String,
        #[serde(default, deserialize_with = "or_default")]
        resources: Vec<Keyed<Resource>>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Resource {
        resource: String,
        #[serde(default, deserialize_with = "or_default")]
        response_kind: Keyed<ResponseKind>,
        #[serde(default, deserialize_with = "or_default")]
        singular_resource: String,
        #[serde(default, deserialize_with = "or_default")]
        short_names: Vec<String>,
        #[serde(default)]
        scope: String,
        #[serde(default, deserialize_with = "or_default")]
        verbs: Vec<String>,
    }

    #[derive(Default, Deserialize)]
    struct ResponseKind {
        #[serde(default)]
        kind: String,
    }

    impl List {
        pub(super) fn groups(self) -> Vec<Group> {
            self.items.into_iter().map(|Keyed(item)| item.group()).collect()
        }
    }

    impl Item {
        fn group(self) -> Group {
            let versions = self.versions.into_iter().map(|Keyed(version)| version.version()).collect();
            Group { name: self.metadata.0.name.into(), versions }
        }
    }

    impl ItemVersion {
        fn version(self) -> Version {
            // "Stale": the aggregator could not reach the server behind it. The list, which is
            // often empty, may be incomplete.
            let current = self.freshness != "Stale";
            let resources: Arc<[Served]> =
                self.resources.into_iter().filter_map(|Keyed(resource)| resource.served()).collect();
            if resources.len() > MOST_TYPES {
                // Requested separately, it fails separately.
                return Version { name: self.version.into(), resources: Arc::default(), current: false };
            }
            Version { name: self.version.into(), resources, current }
        }
    }

    impl Resource {
        fn served(self) -> Option<Served> {
            let names = Names {
                resource: self.resource,
                kind: self.response_kind.0.kind,
                singular: self.singular_resource,
                short_names: self.short_names,
            };
            served(names, self.scope == "Namespaced", &self.verbs)
        }
    }
}

/// The documents of `meta/v1`.
mod plain {
    use std::sync::Arc;

    use super::{Deserialize, Group, Keyed, Names, Served, Version, or_default, served};

    #[derive(Deserialize)]
    pub(super) struct Groups {
        #[serde(default, deserialize_with = "or_default")]
        groups: Vec<Keyed<PlainGroup>>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct PlainGroup {
        name: String,
        #[serde(default, deserialize_with = "or_default")]
        versions: Vec<Keyed<PlainVersion>>,
        #[serde(default, deserialize_with = "or_default")]
        preferred_version: Keyed<PlainVersion>,
    }

    #[derive(Default, Deserialize, PartialEq, Eq)]
    struct PlainVersion {
        #[serde(default)]
        version: String,
    }

    #[derive(Deserialize)]
    pub(super) struct Core {
        #[serde(default, deserialize_with = "or_default")]
        versions: Vec<String>,
    }

    #[derive(Deserialize)]
    pub(super) struct Resources {
        #[serde(default)]
        pub(super) kind: String,
        #[serde(default, deserialize_with = "or_default")]
        pub(super) resources: Vec<Keyed<Resource>>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Resource {
        name: String,
        #[serde(default)]
        kind: String,
        #[serde(default, deserialize_with = "or_default")]
        singular_name: String,
        #[serde(default, deserialize_with = "or_default")]
        short_names: Vec<String>,
        #[serde(default)]
        namespaced: bool,
        #[serde(default, deserialize_with = "or_default")]
        verbs: Vec<String>,
    }

    fn unread(name: String) -> Version {
        Version { name: name.into(), resources: Arc::default(), current: false }
    }

    impl Groups {
        pub(super) fn groups(self) -> Vec<Group> {
            self.groups.into_iter().map(|Keyed(group)| group.group()).collect()
        }
    }

    impl PlainGroup {
        fn group(mut self) -> Group {
            // Stable: the others stay in the server's order.
            self.versions.sort_by_key(|version| *version != self.preferred_version);
            let versions = self.versions.into_iter().map(|Keyed(version)| unread(version.version)).collect();
            Group { name: self.name.into(), versions }
        }
    }

    impl Core {
        pub(super) fn groups(self) -> Vec<Group> {
            vec![Group { name: "".into(), versions: self.versions.into_iter().map(unread).collect() }]
        }
    }

    impl Resource {
        pub(super) fn served(self) -> Option<Served> {
            let names = Names {
                resource: self.name,
                kind: self.kind,
                singular: self.singular_name,
                short_names: self.short_names,
            };
            served(names, self.namespaced, &self.verbs)
        }
    }
}
