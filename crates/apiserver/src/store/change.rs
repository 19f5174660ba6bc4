//! Changes of objects, and what caused them.

use std::sync::Arc;

use serde_json::Value;

use crate::object::{Key, Object};
use crate::resources::ResourceName;

/// The cause of a change: the client and its request.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// The number of the request; 0 is the server itself.
    pub request: u64,
    /// The user agent.
    pub user_agent: String,
    /// The HTTP method.
    pub method: String,
    /// The path and query.
    pub path: String,
    /// The body, if it is JSON.
    pub body: Value,
}

impl Cause {
    /// The cause of the server's own writes, such as the clean-up of a CustomResourceDefinition or
    /// a namespace.
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

/// A change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// The resource version of the change.
    pub version: u64,
    /// The type of the object.
    pub resource: ResourceName,
    /// The namespace and name of the object.
    pub key: Key,
    /// The state before; `None` if the object was created.
    pub before: Option<Object>,
    /// The state after. For a removed object, its last state with the version of the removal.
    pub after: Object,
    /// Whether the object was removed.
    pub removed: bool,
    /// The request that made the change.
    pub cause: Arc<Cause>,
}

/// The requested versions have been compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    /// The requested version.
    pub asked: u64,
    /// The oldest version that is kept.
    pub oldest: u64,
}
