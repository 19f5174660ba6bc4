//! Identities and keys of objects.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::Serialize;
use serde::ser::SerializeStruct;

use super::{ResourceType, Uid};
use crate::text::word;

/// The name of a namespace. Cheap to clone: many keys share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// `None` for the empty namespace of cluster-scoped objects.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() { None } else { Some(Self(text.into())) }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The full identity of an object: resource, namespace, name and uid. Absence is proved for an
/// identity, never for a name or a uid alone.
///
/// Equality ignores the version that requests use.
#[derive(Clone)]
pub struct Identity {
    pub resource: Arc<ResourceType>,
    /// `None` for cluster-scoped types.
    pub namespace: Option<Namespace>,
    pub name: Box<str>,
    pub uid: Uid,
}

impl Identity {
    #[must_use]
    pub fn key(&self) -> Key {
        Key { uid: self.uid.clone(), resource: Arc::clone(&self.resource), namespace: self.namespace.clone() }
    }

    /// The URL path of the object.
    #[must_use]
    pub fn path(&self) -> String {
        self.resource.path(self.namespace.as_ref().map(Namespace::as_str), Some(&self.name))
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.name == other.name
            && self.namespace == other.namespace
            && self.resource.group_resource == other.resource.group_resource
    }
}

impl Eq for Identity {}

impl Hash for Identity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Hash everything: references can combine one uid with many names and kinds.
        self.uid.hash(state);
        self.name.hash(state);
        self.namespace.hash(state);
        self.resource.group_resource.hash(state);
    }
}

/// For people. Truncates names that are longer than an object's name can be.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.resource.group_resource)?;
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{} ({})", word(&self.name), self.uid.shown())
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Identity {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Identity", 6)?;
        fields.serialize_field("group", &self.resource.group_resource.group)?;
        fields.serialize_field("resource", &self.resource.group_resource.resource)?;
        fields.serialize_field("kind", &self.resource.kind)?;
        fields.serialize_field("namespace", &self.namespace)?;
        fields.serialize_field("name", &self.name)?;
        fields.serialize_field("uid", &self.uid)?;
        fields.end()
    }
}

/// The key of an object in the graph and in the work queues. It contains nothing that could become
/// stale. A uid alone is not enough, because two resources can show one uid.
#[derive(Clone)]
pub struct Key {
    pub uid: Uid,
    pub resource: Arc<ResourceType>,
    /// Selects the graph partition and the flow in the queue. It is part of equality: if dependents
    /// in two namespaces name one uid, two partitions can have a node for it, and both have to be
    /// evaluated.
    pub namespace: Option<Namespace>,
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.namespace == other.namespace
            && self.resource.group_resource == other.resource.group_resource
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.uid.hash(state);
        self.namespace.hash(state);
        self.resource.group_resource.hash(state);
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.resource.group_resource, self.uid.shown())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::{GroupResource, Scope};

    fn identity(namespace: &str, name: &str, version: &str) -> Identity {
        let resource = Arc::new(ResourceType {
            group_resource: GroupResource::parse("widgets.example.com"),
            version: version.into(),
            kind: "Widget".into(),
            scope: Scope::Namespaced,
        });
        let uid = Uid::parse("u").unwrap();
        Identity { resource, namespace: Namespace::parse(namespace), name: name.into(), uid }
    }

    #[test]
    fn the_version_that_requests_use_is_no_part_of_an_identity() {
        assert_eq!(identity("a", "w", "v1"), identity("a", "w", "v2"));
        assert_ne!(identity("a", "w", "v1"), identity("b", "w", "v1"));
        assert_ne!(identity("a", "w", "v1"), identity("a", "x", "v1"));
    }

    #[test]
    fn one_uid_that_is_named_in_two_namespaces_has_two_keys() {
        assert_ne!(identity("a", "w", "v1").key(), identity("b", "w", "v1").key());
        assert_eq!(identity("a", "w", "v1").key(), identity("a", "x", "v2").key());
    }
}
