//! The aggregated discovery documents: everything below `/api` or `/apis` at once.

use serde_json::{Value, json};

use crate::reads::Offer;
use crate::resources::discovery::{add_names, verbs_below};
use crate::resources::{Catalog, Resource};

/// The content type of the documents.
pub(crate) const CONTENT_TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether an `Accept` header requests these documents. The first known media type wins, as in any content
/// negotiation.
pub(crate) fn is_asked(accept: &str) -> bool {
    let offers = accept.split(',').map(Offer::parse).filter(|offer| offer.media == "application/json");
    let mut known = offers.filter_map(|offer| match (offer.kind, offer.of) {
        ("", _) => Some(false),
        ("APIGroupDiscoveryList", ("apidiscovery.k8s.io", "v2")) => Some(true),
        _ => None,
    });
    known.next().unwrap_or_default()
}

/// `/api`.
pub fn core(catalog: &Catalog) -> Value {
    list(&[group(catalog, "")])
}

/// `/apis`.
pub fn groups(catalog: &Catalog) -> Value {
    let groups: Vec<Value> = catalog.groups().iter().map(|name| group(catalog, name)).collect();
    list(&groups)
}

fn list(items: &[Value]) -> Value {
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn group(catalog: &Catalog, name: &str) -> Value {
    let versions: Vec<Value> =
        catalog.versions(name).iter().map(|version| group_version(catalog, name, version)).collect();
    let metadata = if name.is_empty() { json!({"creationTimestamp": null}) } else { json!({"name": name}) };
    json!({"metadata": metadata, "versions": versions})
}

fn group_version(catalog: &Catalog, group: &str, version: &str) -> Value {
    let resources = match catalog.delegated(group, version) {
        None => resources(catalog, group, version),
        Some(delegated) => match &delegated.resources {
            None => return json!({"version": version, "freshness": "Stale"}),
            Some(resources) => resources.clone(),
        },
    };
    json!({"version": version, "resources": resources, "freshness": "Current"})
}

/// The resources of a group and version that this server itself serves.
pub fn resources(catalog: &Catalog, group: &str, version: &str) -> Vec<Value> {
    catalog.types(group, version).map(|resource| main(resource, group, version)).collect()
}

fn main(resource: &Resource, group: &str, version: &str) -> Value {
    let kind = json!({"group": group, "version": version, "kind": resource.kind});
    let mut document = json!({
        "resource": resource.name.plural.as_ref(),
        "responseKind": kind,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    add_names(&mut document, resource);
    let below: Vec<Value> = resource
        .subresources
        .iter()
        .map(|name| json!({"subresource": name, "responseKind": kind, "verbs": verbs_below(name)}))
        .collect();
    if !below.is_empty() {
        document["subresources"] = below.into();
    }
    document
}
