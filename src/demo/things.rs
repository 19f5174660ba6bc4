//! What the shop is made of.

use std::fmt;

use kube_gc_core::object::GroupResource;

/// The kinds that the shop has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Namespace,
    Definition,
    Deployment,
    ReplicaSet,
    Pod,
    ConfigMap,
    Cart,
}

impl Kind {
    /// The kind, its `apiVersion`, the plural, and what kubectl calls it.
    const fn names(self) -> (&'static str, &'static str, &'static str, &'static str) {
        match self {
            Self::Namespace => ("Namespace", "v1", "namespaces", "namespace"),
            Self::Definition => {
                ("CustomResourceDefinition", "apiextensions.k8s.io/v1", "customresourcedefinitions", "crd")
            }
            Self::Deployment => ("Deployment", "apps/v1", "deployments", "deployment"),
            Self::ReplicaSet => ("ReplicaSet", "apps/v1", "replicasets", "replicaset"),
            Self::Pod => ("Pod", "v1", "pods", "pod"),
            Self::ConfigMap => ("ConfigMap", "v1", "configmaps", "configmap"),
            Self::Cart => ("Cart", "shop.example.com/v1", "carts", "cart"),
        }
    }

    pub const fn name(self) -> &'static str {
        self.names().0
    }

    pub const fn api_version(self) -> &'static str {
        self.names().1
    }

    pub const fn kubectl(self) -> &'static str {
        self.names().3
    }

    /// The type, as the collector names it.
    pub fn group_resource(self) -> GroupResource {
        let (_, api_version, plural, _) = self.names();
        GroupResource::new(api_version.split_once('/').map_or("", |(group, _)| group), plural)
    }

    /// The path of the collection.
    pub fn path(self, namespace: &str) -> String {
        let (_, api_version, plural, _) = self.names();
        let root = if api_version.contains('/') { "/apis" } else { "/api" };
        match self {
            Self::Namespace | Self::Definition => format!("{root}/{api_version}/{plural}"),
            _ => format!("{root}/{api_version}/namespaces/{namespace}/{plural}"),
        }
    }
}

/// One object of the shop, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thing {
    pub kind: Kind,
    pub namespace: &'static str,
    pub name: &'static str,
}

impl Thing {
    /// Something in the shop.
    pub const fn new(kind: Kind, name: &'static str) -> Self {
        Self { kind, namespace: SHOP, name }
    }

    pub fn path(self) -> String {
        format!("{}/{}", self.kind.path(self.namespace), self.name)
    }
}

impl fmt::Display for Thing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&called(self.kind.name(), self.namespace, self.name))
    }
}

/// The namespace where all happens.
pub const SHOP: &str = "shop";

/// An object as the story calls it: where it is matters only if that is elsewhere.
pub fn called(kind: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" | SHOP => format!("{kind} {name}"),
        elsewhere => format!("{kind} {elsewhere}/{name}"),
    }
}
