//! The types that a run uses.

use kube_gc_apiserver::object::{Key, Object};
use kube_gc_apiserver::resources::ResourceName;
use serde_json::{Value, json};

use super::random::Random;

/// A type of objects.
#[derive(Debug, PartialEq, Eq)]
pub struct Type {
    /// The group; empty for the core group.
    pub group: &'static str,
    /// The plural.
    pub plural: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Whether the type is namespaced.
    pub namespaced: bool,
    /// Whether the type needs a definition.
    pub custom: bool,
}

const fn built_in(group: &'static str, plural: &'static str, kind: &'static str, namespaced: bool) -> Type {
    Type { group, plural, kind, namespaced, custom: false }
}

const fn custom(group: &'static str, plural: &'static str, kind: &'static str, namespaced: bool) -> Type {
    Type { custom: true, ..built_in(group, plural, kind, namespaced) }
}

/// Namespaces, which can be owners, too.
pub static NAMESPACES: Type = built_in("", "namespaces", "Namespace", false);

/// All types except namespaces.
pub static TYPES: [Type; 12] = [
    built_in("", "configmaps", "ConfigMap", true),
    built_in("", "secrets", "Secret", true),
    built_in("", "pods", "Pod", true),
    built_in("", "replicationcontrollers", "ReplicationController", true),
    built_in("", "nodes", "Node", false),
    built_in("apps", "deployments", "Deployment", true),
    built_in("apps", "replicasets", "ReplicaSet", true),
    built_in("batch", "jobs", "Job", true),
    built_in("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", false),
    custom("example.com", "widgets", "Widget", true),
    custom("example.com", "zones", "Zone", false),
    custom("other.example.com", "gadgets", "Gadget", true),
];

/// An object in the store.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its type.
    pub of: &'static Type,
    /// Its namespace and name.
    pub key: Key,
    /// Its content.
    pub object: Object,
}

/// A random selection of types. It is small, so that references meet often.
pub fn draw(random: &mut Random) -> Vec<&'static Type> {
    let mut types: Vec<&'static Type> = Vec::new();
    for _ in 0..3 + random.below(4) {
        types.extend(random.pick(&TYPES).filter(|of| !types.contains(of)));
    }
    if !types.iter().any(|of| of.namespaced) {
        types.push(&TYPES[0]);
    }
    types
}

impl Type {
    /// Group and plural.
    pub fn name(&self) -> ResourceName {
        ResourceName::new(self.group, self.plural)
    }

    /// `group/version`.
    pub fn api_version(&self) -> String {
        self.api_version_of("v1")
    }

    /// `group/version`, with another version.
    pub fn api_version_of(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// The path of a collection, or of one object.
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let namespace = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
        let name = name.map(|name| format!("/{name}")).unwrap_or_default();
        format!("{root}/{}{namespace}/{}{name}", self.api_version(), self.plural)
    }

    /// The definition of a custom type.
    pub fn definition(&self) -> Value {
        let version = |name: &str, storage: bool| {
            json!({
                "name": name, "served": true, "storage": storage,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
            })
        };
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": self.definition_name() },
            "spec": {
                "group": self.group, "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "names": {
                    "plural": self.plural, "singular": self.kind.to_lowercase(),
                    "kind": self.kind, "listKind": format!("{}List", self.kind),
                },
                "versions": [version("v1", true), version("v1beta1", false)],
            },
        })
    }

    /// The name of a custom type's definition.
    pub fn definition_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

impl Found {
    /// Its path.
    pub fn path(&self) -> String {
        self.of.path(self.key.namespace.as_deref(), Some(&self.key.name))
    }

    /// A reference to it.
    pub fn reference(&self) -> Value {
        json!({
            "apiVersion": self.of.api_version(), "kind": self.of.kind,
            "name": &*self.key.name, "uid": self.object.uid(),
        })
    }

    /// Its references.
    pub fn references(&self) -> Vec<Value> {
        self.object.owner_references().to_vec()
    }

    /// Its finalizers.
    pub fn finalizers(&self) -> Vec<String> {
        self.object.finalizers().map(ToOwned::to_owned).collect()
    }
}
