//! An object of a scenario, and the names and paths of its resource.

use std::fmt;

use anyhow::Result;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ApiResource;
use serde_json::{Value, json};

/// An object as returned by the API server.
#[derive(Clone, Debug)]
pub struct Obj {
    /// The resource and version of the request.
    pub resource: ApiResource,
    /// The namespace, unless the object is cluster-scoped.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// The resource version.
    pub resource_version: String,
    /// The whole object.
    pub raw: Value,
}

impl Obj {
    pub(crate) fn new(resource: &ApiResource, raw: Value) -> Self {
        let text = |field: &str| raw["metadata"][field].as_str().map(str::to_owned);
        Self {
            resource: resource.clone(),
            namespace: text("namespace").filter(|namespace| !namespace.is_empty()),
            name: text("name").unwrap_or_default(),
            uid: text("uid").unwrap_or_default(),
            resource_version: text("resourceVersion").unwrap_or_default(),
            raw,
        }
    }

    pub(crate) fn named(resource: &ApiResource, namespace: Option<&str>, name: &str) -> Self {
        Self::new(resource, json!({ "metadata": { "name": name, "namespace": namespace } }))
    }

    /// A correct owner reference to the object, which can be changed.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "name": self.name,
            "uid": self.uid,
        })
    }

    /// The resource as [`Collector::idle`](crate::Collector::idle) expects it: `configmaps`, `widgets.example.com`.
    pub fn resource_key(&self) -> String {
        key(&self.resource)
    }

    /// Its owner references.
    pub fn owner_references(&self) -> Result<Vec<OwnerReference>> {
        match &self.raw["metadata"]["ownerReferences"] {
            Value::Null => Ok(Vec::new()),
            references => Ok(serde_json::from_value(references.clone())?),
        }
    }

    /// The uids of its owners.
    pub fn owner_uids(&self) -> Vec<&str> {
        let references = self.raw["metadata"]["ownerReferences"].as_array();
        references.into_iter().flatten().filter_map(|reference| reference["uid"].as_str()).collect()
    }

    /// Its finalizers.
    pub fn finalizers(&self) -> Vec<&str> {
        let finalizers = self.raw["metadata"]["finalizers"].as_array();
        finalizers.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Whether the object is being deleted.
    pub fn is_terminating(&self) -> bool {
        self.raw["metadata"]["deletionTimestamp"].is_string()
    }

    /// The path of the object on the API server.
    pub fn path(&self) -> String {
        format!("{}/{}", collection(&self.resource, self.namespace.as_deref()), self.name)
    }
}

impl fmt::Display for Obj {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.path(), self.uid)
    }
}

/// A resource without its version: `configmaps`, `widgets.example.com`.
pub fn key(resource: &ApiResource) -> String {
    if resource.group.is_empty() {
        resource.plural.clone()
    } else {
        format!("{}.{}", resource.plural, resource.group)
    }
}

/// The path of all objects of a resource in a namespace, or in the cluster.
pub fn collection(resource: &ApiResource, namespace: Option<&str>) -> String {
    let root = if resource.group.is_empty() { "/api" } else { "/apis" };
    let namespace = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
    format!("{root}/{}{namespace}/{}", resource.api_version, resource.plural)
}
