//! The served types, and discovery.

pub(crate) mod aggregated;
pub(crate) mod api_services;
mod builtin;
mod catalog;
pub(crate) mod crds;
mod definition;
pub(crate) mod discovery;

use std::fmt;
use std::sync::Arc;

pub(crate) use builtin::built_in;
pub(crate) use catalog::{Backend, Backends, Delegated};
pub use catalog::{Catalog, ServiceName};
pub(crate) use definition::{Definition, begin_deletion};

/// The default propagation policy of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultPolicy {
    /// Background: nearly all types.
    Background,
    /// Orphan: Jobs of `batch/v1`, ReplicationControllers, …
    Orphan,
    /// Dependents are never touched, whatever a DELETE requests: Events.
    Unsupported,
}

/// A served type.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Group and plural, as in requests and statuses.
    pub name: ResourceName,
    /// The name under which the store keeps the objects. It differs from `name` where two groups
    /// serve the same objects: Events, and Ingresses in old releases.
    pub stored_as: ResourceName,
    /// The kind of single objects.
    pub kind: Box<str>,
    /// The kind of lists.
    pub list_kind: Box<str>,
    /// The singular name.
    pub singular: Box<str>,
    /// Short names, such as `cm`.
    pub short_names: Vec<Box<str>>,
    /// Categories, such as `all`.
    pub categories: Vec<Box<str>>,
    /// Whether the type is namespaced.
    pub namespaced: bool,
    /// The served versions, the preferred one first.
    pub versions: Vec<Box<str>>,
    /// The storage version.
    pub storage_version: Box<str>,
    /// The verbs in discovery.
    pub verbs: Vec<&'static str>,
    /// `status`, `finalize`, …
    pub subresources: Vec<&'static str>,
    /// The default propagation policy.
    pub default_policy: DefaultPolicy,
    /// Whether a CustomResourceDefinition defines it. Such types accept no strategic merge patches.
    pub custom: bool,
    /// Whether deletion can be graceful: Pods that are bound to a node.
    pub graceful: bool,
    /// Whether a DELETE that removes the object at once answers with the object instead of a
    /// Status.
    pub returns_deleted: bool,
    /// The further properties of a custom type; `None` for built-in types.
    pub(crate) definition: Option<Arc<Definition>>,
}

impl Resource {
    /// Whether discovery lists this verb.
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Whether this version is served.
    pub fn serves(&self, version: &str) -> bool {
        self.versions.iter().any(|served| **served == *version)
    }
}

/// Group and plural, which name a type in every version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName {
    /// Empty for the core group.
    pub group: Arc<str>,
    /// The plural, such as `configmaps`.
    pub plural: Arc<str>,
}

impl ResourceName {
    /// The name with this group and plural.
    pub fn new(group: &str, plural: &str) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.plural)?;
        if self.group.is_empty() { Ok(()) } else { write!(f, ".{}", self.group) }
    }
}
