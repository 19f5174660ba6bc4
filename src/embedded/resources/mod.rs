//! Which types there are, and what discovery says of them.

use std::fmt;
use std::sync::Arc;

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
}

/// A type that is served.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    /// Group and plural.
    pub name: ResourceName,
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
}
