//! The aggregated discovery documents.

use serde_json::{Value, json};

use crate::common::cluster::Cluster;

/// `/api`, or `/apis`.
pub fn groups(cluster: &Cluster, core: bool) -> Value {
    let mut groups: Vec<(String, &str, Vec<Value>)> = Vec::new();
    for called in cluster.types().map(|resource| resource.called()) {
        if called.group.is_empty() != core {
            continue;
        }
        let resource = json!({
            "resource": called.plural,
            "responseKind": {"group": called.group, "version": called.version, "kind": called.kind},
            "scope": if called.namespaced { "Namespaced" } else { "Cluster" },
            "singularResource": called.kind.to_lowercase(),
            "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        });
        match groups.iter_mut().find(|(group, ..)| *group == called.group) {
            Some((_, _, resources)) => resources.push(resource),
            None => groups.push((called.group, called.version, vec![resource])),
        }
    }
    let items: Vec<Value> = groups
        .into_iter()
        .map(|(group, version, resources)| {
            let version = json!({"version": version, "freshness": "Current", "resources": resources});
            json!({"metadata": {"name": group}, "versions": [version]})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

/// The `APIService`s. This server serves every group.
pub fn services(cluster: &Cluster) -> Value {
    let items: Vec<Value> = cluster
        .types()
        .map(|resource| resource.called())
        .map(|called| json!({"spec": {"group": called.group, "version": called.version}}))
        .collect();
    json!({"kind": "APIServiceList", "apiVersion": "apiregistration.k8s.io/v1", "metadata": {}, "items": items})
}
