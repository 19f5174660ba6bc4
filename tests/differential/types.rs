//! The types that requests are about.

use serde_json::{Value, json};

/// A type of objects.
#[derive(Debug)]
pub struct Type {
    /// Empty for the core group.
    pub group: &'static str,
    /// The version.
    pub version: &'static str,
    /// The plural.
    pub plural: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Whether it is namespaced.
    pub namespaced: bool,
    /// What an object needs in addition to its metadata, as JSON.
    needs: &'static str,
    /// A merge patch that changes something other than metadata, as JSON.
    change: &'static str,
}

/// The group of the custom resources.
pub const GROUP: &str = "differential.example.com";

const TEMPLATE: &str = r#"{"spec": {
    "replicas": 0, "selector": {"app": "x"},
    "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
}}"#;

const fn core(plural: &'static str, kind: &'static str, needs: &'static str, change: &'static str) -> Type {
    Type { group: "", version: "v1", plural, kind, namespaced: true, needs, change }
}

const fn grouped(group: &'static str, plural: &'static str, kind: &'static str, needs: &'static str) -> Type {
    Type { group, version: "v1", plural, kind, namespaced: true, needs, change: "{}" }
}

/// ConfigMaps. Markers are ConfigMaps, too.
pub static CONFIG_MAPS: Type = core("configmaps", "ConfigMap", "{}", r#"{"data": {"k": "v"}}"#);
/// Namespaces.
pub static NAMESPACES: Type = Type { namespaced: false, ..core("namespaces", "Namespace", "{}", "{}") };
/// Pods.
pub static PODS: Type =
    core("pods", "Pod", r#"{"spec": {"containers": [{"name": "c", "image": "i"}]}}"#, r#"{"spec": {}}"#);
/// Namespaced custom resources.
pub static WIDGETS: Type = Type {
    change: r#"{"spec": {"size": 2}}"#,
    ..grouped(GROUP, "widgets", "Widget", r#"{"spec": {"size": 1}}"#)
};
/// Cluster-scoped custom resources.
pub static GADGETS: Type = Type {
    namespaced: false,
    change: r#"{"spec": {"size": 2}}"#,
    ..grouped(GROUP, "gadgets", "Gadget", r#"{"spec": {"size": 1}}"#)
};

/// Secrets.
pub static SECRETS: Type = core("secrets", "Secret", "{}", r#"{"stringData": {"k": "v"}}"#);
static SERVICE_ACCOUNTS: Type = core("serviceaccounts", "ServiceAccount", "{}", "{}");
/// ReplicationControllers. Their default policy is Orphan.
pub static REPLICATION_CONTROLLERS: Type =
    core("replicationcontrollers", "ReplicationController", TEMPLATE, r#"{"spec": {"replicas": 1}}"#);
static REPLICA_SETS: Type = Type {
    change: r#"{"spec": {"replicas": 1}}"#,
    ..grouped(
        "apps",
        "replicasets",
        "ReplicaSet",
        r#"{"spec": {
            "replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": {
                "metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}
            }
        }}"#,
    )
};
static JOBS: Type = grouped(
    "batch",
    "jobs",
    "Job",
    r#"{"spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]
    }}}}"#,
);
/// Nodes.
pub static NODES: Type =
    Type { namespaced: false, ..core("nodes", "Node", "{}", r#"{"spec": {"unschedulable": true}}"#) };
static CLUSTER_ROLES: Type = Type {
    namespaced: false,
    ..grouped("rbac.authorization.k8s.io", "clusterroles", "ClusterRole", r#"{"rules": []}"#)
};

/// The types of most requests, with their weights.
pub static ORDINARY: &[(usize, &Type)] = &[
    (6, &CONFIG_MAPS),
    (2, &SECRETS),
    (2, &SERVICE_ACCOUNTS),
    (4, &PODS),
    (3, &REPLICATION_CONTROLLERS),
    (3, &REPLICA_SETS),
    (2, &JOBS),
    (5, &WIDGETS),
    (2, &NODES),
    (2, &CLUSTER_ROLES),
    (3, &GADGETS),
];

impl Type {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The path of all objects, or of those in a namespace.
    pub fn collection(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let namespace = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
        format!("{root}/{}{namespace}/{}", self.api_version(), self.plural)
    }

    /// An object with this metadata.
    pub fn object(&self, metadata: Value) -> Value {
        let mut object: Value = serde_json::from_str(self.needs).unwrap();
        object["apiVersion"] = self.api_version().into();
        object["kind"] = self.kind.into();
        object["metadata"] = metadata;
        object
    }

    /// A merge patch that changes something other than metadata.
    pub fn change(&self) -> Value {
        serde_json::from_str(self.change).unwrap()
    }

    /// The definition of a custom resource.
    pub fn definition(&self) -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{}.{}", self.plural, self.group)},
            "spec": {
                "group": self.group,
                "scope": if self.namespaced { "Namespaced" } else { "Cluster" },
                "names": {
                    "plural": self.plural, "singular": self.kind.to_lowercase(),
                    "kind": self.kind, "listKind": format!("{}List", self.kind),
                },
                "versions": [{
                    "name": self.version, "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {
                        "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    }},
                }],
            },
        })
    }
}
