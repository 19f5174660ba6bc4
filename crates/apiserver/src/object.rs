//! Stored objects: JSON, shared, never changed in place.

use std::cmp::Ordering;
use std::iter::once;
use std::sync::Arc;

use serde_json::{Map, Value};

/// Namespace and name, in the order of lists: by the bytes of `namespace/name`, so that `a-b` comes
/// before `a`, as in etcd.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// `None` for cluster-scoped objects.
    pub namespace: Option<Arc<str>>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl Key {
    /// The key of an object.
    #[must_use]
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self { namespace: namespace.map(Arc::from), name: name.into() }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.namespace, &other.namespace) {
            (Some(a), Some(b)) if a != b => a.bytes().chain(once(b'/')).cmp(b.bytes().chain(once(b'/'))),
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            _ => self.name.cmp(&other.name),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// One version of one object, with `apiVersion` and `kind`.
#[derive(Clone, Debug, PartialEq)]
pub struct Object(Arc<Value>);

impl Object {
    /// Wraps a value. A value that is no JSON object has empty metadata.
    #[must_use]
    pub fn new(value: Value) -> Self {
        Self(Arc::new(value))
    }

    /// The whole object.
    #[must_use]
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// A copy that can be changed.
    #[must_use]
    pub fn to_value(&self) -> Value {
        Value::clone(&self.0)
    }

    /// `metadata`.
    #[must_use]
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        self.0.get("metadata")?.as_object()
    }

    fn text(&self, field: &str) -> &str {
        self.metadata().and_then(|metadata| metadata.get(field)?.as_str()).unwrap_or_default()
    }

    fn list(&self, field: &str) -> &[Value] {
        self.metadata().and_then(|metadata| metadata.get(field)?.as_array()).map_or(&[], Vec::as_slice)
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> Key {
        let namespace = self.text("namespace");
        Key::new((!namespace.is_empty()).then_some(namespace), self.name())
    }

    /// `metadata.name`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text("name")
    }

    /// `metadata.uid`.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.text("uid")
    }

    /// `metadata.resourceVersion` as a number; 0 if it is absent.
    #[must_use]
    pub fn resource_version(&self) -> u64 {
        self.text("resourceVersion").parse().unwrap_or_default()
    }

    /// `metadata.deletionTimestamp`.
    #[must_use]
    pub fn deletion_timestamp(&self) -> Option<&str> {
        Some(self.text("deletionTimestamp")).filter(|time| !time.is_empty())
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.list("finalizers").iter().filter_map(Value::as_str)
    }

    /// Whether the object has this finalizer.
    #[must_use]
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers().any(|one| one == finalizer)
    }

    /// `metadata.ownerReferences`.
    #[must_use]
    pub fn owner_references(&self) -> &[Value] {
        self.list("ownerReferences")
    }

    /// The value of a label.
    #[must_use]
    pub fn label(&self, label: &str) -> Option<&str> {
        self.metadata()?.get("labels")?.get(label)?.as_str()
    }
}
