//! The types that requests are about.

use serde_json::Value;

/// A type of objects.
#[derive(Debug)]
pub struct Type {
    /// Empty for the core group.
    group: &'static str,
    plural: &'static str,
    /// The kind.
    pub kind: &'static str,
    /// Whether it is namespaced.
    pub namespaced: bool,
    /// What an object needs in addition to its metadata, as JSON.
    needs: &'static str,
}

/// The group of the custom resources.
pub const GROUP: &str = "differential.example.com";

const TEMPLATE: &str = r#"{"spec": {
    "replicas": 0, "selector": {"app": "x"},
    "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
}}"#;

const fn core(plural: &'static str, kind: &'static str, needs: &'static str) -> Type {
    Type { group: "", plural, kind, namespaced: true, needs }
}

/// ConfigMaps. Markers are ConfigMaps, too.
pub static CONFIG_MAPS: Type = core("configmaps", "ConfigMap", "{}");
/// Pods.
pub static PODS: Type = core("pods", "Pod", r#"{"spec": {"containers": [{"name": "c", "image": "i"}]}}"#);
/// ReplicationControllers. Their default policy is Orphan.
pub static REPLICATION_CONTROLLERS: Type = core("replicationcontrollers", "ReplicationController", TEMPLATE);
/// Nodes.
pub static NODES: Type = Type { namespaced: false, ..core("nodes", "Node", "{}") };
/// Custom resources.
pub static WIDGETS: Type = Type { group: GROUP, ..core("widgets", "Widget", r#"{"spec": {"size": 1}}"#) };

impl Type {
    fn api_version(&self) -> String {
        if self.group.is_empty() { "v1".to_owned() } else { format!("{}/v1", self.group) }
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
}
