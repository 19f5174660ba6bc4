//! Discovery documents, aggregated and plain.

use std::sync::Arc;

use serde::Deserialize;

use kube_gc_decode::{Keyed, or_default, read_json};

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

/// A resource in one version. In the aggregated form, some fields have another name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Served {
    #[serde(alias = "resource")]
    pub name: String,
    kind: String,
    #[serde(deserialize_with = "or_default")]
    response_kind: Keyed<ResponseKind>,
    /// Empty if the server gives none.
    #[serde(alias = "singularResource", deserialize_with = "or_default")]
    pub singular_name: String,
    /// What people type instead of the name.
    #[serde(deserialize_with = "or_default")]
    pub short_names: Vec<String>,
    namespaced: bool,
    scope: String,
    #[serde(deserialize_with = "or_default")]
    verbs: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct ResponseKind {
    kind: String,
}

impl Served {
    pub fn kind(&self) -> &str {
        if self.kind.is_empty() { &self.response_kind.0.kind } else { &self.kind }
    }

    pub fn is_namespaced(&self) -> bool {
        self.namespaced || self.scope == "Namespaced"
    }

    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// Whether its objects can be collected.
    pub fn is_watchable(&self) -> bool {
        ["delete", "list", "watch"].iter().all(|verb| self.can(verb))
    }

    /// Whether it is a resource, and not a subresource or something made up.
    fn is_valid(&self) -> bool {
        is_name(&self.name) && !self.kind().is_empty() && !self.verbs.is_empty()
    }
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

/// The greatest number of short names of a type. An aggregated API may send any number.
const MOST_SHORT_NAMES: usize = 16;

/// A discovery document of any kind. That of an API server from 1.26 on is aggregated
/// (`apidiscovery.k8s.io`, v2 and v2beta1 alike). The others are those of `meta/v1`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Document {
    kind: String,
    /// Of an `APIGroupDiscoveryList` or an `APIGroupList`.
    #[serde(alias = "items", deserialize_with = "or_default")]
    groups: Vec<Keyed<ListedGroup>>,
    /// Of `APIVersions`.
    #[serde(deserialize_with = "or_default")]
    versions: Vec<String>,
    /// Of an `APIResourceList`.
    #[serde(deserialize_with = "or_default")]
    resources: Vec<Keyed<Served>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListedGroup {
    name: String,
    /// Has the name in an aggregated document.
    metadata: Keyed<Metadata>,
    #[serde(deserialize_with = "or_default")]
    versions: Vec<Keyed<ListedVersion>>,
    #[serde(deserialize_with = "or_default")]
    preferred_version: Keyed<ListedVersion>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    /// Left out for the core group.
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ListedVersion {
    version: String,
    freshness: String,
    #[serde(deserialize_with = "or_default")]
    resources: Vec<Keyed<Served>>,
}

const NO_DOCUMENT: &str = "the response is not a discovery document";

/// Reads the answer of `/api` or `/apis`. Its `kind` tells whether it is aggregated; old servers
/// ignore the `Accept` header.
pub(super) fn root(body: &[u8]) -> Result<Vec<Group>, String> {
    let Keyed(Document { kind, groups, versions, .. }) = read_json(body)?;
    let groups: Vec<Group> = match &*kind {
        "APIGroupDiscoveryList" => groups.into_iter().map(|Keyed(group)| group.aggregated()).collect(),
        "APIGroupList" => groups.into_iter().map(|Keyed(group)| group.plain()).collect(),
        "APIVersions" => {
            vec![Group { name: "".into(), versions: versions.into_iter().map(unread).collect() }]
        }
        _ => return Err(NO_DOCUMENT.into()),
    };
    if groups.iter().map(|group| group.versions.len()).sum::<usize>() > MOST_VERSIONS {
        return Err(format!("the response has more than {MOST_VERSIONS} group versions"));
    }
    Ok(groups)
}

/// Reads the answer of `/api/VERSION` or `/apis/GROUP/VERSION`.
pub(super) fn resources(body: &[u8]) -> Result<Arc<[Served]>, String> {
    let Keyed(Document { kind, resources, .. }) = read_json(body)?;
    if kind != "APIResourceList" {
        return Err(NO_DOCUMENT.into());
    }
    let resources = all_served(resources);
    if resources.len() > MOST_TYPES {
        return Err(format!("the group version has {} types, more than {MOST_TYPES}", resources.len()));
    }
    Ok(resources)
}

/// A version whose resources are requested separately.
fn unread(name: String) -> Version {
    Version { name: name.into(), resources: Arc::default(), current: false }
}

impl ListedGroup {
    fn aggregated(self) -> Group {
        let version = |Keyed(ListedVersion { version, freshness, resources })| {
            let resources = all_served(resources);
            // "Stale": the aggregator could not reach the server behind it. The list, which is
            // often empty, may be incomplete.
            let current = freshness != "Stale";
            // Requested separately, too many fail separately.
            if resources.len() > MOST_TYPES {
                return unread(version);
            }
            Version { name: version.into(), resources, current }
        };
        Group {
            name: self.metadata.0.name.into(),
            versions: self.versions.into_iter().map(version).collect(),
        }
    }

    fn plain(mut self) -> Group {
        let preferred = self.preferred_version.0.version;
        // Stable: the others stay in the server's order.
        self.versions.sort_by_key(|Keyed(listed)| listed.version != preferred);
        let versions = self.versions.into_iter().map(|Keyed(listed)| unread(listed.version)).collect();
        Group { name: self.name.into(), versions }
    }
}

fn all_served(resources: Vec<Keyed<Served>>) -> Arc<[Served]> {
    let valid = resources.into_iter().filter(|Keyed(served)| served.is_valid());
    let short = valid.map(|Keyed(mut served)| {
        served.short_names.truncate(MOST_SHORT_NAMES);
        served
    });
    short.collect()
}
