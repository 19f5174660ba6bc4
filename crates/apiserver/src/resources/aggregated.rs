//! The aggregated discovery documents: everything below `/api` or `/apis` at once.

use serde_json::{Value, json};

use crate::resources::discovery::Subresource;
use crate::resources::{Catalog, Resource};

/// The document version that an `Accept` header requests; `None` without aggregated discovery.
///
/// The first known media type wins, as in any content negotiation.
pub fn asked(accept: &str) -> Option<&'static str> {
    accept.split(',').find_map(|media_type| {
        let mut parts = media_type.split(';').map(str::trim);
        if parts.next() != Some("application/json") {
            return None;
        }
        let (mut form, mut group, mut version) = ("", "", "");
        for part in parts {
            match part.split_once('=') {
                Some(("as", value)) => form = value,
                Some(("g", value)) => group = value,
                Some(("v", value)) => version = value,
                _ => {}
            }
        }
        match (form, group, version) {
            ("", ..) => Some(None),
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Some(Some("v2")),
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => Some(Some("v2beta1")),
            _ => None,
        }
    })?
}

/// The content type of the document.
pub fn content_type(version: &str) -> &'static str {
    match version {
        "v2beta1" => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
        _ => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    }
}

/// `/api`.
pub fn core(catalog: &Catalog, version: &str) -> Value {
    list(version, &[group(catalog, "")])
}

/// `/apis`.
pub fn groups(catalog: &Catalog, version: &str) -> Value {
    let groups: Vec<Value> = catalog.groups().iter().map(|name| group(catalog, name)).collect();
    list(version, &groups)
}

fn list(version: &str, items: &[Value]) -> Value {
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
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
    catalog.types(group, version).map(|resource| main(catalog, resource, group, version)).collect()
}

fn main(catalog: &Catalog, resource: &Resource, group: &str, version: &str) -> Value {
    let mut document = json!({
        "resource": resource.name.plural.as_ref(),
        "responseKind": kind(group, version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    for (field, names) in [("shortNames", &resource.short_names), ("categories", &resource.categories)] {
        if !names.is_empty() {
            document[field] = json!(names);
        }
    }
    let below: Vec<Value> = resource
        .subresources
        .iter()
        .map(|name| {
            let known = Subresource::named(&resource.name.plural, name, catalog.release());
            let (group, version) = known.from.unwrap_or((group, version));
            let kind = kind(group, version, known.kind.unwrap_or(&resource.kind));
            json!({"subresource": name, "responseKind": kind, "verbs": known.verbs})
        })
        .collect();
    if !below.is_empty() {
        document["subresources"] = below.into();
    }
    document
}

fn kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}
