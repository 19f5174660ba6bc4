//! Discovery of the types that the API server serves.
//!
//! `fetch` requests the discovery documents and finds the aggregated APIs, `document` reads the
//! documents, and the catalog is made here. A group that cannot be discovered is
//! unknown, which is never the same as gone: what was known of it is kept.

mod document;
mod fetch;
#[cfg(any(test, feature = "test-util"))]
#[doc(hidden)]
pub mod testing;

use std::collections::BTreeMap;
use std::sync::Arc;

use document::{Group, Served};
use fetch::Services;

use super::client::Api;
use super::error::ApiError;
pub use fetch::{Definition, GroupFailure};
use kube_gc_core::graph::DeletesProve;
use kube_gc_core::object::{Catalog, GroupResource, ResourceType, Scope, ServedKind};

/// The result of one discovery.
#[derive(Clone, Debug, Default)]
pub struct Discovered {
    /// Every served type in every version, watchable or not.
    pub catalog: Arc<Catalog>,
    /// The types that can be collected: their verbs include delete, list and watch. Ordered by
    /// group and resource. The caller leaves out ignored types.
    pub watchable: Vec<Watchable>,
    /// The parts that could not be discovered. What was known of them is kept.
    pub failures: Vec<GroupFailure>,
    /// Those of which nothing was known before either.
    pub never_read: Vec<GroupFailure>,
    /// The documents, for the next discovery to fall back on.
    groups: Vec<Group>,
    services: Services,
}

impl Api {
    /// Discovers the served types (rules 2.1 and 2.5): in two requests if the server supports
    /// aggregated discovery, otherwise in one per group version. What `previous` knew of a group
    /// version that cannot be discovered is kept.
    ///
    /// # Errors
    ///
    /// Nothing could be discovered. The caller keeps what it knows.
    pub async fn discover(&self, previous: Option<&Discovered>) -> Result<Discovered, ApiError> {
        let previous_groups = previous.map_or(&[][..], |previous| &previous.groups);
        let (groups, failures) = fetch::groups(self, previous_groups).await?;
        let never_read = fetch::never_read(&groups, &failures);
        // After the groups: a group that has just appeared then has its `APIService` already.
        let services = match fetch::services(self).await {
            Some(services) => services,
            None => previous.map(|previous| previous.services.clone()).unwrap_or_default(),
        };
        let (catalog, watchable) = select(&groups, &services);
        self.set_aggregated(&watchable);
        Ok(Discovered { catalog: Arc::new(catalog), watchable, failures, never_read, groups, services })
    }

    /// Notes which types aggregated APIs serve.
    pub fn set_aggregated(&self, watchable: &[Watchable]) {
        let groups = watchable.iter().filter(|watchable| watchable.deletes_prove == DeletesProve::Nothing);
        self.0.limits.set_aggregated(groups.map(|watchable| &*watchable.resource.group_resource.group));
    }
}

/// A type that can be collected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watchable {
    pub resource: Arc<ResourceType>,
    /// Nothing, if an aggregated API serves the type, or may serve it.
    pub deletes_prove: DeletesProve,
}

/// Makes the catalog and the list of the types that can be collected.
///
/// Requests for a resource use the first version, in the group's order of preference, that can
/// delete, list and watch it. If there is none, they use the first version that can get it,
/// because an owner may be of any kind.
fn select(groups: &[Group], services: &Services) -> (Catalog, Vec<Watchable>) {
    let (mut deletable, mut others, mut watchable) = (Vec::new(), Vec::new(), Vec::new());
    let mut builder = Catalog::builder();
    for group in groups {
        for version in group.versions.iter().filter(|version| version.is_unread()) {
            builder.unread(&group.name, &version.name);
        }
    }
    for (group_resource, versions) in by_type(groups) {
        let by = |fits: fn(&Served) -> bool| versions.iter().find(|(_, served)| fits(served));
        let chosen = by(Served::is_watchable).or_else(|| by(|served| served.can("get")));
        let Some(&(version, served)) = chosen.or(versions.first()) else { continue };
        let chosen = Arc::new(describe(&group_resource, version, served));
        if served.is_watchable() {
            let deletes_prove = services.deletes_prove(&group_resource.group, version);
            watchable.push(Watchable { resource: Arc::clone(&chosen), deletes_prove });
        }
        let kinds = if served.can("delete") { &mut deletable } else { &mut others };
        kinds.push(ServedKind { version: version.into(), resource: Arc::clone(&chosen) });
        for &(other_version, other) in versions.iter().filter(|(name, _)| *name != version) {
            // The kind of a resource may differ between versions.
            let resource = if *other.kind() == *chosen.kind {
                Arc::clone(&chosen)
            } else {
                Arc::new(describe(&group_resource, version, other))
            };
            kinds.push(ServedKind { version: other_version.into(), resource });
        }
    }
    for served in deletable.into_iter().chain(others) {
        builder.add(served);
    }
    (builder.build(), watchable)
}

/// What is served of each type, by version in the group's order of preference. A group may be listed
/// twice. Its versions are merged, so that no type appears twice.
fn by_type(groups: &[Group]) -> BTreeMap<GroupResource, Vec<(&str, &Served)>> {
    let mut types: BTreeMap<GroupResource, Vec<(&str, &Served)>> = BTreeMap::new();
    for group in groups {
        for version in &group.versions {
            for served in version.resources.iter() {
                let of = GroupResource::new(&group.name, &served.name);
                types.entry(of).or_default().push((&version.name, served));
            }
        }
    }
    types
}

fn describe(group_resource: &GroupResource, version: &str, served: &Served) -> ResourceType {
    ResourceType {
        group_resource: group_resource.clone(),
        version: version.into(),
        kind: served.kind().into(),
        scope: if served.is_namespaced() { Scope::Namespaced } else { Scope::Cluster },
    }
}

impl Discovered {
    /// The type that a name stands for, as kubectl reads it: `TYPE`, `TYPE.GROUP` or
    /// `TYPE.VERSION.GROUP`, where `TYPE` is a resource or its singular, else a short name, else a kind. Of several
    /// groups, the first that the server lists counts.
    pub fn type_named(&self, name: &str) -> Option<&Arc<ResourceType>> {
        let name = name.to_lowercase();
        let (own, rest) = name.split_once('.').map_or((name.as_str(), None), |(own, rest)| (own, Some(rest)));
        let fits = |group: &str, version: &str| {
            let group = group.to_lowercase();
            let after_version = |rest: &str| {
                rest.strip_prefix(version).is_some_and(|rest| rest.strip_prefix('.').unwrap_or(rest) == group)
            };
            rest.is_none_or(|rest| rest == group || after_version(rest))
        };
        let find = |is_named: &dyn Fn(&Served) -> bool| {
            let of_group = |group: &Group| {
                let versions = group.versions.iter().filter(|version| fits(&group.name, &version.name));
                let all = versions.flat_map(|version| version.resources.iter());
                let mut named = all.filter(|served| is_named(served));
                named.find_map(|served| self.catalog.resource(&GroupResource::new(&group.name, &served.name)))
            };
            self.groups.iter().find_map(of_group)
        };
        let is_kind = |served: &Served| served.kind().to_lowercase() == own;
        let is_name = |served: &Served| served.name == own || served.singular_name == own;
        // Where a server gives no singular, the kind is one, but no reason to leave out short names.
        let is_like =
            |served: &Served| is_name(served) || (served.singular_name.is_empty() && is_kind(served));
        find(&is_name)
            .and_then(|_| find(&is_like))
            .or_else(|| find(&|served| served.short_names.iter().any(|short| short == own)))
            .or_else(|| find(&is_kind))
    }
}

/// A namespaced type whose objects can be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentType {
    pub resource: Arc<ResourceType>,
    pub can_list: bool,
    /// Whether all its objects can be deleted by one request.
    pub can_delete_collection: bool,
}

/// All that a namespace may contain, as far as it could be discovered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentTypes {
    /// Ordered by group and resource.
    pub types: Vec<ContentType>,
    /// The parts of the API that could not be discovered, with the reason.
    pub undiscovered: Vec<(String, String)>,
    pub unparsed: Vec<String>,
}

impl Api {
    /// Discovers the namespaced types whose objects can be deleted. Nothing is taken from an earlier
    /// discovery, because a namespace may contain objects of a type that was created since.
    ///
    /// # Errors
    ///
    /// Nothing could be discovered.
    pub async fn content_types(&self) -> Result<ContentTypes, ApiError> {
        let (groups, failures) = fetch::groups(self, &[]).await?;
        let mut undiscovered: Vec<_> =
            failures.into_iter().map(|failure| (failure.part(), failure.error)).collect();
        undiscovered.sort();
        let (types, unparsed) = content_types(&groups);
        Ok(ContentTypes { types, undiscovered, unparsed })
    }
}

/// One version of each type: the first that can be listed, in the group's order of preference.
fn content_types(groups: &[Group]) -> (Vec<ContentType>, Vec<String>) {
    // A version with a slash would be read as a group and a version.
    let is_valid =
        |group: &str, version: &str| !group.contains('/') && !version.contains('/') && !version.is_empty();
    let mut unparsed = Vec::new();
    for group in groups {
        let invalid = group.versions.iter().filter(|version| !is_valid(&group.name, &version.name));
        unparsed.extend(invalid.map(|version| format!("{}/{}", group.name, version.name)));
    }
    let chosen = by_type(groups).into_iter().filter_map(|(group_resource, mut versions)| {
        versions.retain(|(version, served)| {
            is_valid(&group_resource.group, version) && served.is_namespaced() && served.can("delete")
        });
        let listed = versions.iter().find(|(_, served)| served.can("list"));
        let &(version, served) = listed.or(versions.first())?;
        Some(ContentType {
            resource: Arc::new(describe(&group_resource, version, served)),
            can_list: served.can("list"),
            can_delete_collection: served.can("deletecollection"),
        })
    });
    (chosen.collect(), unparsed)
}

#[cfg(test)]
mod tests;
