//! Which types there are, and what discovery says of them.

use std::fmt;
use std::sync::Arc;

pub mod aggregated;
pub mod api_services;
mod builtin;
mod catalog;
pub mod crds;
mod definition;
pub mod discovery;
mod names;
mod subresource;
#[cfg(test)]
mod tests;

pub use builtin::built_in;
pub use catalog::{Catalog, Delegated, ServiceName};
pub use definition::{Column, Definition};

/// Group and plural: what a type is called in requests, whatever the version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceName {
    /// Empty for the core group.
    pub group: Arc<str>,
    /// The plural, such as `configmaps`.
    pub plural: Arc<str>,
}

impl ResourceName {
    /// A name.
    #[must_use]
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

/// What happens to dependents if a DELETE does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultPolicy {
    /// They are deleted after their owner: nearly everywhere.
    Background,
    /// They are orphaned: Jobs of `batch/v1`, ReplicationControllers, …
    Orphan,
    /// Nothing ever happens to them, whatever a DELETE says: Events.
    Unsupported,
}

/// A type that is served.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Group and plural, as requests and statuses name it.
    pub name: ResourceName,
    /// Under which name the store keeps its objects. It differs from `name` where
    /// the same objects are served in two groups: Events, and Ingresses of old.
    pub stored_as: ResourceName,
    /// The kind.
    pub kind: Box<str>,
    /// The kind of a list.
    pub list_kind: Box<str>,
    /// The singular.
    pub singular: Box<str>,
    /// Short names, such as `cm`.
    pub short_names: Vec<Box<str>>,
    /// Categories, such as `all`.
    pub categories: Vec<Box<str>>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The served versions, the preferred one first.
    pub versions: Vec<Box<str>>,
    /// The version in which objects are kept.
    pub storage_version: Box<str>,
    /// The verbs, as discovery shows them.
    pub verbs: Vec<&'static str>,
    /// `status`, `finalize`, …
    pub subresources: Vec<&'static str>,
    /// What happens to dependents by default.
    pub default_policy: DefaultPolicy,
    /// From a custom resource definition: no strategic merge patches.
    pub custom: bool,
    /// Whether deletion may take a while: bound Pods.
    pub graceful: bool,
    /// Whether a DELETE that takes effect at once answers the object, not a Status.
    pub returns_deleted: bool,
    /// Whether a DELETE always answers a Status, even if finalizers keep the
    /// object: Services of old.
    pub hides_deleted: bool,
    /// What a custom resource definition says besides; none for built-in types.
    pub definition: Option<Arc<Definition>>,
}

impl Resource {
    /// Whether discovery names this verb.
    #[must_use]
    pub fn allows(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    /// Whether this version is served.
    #[must_use]
    pub fn serves(&self, version: &str) -> bool {
        self.versions.iter().any(|served| **served == *version)
    }
}
