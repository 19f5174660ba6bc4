//! What identifies an object: uid, namespace and name, and the key by which queues know it.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::Serialize;
use serde::ser::SerializeStruct;
use uuid::Uuid;

use super::{OwnerReference, ResourceType};
use crate::text::word;

/// The uid that the API server gave an object. Unlike a name, it is unique over time.
///
/// A uid is an opaque string that is sent back in preconditions, so its text is preserved exactly.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(Repr);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Repr {
    /// A UUID whose canonical text is the uid's text, as nearly always. It takes no allocation.
    Uuid(Uuid),
    /// Any other text. Aggregated API servers may use any string. The pointer is thin, because
    /// every node of the graph reserves the space.
    Text(Arc<String>),
}

impl Uid {
    /// `None` if the text is empty: an object without a uid proves nothing and gets no node.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        let is_canonical = |uuid: &Uuid| uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == text;
        let uuid = Uuid::try_parse(text).ok().filter(is_canonical);
        Some(Self(uuid.map_or_else(|| Repr::Text(Arc::new(text.to_owned())), Repr::Uuid)))
    }

    /// Whether it has the form of those that the API server gives.
    pub const fn is_usual(&self) -> bool {
        matches!(self.0, Repr::Uuid(_))
    }

    /// The uid for people, truncated, because references may have texts of any length.
    pub fn shown(&self) -> Cow<'_, str> {
        match &self.0 {
            Repr::Text(text) => word(text),
            Repr::Uuid(uuid) => uuid.to_string().into(),
        }
    }

    /// The bytes that its text allocates.
    pub fn text_bytes(&self) -> usize {
        match &self.0 {
            Repr::Uuid(_) => 0,
            Repr::Text(text) => text.len(),
        }
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Uuid(uuid) => uuid.fmt(f),
            Repr::Text(text) => f.write_str(text),
        }
    }
}

/// The name of a namespace. Cheap to clone: many keys share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Namespace(Arc<str>);

impl Namespace {
    /// `None` for the empty namespace of cluster-scoped objects.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() { None } else { Some(Self(text.into())) }
    }

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
    pub fn key(&self) -> Key {
        Key { uid: self.uid.clone(), resource: Arc::clone(&self.resource), namespace: self.namespace.clone() }
    }

    /// A reference to it that neither controls nor blocks.
    pub fn reference(&self) -> OwnerReference {
        OwnerReference {
            api_version: self.resource.api_version().into(),
            kind: self.resource.kind.as_ref().into(),
            name: self.name.as_ref().into(),
            uid: self.uid.clone(),
            controller: false,
            block_owner_deletion: false,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Scope;

    /// Rule 7.4.
    #[test]
    fn every_uid_round_trips() {
        for text in [
            "0b1e5c1e-9b1a-4b58-8b7e-0f4b7a7e9d10",
            "0B1E5C1E-9B1A-4B58-8B7E-0F4B7A7E9D10",
            "0b1e5c1e9b1a4b588b7e0f4b7a7e9d10",
            "{0b1e5c1e-9b1a-4b58-8b7e-0f4b7a7e9d10}",
            "00000000-0000-0000-8b7e-0f4b7a7e9d10",
            "00000000-0000-0000-0000-000000000000",
            "00000000-0000-0001-0000-000000000000",
            "not a uuid at all",
            "x",
        ] {
            assert_eq!(Uid::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Uid::parse(""), None);
    }

    fn identity(namespace: &str, name: &str, version: &str) -> Identity {
        let resource = ResourceType::of("widgets.example.com", version, "Widget", Scope::Namespaced);
        let uid = Uid::parse("u").unwrap();
        Identity { resource, namespace: Namespace::parse(namespace), name: name.into(), uid }
    }

    #[test]
    fn the_version_that_requests_use_is_no_part_of_an_identity_and_the_namespace_is() {
        let one = identity("a", "w", "v1");
        assert_eq!(one, identity("a", "w", "v2"));
        assert_eq!(one.key(), identity("a", "x", "v2").key());
        assert_ne!(one, identity("a", "x", "v1"));
        assert_ne!(one, identity("b", "w", "v1"));
        assert_ne!(one.key(), identity("b", "w", "v1").key());
    }
}
