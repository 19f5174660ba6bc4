//! Stored objects: JSON, shared, never changed in place; and times in the format of Kubernetes.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

/// Namespace and name, in the order of lists.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// `None` for cluster-scoped objects.
    pub namespace: Option<Arc<str>>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl Key {
    /// The key of an object.
    pub fn new(namespace: Option<&str>, name: &str) -> Self {
        Self { namespace: namespace.map(Arc::from), name: name.into() }
    }
}

/// One version of one object, with `apiVersion` and `kind`.
#[derive(Clone, Debug, PartialEq)]
pub struct Object(Arc<Value>);

impl Object {
    /// Wraps a value. A value that is no JSON object has empty metadata.
    pub fn new(value: Value) -> Self {
        Self(Arc::new(value))
    }

    /// The whole object.
    pub fn value(&self) -> &Value {
        &self.0
    }

    /// A copy that can be changed.
    pub fn to_value(&self) -> Value {
        Value::clone(&self.0)
    }

    /// `metadata`.
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
    pub fn key(&self) -> Key {
        let namespace = self.text("namespace");
        Key::new((!namespace.is_empty()).then_some(namespace), self.name())
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.text("name")
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        self.text("uid")
    }

    /// `metadata.resourceVersion` as a number; 0 if it is absent.
    pub fn resource_version(&self) -> u64 {
        self.text("resourceVersion").parse().unwrap_or_default()
    }

    /// `metadata.deletionTimestamp`.
    pub fn deletion_timestamp(&self) -> Option<&str> {
        Some(self.text("deletionTimestamp")).filter(|time| !time.is_empty())
    }

    /// `metadata.finalizers`.
    pub fn finalizers(&self) -> impl Iterator<Item = &str> {
        self.list("finalizers").iter().filter_map(Value::as_str)
    }

    /// Whether the object has this finalizer.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.finalizers().any(|one| one == finalizer)
    }

    /// `metadata.ownerReferences`.
    pub fn owner_references(&self) -> &[Value] {
        self.list("ownerReferences")
    }

    /// The value of a label.
    pub fn label(&self, label: &str) -> Option<&str> {
        self.metadata()?.get("labels")?.get(label)?.as_str()
    }
}

/// The last second that clients can read. The grace period of a Pod may reach beyond it.
const LAST_SECOND: Duration = Duration::from_secs(253_402_207_200);

/// A time in the format of Kubernetes: `2026-01-01T00:00:00Z`.
pub fn timestamp(time: SystemTime) -> String {
    let since_1970 = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().min(LAST_SECOND);
    humantime::format_rfc3339_seconds(SystemTime::UNIX_EPOCH + since_1970).to_string()
}

/// Parses such a time; `None` if it is malformed.
pub fn parse_time(text: &str) -> Option<SystemTime> {
    humantime::parse_rfc3339(text).ok()
}
