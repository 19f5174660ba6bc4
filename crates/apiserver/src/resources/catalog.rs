//! The types that are served now.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::core::Version;
use serde_json::Value;

use crate::resources::{Resource, ResourceName, built_in};
use crate::server::Release;
use crate::service::ApiServer;

/// The backends, by service.
pub(crate) type Backends = BTreeMap<ServiceName, Backend>;

/// A server that serves groups and versions for another one.
#[derive(Debug)]
pub(crate) struct Backend {
    pub server: ApiServer,
    /// What it served when it was connected.
    pub catalog: Catalog,
}

/// The namespace and name of a service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServiceName {
    /// The namespace of the service.
    pub namespace: Box<str>,
    /// The name of the service.
    pub name: Box<str>,
}

impl ServiceName {
    /// The service with this namespace and name.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

/// A group and version that an APIService sends to a backend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delegated {
    pub group: Box<str>,
    pub version: Box<str>,
    /// The priority of the group. Groups with higher priorities come first.
    pub group_priority: i64,
    /// The priority of the version in its group. Higher ones come first.
    pub version_priority: i64,
    pub service: ServiceName,
    /// The resources of the backend, as in aggregated discovery; `None` while there is no backend.
    pub resources: Option<Vec<Value>>,
}

/// The priority of groups of custom resources.
pub(super) const CUSTOM_PRIORITY: i64 = 1000;

/// The served types, in the order of discovery.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// The built-in groups without the core group, in order.
    order: Vec<Arc<str>>,
    types: BTreeMap<ResourceName, Arc<Resource>>,
    pub(crate) delegated: Vec<Delegated>,
}

impl Catalog {
    /// The catalog of a release's built-in types.
    pub fn new(release: Release) -> Self {
        let mut catalog = Self { order: Vec::new(), types: BTreeMap::new(), delegated: Vec::new() };
        for resource in built_in(release) {
            let group = &resource.name.group;
            if !group.is_empty() && !catalog.order.contains(group) {
                catalog.order.push(Arc::clone(group));
            }
            catalog.insert(resource);
        }
        catalog
    }

    /// Adds a type. It replaces a type of the same name.
    pub fn insert(&mut self, resource: Arc<Resource>) {
        self.types.insert(resource.name.clone(), resource);
    }

    /// Removes a type.
    pub fn remove(&mut self, name: &ResourceName) {
        self.types.remove(name);
    }

    /// The backend of this group and version, if it has one.
    pub(crate) fn delegated(&self, group: &str, version: &str) -> Option<&Delegated> {
        self.delegated.iter().find(|one| *one.group == *group && *one.version == *version)
    }

    /// The type with this name.
    pub fn get(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.types.get(&ResourceName::new(group, plural))
    }

    /// The type with this name, if this version of it is served.
    pub fn served(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.get(group, plural).filter(|resource| resource.serves(version))
    }

    /// All types, by group and plural.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.types.values()
    }

    /// The types of a group and version, in the order of discovery.
    pub fn types(&self, group: &str, version: &str) -> impl Iterator<Item = &Arc<Resource>> {
        self.all().filter(move |resource| *resource.name.group == *group && resource.serves(version))
    }

    /// Whether the server itself has this group.
    pub fn is_built_in(&self, group: &str) -> bool {
        group.is_empty() || self.order.iter().any(|one| **one == *group)
    }

    /// All groups except the core group, in the order of `/apis`.
    pub fn groups(&self) -> Vec<Arc<str>> {
        let mut added: BTreeMap<Arc<str>, i64> = BTreeMap::new();
        for ResourceName { group, .. } in self.types.keys().filter(|name| !self.is_built_in(&name.group)) {
            added.insert(Arc::clone(group), CUSTOM_PRIORITY);
        }
        for one in self.delegated.iter().filter(|one| !self.is_built_in(&one.group)) {
            let priority = added.entry(one.group.as_ref().into()).or_insert(one.group_priority);
            *priority = one.group_priority.max(*priority);
        }
        let mut added: Vec<_> = added.into_iter().collect();
        added.sort_by_key(|(_, priority)| std::cmp::Reverse(*priority));
        self.order.iter().cloned().chain(added.into_iter().map(|(group, _)| group)).collect()
    }

    /// The versions of a group, the preferred one first.
    pub fn versions(&self, group: &str) -> Vec<Box<str>> {
        let mut versions: Vec<Box<str>> = Vec::new();
        let mut custom: Vec<Box<str>> = Vec::new();
        for resource in self.all().filter(|resource| *resource.name.group == *group) {
            let versions = if resource.custom { &mut custom } else { &mut versions };
            for version in &resource.versions {
                if !versions.contains(version) {
                    versions.push(version.clone());
                }
            }
        }
        // The versions of one type are in order, which decides for the other types of the group,
        // too.
        versions.sort_by_key(|version| !matches!(Version::parse(version), Version::Stable(_)));
        custom.sort_by_key(|version| std::cmp::Reverse(Version::parse(version).priority()));
        let mut sent: Vec<_> = self.delegated.iter().filter(|one| *one.group == *group).collect();
        sent.sort_by_key(|one| std::cmp::Reverse(one.version_priority));
        for version in custom.into_iter().chain(sent.into_iter().map(|one| one.version.clone())) {
            if !versions.contains(&version) {
                versions.push(version);
            }
        }
        versions
    }
}
